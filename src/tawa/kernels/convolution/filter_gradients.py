"""Kernels of the gradient of filters: what a program adds up of its share of the pixels."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false
# pyright: reportUnnecessaryComparison=false, reportPossiblyUnboundVariable=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.convolution.kernels import plane_of
from tawa.kernels.convolution.shapes import runs_of_taps, step_of_taps, taps_of_plane


@tawa.jit
def depth_results(t: Any, N: Any, D: Any, DO: Any, DEPTH: tl.constexpr) -> Any:
    """Of a tap of the depth: the first picture of a result that it has one for, and how many.

    And how many of all N images.
    """
    if DEPTH is None:
        return 0, 1, N
    off = DEPTH[3] - t * DEPTH[2]
    stride: tl.constexpr = DEPTH[1]
    first = tl.maximum(0, (off + stride - 1) // stride)
    last = tl.minimum(DO, (D + off + stride - 1) // stride)
    count = tl.maximum(last - first, 0)
    return first, count, N * count


@tawa.jit
def pictures_of_tap(
    number: Any, t: Any, found: Any, D: Any, DO: Any, DEPTH: tl.constexpr,
) -> Any:  # fmt: skip
    """Of a number among the pictures of a tap: the picture of the result, and that of the image."""
    if DEPTH is None:
        return number, number
    count = tl.maximum(found[1], 1)
    d = found[0] + number % count
    image = number // count
    return image * DO + d, image * D + d * DEPTH[1] + t * DEPTH[2] - DEPTH[3]


@tawa.jit
def place_of(
    block: Any, OURS: tl.constexpr, OWN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
) -> Any:  # fmt: skip
    """Of a block of filters and channels: its first channel and filter of a group, and that."""
    across: tl.constexpr = tl.cdiv(OWN, BN)
    down: tl.constexpr = tl.cdiv(OURS, BM)
    return block % across * BN, block // across % down * BM, block // (across * down)


@tawa.jit
def store_part(
    parts: Any, acc: Any, share: Any, at: Any, tap: Any, exists: Any, TAPS: tl.constexpr,
    OURS: tl.constexpr, OWN: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """Store a share's sums of a tap, if it `exists`; `at` has the group, filter and channel."""
    group, k, c = at
    filter = k + tl.arange(0, acc.shape[0])
    channel = c + tl.arange(0, acc.shape[1])
    row = share.to(tl.int64) * (GROUPS * OURS) + group * OURS + filter
    row = (row * TAPS + tap) * OWN
    stored = (filter < OURS)[:, None] & (channel < OWN)[None, :] & exists
    acc = acc.to(parts.dtype.element_ty)
    tl.store(parts + row[:, None] + channel[None, :], acc, mask=stored)


