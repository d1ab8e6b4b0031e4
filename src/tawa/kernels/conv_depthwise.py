"""Depthwise convolution: each channel has its own filter, and memory is the limit.

A thread computes neighbouring results of a row for some channels: a pixel is loaded and converted
once for all results of the row that read it, and a filter's taps once for all of them.
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
from tawa.kernels.conv_arguments import Finish
from tawa.kernels.conv_copies import padded, stacked
from tawa.kernels.convolution.depthwise_plans import Runs, best_runs, check_runs, fastest
from tawa.kernels.convolution.kernels import ended
from tawa.kernels.convolution.shapes import Convolution
from tawa.kernels.gemm_operands import is_dense, strides


@tl.constexpr_function
def taps_of_column(
    column: int, run: int, taps: int, stride: int, dilation: int
) -> tuple[tuple[int, int], ...]:
    """The results of a run that read one of its columns of pixels, each with the tap it uses."""
    return tuple(
        (i, s) for i in range(run) for s in range(taps) if i * stride + s * dilation == column
    )


@tl.constexpr_function
def partner(pairs: tuple[tuple[int, int], ...], number: int, side: int) -> int:
    """What the pair has on the other side whose number on one `side` is this; -1 without one."""
    for pair in pairs:
        if pair[side] == number:
            return pair[1 - side]
    return -1


@tawa.jit
def loaded_columns(
    row: Any, x_w: Any, left: Any, W: Any, inside: Any, there: Any, RUN: tl.constexpr,
    TAPS: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr,
) -> Any:  # fmt: skip
    """The pixels under runs of results, a tile for each column that some tap reads.

    All are asked for before the first is used.
    """
    found = ()
    for j in tl.static_range((RUN - 1) * STRIDE + (TAPS - 1) * DILATION + 1):
        users: tl.constexpr = taps_of_column(j, RUN, TAPS, STRIDE, DILATION)
        if len(users) > 0:
            reads = (inside & (left + j >= 0) & (left + j < W))[:, None] & there[None, :]
            found += (tl.load(row + j * x_w, mask=reads, other=0.0),)
        else:
            found += (None,)
    return found


@tawa.jit
def widened(loaded: Any) -> Any:
    """What was loaded, in fp32; vectors of channels for all runs. All are loaded before."""
    found = ()
    for i in tl.static_range(len(loaded)):
        if len(loaded[i].shape) == 1:
            found += (loaded[i].to(tl.float32)[None, :],)
        else:
            found += (loaded[i].to(tl.float32),)
    return found


@tawa.jit
def summed(
    sums: Any, columns: Any, factors: Any, RUN: tl.constexpr, TAPS: tl.constexpr,
    STRIDE: tl.constexpr, DILATION: tl.constexpr, side: tl.constexpr,
) -> Any:  # fmt: skip
    """Each sum, plus each column that it reads times its partner's factor.

    Sums are those of results, and factors of taps, if `side` is 0; with 1 the other way round.
    """
    for j in tl.static_range(len(columns)):
        users: tl.constexpr = taps_of_column(j, RUN, TAPS, STRIDE, DILATION)
        if len(users) > 0:
            pixels = columns[j].to(tl.float32)
            new = ()
            for i in tl.static_range(len(sums)):
                other: tl.constexpr = partner(users, i, side)
                if other >= 0:
                    new += (sums[i] + pixels * factors[other],)
                else:
                    new += (sums[i],)
            sums = new
    return sums


@tawa.jit
def depthwise(
    x: Any, w: Any, y: Any, scale: Any, bias: Any, residual: Any, r_n: Any, r_h: Any, r_w: Any,
    KR: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, C: Any, D: Any, DO: Any, x_n: Any, x_h: Any,
    x_w: Any, x_c: Any, y_n: Any, y_h: Any, y_w: Any, R: tl.constexpr, S: tl.constexpr,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, DEPTH: tl.constexpr,
    ACTIVATION: tl.constexpr, RUNS: tl.constexpr, RUN: tl.constexpr, CHANNELS: tl.constexpr,
    TAPS: tl.constexpr,
):  # fmt: skip
    """Some runs of RUN results and channels, TAPS of a row at a time; `w` [C, T, R, S] is dense."""
    deep: tl.constexpr = 1 if DEPTH is None else DEPTH[0]
    parts: tl.constexpr = tl.cdiv(S, TAPS)
    blocks = tl.cdiv(C, CHANNELS)
    channel = tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS)
    across = tl.cdiv(Q, RUN)
    run = tl.program_id(0) // blocks * RUNS + tl.arange(0, RUNS)
    n = run // (across * P)
    p = run // across % P
    q = run % across * RUN
    there = channel < C
    if DEPTH is None:
        exists = n < N
        first = n.to(tl.int64)
    else:
        exists = n < N * DO
        start = n % DO * DEPTH[1] - DEPTH[3]
        first = (n // DO * D + start).to(tl.int64)
    sums = (tl.zeros((RUNS, CHANNELS), tl.float32),) * RUN
    pictures = x + first[:, None] * x_n + (channel * x_c)[None, :]
    for tap in range(deep * R * parts):
        line = tap // parts
        begin = tap % parts * TAPS
        h = p * STRIDE_H + line % R * DILATION_H - PAD_H
        left = q * STRIDE_W + begin * DILATION_W - PAD_W
        inside = exists & (h >= 0) & (h < H)
        row = pictures + (h * x_h + left * x_w)[:, None]
        if DEPTH is not None:
            d = line // R * DEPTH[2]
            inside &= (start + d >= 0) & (start + d < D)
            row += tl.cast(d, tl.int64) * x_n
        columns = loaded_columns(row, x_w, left, W, inside, there, RUN, TAPS, STRIDE_W, DILATION_W)
        filters = ()
        for s in tl.static_range(TAPS):
            number = (channel * (deep * R) + line) * S + begin + s
            known = there & (begin + s < S)
            filters += (tl.load(w + number, mask=known, other=0.0),)
        sums = summed(sums, columns, widened(filters), RUN, TAPS, STRIDE_W, DILATION_W, 0)
    at = n.to(tl.int64), p, q
    found = finished_run(
        sums, (scale, bias, residual), at, (r_n, r_h, r_w), channel, C, exists, Q,
        y.dtype.element_ty, ACTIVATION, RUN,
    )  # fmt: skip
    at = n.to(tl.int64), tl.where(exists, p, P), q
    store_blocks((found,), y, at, (y_n, y_h, y_w), channel, C, P, Q, RUN)


@tawa.jit
def filters_of_channels(
    w: Any, channel: Any, there: Any, R: tl.constexpr, S: tl.constexpr,
) -> Any:  # fmt: skip
    """Some channels' filters in fp32: a tuple of rows of taps, each a vector for all runs."""
    rows = ()
    for r in tl.static_range(R):
        row = ()
        for s in tl.static_range(S):
            at = (channel * R + r) * S + s
            row += (tl.load(w + at, mask=there, other=0.0),)
        rows += (row,)
    found = ()
    for r in tl.static_range(R):
        found += (widened(rows[r]),)
    return found


