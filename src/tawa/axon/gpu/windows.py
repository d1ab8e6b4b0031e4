"""The rules of convolutions and pooling: operators that look at windows of an image.

There are three ways. Few numbers a window (depthwise convolutions, small groups, pooling) are added
up where they are needed, in one kernel with what follows pointwise; an image whose surroundings
count is copied with them before, so that no load needs a mask of its own. Convolutions of 16-bit
images whose channels are whole pieces of 16 bytes are the library's (`convolve`), which read pixels
with their channels together: what they give lies so, what follows them pointwise stays so, and
images that lie otherwise are copied. Else the windows are laid out in memory as matrices for a
product with the weights:

- weights @ windows, a product for each image, where the copy engine takes rows of positions: the
  result lies as images do, and a window of one number needs no copy at all;
- windows @ weights, with a row for each position of each image, for small images, rows of other
  lengths, and f32, whose products want both operands contiguous along K.

A transposed convolution is the product first: what each number of the image contributes to each
number of its window. Then every place of the result adds up what it got.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tawa.axon.gpu.convolve import dense, described, suits
from tawa.axon.gpu.few_channels import Rows, filters_in_rows, in_rows, pixels_in_rows
from tawa.axon.gpu.graph.nodes import BYTES, Node, Place, Shape, Tape, Window, layout
from tawa.axon.gpu.rules import linear_product, matmul, rule, scalar
from tawa.kernels.convolution.shapes import Convolution
from tawa.machine.chips import SM_90A

MOST_TERMS = 80
"""Numbers of a window that are added up one by one."""
FEW_FILTERS = 8
"""Filters that read the same numbers, so that each reads them itself."""
FEW_POSITIONS = 64
"""Positions of an image that fill no tile of a product."""
PIECE = SM_90A.copy_unit
"""Bytes that the copy engine moves at once."""


@dataclass(frozen=True)
class Sweep:
    """How a window moves over the last axes of an image, one entry an axis."""

    taps: Shape
    pads: tuple[tuple[int, int], ...]
    stride: int
    dilation: int

    def counts(self, image: Shape) -> Shape:
        """How many places the window takes on each axis. Raises ValueError if it doesn't fit."""
        spans = [(size - 1) * self.dilation + 1 for size in self.taps]
        found = tuple(
            (n + before + after - span) // self.stride + 1
            for n, span, (before, after) in zip(image, spans, self.pads, strict=True)
        )
        if min(found, default=1) < 1:
            raise ValueError(f"a window of {tuple(spans)} doesn't fit {image}")
        return found


def window(
    tape: Tape, x: Node, shape: Shape, axes: Shape, split: int, strides: Shape,
    places: tuple[Place, ...], outside: str = "sum",
) -> Node:  # fmt: skip
    """Numbers of x by the places of axes; rows are the first `split` axes, columns the others."""
    data = Window(axes, split, strides, layout(x)[1], places, outside)
    return tape.add("window", "", (x.base,), shape, x.element, data=data)


Axes = tuple[Shape, Shape]
"""Sizes of some axes, and strides in memory."""
NO_AXES: Axes = ((), ())


def _tap(
    tape: Tape, x: Node, sweep: Sweep, at: Shape, rows: Axes, columns: Axes = NO_AXES,
    channel: int = 0,
) -> Node:  # fmt: skip
    """The number at one tap of each window, which lies inside: [*rows, positions, columns].

    `channel` counts from where `rows` and `columns` lead to.
    """
    _, inner, *steps = layout(x)[0]
    counts = sweep.counts(x.shape[2:])
    axes, split, shape = _axes(rows, counts, columns)
    places = [Place(0, inner, channel, (0,) * len(axes))]
    for axis in range(len(counts)):
        factors = [0] * len(axes)
        factors[len(rows[0]) + axis] = sweep.stride
        start = at[axis] * sweep.dilation
        places.append(Place(0, steps[axis], start, tuple(factors)))
    strides = (*rows[1], *(0,) * len(counts), *columns[1])
    return window(tape, x, shape, axes, split, strides, tuple(places))