@tawa.jit
def conv_weights(
    x: Any, dy: Any, parts: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, D: Any, DO: Any, C: Any,
    K: Any, x_n: Any, x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any, SHARES: Any,
    R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    DILATION_H: tl.constexpr, DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
    DEPTH: tl.constexpr, OURS: tl.constexpr, OWN: tl.constexpr, GROUPS: tl.constexpr,
    OURS_PITCH: tl.constexpr, OWN_PITCH: tl.constexpr, TN: tl.constexpr, TH: tl.constexpr,
    TW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One tap's filters and channels, over a share of the pixels.

    `parts` is [SHARES, K, T, R, S, OWN]; `OURS` and `OWN` are the filters and the channels of a
    group, `..._PITCH` what there is of them from group to group.
    """
    tl.extra.cuda.gdc_launch_dependents()
    deep: tl.constexpr = 1 if DEPTH is None else DEPTH[0]
    results = N if DEPTH is None else N * DO
    gradient = tl.make_tensor_descriptor(
        dy, [results, P, Q, K], [y_n, y_h, y_w, 1], [TN, TH, TW, BM]
    )
    share = tl.program_id(1)
    tap = tl.program_id(0) % (deep * R * S)
    block = tl.program_id(0) // (deep * R * S)
    c, k, group = place_of(block, OURS, OWN, BM, BN)
    d = tap // (R * S)
    r = tap // S % R
    s = tap % S
    found = depth_results(d, N, D, DO, DEPTH)
    columns = tl.cdiv(Q, TW)
    rows = tl.cdiv(P, TH)
    tiles = tl.cdiv(found[2], TN) * rows * columns
    first = share * tiles // SHARES
    last = (share + 1) * tiles // SHARES
    acc = tl.zeros((BM, BN), tl.float32)
    for ph in tl.static_range(STRIDE_H):
        for pw in tl.static_range(STRIDE_W):
            down: tl.constexpr = taps_of_plane(R, STRIDE_H, DILATION_H, PAD_H, ph)
            across: tl.constexpr = taps_of_plane(S, STRIDE_W, DILATION_W, PAD_W, pw)
            if down[1] * across[1] > 0:
                plane = plane_of(
                    x, (N * D, H, W), (x_n, x_h, x_w), ph, pw, STRIDE_H, STRIDE_W, C,
                    (TN, TH, TW, BN),
                )  # fmt: skip
                above = r * DILATION_H - PAD_H - ph
                left = s * DILATION_W - PAD_W - pw
                reads = (above % STRIDE_H == 0) & (left % STRIDE_W == 0)
                for tile in range(first, tl.where(reads, last, first)):
                    q = tile % columns * TW
                    p = tile // columns % rows * TH
                    number = tile // (columns * rows) * TN
                    result, picture = pictures_of_tap(number, d, found, D, DO, DEPTH)
                    dz = gradient.load([result, p, q, group * OURS_PITCH + k])
                    pixels = plane.load(
                        [picture, p + above // STRIDE_H, q + left // STRIDE_W,
                         group * OWN_PITCH + c]
                    ).reshape([TN * TH * TW, BN])  # fmt: skip
                    acc = tl.dot(dz.reshape([TN * TH * TW, BM]).T, pixels, acc)
    at = group, k, c
    store_part(parts, acc, share, at, tap, True, deep * R * S, OURS, OWN, GROUPS)


@tawa.jit
def add_rows(
    sums: Any, gradient: Any, plane: Any, range_: Any, at: Any, own: Any, found: Any, numbers: Any,
    DEPTH: tl.constexpr, apart: tl.constexpr, DOWN: tl.constexpr, TH: tl.constexpr,
    TW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
) -> Any:  # fmt: skip
    """The sums of some taps `apart` in a window, plus those of a range of tiles."""
    d, P, Q, D, DO = numbers
    columns = tl.cdiv(Q, TW)
    rows = tl.cdiv(P, TH)
    for tile in range(range_[0], range_[1]):
        q = tile % columns * TW
        p = tile // columns % rows * TH
        result, picture = pictures_of_tap(tile // (columns * rows), d, found, D, DO, DEPTH)
        dz = gradient.load([result, p, q, own[0]]).reshape([TH * TW, BM])
        window = plane.load([picture, p + at[0], q + at[1], own[1]])
        new = ()
        for t in tl.static_range(len(sums)):
            down: tl.constexpr = t * apart if DOWN else 0
            across: tl.constexpr = 0 if DOWN else t * apart
            pixels = tl.extract_slice(window, [0, down, across, 0], [1, TH, TW, BN])
            new += (tl.dot(dz.T, pixels.reshape([TH * TW, BN]), sums[t]),)
        sums = new
    return sums


@tawa.jit
def conv_weights_of_rows(
    x: Any, dy: Any, parts: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, D: Any, DO: Any, C: Any,
    K: Any, x_n: Any, x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any, SHARES: Any,
    R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    DILATION_H: tl.constexpr, DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
    DEPTH: tl.constexpr, OURS: tl.constexpr, OWN: tl.constexpr, GROUPS: tl.constexpr,
    OURS_PITCH: tl.constexpr, OWN_PITCH: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    """As `conv_weights`: the window of some taps of a row, of one plane, is loaded once.

    Of filters of one column (`DOWN`) it is the window of some taps of that.
    """
    tl.extra.cuda.gdc_launch_dependents()
    deep: tl.constexpr = 1 if DEPTH is None else DEPTH[0]
    shape = [N if DEPTH is None else N * DO, P, Q, K]
    gradient = tl.make_tensor_descriptor(dy, shape, [y_n, y_h, y_w, 1], [1, TH, TW, BM])
    DOWN: tl.constexpr = S == 1
    columns: tl.constexpr = (S, STRIDE_W, DILATION_W, PAD_W)
    along: tl.constexpr = (R, STRIDE_H, DILATION_H, PAD_H) if DOWN else columns
    lines: tl.constexpr = 1 if DOWN else R
    runs: tl.constexpr = runs_of_taps(along, TAPS, along[1])
    run, line = tl.program_id(0) % runs, tl.program_id(0) // runs % (deep * lines)
    d, other = line // lines, line % lines
    c, k, group = place_of(tl.program_id(0) // (deep * lines * runs), OURS, OWN, BM, BN)
    found = depth_results(d, N, D, DO, DEPTH)
    tiles = found[2] * tl.cdiv(P, TH) * tl.cdiv(Q, TW)
    share = tl.program_id(1)
    first, last = share * tiles // SHARES, (share + 1) * tiles // SHARES
    own = group * OURS_PITCH + k, group * OWN_PITCH + c
    sums = (tl.zeros((BM, BN), tl.float32),) * TAPS
    start, left = 0, 0
    for ph in tl.static_range(STRIDE_H):
        for pw in tl.static_range(STRIDE_W):
            down: tl.constexpr = taps_of_plane(R, STRIDE_H, DILATION_H, PAD_H, ph)
            across: tl.constexpr = taps_of_plane(S, STRIDE_W, DILATION_W, PAD_W, pw)
            taps: tl.constexpr = down if DOWN else across
            if down[1] * across[1] > 0:
                before: tl.constexpr = runs_of_taps(along, TAPS, ph if DOWN else pw)
                reach: tl.constexpr = (TAPS - 1) * taps[4]
                size: tl.constexpr = (1, TH + reach, TW, BN) if DOWN else (1, TH, TW + reach, BN)
                pitches = x_n, x_h, x_w
                plane = plane_of(x, (N * D, H, W), pitches, ph, pw, STRIDE_H, STRIDE_W, C, size)
                part = (run - before) * TAPS
                mine = (part >= 0) & (part < taps[1])
                at = part * taps[4] + taps[3], across[3]
                if not DOWN:
                    above = other * DILATION_H - PAD_H - ph
                    mine &= above % STRIDE_H == 0
                    at = above // STRIDE_H, part * taps[4] + taps[3]
                sums = add_rows(
                    sums, gradient, plane, (first, tl.where(mine, last, first)), at, own, found,
                    (d, P, Q, D, DO), DEPTH, taps[4], DOWN, TH, TW, BM, BN,
                )  # fmt: skip
                start = tl.where(mine, taps[0] + part * taps[2], start)
                left = tl.where(mine, taps[1] - part, left)
    at = group, k, c
    for t in tl.static_range(TAPS):
        tap = line * along[0] + start + t * step_of_taps(along[1], along[2])
        store_part(parts, sums[t], share, at, tap, t < left, deep * R * S, OURS, OWN, GROUPS)
