"""Copies of images and filters whose channels the hardware can read in blocks."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false

from __future__ import annotations

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
    pad_pixels[grid](x, copy, h, w, c, *strides(x), sides[0], wide, pitch, pixels, channels)
    return copy


@tawa.jit
def exchange_filters(
    w: Any, to: Any, K: Any, C: Any, w_k: Any, w_r: Any, w_s: Any, w_c: Any, R0: Any,
    R_STEP: Any, S0: Any, S_STEP: Any, ROWS: Any, COLUMNS: Any, BK: tl.constexpr,
    BC: tl.constexpr,
):  # fmt: skip
    """`to` [groups * C, ROWS, COLUMNS, K]: some taps of `w` [groups * K, R, S, C], exchanged.

    Tap (i, j) is tap (R0 + i R_STEP, S0 + j S_STEP) of `w`.
    """
    tap = tl.program_id(0)
    i, j = tap // COLUMNS, tap % COLUMNS
    across = tl.cdiv(K, BK)
    group = tl.program_id(2)
    k = tl.program_id(1) % across * BK + tl.arange(0, BK)
    c = tl.program_id(1) // across * BC + tl.arange(0, BC)
    inside = (c < C)[:, None] & (k < K)[None, :]
    w += (R0 + i * R_STEP) * w_r + (S0 + j * S_STEP) * w_s + group * K * w_k
    found = tl.load(w + (c * w_c)[:, None] + (k * w_k)[None, :], mask=inside)
    at = ((group * C + c) * ROWS + i) * COLUMNS + j
    tl.store(to + (at * K)[:, None] + k[None, :], found, mask=inside)


def exchanged(w: Any, rows: list[int], columns: list[int], groups: int) -> Any:
    """The filters [K, R, S, C / groups] of some taps, as [C, rows, columns, K / groups].

    Taps are at one distance from each other.
    """
    k, _, _, own = w.shape
    ours, made = k // groups, empty(w, (groups * own, len(rows), len(columns), k // groups))
    steps = [(taps[1] - taps[0] if len(taps) > 1 else 1) for taps in (rows, columns)]
    blocks = tawa.cdiv(ours, TURNED) * tawa.cdiv(own, TURNED)
    exchange_filters[(len(rows) * len(columns), blocks, groups)](
        w, made, ours, own, *strides(w), rows[0], steps[0], columns[0], steps[1], len(rows),
        len(columns), TURNED, TURNED,
    )  # fmt: skip
    return made