def _axes(rows: Axes, counts: Shape, columns: Axes) -> tuple[Shape, int, Shape]:
    """Of numbers for each of `counts` positions: axes, how many are rows, and the shape.

    Columns are the positions, or, where there are some, `columns`.
    """
    axes, positions = (*rows[0], *counts, *columns[0]), math.prod(counts)
    if not columns[0]:
        return axes, len(rows[0]), (*rows[0], positions)
    split = len(axes) - len(columns[0])
    return axes, split, (*rows[0], positions, math.prod(columns[0]))


def _padded(tape: Tape, x: Node, sweep: Sweep, outside: str = "sum") -> tuple[Node, Sweep]:
    """An image with its surroundings in memory, and how the window moves over that."""
    if not any(before or after for before, after in sweep.pads):
        return x, sweep
    (batch, channels), image = x.shape[:2], x.shape[2:]
    (outer, inner), steps = layout(x)[0][:2], layout(x)[0][2:]
    sizes = tuple(b + n + a for n, (b, a) in zip(image, sweep.pads, strict=True))
    pixels = tape.by_pixels(x)
    rows: Axes = ((batch,), (outer,)) if pixels else ((batch, channels), (outer, inner))
    columns: Axes = ((channels,), (inner,)) if pixels else NO_AXES
    axes, split, shape = _axes(rows, sizes, columns)
    first = len(rows[0])
    places = tuple(
        Place(n, steps[axis], -sweep.pads[axis][0],
              tuple(int(at == first + axis) for at in range(len(axes))))
        for axis, n in enumerate(image)
    )  # fmt: skip
    strides = (*rows[1], *(0,) * len(sizes), *columns[1])
    found = tape.reshape(window(tape, x, shape, axes, split, strides, places, outside), axes)
    none = ((0, 0),) * len(sizes)
    whole = tape.of_pixels(found) if pixels else found
    return whole, Sweep(sweep.taps, none, sweep.stride, sweep.dilation)


def _every_tap(sweep: Sweep) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*(range(size) for size in sweep.taps))


def _added_up(tape: Tape, x: Node, w: Node, sweep: Sweep, groups: int) -> Node:
    """A convolution as a sum over the numbers of each window."""
    x, sweep = _padded(tape, x, sweep)
    batch, channels = x.shape[0], x.shape[1] // groups
    filters, counts = w.shape[0] // groups, sweep.counts(x.shape[2:])
    outer, inner = layout(x)[0][:2]
    step, *steps = layout(w)[0]
    pixels = tape.by_pixels(x)
    image, own = ((batch,), (outer,)), ((groups, filters), (channels * inner, 0))
    rows: Axes = image if pixels else (image[0] + own[0], image[1] + own[1])
    columns: Axes = own if pixels else NO_AXES
    axes, split, shape = _axes(rows, counts, columns)
    still, each = (0,) * len(axes), (filters * step, step)
    lead = (0, *(0,) * len(counts), *each) if pixels else (0, *each, *(0,) * len(counts))
    total: Node | None = None
    for channel, at in itertools.product(range(channels), _every_tap(sweep)):
        number = _tap(tape, x, sweep, at, rows, columns, channel)
        places = tuple(Place(0, s, i, still) for s, i in zip(steps, (channel, *at), strict=True))
        weight = window(tape, w, shape, axes, split, lead, places)
        term = tape.map("*", number, weight)
        total = term if total is None else tape.map("+", total, term)
    assert total is not None
    if pixels:
        return tape.of_pixels(tape.reshape(total, (batch, *counts, w.shape[0])))
    return tape.reshape(total, (batch, w.shape[0], *counts))


