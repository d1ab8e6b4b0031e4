"""Convolution of NHWC images, sequentially: windows, taps, and gathered pixels.

An output pixel (p, q) adds up, over the taps (r, s) of the filter and the channels c,
`image[p * stride + r * dilation - pad, ..., c] * filter[r, s, c]`. All kernels multiply tiles of
pixels by tiles of filters; they differ in where a tap's pixels come from.
"""

from __future__ import annotations

import math

import tawa
import tawa.language as tl


@tl.constexpr_function
def taps_of_plane(size: int, stride: int, dilation: int, pad: int, plane: int) -> tuple[int, ...]:
    """The taps along one dimension that read a plane: every `stride`-th row, from `plane` on.

    Gives the first tap, how many there are, taps from one to the next, the plane's row that the
    first reads for output 0, and rows from one to the next.
    """
    taps = [t for t in range(size) if (t * dilation - pad) % stride == plane]
    if not taps:
        return 0, 0, 1, 0, 0
    common = math.gcd(stride, dilation)
    first = (taps[0] * dilation - pad) // stride
    return taps[0], len(taps), stride // common, first, dilation // common


@tawa.jit
def finish(acc, scale, bias, first, K, RELU: tl.constexpr):
    """Scale and shift each output channel, where given; cut off what is negative."""
    channel = first + tl.arange(0, acc.shape[1])
    if scale is not None:
        acc *= tl.load(scale + channel, mask=channel < K, other=0.0).to(tl.float32)[None, :]
    if bias is not None:
        acc += tl.load(bias + channel, mask=channel < K, other=0.0).to(tl.float32)[None, :]
    if RELU:
        acc = tl.maximum(acc, 0.0)
    return acc


