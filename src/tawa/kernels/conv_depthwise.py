"""Depthwise convolution: each channel has its own filter, and memory is the limit."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.conv_shapes import Convolution
from tawa.kernels.gemm_operands import is_dense, strides

PIXELS, CHANNELS = 32, 64
"""Pixels of a row that are read at once for the gradient; channels of one program, at most."""
TILE = 4, 16
"""Rows and columns of results of one program, where there are as many."""


@tawa.jit
def depthwise(
    x: Any, w: Any, y: Any, scale: Any, bias: Any, H: Any, W: Any, P: Any, Q: Any, C: Any,
    x_n: Any, x_h: Any, x_w: Any, x_c: Any, y_n: Any, y_h: Any, y_w: Any, R: tl.constexpr,
    S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, RELU: tl.constexpr,
    TH: tl.constexpr, TW: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Some rows and columns of one image, some channels; `w` [C, R, S] is dense."""
    blocks = tl.cdiv(C, CHANNELS)
    channel = tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS)
    across = tl.cdiv(Q, TW)
    down = tl.cdiv(P, TH)
    tile = tl.program_id(0) // blocks
    n = (tile // (across * down)).to(tl.int64)
    pixel = tl.arange(0, TH * TW)
    p = tile // across % down * TH + pixel // TW
    q = tile % across * TW + pixel % TW
    there = channel < C
    acc = tl.zeros((TH * TW, CHANNELS), tl.float32)
    x += n * x_n
    for r in range(R):
        h = p * STRIDE_H + r * DILATION_H - PAD_H
        for s in tl.static_range(S):
            at = q * STRIDE_W + s * DILATION_W - PAD_W
            reads = (at >= 0) & (at < W) & (h >= 0) & (h < H)
            pixels = tl.load(
                x + (h * x_h + at * x_w)[:, None] + (channel * x_c)[None, :],
                mask=reads[:, None] & there[None, :],
                other=0.0,
            )
            taps = tl.load(w + (channel * R + r) * S + s, mask=there, other=0.0)
            acc += pixels.to(tl.float32) * taps.to(tl.float32)[None, :]
    if scale is not None:
        acc *= tl.load(scale + channel, mask=there, other=0.0).to(tl.float32)[None, :]
    if bias is not None:
        acc += tl.load(bias + channel, mask=there, other=0.0).to(tl.float32)[None, :]
    if RELU:
        acc = tl.maximum(acc, 0.0)
    tl.store(
        y + n * y_n + (p * y_h + q * y_w)[:, None] + channel[None, :],
        acc.to(y.dtype.element_ty),
        mask=((p < P) & (q < Q))[:, None] & there[None, :],
    )


@tawa.jit
def depthwise_weights(
    x: Any, dy: Any, parts: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, C: Any, x_n: Any,
    x_h: Any, x_w: Any, x_c: Any, y_n: Any, y_h: Any, y_w: Any, y_c: Any, SHARES: Any,
    R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    DILATION_H: tl.constexpr, DILATION_W: tl.constexpr, PAD_H: tl.constexpr,
    PAD_W: tl.constexpr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """One tap of some channels, over a share of the rows: `parts` [SHARES, C, R, S]."""
    channel = tl.program_id(0) // (R * S) * CHANNELS + tl.arange(0, CHANNELS)
    tap = tl.program_id(0) % (R * S)
    r = tap // S
    s = tap % S
    share = tl.program_id(1)
    there = channel < C
    rows = N * P
    acc = tl.zeros((PIXELS, CHANNELS), tl.float32)
    for row in range(share * rows // SHARES, (share + 1) * rows // SHARES):
        n = (row // P).to(tl.int64)
        h = row % P * STRIDE_H + r * DILATION_H - PAD_H
        if (h >= 0) & (h < H):
            line = x + n * x_n + h * x_h + channel * x_c
            results = dy + n * y_n + row % P * y_h + channel * y_c
            for first in range(0, Q, PIXELS):
                q = first + tl.arange(0, PIXELS)
                at = q * STRIDE_W + s * DILATION_W - PAD_W
                reads = ((at >= 0) & (at < W) & (q < Q))[:, None] & there[None, :]
                pixels = tl.load(line[None, :] + (at * x_w)[:, None], mask=reads, other=0.0)
                d = tl.load(results[None, :] + (q * y_w)[:, None], mask=reads, other=0.0)
                acc += pixels.to(tl.float32) * d.to(tl.float32)
    to = parts + (share.to(tl.int64) * C + channel) * (R * S) + tap
    tl.store(to, tl.sum(acc, axis=0), mask=there)


def weights_of_depthwise(conv: Convolution, x: Any, dy: Any, shares: int, parts: Any) -> None:
    """Launch `depthwise_weights` for images in any order of dimensions."""
    channels = min(CHANNELS, max(8, tawa.next_power_of_2(conv.c)))
    (top, _), (left, _) = conv.pad
    depthwise_weights[(tawa.cdiv(conv.c, channels) * conv.r * conv.s, shares)](
        x, dy, parts, conv.n, conv.h, conv.w, conv.p, conv.q, conv.c, *strides(x), *strides(dy),
        shares, conv.r, conv.s, *conv.stride, *conv.dilation, top, left, PIXELS, channels,
    )  # fmt: skip


def conv_depthwise(
    conv: Convolution, x: Any, w: Any, out: Any, scale: Any, bias: Any, *, relu: bool
) -> None:
    """Launch `depthwise` for images in any order of dimensions."""
    if not is_dense(w):
        w = w.copy() if hasattr(w, "copy") else w.clone().contiguous()
    channels = min(CHANNELS, max(8, tawa.next_power_of_2(conv.c)))
    columns = min(TILE[1], tawa.next_power_of_2(conv.q))
    rows = min(TILE[0] * TILE[1] // columns, tawa.next_power_of_2(conv.p))
    tiles = conv.n * tawa.cdiv(conv.p, rows) * tawa.cdiv(conv.q, columns)
    (top, _), (left, _) = conv.pad
    depthwise[(tawa.cdiv(conv.c, channels) * tiles,)](
        x, w, out, scale, bias, conv.h, conv.w, conv.p, conv.q, conv.c, *strides(x),
        *strides(out)[:3], conv.r, conv.s, *conv.stride, *conv.dilation, top, left, relu,
        rows, columns, channels, num_warps=8,
    )  # fmt: skip
