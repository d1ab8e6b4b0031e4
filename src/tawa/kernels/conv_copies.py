"""Copies of images and filters whose channels the hardware can read in blocks."""

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.gemm_operands import empty, strides

PIXELS, CHANNELS = 128, 64
"""Pixels, and channels at most, that one program copies."""


@tawa.jit
def pad_pixels(
    x, to, H, W, C, x_n, x_h, x_w, x_c, COUNT, LEFT, WIDE, PITCH: tl.constexpr,
    PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """`to` [N, H, WIDE, PITCH]: `x` [N, H, W, C] with zeros left and right, and after channels."""
    pixel = tl.program_id(0).to(tl.int64) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    n = pixel // (H * WIDE)
    h = pixel // WIDE % H
    w = pixel % WIDE - LEFT
    there = (pixel < COUNT) & (w >= 0) & (w < W)
    at = x + n * x_n + h * x_h + w * x_w
    found = tl.load(
        at[:, None] + (channel * x_c)[None, :],
        mask=there[:, None] & (channel < C)[None, :],
        other=0.0,
    )
    stored = (pixel < COUNT)[:, None] & (channel < PITCH)[None, :]
    tl.store(to + (pixel * PITCH)[:, None] + channel[None, :], found, mask=stored)


def padded(x: Any, pitch: int, sides: tuple[int, int] = (0, 0)) -> Any:
    """A dense copy of `x` [N, H, W, C] with `pitch` channels and columns of zeros at both sides."""
    n, h, w, c = x.shape
    wide = w + sum(sides)
    copy = empty(x, (n, h, wide, pitch))
    channels = min(CHANNELS, max(4, tawa.next_power_of_2(pitch)))
    pixels = PIXELS * CHANNELS // channels if channels < 16 else PIXELS
    count = n * h * wide
    grid = tawa.cdiv(count, pixels), tawa.cdiv(pitch, channels)
    pad_pixels[grid](x, copy, h, w, c, *strides(x), count, sides[0], wide, pitch, pixels, channels)
    return copy
