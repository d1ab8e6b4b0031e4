"""Sizes of a convolution, and what is wrong with them; in kernels, which tile a program has.

Tiles are numbered by their pixels, and within these by blocks of filters. Those of a last wave may
be shared by programs, each with some of the steps of the sum, or be done in parts that are tiles of
their own.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false
# pyright: reportUnnecessaryComparison=false

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any, TypeAlias

import tawa
import tawa.language as tl

Pair: TypeAlias = int | Sequence[int]
"""A number for all dimensions of an image, or one for each."""
Padding: TypeAlias = int | Sequence[int | Sequence[int]]
"""As `Pair`; or for each dimension what comes before and after it."""
Sides: TypeAlias = tuple[int, int]
"""What comes before and after a dimension."""


class ConvolutionNotPossible(tawa.TawaError):
    """The arguments of a convolution do not fit each other."""

    explanation = (
        "`conv2d(x, w)` takes images [N, H, W, C] and filters [K, R, S, C / groups] of one "
        "element type. `conv1d` and `conv3d` have one and three dimensions in the place of H and "
        "W. Strides and dilations are at least 1, paddings at least 0. `groups` divides C and K, "
        "and a dilated filter fits into the padded image. No two elements of `out` share memory, "
        "and none of them is read."
    )
    example = """
import numpy as np
from tawa.kernels.conv import conv2d