@tawa.jit
def columns_below(
    row: Any, x_w: tl.constexpr, left: Any, W: Any, inside: Any, RUN: tl.constexpr,
    TAPS: tl.constexpr, STRIDE: tl.constexpr, DILATION: tl.constexpr,
) -> Any:  # fmt: skip
    """As `loaded_columns`; `left` as numbers without a sign, so that what is before is beyond W."""
    found = ()
    for j in tl.static_range((RUN - 1) * STRIDE + (TAPS - 1) * DILATION + 1):
        users: tl.constexpr = taps_of_column(j, RUN, TAPS, STRIDE, DILATION)
        if len(users) > 0:
            reads = inside & (left + j < W)[:, None]
            found += (tl.load(row + j * x_w, mask=reads, other=0.0),)
        else:
            found += (None,)
    return found


@tawa.jit
def depthwise_blocks(
    x: Any, w: Any, y: Any, scale: Any, bias: Any, residual: Any, r_n: Any, r_h: Any, r_w: Any,
    KR: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, C: tl.constexpr, x_n: Any, x_h: Any,
    x_w: tl.constexpr, y_n: Any, y_h: Any, y_w: tl.constexpr, R: tl.constexpr, S: tl.constexpr,
    STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, ACTIVATION: tl.constexpr,
    RUNS: tl.constexpr, ROWS: tl.constexpr, RUN: tl.constexpr, CHANNELS: tl.constexpr,
):  # fmt: skip
    """Some blocks of ROWS runs of RUN results; a row of pixels is loaded once for all of them.

    Filters are kept in registers. All pixels are loaded before results are stored, between which
    threads meet. Pixels and results of a row lie one behind the other, `x_w` and `y_w` apart.
    """
    blocks: tl.constexpr = tl.cdiv(C, CHANNELS)
    channel = tl.program_id(0) % blocks * CHANNELS + tl.arange(0, CHANNELS)
    across, down = tl.cdiv(Q, RUN), tl.cdiv(P, ROWS)
    block = tl.program_id(0) // blocks * RUNS + tl.arange(0, RUNS)
    n = block // (across * down)
    p = block // across % down * ROWS
    q = block % across * RUN
    p = tl.where(n < N, p, P)
    there = channel < C
    filters = filters_of_channels(w, channel, there, R, S)
    n = n.to(tl.int64)
    left, top = q * STRIDE_W - PAD_W, p * STRIDE_H - PAD_H
    first = x + (n * x_n + top * x_h + left * x_w)[:, None] + channel[None, :]
    left = left.to(tl.uint32)
    wide, high = W.to(tl.uint32), tl.where(n < N, H, 0).to(tl.uint32)
    results = ((tl.zeros((RUNS, CHANNELS), tl.float32),) * RUN,) * ROWS
    made = ()
    for j in tl.static_range((ROWS - 1) * STRIDE_H + (R - 1) * DILATION_H + 1):
        users: tl.constexpr = taps_of_column(j, ROWS, R, STRIDE_H, DILATION_H)
        if len(users) > 0:
            inside = ((top + j).to(tl.uint32) < high)[:, None]
            if C % CHANNELS != 0:
                inside = inside & there[None, :]
            columns = columns_below(
                first + j * x_h, x_w, left, wide, inside, RUN, S, STRIDE_W, DILATION_W
            )
            new = ()
            for i in tl.static_range(ROWS):
                tap: tl.constexpr = partner(users, i, 0)
                if tap >= 0:
                    sums = summed(
                        results[i], columns, filters[tap], RUN, S, STRIDE_W, DILATION_W, 0
                    )
                    new += (sums,)
                else:
                    new += (results[i],)
            results = new
            last: tl.constexpr = partner(users, R - 1, 1)
            if last >= 0:
                made += (
                    finished_run(
                        results[last], (scale, bias, residual), (n, p + last, q), (r_n, r_h, r_w),
                        channel, C, p + last < P, Q, y.dtype.element_ty, ACTIVATION, RUN,
                    ),
                )  # fmt: skip
    store_blocks(made, y, (n, p, q), (y_n, y_h, y_w), channel, C, P, Q, RUN)