def laid_out(
    tape: Tape, x: Node, sweep: Sweep, order: str, groups: int, outside: str = "sum"
) -> Node:
    """All windows in memory, as rows and columns.

    `order` is `taps` ([b, channels, taps] by positions), `positions` ([groups, b, positions] by
    channels of a group and taps), or `each` ([b, channels, positions] by taps).
    """
    batch, channels = x.shape[:2]
    counts = sweep.counts(x.shape[2:])
    outer, inner, *steps = layout(x)[0]
    space, own = len(counts), channels // groups
    none = (0,) * space
    match order:
        case "taps":
            axes, strides = (batch, channels, *sweep.taps, *counts), (outer, inner, *none, *none)
            taps, positions, split = 2, 2 + space, 2 + space
        case "positions":
            axes = (groups, batch, *counts, own, *sweep.taps)
            strides = (own * inner, outer, *none, inner, *none)
            taps, positions, split = 3 + space, 2, 2 + space
        case _:
            axes, strides = (batch, channels, *counts, *sweep.taps), (outer, inner, *none, *none)
            taps, positions, split = 2 + space, 2, 2 + space
    places: list[Place] = []
    for axis, pads in enumerate(sweep.pads):
        factors = [0] * len(axes)
        factors[taps + axis], factors[positions + axis] = sweep.dilation, sweep.stride
        size = x.shape[2 + axis] if any(pads) else 0
        places.append(Place(size, steps[axis], -pads[0], tuple(factors)))
    shape = (math.prod(axes[:split]), math.prod(axes[split:]))
    return window(tape, x, shape, axes, split, strides, tuple(places), outside)


def _product(tape: Tape, x: Node, w: Node, sweep: Sweep, groups: int) -> Node:
    """A convolution as products of matrices."""
    batch, filters = x.shape[0], w.shape[0] // groups
    counts = sweep.counts(x.shape[2:])
    positions, depth, size = math.prod(counts), math.prod(w.shape[1:]), BYTES[x.element]
    whole = positions * size % PIECE == 0 and depth * size % PIECE == 0
    if x.element in ("f16", "bf16") and whole and positions >= FEW_POSITIONS:
        found = _images(tape, x, w, sweep, groups)
        return tape.reshape(found, (batch, w.shape[0], *counts))
    found = laid_out(tape, x, sweep, "positions", groups)
    weights = tape.permute(tape.reshape(w, (groups, filters, depth)), (0, 2, 1))
    rows = tape.reshape(found, (groups, batch * positions, depth))
    if groups == 1:
        rows, weights = (tape.reshape(i, i.shape[1:]) for i in (rows, weights))
    product = matmul(tape, rows, weights)
    if groups == 1:
        return tape.of_pixels(tape.reshape(product, (batch, *counts, filters)))
    parts = tape.reshape(product, (groups, batch, *counts, filters))
    moved = tape.permute(parts, (1, 0, len(parts.shape) - 1, *range(2, len(parts.shape) - 1)))
    return tape.reshape(moved, (batch, w.shape[0], *counts))


def _images(tape: Tape, x: Node, w: Node, sweep: Sweep, groups: int) -> Node:
    """weights @ windows for each image."""
    batch, filters, depth = x.shape[0], w.shape[0] // groups, math.prod(w.shape[1:])
    counts = sweep.counts(x.shape[2:])
    plain = math.prod(sweep.taps) == sweep.stride == 1 and counts == x.shape[2:]
    found = x if plain else laid_out(tape, x, sweep, "taps", groups)
    matrices = tape.reshape(found, (batch, groups, depth, math.prod(counts)))
    weights = tape.reshape(w, (groups, filters, depth))
    if groups == 1:
        matrices = tape.reshape(matrices, (batch, depth, math.prod(counts)))
        weights = tape.broadcast(weights, (batch, filters, depth))
    return matmul(tape, weights, matrices)


