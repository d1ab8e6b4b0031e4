"""Copies of images, for those that the hardware can't read in blocks where they lie."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.gemm_operands import PIECE, empty, strides

PIXELS, CHANNELS = 128, 64
"""Pixels, and channels at most, that one program copies."""
FEW = 16, 64
"""Rows, and pixels of each, that one program copies if they have few channels."""


@tl.constexpr_function
def exponent(count: int) -> int:
    """Of a power of two."""
    return count.bit_length() - 1


@tawa.jit
def stacked(tiles: Any) -> Any:
    """Tiles [ROWS, COLUMNS], a power of two of them, as one [ROWS, COLUMNS, number]."""
    count: tl.constexpr = len(tiles)
    shape: tl.constexpr = tiles[0].shape
    for level in tl.static_range(exponent(count)):
        half: tl.constexpr = count >> (level + 1)
        found = ()
        for i in tl.static_range(half):
            found += (tl.join(tiles[i], tiles[i + half]),)
        tiles = found
    return tiles[0].reshape([shape[0], shape[1], count])


@tawa.jit
def pad_few_channels(
    x: Any, to: Any, ROWS: Any, H: Any, W: Any, x_n: Any, x_h: Any, x_w: Any, x_c: Any, LEFT: Any,
    WIDE: Any, C: tl.constexpr, PITCH: tl.constexpr, DENSE: tl.constexpr, HIGH: tl.constexpr,
    PIXELS: tl.constexpr,
):  # fmt: skip
    """As `pad_pixels`, of pixels of one piece of 16 bytes at most: a thread stores whole ones.

    `ROWS` are those of all images, which lie one below the other if they are `DENSE`.
    """
    tl.extra.cuda.gdc_launch_dependents()
    across = tl.cdiv(WIDE, PIXELS)
    row = tl.program_id(0) // across * HIGH + tl.arange(0, HIGH)
    column = tl.program_id(0) % across * PIXELS + tl.arange(0, PIXELS)
    if DENSE:
        first = row.to(tl.int64) * x_h
    else:
        first = (row // H).to(tl.int64) * x_n + row % H * x_h
    w = column - LEFT
    there = (row < ROWS)[:, None] & ((w >= 0) & (w < W))[None, :]
    pixels = x + first[:, None] + (w * x_w)[None, :]
    tiles = ()
    for c in tl.static_range(tl.next_power_of_2(C)):
        if c < C:
            tiles += (tl.load(pixels + c * x_c, mask=there, other=0.0),)
        else:
            tiles += (tl.zeros((HIGH, PIXELS), x.dtype.element_ty),)
    found = stacked(tiles)
    for _ in tl.static_range(exponent(PITCH) - exponent(found.shape[2])):
        pairs = tl.join(found, tl.zeros(found.shape, x.dtype.element_ty))
        found = pairs.permute(0, 1, 3, 2).reshape([HIGH, PIXELS, 2 * found.shape[2]])
    place = (row.to(tl.int64) * (WIDE * PITCH))[:, None] + (column * PITCH)[None, :]
    stored = (row < ROWS)[:, None] & (column < WIDE)[None, :]
    channel = tl.arange(0, PITCH)
    tl.store(to + place[:, :, None] + channel[None, None, :], found, mask=stored[:, :, None])


@tawa.jit
def pad_pixels(
    x: Any, to: Any, H: Any, W: Any, C: Any, x_n: Any, x_h: Any, x_w: Any, x_c: Any, LEFT: Any,
    WIDE: Any, PITCH: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """`to` [N, H, WIDE, PITCH]: `x` [N, H, W, C] with zeros left and right, and after channels."""
    tl.extra.cuda.gdc_launch_dependents()
    across = tl.cdiv(WIDE, PIXELS)
    row = tl.program_id(0) // across
    column = tl.program_id(0) % across * PIXELS + tl.arange(0, PIXELS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    w = column - LEFT
    there = (w >= 0) & (w < W)
    x += (row // H).to(tl.int64) * x_n + row % H * x_h
    found = tl.load(
        x + (w * x_w)[:, None] + (channel * x_c)[None, :],
        mask=there[:, None] & (channel < C)[None, :],
        other=0.0,
    )
    to += row.to(tl.int64) * WIDE * PITCH
    stored = (column < WIDE)[:, None] & (channel < PITCH)[None, :]
    tl.store(to + (column * PITCH)[:, None] + channel[None, :], found, mask=stored)


def padded(x: Any, pitch: int, sides: tuple[int, int] = (0, 0)) -> Any:
    """A dense copy of `x` [N, H, W, C] with `pitch` channels and columns of zeros at both sides."""
    n, h, w, c = x.shape
    wide = w + sum(sides)
    copy = empty(x, (n, h, wide, pitch))
    steps = strides(x)
    if _few(pitch, x.dtype.itemsize):
        high, across = FEW
        grid = tawa.cdiv(n * h, high) * tawa.cdiv(wide, across)
        pad_few_channels[(grid,)](
            x, copy, n * h, h, w, *steps, sides[0], wide, c, pitch, steps[0] == h * steps[1], high,
            across, launch_pdl=True,
        )  # fmt: skip
        return copy
    channels = min(CHANNELS, max(4, tawa.next_power_of_2(pitch)))
    pixels = PIXELS if channels > 8 else 2 * PIXELS
    grid = n * h * tawa.cdiv(wide, pixels), tawa.cdiv(pitch, channels)
    pad_pixels[grid](
        x, copy, h, w, c, *steps, sides[0], wide, pitch, pixels, channels, launch_pdl=True
    )
    return copy


def _few(pitch: int, size: int) -> bool:
    """Whether so many channels of a pixel are a thread's."""
    return pitch & (pitch - 1) == 0 and pitch * size <= PIECE