@tawa.jit
def finished_run(
    sums: Any, ends: Any, at: Any, steps: Any, channel: Any, C: Any, exists: Any, Q: Any,
    TYPE: tl.constexpr, ACTIVATION: tl.constexpr, RUN: tl.constexpr,
) -> Any:  # fmt: skip
    """What becomes of the sums of runs: scaled, shifted, with what is added to them."""
    n, p, q = at
    found = ()
    for i in tl.static_range(RUN):
        stored = (exists & (q + i < Q))[:, None] & (channel < C)[None, :]
        other = n * steps[0] + p * steps[1] + (q + i) * steps[2]
        place = other[:, None] + channel[None, :]
        found += (ended(sums[i], ends, channel, C, place, stored, ACTIVATION).to(TYPE),)
    return found


@tawa.jit
def store_blocks(
    rows: Any, y: Any, at: Any, steps: Any, channel: Any, C: Any, P: Any, Q: Any,
    RUN: tl.constexpr,
):  # fmt: skip
    """Store rows of runs of results, by one store: several would wait for each other."""
    n, p, q = at
    high: tl.constexpr = tl.next_power_of_2(len(rows))
    wide: tl.constexpr = tl.next_power_of_2(RUN)
    tiles = ()
    for i in tl.static_range(high):
        for j in tl.static_range(wide):
            tiles += (rows[min(i, len(rows) - 1)][min(j, RUN - 1)],)
    number = tl.arange(0, high * wide)
    row = p[:, None] + (number // wide)[None, :]
    column = q[:, None] + (number % wide)[None, :]
    own = (number // wide < len(rows)) & (number % wide < RUN)
    stored = own[None, :] & (row < P) & (column < Q)
    to = (n * steps[0])[:, None] + row * steps[1] + column * steps[2]
    place = y + to[:, :, None] + channel[None, None, :]
    found = stacked(tiles).permute(0, 2, 1)
    tl.store(place, found, mask=stored[:, :, None] & (channel < C)[None, None, :])


@tawa.jit
def depthwise_weights(
    x: Any, dy: Any, parts: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, C: Any, D: Any, DO: Any,
    x_n: Any, x_h: Any, x_w: Any, x_c: Any, y_n: Any, y_h: Any, y_w: Any, y_c: Any, SHARES: Any,
    R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    DILATION_H: tl.constexpr, DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
    DEPTH: tl.constexpr, RUNS: tl.constexpr, RUN: tl.constexpr, CHANNELS: tl.constexpr,
    TAPS: tl.constexpr,
):  # fmt: skip
    """TAPS of a row of filters of some channels, over a share of the runs of results.

    `parts` is [SHARES, C, T, R, S].
    """
    deep: tl.constexpr = 1 if DEPTH is None else DEPTH[0]
    pieces: tl.constexpr = tl.cdiv(S, TAPS)
    rows: tl.constexpr = deep * R * pieces
    channel = tl.program_id(0) // rows * CHANNELS + tl.arange(0, CHANNELS)
    line = tl.program_id(0) % rows // pieces
    begin = tl.program_id(0) % pieces * TAPS
    share = tl.program_id(1)
    there = channel < C
    across = tl.cdiv(Q, RUN)
    if DEPTH is None:
        runs = N * P * across
    else:
        runs = N * DO * P * across
    turns = tl.cdiv(runs, RUNS)
    sums = (tl.zeros((RUNS, CHANNELS), tl.float32),) * TAPS
    for turn in range(share * turns // SHARES, (share + 1) * turns // SHARES):
        run = turn * RUNS + tl.arange(0, RUNS)
        n = run // (across * P)
        p = run // across % P
        q = run % across * RUN
        h = p * STRIDE_H + line % R * DILATION_H - PAD_H
        left = q * STRIDE_W + begin * DILATION_W - PAD_W
        inside = (run < runs) & (h >= 0) & (h < H)
        picture = n
        if DEPTH is not None:
            d = n % DO * DEPTH[1] + line // R * DEPTH[2] - DEPTH[3]
            inside &= (d >= 0) & (d < D)
            picture = n // DO * D + d
        row = x + (picture.to(tl.int64) * x_n + h * x_h + left * x_w)[:, None]
        row += (channel * x_c)[None, :]
        results = dy + (n.to(tl.int64) * y_n + p * y_h + q * y_w)[:, None]
        results += (channel * y_c)[None, :]
        columns = loaded_columns(row, x_w, left, W, inside, there, RUN, TAPS, STRIDE_W, DILATION_W)
        given = ()
        for i in tl.static_range(RUN):
            known = (inside & (q + i < Q))[:, None] & there[None, :]
            given += (tl.load(results + i * y_w, mask=known, other=0.0),)
        sums = summed(sums, columns, widened(given), RUN, TAPS, STRIDE_W, DILATION_W, 1)
    for s in tl.static_range(TAPS):
        number = (channel * (deep * R) + line) * S + begin + s
        to = parts + share.to(tl.int64) * C * (deep * R * S) + number
        total = tl.sum(sums[s], axis=0).to(parts.dtype.element_ty)
        tl.store(to, total, mask=there & (begin + s < S))


def _numbers(conv: Convolution) -> tuple[int, ...]:
    """Extents, as the kernels take them."""
    depth = conv.depth
    return conv.n, conv.h, conv.w, conv.p, conv.q, conv.c, depth.size, depth.results


def _constants(conv: Convolution) -> tuple[Any, ...]:
    """What is compiled in, as the kernels take it."""
    (top, _), (left, _) = conv.pad
    return conv.r, conv.s, *conv.stride, *conv.dilation, top, left, conv.depth.constants


def weights_of_depthwise(conv: Convolution, x: Any, dy: Any, shares: int, parts: Any) -> None:
    """Launch `depthwise_weights` for pictures in any order of dimensions."""
    way = best_runs(conv, depthwise.chip.multiprocessors)
    rows = conv.depth.taps * conv.r * -(-conv.s // way.taps)
    depthwise_weights[(tawa.cdiv(conv.c, way.channels) * rows, shares)](
        x, dy, parts, *_numbers(conv), *strides(x), *strides(dy), shares, *_constants(conv),
        way.runs, way.run, way.channels, way.taps,
    )  # fmt: skip


def conv_depthwise(
    conv: Convolution, x: Any, w: Any, out: Any, finish: Finish, config: Runs | None = None
) -> None:
    """Launch `depthwise` for pictures in any order of dimensions."""
    if not is_dense(w):
        w = w.copy() if hasattr(w, "copy") else w.clone().contiguous()
    if config is not None:
        check_runs(config)
    apart = strides(x)[3] != 1
    way = config or fastest(conv, depthwise.chip, x.dtype.itemsize, apart=apart)
    count = tawa.cdiv(conv.pictures * conv.p * tawa.cdiv(conv.q, way.run), way.runs)
    residual, steps = finish.residual, (0, 0, 0)
    if residual is not None:
        residual = residual if strides(residual)[3] == 1 else padded(residual, conv.k)
        steps = strides(residual)[:3]
    if way.rows and not apart and conv.depth.flat:
        down = tawa.cdiv(conv.p, way.rows) * tawa.cdiv(conv.q, way.run)
        count = tawa.cdiv(conv.pictures * down, way.runs)
        depthwise_blocks[(tawa.cdiv(conv.c, way.channels) * count,)](
            x, w, out, finish.scale, finish.bias, residual, *steps, conv.k, *_numbers(conv)[:6],
            *strides(x)[:3], *strides(out)[:3], *_constants(conv)[:-1], finish.activation, way.runs,
            way.rows, way.run, way.channels,
        )  # fmt: skip
        return
    depthwise[(tawa.cdiv(conv.c, way.channels) * count,)](
        x, w, out, finish.scale, finish.bias, residual, *steps, conv.k, *_numbers(conv),
        *strides(x), *strides(out)[:3], *_constants(conv), finish.activation, way.runs, way.run,
        way.channels, way.taps,
    )  # fmt: skip
