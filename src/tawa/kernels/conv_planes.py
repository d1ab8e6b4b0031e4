"""The convolution turned back with a stride: all planes of its result by one launch.

A plane of the result is every `stride`-th row and column. The taps that reach it are those of one
remainder by the stride, so that planes have sums of other lengths: with 3 x 3 taps and a stride of
2 each way those of 4, 2, 2 and 1 taps. A program has a tile of one plane. Those of the plane with
the most taps come first, and the short ones fill what these leave free, where a launch for each
plane would wait for its last wave and for the next launch.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import Any, TypeAlias

import tawa
import tawa.language as tl
from tawa.kernels.conv_arguments import Finish, steps_of
from tawa.kernels.convolution.kernels import finish, plane_of, tap_of_step
from tawa.kernels.convolution.plans import LEAST_STORED, SHARPNESS, Tiling, ranked, tilings
from tawa.kernels.convolution.shapes import (
    Convolution,
    axes_of,
    filters_of_block,
    place,
    sides_of,
    turned_back,
    turned_taps,
)
from tawa.kernels.gemm_configurations import copying
from tawa.machine.chips import Chip
from tawa.machine.product_times import LINE, launch_us

Along: TypeAlias = tuple[int, int, int, int]
"""Taps, stride, dilation and pad of a dimension."""
OPTIONS = (("persistent", True),)
"""Of the launch, where a tiling has none."""


@tl.constexpr_function
def taps_reaching(along: Along, plane: int) -> tuple[int, int, int]:
    """Of the taps that reach a plane: the last, how many there are, and the row that it reads."""
    size, stride, dilation, pad = along
    found = [t for t in range(size) if (pad + plane - t * dilation) % stride == 0]
    if not found:
        return 0, 0, 0
    return found[-1], len(found), (pad + plane - found[-1] * dilation) // stride


@tl.constexpr_function
def planes_in_order(down: Along, across: Along) -> tuple[tuple[int, int], ...]:
    """The planes by rows and columns, those that the most taps reach first."""

    def count(plane: tuple[int, int]) -> int:
        return taps_reaching(down, plane[0])[1] * taps_reaching(across, plane[1])[1]

    found = [(a, b) for a in range(down[1]) for b in range(across[1])]
    return tuple(sorted(found, key=count, reverse=True))


@tl.constexpr_function
def between(along: Along) -> tuple[int, int]:
    """Taps, and rows, from one that reaches a plane to the next."""
    _, stride, dilation, _ = along
    return stride // gcd(stride, dilation), dilation // gcd(stride, dilation)


@tawa.jit
def chosen(plane: Any, along: tl.constexpr) -> Any:
    """As `taps_reaching`, of a plane along one dimension that is known at run time."""
    last, count, first = 0, 0, 0
    for at in tl.static_range(along[1]):
        found: tl.constexpr = taps_reaching(along, at)
        last = tl.where(plane == at, found[0], last)
        count = tl.where(plane == at, found[1], count)
        first = tl.where(plane == at, found[2], first)
    return last, count, first


@tawa.jit
def conv_planes(
    x: Any, w: Any, y: Any, scale: Any, bias: Any, N: Any, H: Any, W: Any, P: Any, Q: Any,
    C: tl.constexpr, K: tl.constexpr, x_n: Any, x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any,
    R: tl.constexpr, S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr,
    DILATION_H: tl.constexpr, DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr,
    GROUPS: tl.constexpr, ACTIVATION: tl.constexpr, TN: tl.constexpr, TH: tl.constexpr,
    TW: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """`y` [N, P, Q, K] of `x` [N, H, W, C], with filters [C, R, S, K / GROUPS] as they lie.

    Stride, dilation and pad are those of the convolution that is turned back, from `y` to `x`.
    """
    down: tl.constexpr = (R, STRIDE_H, DILATION_H, PAD_H)
    across: tl.constexpr = (S, STRIDE_W, DILATION_W, PAD_W)
    apart_r: tl.constexpr = between(down)
    apart_s: tl.constexpr = between(across)
    planes: tl.constexpr = planes_in_order(down, across)
    per_group: tl.constexpr = C // GROUPS
    ours: tl.constexpr = K // GROUPS
    turns: tl.constexpr = tl.cdiv(per_group, BK)
    blocks: tl.constexpr = GROUPS * tl.cdiv(ours, BN)
    rows = tl.cdiv(P, STRIDE_H)
    columns = tl.cdiv(Q, STRIDE_W)
    each = tl.cdiv(N, TN) * tl.cdiv(rows, TH) * tl.cdiv(columns, TW) * blocks
    number = tl.program_id(0) // each
    out, ph, pw = None, 0, 0
    for i in tl.static_range(len(planes)):
        a: tl.constexpr = planes[i][0]
        b: tl.constexpr = planes[i][1]
        tile: tl.constexpr = (TN, TH, TW, BN)
        here = plane_of(y, (N, P, Q), (y_n, y_h, y_w), a, b, STRIDE_H, STRIDE_W, K, tile)
        if i == 0 or number == i:
            out, ph, pw = here, a, b
    pixels = tl.make_tensor_descriptor(x, [N, H, W, C], [x_n, x_h, x_w, 1], [TN, TH, TW, BK])
    filters = tl.make_tensor_descriptor(w, [C, R * S, ours], [R * S * ours, ours, 1], [BK, 1, BN])
    block, n, row, column = place(tl.program_id(0) % each, rows, columns, blocks, TN, TH, TW)
    group, k = filters_of_block(block, ours, BN)
    last_r, count_r, first_r = chosen(ph, down)
    last_s, count_s, first_s = chosen(pw, across)
    acc = tl.zeros((TN * TH * TW, BN), tl.float32)
    for step in range(count_r * count_s * turns):
        r, s, c = tap_of_step(step, tl.maximum(count_s, 1), turns)
        c = group * per_group + c * BK
        at = n, row + first_r + r * apart_r[1], column + first_s + s * apart_s[1], c
        tap = (last_r - r * apart_r[0]) * S + last_s - s * apart_s[0]
        some = pixels.load(at).reshape([TN * TH * TW, BK])
        acc = tl.dot(some, filters.load([c, tap, k - group * ours]).reshape([BK, BN]), acc)
    finish(
        acc, (scale, bias, None, None, None), out, [n, row, column, k], N, rows, columns, K,
        y.dtype.element_ty, (TN, TH, TW, BN), ACTIVATION,
    )  # fmt: skip


def suits(conv: Convolution, finish: Finish) -> bool:
    """Whether this kernel turns a convolution back: it has a stride, and no plane is empty."""
    alone = conv.depth.flat and not conv.depthwise and finish.residual is None
    sizes = zip((conv.h, conv.w), conv.stride, strict=True)
    return alone and max(conv.stride) > 1 and all(size >= stride for size, stride in sizes)


def _each(conv: Convolution) -> list[Convolution]:
    """The convolutions that give the planes which some tap reaches, the most taps first."""
    axes = axes_of(conv, 1, 1)
    along = [(a.taps, a.stride, a.dilation, a.pad[0]) for a in axes[1:]]
    found: list[Convolution] = []
    for plane in planes_in_order(*along):
        turned = [turned_taps(a, at) for a, at in zip(axes, (0, *plane), strict=True)]
        sizes = [1, *(-(-(a.size - at) // a.stride) for a, at in zip(axes[1:], plane, strict=True))]
        if all(taps for taps, _, _ in turned):
            sides = [sides_of(t, a.results, n) for t, a, n in zip(turned, axes, sizes, strict=True)]
            found.append(turned_back(conv, conv.n, turned, sides, axes))
    return found


def _busiest(works: list[tuple[int, float]], multiprocessors: int) -> float:
    """The longest that one has to do if tiles, so many of each length, are dealt in turn."""
    busy, first = [0.0] * multiprocessors, 0
    for count, length in works:
        rounds, rest = divmod(count, multiprocessors)
        busy = [time + rounds * length for time in busy]
        for at in range(first, first + rest):
            busy[at % multiprocessors] += length
        first += count
    return max(busy)


def microseconds(tiling: Tiling, conv: Convolution, chip: Chip, size: int, result: int) -> float:
    """The time that is expected of all planes; an element has `size` bytes, a result `result`."""
    each = _each(conv)
    one, steps = tiling.iteration(each[0], size)
    cycles, terms = one.cycles(chip.multiprocessors, chip), chip.products
    stored = max(LEAST_STORED, terms.stored * tiling.pixels * tiling.filters)
    tiles = tiling.tiles(each[0])
    counts = [steps * c.taps / each[0].taps for c in each]
    counts += [0.0] * (prod(conv.stride) - len(each))
    works = [(tiles, count * cycles + stored) for count in counts]
    total = terms.placed + _busiest(works, chip.multiprocessors)
    elements = conv.n * (conv.p * conv.q * conv.k * size + conv.h * conv.w * conv.c * result)
    elements += conv.k * conv.taps * conv.c // conv.groups * size
    moved = one.written / (tiling.pixels * tiling.filters * one.lines * LINE)
    return launch_us(total, moved, elements / (chip.memory_gbs * 1e3), chip, SHARPNESS)


@lru_cache(maxsize=1024)
def ordered(conv: Convolution, chip: Chip, size: int, result: int) -> tuple[Tiling, ...]:
    """The tilings, the one that is expected fastest first."""
    reached = _each(conv)
    found = tilings(reached[0], size, result) if reached else ()
    suited = [t for t in found if t.kernel == "taps" and t.alone and t.reads_turned]
    return tuple(sorted(suited, key=lambda t: microseconds(t, conv, chip, size, result)))


@lru_cache(maxsize=1024)
def fastest(conv: Convolution, chip: Chip, size: int, result: int) -> Tiling | None:
    """The tiling that is expected fastest; None if a launch for each plane is faster."""
    best = next(iter(ordered(conv, chip, size, result)), None)
    if best is None:
        return None
    apart = 0.0
    for one in _each(conv):
        apart += ranked(one, chip, size, result)[0].microseconds(one, chip, size, result)
    for _ in range(prod(conv.stride) - len(_each(conv))):
        apart += copying([conv.n * conv.h * conv.w * conv.c * result // prod(conv.stride)], chip)
    return best if microseconds(best, conv, chip, size, result) < apart else None


def programs(conv: Convolution, tiling: Tiling) -> int:
    """Programs of a launch: one for each tile of each plane, and block of filters."""
    rows, columns = (-(-n // step) for n, step in zip((conv.h, conv.w), conv.stride, strict=True))
    sizes = (conv.n, tiling.images), (rows, tiling.rows), (columns, tiling.columns)
    tiles = prod(-(-size // extent) for size, extent in sizes) * prod(conv.stride)
    return tiles * conv.groups * -(-(conv.c // conv.groups) // tiling.filters)


def launch(
    conv: Convolution, tiling: Tiling, x: Any, w: Any, out: Any, finish: Finish,
) -> None:  # fmt: skip
    """Launch `conv_planes` for `x` [N, P, Q, K], filters [K, T R S, C / groups], `out` [.., C]."""
    (top, _), (left, _) = conv.pad
    conv_planes[(programs(conv, tiling),)](
        x, w, out, finish.scale, finish.bias, conv.n, conv.p, conv.q, conv.h, conv.w, conv.k,
        conv.c, *steps_of(x)[:3], *steps_of(out)[:3], conv.r, conv.s, *conv.stride,
        *conv.dilation, top, left, conv.groups, finish.activation, tiling.images, tiling.rows,
        tiling.columns, tiling.filters, tiling.channels, **dict(tiling.options or OPTIONS),
    )  # fmt: skip