conv2d(np.ones((1, 8, 8, 16), np.float16), np.ones((32, 3, 3, 8), np.float16))
"""


@dataclass(frozen=True)
class Depth:
    """The third dimension of images: `size` pictures, and filters of `taps` pictures."""

    size: int = 1
    taps: int = 1
    stride: int = 1
    pad: Sides = (0, 0)
    dilation: int = 1

    @property
    def results(self) -> int:
        """Pictures of the result."""
        return _out(self.size, self.taps, self.stride, self.pad, self.dilation)

    @property
    def flat(self) -> bool:
        """Whether each picture is convolved by itself."""
        return (self.taps, self.stride, self.pad) == (1, 1, (0, 0))

    @property
    def constants(self) -> tuple[int, int, int, int] | None:
        """Taps, stride, dilation and pad, as kernels take them; None of pictures on their own."""
        return None if self.flat else (self.taps, self.stride, self.dilation, self.pad[0])


@dataclass(frozen=True)
class Convolution:
    """Images of H x W pixels of C channels, K filters of R x S taps; and pictures in the depth.

    `n` are the images, or, where pictures are convolved by themselves, all pictures.
    """

    n: int
    h: int
    w: int
    c: int
    k: int
    r: int
    s: int
    stride: tuple[int, int] = (1, 1)
    pad: tuple[Sides, Sides] = ((0, 0), (0, 0))
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    depth: Depth = field(default_factory=Depth)

    @property
    def p(self) -> int:
        """Rows of the result."""
        return _out(self.h, self.r, self.stride[0], self.pad[0], self.dilation[0])

    @property
    def q(self) -> int:
        """Columns of the result."""
        return _out(self.w, self.s, self.stride[1], self.pad[1], self.dilation[1])

    @property
    def pictures(self) -> int:
        """Pictures of the result, of all images."""
        return self.n * self.depth.results

    @property
    def taps(self) -> int:
        """Of a filter."""
        return self.depth.taps * self.r * self.s

    @property
    def depthwise(self) -> bool:
        """Whether each channel has its own filter, and one."""
        return self.groups == self.c == self.k and self.groups > 1

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.pictures * self.p * self.q * self.k * self.taps * self.c // self.groups


@dataclass(frozen=True)
class Back:
    """Filters that the convolution turned back reads where they lie: along depth, rows, columns.

    How many taps the filters have, which of them is that convolution's first, and how many of them
    it is from one of its own to the next (-1 for a stride of 1: turned filters).
    """

    taps: tuple[int, int, int]
    first: tuple[int, int, int]
    step: tuple[int, int, int]

    @property
    def constants(self) -> tuple[tuple[int, int, int], ...]:
        """As kernels take them."""
        return self.taps, self.first, self.step

    @property
    def whole(self) -> bool:
        """Whether it reads all taps, the last first."""
        ends = zip(self.taps, self.first, self.step, strict=True)
        return all(first == taps - 1 and (step == -1 or taps == 1) for taps, first, step in ends)


def _out(size: int, taps: int, stride: int, pad: Sides, dilation: int) -> int:
    return (size + sum(pad) - dilation * (taps - 1) - 1) // stride + 1


def numbers(value: Pair, name: str, least: int, count: int = 2) -> tuple[int, ...]:
    """A number for each of so many dimensions; raises ConvolutionNotPossible."""
    given: Any = (value,) * count if hasattr(value, "__index__") else value
    try:
        found: tuple[int, ...] = tuple(map(operator.index, given))
    except TypeError:
        found = ()
    if len(found) != count or any(v < least for v in found):
        each = f", or {count} of them" if count > 1 else ""
        raise ConvolutionNotPossible(
            f"`{name}` of {value!r} is not possible",
            expected=f"a whole number of at least {least}{each}",
        )
    return found


def padding_of(value: Padding, count: int = 2) -> tuple[Sides, ...]:
    """What comes before and after each of so many dimensions."""
    sides: list[Any] = [value] * count if hasattr(value, "__index__") else []
    if isinstance(value, list | tuple):
        sides = list(value)
    if len(sides) != count:
        each = f", {count} of them" if count > 1 else ""
        raise ConvolutionNotPossible(
            f"`padding` of {value!r} is not possible",
            expected=f"a whole number{each}, or a pair (before, after) for each dimension",
        )
    found = [numbers(side, "padding", 0) for side in sides]
    return tuple((before, after) for before, after in found)


NAMES = {3: "[N, L, C]", 4: "[N, H, W, C]", 5: "[N, D, H, W, C]"}
FILTERS = {3: "[K, S, C / groups]", 4: "[K, R, S, C / groups]", 5: "[K, T, R, S, C / groups]"}


def require_array(name: str, given: Any, what: str = "") -> None:
    """Raise unless an argument is an array, of any library; `what` says of which sizes."""
    if not isinstance(getattr(given, "shape", None), Sequence):
        raise ConvolutionNotPossible(
            f"`{name}` is no array",
            expected=f"an array {what}" if what else "an array",
            found=f"a {type(given).__name__}",
        )


def sizes_of(name: str, given: Any, expected: str) -> tuple[int, ...]:
    """The sizes of an array that are given as numbers; raises ConvolutionNotPossible."""
    try:
        sizes = tuple(map(operator.index, given))
    except TypeError:
        sizes = ()
    if not sizes or min(sizes) < 0:
        raise ConvolutionNotPossible(
            f"`{name}` of {given!r} is not possible", expected=f"{expected}: whole numbers from 0"
        )
    return sizes


def require_rank(x: Any, w: Any, rank: int) -> None:
    """Raise unless images and filters are arrays of so many dimensions."""
    require_array("x", x, NAMES[rank])
    require_array("w", w, FILTERS[rank])
    if len(x.shape) != rank or len(w.shape) != rank:
        names = {3: "three", 4: "four", 5: "five"}
        raise ConvolutionNotPossible(
            f"images and filters have {names[rank]} dimensions",
            expected=f"x {NAMES[rank]} and w {FILTERS[rank]}",
            found=f"x {list(x.shape)} and w {list(w.shape)}",
        )


def convolution_of(
    x: Any, w: Any, stride: Pair, padding: Padding, dilation: Pair, groups: Any
) -> Convolution:
    """The sizes of a convolution of `x` with `w`, of one to three dimensions between N and C.

    Raises ConvolutionNotPossible.
    """
    rank = len(x.shape)
    require_rank(x, w, min(max(rank, 3), 5))
    count = rank - 2
    (n, *image, c), (k, *taps, own) = map(tuple, (x.shape, w.shape))
    _require_channels(c, k, own, groups, w)
    lift = 3 - count
    strides = (1,) * lift + numbers(stride, "stride", 1, count)
    dilations = (1,) * lift + numbers(dilation, "dilation", 1, count)
    pads = ((0, 0),) * lift + padding_of(padding, count)
    (d, h, wide), (t, r, s) = (1,) * lift + tuple(image), (1,) * lift + tuple(taps)
    depth = Depth(d, t, strides[0], pads[0], dilations[0])
    if depth.flat:
        n, depth = n * d, Depth()
    found = Convolution(
        n, h, wide, c, k, r, s, (strides[1], strides[2]), (pads[1], pads[2]),
        (dilations[1], dilations[2]), groups, depth,
    )  # fmt: skip
    results = (depth.results, found.p, found.q)[lift:]
    if min(results) < 1 or min(taps) < 1:
        raise ConvolutionNotPossible(
            "the filter is larger than the padded image" if min(taps) else "a filter has no taps",
            expected="at least one result along each dimension",
            found=f"{_by(results)} results, from {_by(image)} pixels, {_by(taps)} taps, "
            f"padding {pads[lift:]} and dilation {dilations[lift:]}",
            hint="pad the image, or use a smaller filter",
        )
    return found


def _by(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _require_channels(c: int, k: int, own: int, groups: Any, w: Any) -> None:
    if not isinstance(groups, int) or groups < 1 or c % groups or k % groups:
        raise ConvolutionNotPossible(
            f"`groups` of {groups!r} is not possible",
            expected=f"a number that divides {c} channels and {k} filters",
        )
    if own * groups != c or not c:
        raise ConvolutionNotPossible(
            "the filters are not of the image's channels" if c else "images have no channels",
            expected=f"w {[k, *w.shape[1:-1], c // groups]}, for {c} channels in {groups} group(s)",
            found=f"w {list(w.shape)}",
        )


@dataclass(frozen=True)
class Axis:
    """A dimension of a convolution."""

    size: int
    results: int
    taps: int
    stride: int
    dilation: int
    pad: Sides


def axes_of(conv: Convolution, results: int, size: int) -> tuple[Axis, Axis, Axis]:
    """Depth, with `size` pictures and so many `results`, rows and columns."""
    d, (down, across), (high, wide) = conv.depth, conv.stride, conv.dilation
    return (
        Axis(size, results, d.taps, d.stride, d.dilation, d.pad),
        Axis(conv.h, conv.p, conv.r, down, high, conv.pad[0]),
        Axis(conv.w, conv.q, conv.s, across, wide, conv.pad[1]),
    )


TurnedTaps: TypeAlias = tuple[list[int], int, int]
"""Taps that reach a row, rows from one to the next, and the row that the first of them reads."""


def turned_taps(axis: Axis, first: int) -> TurnedTaps:
    """The taps that reach every `stride`-th row from `first` on, the last tap first."""
    place = axis.pad[0] + first
    steps = ((t, place - t * axis.dilation) for t in reversed(range(axis.taps)))
    reach = [(t, step // axis.stride) for t, step in steps if step % axis.stride == 0]
    rows = [row for _, row in reach]
    return [t for t, _ in reach], rows[1] - rows[0] if len(rows) > 1 else 1, rows[0] if rows else 0


def place_of_taps(taps: tuple[int, int, int], turned: list[TurnedTaps]) -> Back:
    """Where the taps of each dimension lie among those of the filters."""
    steps = [found[1] - found[0] if len(found) > 1 else 1 for found, _, _ in turned]
    depth, rows, columns = (found[0] for found, _, _ in turned)
    return Back((taps[0], taps[1], taps[2]), (depth, rows, columns), (steps[0], steps[1], steps[2]))


def sides_of(turned: TurnedTaps, size: int, results: int) -> Sides:
    """What comes before and after `size` rows that give so many results; may be negative."""
    taps, step, first = turned
    return -first, results - size + first + step * (len(taps) - 1)


def turned_back(
    conv: Convolution, n: int, turned: list[TurnedTaps], sides: list[Sides], axes: tuple[Axis, ...]
) -> Convolution:
    """The convolution of the results that gives the rows and columns of one remainder."""
    (deep, down, across), (_, rows, columns) = turned, axes
    depth = Depth(axes[0].results, len(deep[0]), 1, sides[0], deep[1])
    if depth.flat:
        n, depth = n * depth.size, Depth()
    return Convolution(
        n, rows.results, columns.results, conv.k, conv.c, len(down[0]), len(across[0]), (1, 1),
        (sides[1], sides[2]), (down[1], across[1]), conv.groups, depth,
    )  # fmt: skip


@tl.constexpr_function
def taps_before(
    plane: tuple[int, int], sizes: tuple[int, int], strides: tuple[int, int],
    dilations: tuple[int, int], pads: tuple[int, int],
) -> int:  # fmt: skip
    """Taps of the planes that come before one: by rows, then by columns."""
    own = [
        [len([t for t in range(n) if (t * gap - pad) % step == at]) for at in range(step)]
        for n, step, gap, pad in zip(sizes, strides, dilations, pads, strict=True)
    ]
    return sum(own[0][: plane[0]]) * sizes[1] + own[0][plane[0]] * sum(own[1][: plane[1]])


@tl.constexpr_function
def taps_of_plane(size: int, stride: int, dilation: int, pad: int, plane: int) -> tuple[int, ...]:
    """The taps along one dimension that read a plane: every `stride`-th row, from `plane` on.

    Gives the first tap, how many there are, taps from one to the next, the plane's row that the
    first reads for output 0, and rows from one to the next.
    """
    taps = [t for t in range(size) if (t * dilation - pad) % stride == plane]
    if not taps:
        return 0, 0, 1, 0, 0
    common = gcd(stride, dilation)
    first = (taps[0] * dilation - pad) // stride
    return taps[0], len(taps), stride // common, first, dilation // common


@tl.constexpr_function
def step_of_taps(stride: int, dilation: int) -> int:
    """Taps from one of a plane to the next."""
    return stride // gcd(stride, dilation)


@tl.constexpr_function
def runs_of_taps(along: tuple[int, int, int, int], taps: int, planes: int) -> int:
    """Runs of so many taps at most, each of one plane, that the first planes have.

    `along` has the taps, stride, dilation and pad of the dimension.
    """
    size, stride, dilation, pad = along
    counts = (taps_of_plane(size, stride, dilation, pad, at)[1] for at in range(planes))
    return sum(-(-count // taps) for count in counts)


@tawa.jit
def place(
    program: Any, P: Any, Q: Any, BLOCKS: tl.constexpr, TN: tl.constexpr, TH: tl.constexpr,
    TW: tl.constexpr,
) -> Any:  # fmt: skip
    """Of a program: its block of filters, and the first image, row and column of its pixels.

    Programs of one tile of pixels follow each other.
    """
    across = tl.cdiv(Q, TW)
    down = tl.cdiv(P, TH)
    tile = program // BLOCKS
    row = tile // across % down * TH
    return program % BLOCKS, tile // (across * down) * TN, row, tile % across * TW


@tawa.jit
def filters_of_block(block: Any, ours: tl.constexpr, BN: tl.constexpr) -> Any:
    """The group of a block of filters, and its first filter."""
    across: tl.constexpr = tl.cdiv(ours, BN)
    return block // across, block // across * ours + block % across * BN


@tawa.jit
def tile_of_program(WHOLE: Any, SPLIT: tl.constexpr) -> Any:
    """Of a program: its tile, its share of that tile's steps, and whether it has all of them.

    The first WHOLE tiles have a program each, and of those that follow SPLIT programs share each.
    """
    program = tl.program_id(0)
    if SPLIT == 1:
        return program, 0, True
    over = program - WHOLE
    alone = over < 0
    tile = tl.where(alone, program, WHOLE + over // SPLIT)
    return tile, tl.where(alone, 0, over % SPLIT), alone


@tawa.jit
def part_of_tile(
    part: Any, tile: tl.constexpr, own: tl.constexpr,
) -> Any:  # fmt: skip
    """Of a part of a tile: its image, row, column and filter in that; shapes are of these four."""
    across: tl.constexpr = tile[3] // own[3]
    wide: tl.constexpr = tile[2] // own[2]
    high: tl.constexpr = tile[1] // own[1]
    pixels = part // across
    row = pixels // wide % high * own[1]
    return pixels // (wide * high) * own[0], row, pixels % wide * own[2], part % across * own[3]


@tawa.jit
def placed(
    tile: Any, P: Any, Q: Any, WHOLE: Any, ours: tl.constexpr, GROUPS: tl.constexpr,
    own: tl.constexpr, OF: tl.constexpr,
) -> Any:  # fmt: skip
    """Of a tile of images, rows, columns and filters: the group, and the first of each of these.

    With `OF` it is a part of one of the tiles `OF`, those from WHOLE on.
    """
    of: tl.constexpr = own if OF is None else OF
    parts: tl.constexpr = of[0] * of[1] * of[2] * of[3] // (own[0] * own[1] * own[2] * own[3])
    blocks: tl.constexpr = GROUPS * tl.cdiv(ours, of[3])
    if OF is None:
        block, n, row, column = place(tile, P, Q, blocks, of[0], of[1], of[2])
        group, k = filters_of_block(block, ours, of[3])
        return group, n, row, column, k
    block, n, row, column = place(WHOLE + tile // parts, P, Q, blocks, of[0], of[1], of[2])
    group, k = filters_of_block(block, ours, of[3])
    inside = part_of_tile(tile % parts, of, own)
    return group, n + inside[0], row + inside[1], column + inside[2], k + inside[3]


@tawa.jit
def steps_of_share(
    share: Any, alone: Any, pictures: Any, plane: tl.constexpr, SPLIT: tl.constexpr,
) -> Any:  # fmt: skip
    """First and last of the steps of a plane that a program takes.

    `plane` has the steps before it, its own and all, `pictures` the taps of the depth that exist.
    """
    if SPLIT == 1:
        return pictures[0] * plane[1], pictures[1] * plane[1]
    first = tl.where(alone, 0, share * plane[2] // SPLIT)
    last = tl.where(alone, plane[2], (share + 1) * plane[2] // SPLIT)
    return tl.maximum(first - plane[0], 0), tl.minimum(last - plane[0], plane[1])
