"""Convolution of NHWC images, sequentially: windows, kept filters, taps, and gathered pixels.

An output pixel (p, q) adds up, over the taps (r, s) of the filter and the channels c,
`image[p * stride + r * dilation - pad, ..., c] * filter[r, s, c]`. All kernels multiply tiles of
pixels by tiles of filters; they differ in where a tap's pixels come from. `x` is [N, H, W, C], `w`
[K, R, S, C / GROUPS] with `FC` elements from tap to tap, `y` [N, P, Q, KY], which may have more
channels than there are filters; the channels of `x` and `y` lie together. A `residual` [N, P, Q,
KR] is added before the `ACTIVATION`.

Images of three dimensions are pictures one below the other: `x` is [N D, H, W, C], `y` [N DO, P, Q,
KY], `w` [K, T, R, S, C / GROUPS], and `DEPTH` has the taps, stride, dilation and pad of the depth.
A tap of the depth reads another picture, and taps of pictures that do not exist are left out.

Filters may be read as they lie by the convolution turned back, which adds up over filters and gives
channels: `BACK` has the taps of `w` along depth, rows and columns, the tap that is the first of the
convolution's own, and taps from one to the next. `C` and `K`, `R` and `S` are then those of the
convolution turned back, `w` is [C, taps of `BACK`, K / GROUPS].
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false
# pyright: reportUnnecessaryComparison=false, reportPossiblyUnboundVariable=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.convolution.shapes import (
    filters_of_block,
    place,
    placed,
    steps_of_share,
    taps_before,
    taps_of_plane,
    tile_of_program,
)


@tawa.jit
def ended(
    acc: Any, ends: Any, channel: Any, K: Any, at: Any, stored: Any, ACTIVATION: tl.constexpr,
) -> Any:  # fmt: skip
    """Sums of some channels: scaled, shifted, plus what is `at` a residual, through a function."""
    scale, bias, residual = ends
    if scale is not None:
        acc *= tl.load(scale + channel, mask=channel < K, other=0.0).to(tl.float32)[None, :]
    if bias is not None:
        acc += tl.load(bias + channel, mask=channel < K, other=0.0).to(tl.float32)[None, :]
    if residual is not None:
        acc += tl.load(residual + at, mask=stored, other=0.0).to(tl.float32)
    if ACTIVATION is not None:
        acc = ACTIVATION(acc)
    return acc


@tawa.jit
def finish(
    acc: Any, ends: Any, out: Any, at: Any, N: Any, P: Any, Q: Any, K: Any, TYPE: tl.constexpr,
    TILE: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """Store a tile of sums: scaled, shifted, with what is added to it, through a function."""
    scale, bias, residual, steps, KR = ends
    channel = at[3] + tl.arange(0, acc.shape[1])
    if residual is None:
        acc = ended(acc, (scale, bias, None), channel, K, None, None, ACTIVATION)
    else:
        acc = ended(acc, (scale, bias, None), channel, K, None, None, None)
        pitches = [steps[0], steps[1], steps[2], 1]
        others = tl.make_tensor_descriptor(residual, [N, P, Q, KR], pitches, TILE)
        acc += others.load(at).reshape(acc.shape).to(tl.float32)
        if ACTIVATION is not None:
            acc = ACTIVATION(acc)
    out.store(at, acc.to(TYPE).reshape(TILE))


@tawa.jit
def depth_taps(picture: Any, D: Any, DO: Any, DEPTH: tl.constexpr) -> Any:
    """Of a picture of the result: the picture under its first tap, and the taps that exist."""
    if DEPTH is None:
        return picture, 0, 1
    taps: tl.constexpr = DEPTH[0]
    dilation: tl.constexpr = DEPTH[2]
    start = picture % DO * DEPTH[1] - DEPTH[3]
    first = tl.maximum(0, (dilation - 1 - start) // dilation)
    last = tl.minimum(taps, (D - start + dilation - 1) // dilation)
    return picture // DO * D + start, first, last


@tawa.jit
def depth_tap(step: Any, steps: tl.constexpr, DEPTH: tl.constexpr) -> Any:
    """In a loop over taps of the depth, of `steps` each: the tap, pictures to it, and the step."""
    if DEPTH is None:
        return 0, 0, step
    return step // steps, step // steps * DEPTH[2], step % steps


@tawa.jit
def plane_of(
    x: Any, sizes: Any, steps: Any, PH: tl.constexpr, PW: tl.constexpr, STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr,
) -> Any:  # fmt: skip
    """Every so many rows and columns of images, from row PH and column PW on, as a descriptor.

    `sizes` are pictures, rows and columns, and `steps` the elements from one to the next.
    """
    count, height, width = sizes
    step_n, step_h, step_w = steps
    return tl.make_tensor_descriptor(
        x + PH * step_h + PW * step_w,
        [count, tl.cdiv(height - PH, STRIDE_H), tl.cdiv(width - PW, STRIDE_W), C],
        [step_n, STRIDE_H * step_h, STRIDE_W * step_w, 1],
        BLOCK,
    )


@tawa.jit
def blocks_of_filters(
    w: Any, C: tl.constexpr, K: tl.constexpr, COUNT: tl.constexpr, GROUPS: tl.constexpr,
    FC: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BACK: tl.constexpr,
) -> Any:  # fmt: skip
    """Filters of COUNT taps as a descriptor; with `BACK` those of the convolution turned back."""
    if BACK is None:
        return tl.make_tensor_descriptor(
            w, [K, COUNT, C // GROUPS], [COUNT * FC, FC, 1], [BN, 1, BK]
        )
    taps: tl.constexpr = BACK[0][0] * BACK[0][1] * BACK[0][2]
    return tl.make_tensor_descriptor(w, [C, taps, K // GROUPS], [taps * FC, FC, 1], [BK, 1, BN])


@tawa.jit
def filters_of_tap(
    filters: Any, k: Any, c: Any, tap: Any, shape: tl.constexpr, BACK: tl.constexpr,
) -> Any:  # fmt: skip
    """Channels by filters of a tap (depth, row, column), from a filter and a channel on.

    Both are pairs: the first of the group, and how far beyond that. `shape` has the taps of rows
    and columns, and the channels and filters of the block.
    """
    d, r, s = tap
    if BACK is None:
        number = (d * shape[0] + r) * shape[1] + s
        return filters.load([k[0] + k[1], number, c[1]]).reshape([shape[3], shape[2]]).T
    sizes: tl.constexpr = BACK[0]
    first: tl.constexpr = BACK[1]
    step: tl.constexpr = BACK[2]
    d = first[0] + d * step[0]
    r = first[1] + r * step[1]
    s = first[2] + s * step[2]
    number = (d * sizes[1] + r) * sizes[2] + s
    return filters.load([c[0] + c[1], number, k[1]]).reshape([shape[2], shape[3]])


@tawa.jit
def all_filters(
    w: Any, C: tl.constexpr, K: tl.constexpr, COUNT: tl.constexpr, FC: tl.constexpr, k: Any,
    BN: tl.constexpr, BK: tl.constexpr, BACK: tl.constexpr,
) -> Any:  # fmt: skip
    """All taps of some filters and all channels; of `BACK` as `filters_of_tap` has them."""
    if BACK is None:
        filters = tl.make_tensor_descriptor(w, [COUNT, K, C], [FC, COUNT * FC, 1], [COUNT, BN, BK])
        return filters.load([0, k, 0])
    filters = tl.make_tensor_descriptor(w, [COUNT, C, K], [FC, COUNT * FC, 1], [COUNT, BK, BN])
    return filters.load([0, 0, k])


@tawa.jit
def held_filters(
    held: Any, number: tl.constexpr, COUNT: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    BACK: tl.constexpr,
) -> Any:  # fmt: skip
    """Channels by filters of one tap of all; turned back, the last tap is the first."""
    if BACK is None:
        return tl.extract_slice(held, [number, 0, 0], [1, BN, BK]).reshape([BN, BK]).T
    last: tl.constexpr = COUNT - 1 - number
    return tl.extract_slice(held, [last, 0, 0], [1, BK, BN]).reshape([BK, BN])


@tawa.jit
def add_windows(
    acc: Any, x: Any, filters: Any, held: Any, place: Any, sizes: Any, steps: Any, k: Any,
    channel: Any, pictures: Any, C: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, DEPTH: tl.constexpr,
    TURNS: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr, WH: tl.constexpr, WW: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, BACK: tl.constexpr,
) -> Any:  # fmt: skip
    """`acc` plus a tile's sums. One load of pixels serves all taps of a plane, as shifted views.

    A plane is the rows and columns of one remainder by the stride. `place` is the tile's first
    picture, row and column, `pictures` the taps of the depth that exist, `channel` the group's
    first, whose channels are loaded in TURNS. Filters are loaded tap by tap, or all were: `held`.
    """
    first, row, column = place
    shape: tl.constexpr = (R, S, BK, BN)
    for ph in tl.static_range(STRIDE_H):
        for pw in tl.static_range(STRIDE_W):
            down: tl.constexpr = taps_of_plane(R, STRIDE_H, DILATION_H, PAD_H, ph)
            across: tl.constexpr = taps_of_plane(S, STRIDE_W, DILATION_W, PAD_W, pw)
            if down[1] * across[1] > 0:
                plane = plane_of(x, sizes, steps, ph, pw, STRIDE_H, STRIDE_W, C, (1, WH, WW, BK))
                if held is not None:
                    window = plane.load([first, row + down[3], column + across[3], channel])
                    for r in tl.static_range(down[1]):
                        for s in tl.static_range(across[1]):
                            number: tl.constexpr = (
                                (down[0] + r * down[2]) * S + across[0] + s * across[2]
                            )
                            pixels = tl.extract_slice(
                                window, [0, r * down[4], s * across[4], 0], [1, TH, TW, BK]
                            )
                            f = held_filters(held, number, R * S, BN, BK, BACK)
                            acc = tl.dot(pixels.reshape([TH * TW, BK]), f, acc)
                else:
                    for step in range(pictures[0] * TURNS, pictures[1] * TURNS):
                        d, deeper, c = depth_tap(step, TURNS, DEPTH)
                        window = plane.load(
                            [first + deeper, row + down[3], column + across[3], channel + c * BK]
                        )
                        for t in range(down[1] * across[1]):
                            r = t // across[1]
                            s = t % across[1]
                            pixels = tl.extract_slice(
                                window, [0, r * down[4], s * across[4], 0], [1, TH, TW, BK]
                            )
                            tap = d, down[0] + r * down[2], across[0] + s * across[2]
                            f = filters_of_tap(filters, k, (channel, c * BK), tap, shape, BACK)
                            acc = tl.dot(pixels.reshape([TH * TW, BK]), f, acc)
    return acc


@tawa.jit
def sums_of_windows(
    x: Any, w: Any, sizes: Any, steps: Any, C: tl.constexpr, K: tl.constexpr, R: tl.constexpr,
    S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, DEPTH: tl.constexpr,
    GROUPS: tl.constexpr, FC: tl.constexpr, TN: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr,
    WH: tl.constexpr, WW: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    BACK: tl.constexpr = None,
) -> Any:  # fmt: skip
    """A program's sums, and its place: image, row, column, filter. Of one image: `TN` is 1.

    `sizes` are N, H, W, P, Q, D and DO, `steps` the elements from image to image, row to row and
    pixel to pixel.
    """
    N, H, W, P, Q, D, DO = sizes
    per_group: tl.constexpr = C // GROUPS
    ours: tl.constexpr = K // GROUPS
    deep: tl.constexpr = 1 if DEPTH is None else DEPTH[0]
    filters = blocks_of_filters(w, C, K, deep * R * S, GROUPS, FC, BN, BK, BACK)
    blocks: tl.constexpr = GROUPS * tl.cdiv(ours, BN)
    block, n, row, column = place(tl.program_id(0), P, Q, blocks, TN, TH, TW)
    first, begin, end = depth_taps(n, D, DO, DEPTH)
    group, k = filters_of_block(block, ours, BN)
    acc = tl.zeros((TH * TW, BN), tl.float32)
    acc = add_windows(
        acc, x, filters, None, (first, row, column), (N * D, H, W), steps,
        (group * ours, k - group * ours), group * per_group, (begin, end), C, R, S, STRIDE_H,
        STRIDE_W, DILATION_H, DILATION_W, PAD_H, PAD_W, DEPTH, tl.cdiv(per_group, BK), TH, TW, WH,
        WW, BN, BK, BACK,
    )  # fmt: skip
    return acc, n, row, column, k


@tawa.jit
def conv_windows(
    x: Any, w: Any, y: Any, scale: Any, bias: Any, residual: Any, r_n: Any, r_h: Any, r_w: Any,
    KR: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, D: Any, DO: Any, C: tl.constexpr,
    K: tl.constexpr, x_n: Any, x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any, R: tl.constexpr,
    S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, DEPTH: tl.constexpr,
    GROUPS: tl.constexpr, KY: tl.constexpr, FC: tl.constexpr, ACTIVATION: tl.constexpr,
    TH: tl.constexpr, TW: tl.constexpr, WH: tl.constexpr, WW: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """Windows: one load of pixels serves all taps, each a shifted view of it."""
    pictures = N if DEPTH is None else N * DO
    out = tl.make_tensor_descriptor(y, [pictures, P, Q, KY], [y_n, y_h, y_w, 1], [1, TH, TW, BN])
    acc, n, row, column, k = sums_of_windows(
        x, w, (N, H, W, P, Q, D, DO), (x_n, x_h, x_w), C, K, R, S, STRIDE_H, STRIDE_W, DILATION_H,
        DILATION_W, PAD_H, PAD_W, DEPTH, GROUPS, FC, 1, TH, TW, WH, WW, BN, BK, BACK,
    )  # fmt: skip
    finish(
        acc, (scale, bias, residual, (r_n, r_h, r_w), KR), out, [n, row, column, k], pictures,
        P, Q, K, y.dtype.element_ty, (1, TH, TW, BN), ACTIVATION,
    )  # fmt: skip


@tawa.jit
def conv_resident(
    x: Any, w: Any, y: Any, scale: Any, bias: Any, residual: Any, r_n: Any, r_h: Any, r_w: Any,
    KR: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, C: tl.constexpr, K: tl.constexpr, x_n: Any,
    x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any, R: tl.constexpr, S: tl.constexpr,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, KY: tl.constexpr,
    FC: tl.constexpr, ACTIVATION: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr,
    WH: tl.constexpr, WW: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """Windows of all channels; a program keeps its filters and takes tile after tile of pixels."""
    out = tl.make_tensor_descriptor(y, [N, P, Q, KY], [y_n, y_h, y_w, 1], [1, TH, TW, BN])
    blocks: tl.constexpr = tl.cdiv(K, BN)
    columns = tl.cdiv(Q, TW)
    rows = tl.cdiv(P, TH)
    k = tl.program_id(0) % blocks * BN
    held = all_filters(w, C, K, R * S, FC, k, BN, BK, BACK)
    for tile in range(tl.program_id(0) // blocks, N * rows * columns, tl.num_programs(0) // blocks):
        column = tile % columns * TW
        row = tile // columns % rows * TH
        n = tile // (columns * rows)
        acc = tl.zeros((TH * TW, BN), tl.float32)
        acc = add_windows(
            acc, x, None, held, (n, row, column), (N, H, W), (x_n, x_h, x_w), (0, k), 0, (0, 1), C,
            R, S, STRIDE_H, STRIDE_W, DILATION_H, DILATION_W, PAD_H, PAD_W, None, 1, TH, TW, WH, WW,
            BN, BK, BACK,
        )  # fmt: skip
        finish(
            acc, (scale, bias, residual, (r_n, r_h, r_w), KR), out, [n, row, column, k], N,
            P, Q, K, y.dtype.element_ty, (1, TH, TW, BN), ACTIVATION,
        )  # fmt: skip


@tawa.jit
def tap_of_step(step: Any, columns: Any, turns: tl.constexpr) -> Any:
    """In a loop over taps, so many a row, and their channels: row, column, and turn."""
    tap = step // turns
    return tap // columns, tap % columns, step % turns


@tawa.jit
def sums_of_taps(
    x: Any, w: Any, sizes: Any, steps: Any, C: tl.constexpr, K: tl.constexpr, R: tl.constexpr,
    S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, DEPTH: tl.constexpr,
    GROUPS: tl.constexpr, FC: tl.constexpr, TN: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, BACK: tl.constexpr = None, SPLIT: tl.constexpr = 1,
    OF: tl.constexpr = None, WHOLE: Any = 0,
) -> Any:  # fmt: skip
    """As `sums_of_windows`, the pixels of each tap loaded; of several images, not pictures.

    Of tiles that programs share (see `tile_of_program`) those of a share of taps and channels; of
    parts of tiles `OF` (see `placed`) a part's.
    """
    N, H, W, P, Q, D, DO = sizes
    per_group: tl.constexpr = C // GROUPS
    ours: tl.constexpr = K // GROUPS
    whole: tl.constexpr = per_group % BK == 0 and BACK is None
    deep: tl.constexpr = 1 if DEPTH is None else DEPTH[0]
    count: tl.constexpr = deep * R * S
    if whole:
        filters = tl.make_tensor_descriptor(w, [K, count * FC], [count * FC, 1], [BN, BK])
    else:
        filters = blocks_of_filters(w, C, K, count, GROUPS, FC, BN, BK, BACK)
    tile, share, alone = tile_of_program(WHOLE, SPLIT)
    group, n, row, column, k = placed(tile, P, Q, WHOLE, ours, GROUPS, (TN, TH, TW, BN), OF)
    first, begin, end = depth_taps(n, D, DO, DEPTH)
    turns: tl.constexpr = tl.cdiv(per_group, BK)
    shape: tl.constexpr = (R, S, BK, BN)
    acc = tl.zeros((TN * TH * TW, BN), tl.float32)
    for ph in tl.static_range(STRIDE_H):
        for pw in tl.static_range(STRIDE_W):
            down: tl.constexpr = taps_of_plane(R, STRIDE_H, DILATION_H, PAD_H, ph)
            across: tl.constexpr = taps_of_plane(S, STRIDE_W, DILATION_W, PAD_W, pw)
            flat: tl.constexpr = down[1] * across[1] * turns
            if flat > 0:
                plane = plane_of(
                    x, (N * D, H, W), steps, ph, pw, STRIDE_H, STRIDE_W, C, (TN, TH, TW, BK)
                )
                before: tl.constexpr = turns * taps_before(
                    (ph, pw), (R, S), (STRIDE_H, STRIDE_W), (DILATION_H, DILATION_W),
                    (PAD_H, PAD_W),
                )  # fmt: skip
                counts: tl.constexpr = (before, flat, R * S * turns)
                lower, upper = steps_of_share(share, alone, (begin, end), counts, SPLIT)
                for step in range(lower, upper):
                    d, deeper, inner = depth_tap(step, flat, DEPTH)
                    r, s, c = tap_of_step(inner, across[1], turns)
                    c *= BK
                    tap = d, down[0] + r * down[2], across[0] + s * across[2]
                    at = row + down[3] + r * down[4], column + across[3] + s * across[4]
                    pixels = plane.load([first + deeper, at[0], at[1], group * per_group + c])
                    if whole:
                        f = filters.load([k, ((d * R + tap[1]) * S + tap[2]) * FC + c]).T
                    else:
                        own = group * ours, k - group * ours
                        f = filters_of_tap(filters, own, (group * per_group, c), tap, shape, BACK)
                    acc = tl.dot(pixels.reshape([TN * TH * TW, BK]), f, acc)
    return acc, n, row, column, k


@tawa.jit
def conv_taps(
    x: Any, w: Any, y: Any, parts: Any, scale: Any, bias: Any, residual: Any, r_n: Any, r_h: Any,
    r_w: Any, KR: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, D: Any, DO: Any, C: tl.constexpr,
    K: tl.constexpr, x_n: Any, x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any, R: tl.constexpr,
    S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, DEPTH: tl.constexpr,
    GROUPS: tl.constexpr, KY: tl.constexpr, FC: tl.constexpr, ACTIVATION: tl.constexpr,
    TN: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    BACK: tl.constexpr, SPLIT: tl.constexpr, OF: tl.constexpr, FOLLOWED: tl.constexpr,
    WHOLE: Any,
):  # fmt: skip
    """Taps: the pixels of each tap are loaded; a tile may hold several images', not pictures'.

    `parts` [tiles, SPLIT, pixels, BN] gets the sums of the shares of tiles that programs share. In
    place of those, the tiles from WHOLE on may be FOLLOWED by a launch for parts of tiles `OF`.
    """
    if SPLIT > 1 or FOLLOWED:
        tl.extra.cuda.gdc_launch_dependents()
    many = N if DEPTH is None else N * DO
    acc, n, row, column, k = sums_of_taps(
        x, w, (N, H, W, P, Q, D, DO), (x_n, x_h, x_w), C, K, R, S, STRIDE_H, STRIDE_W, DILATION_H,
        DILATION_W, PAD_H, PAD_W, DEPTH, GROUPS, FC, TN, TH, TW, BN, BK, BACK, SPLIT, OF,
        WHOLE,
    )  # fmt: skip
    out = tl.make_tensor_descriptor(y, [many, P, Q, KY], [y_n, y_h, y_w, 1], [TN, TH, TW, BN])
    tile, share, alone = tile_of_program(WHOLE, SPLIT)
    if SPLIT == 1 or alone:
        finish(
            acc, (scale, bias, residual, (r_n, r_h, r_w), KR), out, [n, row, column, k], many,
            P, Q, K, y.dtype.element_ty, (TN, TH, TW, BN), ACTIVATION,
        )  # fmt: skip
    else:
        pixels: tl.constexpr = TN * TH * TW
        part = parts + ((tile - WHOLE) * SPLIT + share).to(tl.int64) * (pixels * BN)
        at = tl.arange(0, pixels)[:, None] * BN + tl.arange(0, BN)[None, :]
        tl.store(part + at, acc)


@tawa.jit
def finish_shares(
    parts: Any, y: Any, scale: Any, bias: Any, residual: Any, r_n: Any, r_h: Any, r_w: Any,
    N: Any, P: Any, Q: Any, y_n: Any, y_h: Any, y_w: Any, WHOLE: Any, K: tl.constexpr,
    GROUPS: tl.constexpr, SPLIT: tl.constexpr, ACTIVATION: tl.constexpr, TN: tl.constexpr,
    TH: tl.constexpr, TW: tl.constexpr, BN: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add the shares of the tiles from WHOLE on up, in their order, and store what becomes of sums.

    A program has some pixels and filters of a tile; `parts` is [tiles, SPLIT, pixels, BN].
    """
    pixels: tl.constexpr = TN * TH * TW
    ours: tl.constexpr = K // GROUPS
    tile = tl.program_id(0) // (pixels // ROWS)
    inside = tl.program_id(0) % (pixels // ROWS) * ROWS + tl.arange(0, ROWS)
    beside = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    part = parts + tile.to(tl.int64) * (SPLIT * pixels * BN)
    at = inside[:, None] * BN + beside[None, :]
    there = (beside < BN)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for share in tl.static_range(SPLIT):
        total += tl.load(part + share * (pixels * BN) + at, mask=there, other=0.0)
    blocks: tl.constexpr = GROUPS * tl.cdiv(ours, BN)
    block, n, row, column = place(tile + WHOLE, P, Q, blocks, TN, TH, TW)
    channel = filters_of_block(block, ours, BN)[1] + beside
    n += inside // (TH * TW)
    p = row + inside // TW % TH
    q = column + inside % TW
    stored = ((n < N) & (p < P) & (q < Q))[:, None] & (channel < K)[None, :] & there
    n = n.to(tl.int64)
    other = (n * r_n + p * r_h + q * r_w)[:, None] + channel[None, :]
    total = ended(total, (scale, bias, residual), channel, K, other, stored, ACTIVATION)
    to = (n * y_n + p * y_h + q * y_w)[:, None] + channel[None, :]
    tl.store(y + to, total.to(y.dtype.element_ty), mask=stored)


@tawa.jit
def conv_gathered(
    x: Any, w: Any, y: Any, scale: Any, bias: Any, residual: Any, r_n: Any, r_h: Any, r_w: Any,
    KR: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, D: Any, DO: Any, C: tl.constexpr,
    K: tl.constexpr, x_n: Any, x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any, R: tl.constexpr,
    S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, DEPTH: tl.constexpr,
    GROUPS: tl.constexpr, ACTIVATION: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    """Pixels gathered one by one: any number of channels; taps and channels are one dimension."""
    per_group: tl.constexpr = C // GROUPS
    ours: tl.constexpr = K // GROUPS
    flat: tl.constexpr = R * S * per_group
    inner: tl.constexpr = flat if DEPTH is None else DEPTH[0] * flat
    blocks: tl.constexpr = GROUPS * tl.cdiv(ours, BN)
    program = tl.program_id(0)
    block = program % blocks
    group = block // tl.cdiv(ours, BN)
    channel = block % tl.cdiv(ours, BN) * BN + tl.arange(0, BN)
    pixel = program // blocks * BM + tl.arange(0, BM)
    pictures = N if DEPTH is None else N * DO
    exists = pixel < pictures * P * Q
    n = pixel // (P * Q)
    p = pixel // Q % P
    q = pixel % Q
    row = p * STRIDE_H - PAD_H
    column = q * STRIDE_W - PAD_W
    if DEPTH is None:
        first = n.to(tl.int64) * x_n + row * x_h + column * x_w + group * per_group
    else:
        start = n % DO * DEPTH[1] - DEPTH[3]
        first = (n // DO * D + start).to(tl.int64) * x_n
        first += row * x_h + column * x_w + group * per_group
    acc = tl.zeros((BM, BN), tl.float32)
    for begin in range(0, inner, BK):
        k = begin + tl.arange(0, BK)
        r = k % flat // (S * per_group) * DILATION_H
        s = k // per_group % S * DILATION_W
        reads = exists[:, None] & (k < inner)[None, :]
        reads &= (row[:, None] + r[None, :] >= 0) & (row[:, None] + r[None, :] < H)
        reads &= (column[:, None] + s[None, :] >= 0) & (column[:, None] + s[None, :] < W)
        at = r * x_h + s * x_w + k % per_group
        if DEPTH is not None:
            d = k // flat * DEPTH[2]
            reads &= (start[:, None] + d[None, :] >= 0) & (start[:, None] + d[None, :] < D)
            at = at + d.to(tl.int64) * x_n
        pixels = tl.load(x + first[:, None] + at[None, :], mask=reads, other=0.0)
        f = tl.load(
            w + (group * ours + channel)[None, :] * inner + k[:, None],
            mask=(channel < ours)[None, :] & (k < inner)[:, None],
            other=0.0,
        )
        acc = tl.dot(pixels, f, acc)
    other = n.to(tl.int64) * r_n + p * r_h + q * r_w + group * ours
    to = n.to(tl.int64) * y_n + p * y_h + q * y_w + group * ours
    stored = exists[:, None] & (channel < ours)[None, :]
    at = other[:, None] + channel[None, :]
    ends = scale, bias, residual
    acc = ended(acc, ends, group * ours + channel, K, at, stored, ACTIVATION)
    tl.store(y + to[:, None] + channel[None, :], acc.to(y.dtype.element_ty), mask=stored)