@tawa.jit
def conv_windows(
    x, w, y, scale, bias, N, H, W, P, Q, C: tl.constexpr, K: tl.constexpr,
    x_n, x_h, x_w, y_n, y_h, y_w, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
    DILATION: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, GROUPS: tl.constexpr,
    RELU: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr, WH: tl.constexpr, WW: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Windows: one load of pixels serves all taps, each a shifted view of it.

    A window is of one plane: the rows and columns of one remainder by the stride. `x` is
    [N, H, W, C] with channels together, `w` [K, R, S, C / GROUPS], `y` [N, P, Q, K].
    """
    per_group: tl.constexpr = C // GROUPS
    blocks: tl.constexpr = K // GROUPS // BN if GROUPS > 1 else tl.cdiv(K, BN)
    filters = tl.make_tensor_descriptor(
        w, [K, R * S, per_group], [R * S * per_group, per_group, 1], [BN, 1, BK]
    )
    out = tl.make_tensor_descriptor(y, [N, P, Q, K], [y_n, y_h, y_w, 1], [1, TH, TW, BN])
    across = tl.cdiv(Q, TW)
    down = tl.cdiv(P, TH)
    program = tl.program_id(0)
    block = program % (blocks * GROUPS)
    tile = program // (blocks * GROUPS)
    column = tile % across * TW
    row = tile // across % down * TH
    n = tile // (across * down)
    group = block // blocks
    k = group * (K // GROUPS) + block % blocks * BN
    acc = tl.zeros((TH * TW, BN), tl.float32)
    for ph in tl.static_range(STRIDE):
        for pw in tl.static_range(STRIDE):
            down_taps: tl.constexpr = taps_of_plane(R, STRIDE, DILATION, PAD_H, ph)
            across_taps: tl.constexpr = taps_of_plane(S, STRIDE, DILATION, PAD_W, pw)
            taps: tl.constexpr = down_taps[1] * across_taps[1]
            if taps > 0:
                plane = tl.make_tensor_descriptor(
                    x + ph * x_h + pw * x_w,
                    [N, tl.cdiv(H - ph, STRIDE), tl.cdiv(W - pw, STRIDE), C],
                    [x_n, STRIDE * x_h, STRIDE * x_w, 1],
                    [1, WH, WW, BK],
                )
                for c in range(0, per_group, BK):
                    window = plane.load(
                        [n, row + down_taps[3], column + across_taps[3], group * per_group + c]
                    )
                    for t in range(taps):
                        r = t // across_taps[1]
                        s = t % across_taps[1]
                        number = (down_taps[0] + r * down_taps[2]) * S
                        number += across_taps[0] + s * across_taps[2]
                        pixels = tl.extract_slice(
                            window, [0, r * down_taps[4], s * across_taps[4], 0], [1, TH, TW, BK]
                        )
                        f = filters.load([k, number, c]).reshape([BN, BK])
                        acc = tl.dot(pixels.reshape([TH * TW, BK]), f.T, acc)
    acc = finish(acc, scale, bias, k, K, RELU)
    out.store([n, row, column, k], acc.to(y.dtype.element_ty).reshape([1, TH, TW, BN]))


@tawa.jit
def conv_taps(
    x, w, y, scale, bias, N, H, W, P, Q, C: tl.constexpr, K: tl.constexpr,
    x_n, x_h, x_w, y_n, y_h, y_w, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
    DILATION: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, GROUPS: tl.constexpr,
    RELU: tl.constexpr, TN: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Taps: the pixels of each tap are loaded; a tile may hold pixels of several images."""
    per_group: tl.constexpr = C // GROUPS
    blocks: tl.constexpr = K // GROUPS // BN if GROUPS > 1 else tl.cdiv(K, BN)
    filters = tl.make_tensor_descriptor(
        w, [K, R * S, per_group], [R * S * per_group, per_group, 1], [BN, 1, BK]
    )
    out = tl.make_tensor_descriptor(y, [N, P, Q, K], [y_n, y_h, y_w, 1], [TN, TH, TW, BN])
    across = tl.cdiv(Q, TW)
    down = tl.cdiv(P, TH)
    program = tl.program_id(0)
    block = program % (blocks * GROUPS)
    tile = program // (blocks * GROUPS)
    column = tile % across * TW
    row = tile // across % down * TH
    n = tile // (across * down) * TN
    group = block // blocks
    k = group * (K // GROUPS) + block % blocks * BN
    steps: tl.constexpr = tl.cdiv(per_group, BK)
    acc = tl.zeros((TN * TH * TW, BN), tl.float32)
    for ph in tl.static_range(STRIDE):
        for pw in tl.static_range(STRIDE):
            down_taps: tl.constexpr = taps_of_plane(R, STRIDE, DILATION, PAD_H, ph)
            across_taps: tl.constexpr = taps_of_plane(S, STRIDE, DILATION, PAD_W, pw)
            taps: tl.constexpr = down_taps[1] * across_taps[1]
            if taps > 0:
                plane = tl.make_tensor_descriptor(
                    x + ph * x_h + pw * x_w,
                    [N, tl.cdiv(H - ph, STRIDE), tl.cdiv(W - pw, STRIDE), C],
                    [x_n, STRIDE * x_h, STRIDE * x_w, 1],
                    [TN, TH, TW, BK],
                )
                for step in range(taps * steps):
                    t = step // steps
                    c = step % steps * BK
                    r = t // across_taps[1]
                    s = t % across_taps[1]
                    number = (down_taps[0] + r * down_taps[2]) * S
                    number += across_taps[0] + s * across_taps[2]
                    pixels = plane.load(
                        [n, row + down_taps[3] + r * down_taps[4],
                         column + across_taps[3] + s * across_taps[4], group * per_group + c]
                    )  # fmt: skip
                    f = filters.load([k, number, c]).reshape([BN, BK])
                    acc = tl.dot(pixels.reshape([TN * TH * TW, BK]), f.T, acc)
    acc = finish(acc, scale, bias, k, K, RELU)
    out.store([n, row, column, k], acc.to(y.dtype.element_ty).reshape([TN, TH, TW, BN]))


@tawa.jit
def conv_resident(
    x, w, y, scale, bias, N, H, W, P, Q, C: tl.constexpr, K: tl.constexpr,
    x_n, x_h, x_w, y_n, y_h, y_w, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
    DILATION: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, RELU: tl.constexpr,
    TH: tl.constexpr, TW: tl.constexpr, WH: tl.constexpr, WW: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Windows of all channels; a program keeps its filters and takes tile after tile of pixels."""
    filters = tl.make_tensor_descriptor(w, [R * S, K, C], [C, R * S * C, 1], [R * S, BN, C])
    out = tl.make_tensor_descriptor(y, [N, P, Q, K], [y_n, y_h, y_w, 1], [1, TH, TW, BN])
    blocks: tl.constexpr = tl.cdiv(K, BN)
    across = tl.cdiv(Q, TW)
    down = tl.cdiv(P, TH)
    k = tl.program_id(0) % blocks * BN
    held = filters.load([0, k, 0])
    for tile in range(tl.program_id(0) // blocks, N * down * across, tl.num_programs(0) // blocks):
        column = tile % across * TW
        row = tile // across % down * TH
        n = tile // (across * down)
        acc = tl.zeros((TH * TW, BN), tl.float32)
        for ph in tl.static_range(STRIDE):
            for pw in tl.static_range(STRIDE):
                down_taps: tl.constexpr = taps_of_plane(R, STRIDE, DILATION, PAD_H, ph)
                across_taps: tl.constexpr = taps_of_plane(S, STRIDE, DILATION, PAD_W, pw)
                if down_taps[1] * across_taps[1] > 0:
                    plane = tl.make_tensor_descriptor(
                        x + ph * x_h + pw * x_w,
                        [N, tl.cdiv(H - ph, STRIDE), tl.cdiv(W - pw, STRIDE), C],
                        [x_n, STRIDE * x_h, STRIDE * x_w, 1],
                        [1, WH, WW, C],
                    )
                    window = plane.load([n, row + down_taps[3], column + across_taps[3], 0])
                    for r in tl.static_range(down_taps[1]):
                        for s in tl.static_range(across_taps[1]):
                            number: tl.constexpr = (
                                (down_taps[0] + r * down_taps[2]) * S
                                + across_taps[0] + s * across_taps[2]
                            )  # fmt: skip
                            pixels = tl.extract_slice(
                                window, [0, r * down_taps[4], s * across_taps[4], 0], [1, TH, TW, C]
                            )
                            f = tl.extract_slice(held, [number, 0, 0], [1, BN, C])
                            acc = tl.dot(pixels.reshape([TH * TW, C]), f.reshape([BN, C]).T, acc)
        acc = finish(acc, scale, bias, k, K, RELU)
        out.store([n, row, column, k], acc.to(y.dtype.element_ty).reshape([1, TH, TW, BN]))


@tawa.jit
def conv_gathered(
    x, w, y, scale, bias, N, H, W, P, Q, C: tl.constexpr, K: tl.constexpr,
    x_n, x_h, x_w, y_n, y_h, y_w, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
    DILATION: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, GROUPS: tl.constexpr,
    RELU: tl.constexpr, EDGES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Pixels gathered one by one: any number of channels; taps and channels are one dimension.

    `EDGES`: some taps lie outside of the image.
    """
    per_group: tl.constexpr = C // GROUPS
    ours: tl.constexpr = K // GROUPS
    inner: tl.constexpr = R * S * per_group
    blocks: tl.constexpr = tl.cdiv(ours, BN)
    program = tl.program_id(0)
    block = program % (blocks * GROUPS)
    group = block // blocks
    channel = block % blocks * BN + tl.arange(0, BN)
    pixel = program // (blocks * GROUPS) * BM + tl.arange(0, BM)
    exists = pixel < N * P * Q
    n = pixel // (P * Q)
    p = pixel // Q % P
    q = pixel % Q
    row = p * STRIDE - PAD_H
    column = q * STRIDE - PAD_W
    first = n.to(tl.int64) * x_n + row * x_h + column * x_w + group * per_group
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, inner, BK):
        k = start + tl.arange(0, BK)
        r = k // (S * per_group) * DILATION
        s = k // per_group % S * DILATION
        reads = exists[:, None] & (k < inner)[None, :]
        if EDGES:
            reads &= (row[:, None] + r[None, :] >= 0) & (row[:, None] + r[None, :] < H)
            reads &= (column[:, None] + s[None, :] >= 0) & (column[:, None] + s[None, :] < W)
        at = r * x_h + s * x_w + k % per_group
        pixels = tl.load(x + first[:, None] + at[None, :], mask=reads, other=0.0)
        f = tl.load(
            w + (group * ours + channel)[None, :] * inner + k[:, None],
            mask=(channel < ours)[None, :] & (k < inner)[:, None],
            other=0.0,
        )
        acc = tl.dot(pixels, f, acc)
    acc = finish(acc, scale, bias, group * ours + block % blocks * BN, K, RELU)
    to = y + n.to(tl.int64) * y_n + p * y_h + q * y_w + group * ours
    stored = exists[:, None] & (channel < ours)[None, :]
    tl.store(to[:, None] + channel[None, :], acc.to(y.dtype.element_ty), mask=stored)
