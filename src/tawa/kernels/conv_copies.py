"""Copies of images and filters whose channels the hardware can read in blocks."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false

from __future__ import annotations

from math import prod
from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.gemm_operands import empty, strides

PIXELS, CHANNELS = 128, 64
"""Pixels, and channels at most, that one program copies."""
TURNED = 32
"""Filters, and channels, that one program exchanges."""


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
    channels = min(CHANNELS, max(4, tawa.next_power_of_2(pitch)))
    pixels = PIXELS if channels > 8 else 2 * PIXELS
    grid = n * h * tawa.cdiv(wide, pixels), tawa.cdiv(pitch, channels)
    pad_pixels[grid](
        x, copy, h, w, c, *strides(x), sides[0], wide, pitch, pixels, channels, launch_pdl=True
    )
    return copy


@tawa.jit
def exchange_filters(
    w: Any, to: Any, K: Any, C: Any, w_k: Any, w_t: Any, w_r: Any, w_s: Any, w_c: Any, T0: Any,
    T_STEP: Any, R0: Any, R_STEP: Any, S0: Any, S_STEP: Any, PICTURES: Any, ROWS: Any,
    COLUMNS: Any, BK: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """`to` [groups * C, PICTURES, ROWS, COLUMNS, K]: some taps of `w` [groups * K, T, R, S, C].

    Tap (h, i, j) is tap (T0 + h T_STEP, R0 + i R_STEP, S0 + j S_STEP) of `w`.
    """
    count = PICTURES * ROWS * COLUMNS
    tap = tl.program_id(0) % count
    group = tl.program_id(0) // count
    h = tap // (ROWS * COLUMNS)
    i, j = tap // COLUMNS % ROWS, tap % COLUMNS
    across = tl.cdiv(K, BK)
    k = tl.program_id(1) % across * BK + tl.arange(0, BK)
    c = tl.program_id(1) // across * BC + tl.arange(0, BC)
    inside = (c < C)[:, None] & (k < K)[None, :]
    w += (T0 + h * T_STEP) * w_t + (R0 + i * R_STEP) * w_r + (S0 + j * S_STEP) * w_s
    found = tl.load(w + group * K * w_k + (c * w_c)[:, None] + (k * w_k)[None, :], mask=inside)
    at = (group * C + c) * count + tap
    tl.store(to + (at * K)[:, None] + k[None, :], found, mask=inside)


def exchanged(w: Any, taps: tuple[list[int], list[int], list[int]], groups: int) -> Any:
    """Some taps of filters [K, T, R, S, C / groups], as [C, taps, K / groups].

    `taps` are those of each dimension, at one distance from each other.
    """
    k, own = w.shape[0], w.shape[-1]
    counts = [len(some) for some in taps]
    ours, made = k // groups, empty(w, (groups * own, *counts, k // groups))
    places: list[int] = []
    for some in taps:
        places += [some[0], some[1] - some[0] if len(some) > 1 else 1]
    blocks = tawa.cdiv(ours, TURNED) * tawa.cdiv(own, TURNED)
    exchange_filters[(prod(counts) * groups, blocks)](
        w, made, ours, own, *strides(w), *places, *counts, TURNED, TURNED
    )
    return made