def _by_library(tape: Tape, x: Node, w: Node, conv: Convolution) -> Node:
    """A convolution of pixels by the library's kernels; of one tap, a product with the pixels."""
    counts = (conv.p, conv.q)[4 - len(x.shape) :]
    pixels = pixels_of(tape, x)
    pixels = pixels if described(pixels) else tape.copy(pixels)
    if _one_tap(conv) and dense(pixels):
        rows = tape.reshape(pixels, (conv.n * conv.p * conv.q, conv.c))
        found = matmul(tape, rows, tape.permute(tape.reshape(w, (conv.k, conv.c)), (1, 0)))
    else:
        found = _of_pixels(tape, pixels, pixels_of(tape, w), conv)
    return tape.of_pixels(tape.reshape(found, (conv.n, *counts, conv.k)))


def _of_pixels(tape: Tape, pixels: Node, filters: Node, conv: Convolution) -> Node:
    """The library's convolution: [n, p, q, k]."""
    filters = filters if dense(filters) else tape.copy(filters)
    shape = conv.n, conv.p, conv.q, conv.k
    return tape.add("conv", "", (pixels, filters), shape, pixels.element, data=conv)


def _in_rows(tape: Tape, x: Node, w: Node, conv: Convolution, rows: Rows) -> Node:
    """A convolution of few channels by the library's kernels."""
    pixels = pixels_in_rows(tape, pixels_of(tape, x), conv, rows)
    filters = filters_in_rows(tape, pixels_of(tape, w), rows)
    found = _of_pixels(tape, pixels, filters, rows.conv)
    counts = (conv.p, conv.q)[4 - len(x.shape) :]
    return tape.of_pixels(tape.reshape(found, (conv.n, *counts, conv.k)))


def pixels_of(tape: Tape, x: Node) -> Node:
    """Images [n, c, ..] of one or two dimensions as [n, h, w, c], a view."""
    lift = (1,) * (4 - len(x.shape))
    return tape.permute(tape.reshape(x, (*x.shape[:2], *lift, *x.shape[2:])), (0, 2, 3, 1))


def _one_tap(conv: Convolution) -> bool:
    """Whether each result is of one pixel, and all of them are."""
    return (conv.taps, conv.stride, conv.pad, conv.groups) == (1, (1, 1), ((0, 0), (0, 0)), 1)


def sizes_of(image: Shape, filters: Shape, sweep: Sweep, groups: int) -> Convolution | None:
    """A convolution of one or two dimensions, as the library sees it."""
    if len(image) not in (3, 4) or min(*image, *filters) < 1:
        return None
    lift = (1,) * (4 - len(image))
    (high, wide), (r, s) = (*lift, *image[2:]), (*lift, *filters[2:])
    pads = (*(((0, 0),) * len(lift)), *sweep.pads)
    one = Convolution(image[0], high, wide, image[1], filters[0], r, s)
    steps, gaps = ((*lift, *(step,) * (2 - len(lift))) for step in (sweep.stride, sweep.dilation))
    return replace(one, stride=steps, pad=pads, dilation=gaps, groups=groups)


def convolved(tape: Tape, x: Node, w: Node, sweep: Sweep, groups: int) -> Node:
    """A convolution, in the way that suits its sizes. Raises ValueError if they don't fit."""
    if x.shape[1] != groups * w.shape[1]:
        raise ValueError(f"{x.shape[1]} channels against {w.shape[1]} in {groups} groups")
    if w.shape[0] // groups <= FEW_FILTERS and math.prod(w.shape[1:]) <= MOST_TERMS:
        return _added_up(tape, x, w, sweep, groups)
    sweep.counts(x.shape[2:])
    conv = sizes_of(x.shape, w.shape, sweep, groups)
    if conv is None or x.element != w.element:
        return _product(tape, x, w, sweep, groups)
    rows = in_rows(conv, x.element)
    if rows is not None:
        return _in_rows(tape, x, w, conv, rows)
    if not suits(conv, x.element):
        return _product(tape, x, w, sweep, groups)
    if _one_tap(conv) and not described(pixels_of(tape, x)):
        return _product(tape, x, w, sweep, groups)  # as images lie: nothing is copied
    return _by_library(tape, x, w, conv)


