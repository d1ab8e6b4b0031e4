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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.conv_arguments import Finish
from tawa.kernels.conv_copies import padded
from tawa.kernels.conv_kernels import ended
from tawa.kernels.conv_shapes import Convolution
from tawa.kernels.gemm_operands import is_dense, strides

CHANNELS = 64
"""Channels of one program, at most."""
RUNS = 16
"""Runs of neighbouring results that one program computes."""
LENGTHS = 8, 7, 6, 5, 4, 3, 2, 1
"""Results of a run."""
STRIDED = 4
"""Results of a run at most, with a stride (measured: `conv-tiles.jsonl`)."""
TRIED, MOST_BEYOND = (8, 7, 4, 2), 1.15
"""Of them, those that are worth timing, and by how much they may reach beyond a row."""
THREADS, REGISTERS = 128, 65536
"""Of a program, and of a multiprocessor."""
OWN_REGISTERS = 84, 11
"""Registers of a thread: of any, and more for each result of its runs (161 for 7, 128 for 4)."""
MOST_TAPS = 8
"""Taps of a row that registers hold."""
WAVES = 4
"""Programs for each multiprocessor, at most, that share the results for the gradient of filters."""


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
    for i in tl.static_range(RUN):
        stored = (exists & (q + i < Q))[:, None] & there[None, :]
        other = n.to(tl.int64) * r_n + p * r_h + (q + i) * r_w
        at = other[:, None] + channel[None, :]
        ends = scale, bias, residual
        total = ended(sums[i], ends, channel, C, at, stored, ACTIVATION)
        to = n.to(tl.int64) * y_n + p * y_h + (q + i) * y_w
        tl.store(y + to[:, None] + channel[None, :], total.to(y.dtype.element_ty), mask=stored)


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


def instructions(conv: Convolution, run: int, taps: int) -> int:
    """Those of a thread: counted in machine code, for 8 channels."""
    columns = (run - 1) * conv.stride[1] + (taps - 1) * conv.dilation[1] + 1
    columns = min(columns, run * taps)
    rows = conv.depth.taps * conv.r * -(-conv.s // taps)
    return rows * (8 * run * taps + 18 * columns + 17 * taps + 40) + 40 * run + 200


@dataclass(frozen=True)
class Runs:
    """What a program computes: so many runs of neighbouring results, of some channels.

    And how many taps of a row at a time.
    """

    runs: int
    run: int
    channels: int
    taps: int


def _taps(conv: Convolution) -> int:
    """Taps of a row at a time."""
    return -(-conv.s // -(-conv.s // MOST_TAPS))


def runs_tried(conv: Convolution) -> Iterator[Runs]:
    """What may be worth timing: runs that reach little beyond a row."""
    wide = min(CHANNELS, max(8, tawa.next_power_of_2(conv.c)))
    for channels in {min(32, wide), wide}:
        for elements in (RUNS * CHANNELS // 2, RUNS * CHANNELS):
            for run in TRIED:
                if -(-conv.q // run) * run <= MOST_BEYOND * conv.q:
                    yield Runs(elements // channels, run, channels, _taps(conv))


def best_runs(conv: Convolution, multiprocessors: int) -> Runs:
    """What is expected fastest: as long as lets programs fill the multiprocessors' last wave."""
    channels = min(CHANNELS, max(8, tawa.next_power_of_2(conv.c)))
    if 20 * (-(-conv.c // 32) * 32) < 19 * (-(-conv.c // channels) * channels):
        channels = 32  # the last of fewer blocks would have few channels
    runs, taps = RUNS * CHANNELS // channels, _taps(conv)

    def cost(run: int) -> int:
        count = tawa.cdiv(conv.pictures * conv.p * tawa.cdiv(conv.q, run), runs)
        programs = count * tawa.cdiv(conv.c, channels)
        beside = max(1, REGISTERS // ((OWN_REGISTERS[0] + OWN_REGISTERS[1] * run) * THREADS))
        waves, rest = divmod(programs, beside * multiprocessors)
        turns = waves * beside + -(-rest // multiprocessors)
        return turns * instructions(conv, run, taps)

    run = min((n for n in LENGTHS if n < 2 * conv.q), key=cost)
    return Runs(runs, run, channels, taps)


def _shorter(way: Runs, conv: Convolution) -> Runs:
    """Half as many results of a thread with a stride, whose rows of pixels are twice as long.

    Measured on EfficientNet-B0's four layers of stride 2: 0.90 to 0.97 of the time.
    """
    if conv.stride[1] == 1 or way.runs == 1:
        return way
    return replace(way, runs=way.runs // 2, run=min(way.run, STRIDED))


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


def shares_of_depthwise(conv: Convolution, multiprocessors: int) -> int:
    """Shares of the runs of results: programs that fill a device a few times."""
    way = best_runs(conv, multiprocessors)
    blocks = tawa.cdiv(conv.c, way.channels) * conv.depth.taps * conv.r
    blocks *= -(-conv.s // way.taps)
    turns = tawa.cdiv(conv.pictures * conv.p * tawa.cdiv(conv.q, way.run), way.runs)
    return max(1, min(turns // 4, WAVES * multiprocessors // blocks))


def conv_depthwise(
    conv: Convolution, x: Any, w: Any, out: Any, finish: Finish, config: Runs | None = None
) -> None:
    """Launch `depthwise` for pictures in any order of dimensions."""
    if not is_dense(w):
        w = w.copy() if hasattr(w, "copy") else w.clone().contiguous()
    way = config or _shorter(best_runs(conv, depthwise.chip.multiprocessors), conv)
    count = tawa.cdiv(conv.pictures * conv.p * tawa.cdiv(conv.q, way.run), way.runs)
    residual, steps = finish.residual, (0, 0, 0)
    if residual is not None:
        residual = residual if strides(residual)[3] == 1 else padded(residual, conv.k)
        steps = strides(residual)[:3]
    depthwise[(tawa.cdiv(conv.c, way.channels) * count,)](
        x, w, out, finish.scale, finish.bias, residual, *steps, conv.k, *_numbers(conv),
        *strides(x), *strides(out)[:3], *_constants(conv), finish.activation, way.runs, way.run,
        way.channels, way.taps,
    )  # fmt: skip