@rule("conv1d", "conv2d")
def convolution(
    tape: Tape, x: Node, w: Node, stride: int, pad: int, dilation: int, groups: int
) -> Node:
    """Convolution (no flip)."""
    pads = ((pad, pad),) * (len(w.shape) - 2)
    return convolved(tape, x, w, Sweep(w.shape[2:], pads, stride, dilation), groups)


@rule("conv_same")
def conv_same(tape: Tape, x: Node, w: Node) -> Node:
    """Convolution with stride 1, padded so that height and width stay (more at the end)."""
    pads = tuple(((size - 1) // 2, size // 2) for size in w.shape[2:])
    return convolved(tape, x, w, Sweep(w.shape[2:], pads, 1, 1), 1)


@rule("up")
def up(tape: Tape, x: Node, w: Node, stride: int, pad: int) -> Node:
    """Transposed convolution: products with the weights, added up where they arrive.

    Along an axis, the number at place `i` goes to `i * stride + tap`. So place `u` gets, for each
    `back`, what number `u // stride - back` gives to tap `u % stride + back * stride`.
    """
    batch, channels, *image = x.shape
    _, filters, *taps = w.shape
    positions = math.prod(image)
    given = tape.reshape(x, (batch, channels, positions))
    weights = tape.reshape(w, (channels, filters * math.prod(taps)))
    shares = _shares(tape, given, weights, tuple(taps), tuple(image))
    sizes = tuple((n - 1) * stride + k - 2 * pad for n, k in zip(image, taps, strict=True))
    return arrived(tape, shares, Sweep(tuple(taps), ((pad, pad),) * 2, stride, 1), sizes)


def arrived(tape: Tape, shares: Node, sweep: Sweep, sizes: Shape) -> Node:
    """What windows hold, [b, c, *taps, *places], added up where they lie in images."""
    total = added(tape, "+", met(tape, shares, sweep, sizes))
    return tape.reshape(total, (*shares.shape[:2], *sizes))


def met(
    tape: Tape, shares: Node, sweep: Sweep, sizes: Shape, pixels: bool = False
) -> Iterator[Node]:
    """What each of the windows that a place lies in holds for it: [b, c, places] for each.

    By pixels it is [b, places, c]. Along an axis without dilation, place `u` gets, for each `back`,
    what window `u // stride - back` has at tap `u % stride + back * stride`; else of each tap what
    of a window that is there.
    """
    (batch, channels), space = shares.shape[:2], len(sizes)
    strides, _ = layout(shares)
    still, each = (0,) * space, math.prod(sizes)
    axes, shape = (batch, channels, *sizes), (batch, channels, each)
    first = split = 2
    lead = (*strides[:2], *still)
    if pixels:
        axes, shape = (batch, *sizes, channels), (batch, each, channels)
        first, split = 1, 1 + space
        lead = (strides[0], *still, strides[1])
    for at in itertools.product(*(range(_meetings(k, sweep)) for k in sweep.taps)):
        places: list[Place] = []
        for axis, number in enumerate(at):
            own = tuple(int(i == first + axis) for i in range(len(axes)))
            steps = strides[2 + space + axis], strides[2 + axis]
            count = shares.shape[2 + space + axis]
            places += _meeting(sweep, axis, number, count, steps, own)
        yield window(tape, shares, shape, axes, split, lead, tuple(places))


def _meetings(taps: int, sweep: Sweep) -> int:
    """How many numbers of windows are added up at a place, along an axis."""
    return -(-taps // sweep.stride) if sweep.dilation == 1 else taps


def _meeting(
    sweep: Sweep, axis: int, number: int, count: int, steps: tuple[int, int], own: Shape
) -> list[Place]:
    """Which of `count` windows along an axis has something for a place, and at which tap."""
    (pad, _), stride, taps = sweep.pads[axis], sweep.stride, sweep.taps[axis]
    if sweep.dilation == 1:
        tap = Place(taps, steps[1], number * stride, own, pad, stride, rest=True)
        return [Place(count, steps[0], -number, own, pad, stride), tap]
    far = -(-number * sweep.dilation // stride)  # so that nothing below 0 is divided
    shift = pad - number * sweep.dilation + far * stride
    fixed = Place(0, steps[1], number, (0,) * len(own))
    there = Place(1, 0, 0, own, shift, stride, rest=True)
    return [Place(count, steps[0], -far, own, shift, stride), there, fixed]


def _shares(tape: Tape, x: Node, w: Node, taps: Shape, image: Shape) -> Node:
    """What each number of an image gives to each tap of each filter: [b, filters, *taps, *image].

    `x` is [b, channels, positions], `w` [channels, filters and taps].
    """
    batch, channels, positions = x.shape
    filters = w.shape[1] // math.prod(taps)
    if x.element == "f32" or positions * BYTES[x.element] % PIECE:
        rows = tape.reshape(tape.permute(x, (0, 2, 1)), (batch * positions, channels))
        found = tape.reshape(
            linear_product(tape, rows, w), (batch, *image, filters, *taps)
        )  # fmt: skip
        return tape.permute(found, (0, 3, 4, 5, 1, 2))
    turned = tape.broadcast(tape.permute(w, (1, 0)), (batch, w.shape[1], channels))
    return tape.reshape(matmul(tape, turned, x), (batch, filters, *taps, *image))


# Pooling.


def _pooled(tape: Tape, x: Node, sweep: Sweep, reduction: str) -> Node:
    batch, channels = x.shape[:2]
    counts = sweep.counts(x.shape[2:])
    shape = (batch, channels, *counts)
    if math.prod(sweep.taps) > MOST_TERMS:
        laid = laid_out(tape, x, sweep, "each", channels, reduction)
        return tape.reshape(tape.reduce(reduction, laid, -1), shape)
    function = {"sum": "+", "max": "maximum"}[reduction]
    found = added(tape, function, taps_of(tape, x, sweep, reduction))
    if tape.by_pixels(x):
        return tape.of_pixels(tape.reshape(found, (batch, *counts, channels)))
    return tape.reshape(found, shape)


def taps_of(tape: Tape, x: Node, sweep: Sweep, outside: str) -> Iterator[Node]:
    """The number at each tap of all windows: [b, c, positions]; by pixels, [b, positions, c]."""
    batch, channels = x.shape[:2]
    pixels = tape.by_pixels(x)
    x, sweep = _padded(tape, x, sweep, outside)
    outer, inner = layout(x)[0][:2]
    rows: Axes = ((batch,), (outer,)) if pixels else ((batch, channels), (outer, inner))
    columns: Axes = ((channels,), (inner,)) if pixels else NO_AXES
    return (_tap(tape, x, sweep, at, rows, columns) for at in _every_tap(sweep))


def added(tape: Tape, function: str, terms: Iterable[Node]) -> Node:
    """All terms by one function, the first first."""
    total: Node | None = None
    for term in terms:
        total = term if total is None else tape.map(function, total, term)
    assert total is not None
    return total


@rule("max_pool")
def max_pool(tape: Tape, x: Node, size: int, stride: int, pad: int) -> Node:
    """The largest number of each window."""
    sweep = Sweep((size, size), ((pad, pad),) * 2, stride, 1)
    return _pooled(tape, x, sweep, "max")


@rule("mean_pool")
def mean_pool(tape: Tape, x: Node, size: int, stride: int, pad: int) -> Node:
    """The mean of each window, padding counted as zeros."""
    sweep = Sweep((size, size), ((pad, pad),) * 2, stride, 1)
    total = _pooled(tape, x, sweep, "sum")
    return tape.map("/", total, scalar(tape, size * size, x))
