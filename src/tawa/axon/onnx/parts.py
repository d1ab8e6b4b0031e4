"""Operators that take parts of a tensor along its axes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tawa.axon.onnx.contents import blocks_of, filled
from tawa.axon.onnx.context import Context, IllFormed, rule
from tawa.axon.onnx.progressions import sliced
from tawa.axon.onnx.provided import Number
from tawa.axon.onnx.structure import bounds, part_of
from tawa.axon.onnx.values import Array, Value, tensor
from tawa.axon.sizes.choices import largest, smallest
from tawa.axon.sizes.chunks import chunks
from tawa.axon.sizes.dims import ONE, ZERO, Dim, ceil_quotient, total

OPEN_ENDS = (2**31 - 1, 2**63 - 1)
"""Ends of slices that onnxruntime reads as "all that is left", even backwards; NumPy doesn't."""

SHORT = 24
"""Symbols and numbers of sizes that may be written twice in what a slice leaves of them."""


@rule("Split")
def split(context: Context) -> list[Value] | None:
    """Parts along an axis: given, or equal (the last may be smaller)."""
    dims = context.dims(0)
    if dims is None:
        return None
    axis = context.axis(context.attribute("axis", 0), len(dims))
    parts = _parts(context, dims[axis])
    before, after = dims[:axis], dims[axis + 1 :]
    given = context.value(0)
    pieces = _pieces(given.contents, parts, axis)
    return [
        Value((*before, part, *after), piece, given.element)
        for part, piece in zip(parts, pieces, strict=True)
    ]


def _pieces(contents: Array | None, parts: list[Dim], axis: int) -> list[Array | None]:
    """What each part of known contents contains."""
    if contents is None:
        return [None] * len(parts)
    sizes = [part.constant for part in parts]
    lengths = [size for size in sizes if size is not None]
    if len(lengths) < len(sizes) or sum(lengths) != contents.shape[axis]:
        return [None] * len(parts)
    return list(np.split(contents, np.cumsum(lengths)[:-1], axis=axis))


def _parts(context: Context, size_: Dim) -> list[Dim]:
    outputs = len(context.node.output)
    parts = context.sizes(1)
    if "split" in context.attributes:
        parts = [Dim.of(n) for n in context.attribute("split")]
    if parts is not None:
        if len(parts) != outputs:
            raise IllFormed(f"it has {outputs} outputs for {len(parts)} parts")
        for one in parts:
            context.at_least(one, 0)
        context.equal(total(parts), size_)
        return parts
    if context.has(1):
        return [context.fresh() for _ in range(outputs)]
    count = context.attribute("num_outputs", outputs)
    if count != outputs:
        raise IllFormed(f"`num_outputs` is {count} and it has {outputs} outputs")
    if context.opset < 18:
        return [part_of(context, size_, count)] * count
    return chunks(size_, count)


@rule("Slice")
def slice_(context: Context) -> Value | None:
    """Parts along some axes."""
    dims = context.dims(0)
    if dims is None:
        return None
    starts, stops = bounds(context, "starts", 1), bounds(context, "ends", 2)
    axes = context.setting("axes", 3)
    if axes is None and context.has(3):
        return tensor(context.fresh_dims(len(dims)))
    count = next((len(x) for x in (starts, stops, axes) if x is not None), len(dims))
    axes = context.axes(range(count) if axes is None else axes, len(dims))
    steps = context.numbers(4) if context.has(4) else [1] * count
    for given in (starts, stops, axes, steps):
        if given is not None and len(given) != count:
            raise IllFormed("it has not as many starts as ends, axes and steps")
    if steps is not None and 0 in steps:
        raise IllFormed("a step is 0")
    result, begins = list(dims), list[Dim | None]()
    for index, raw in enumerate(axes):
        axis = context.axis(raw, len(dims))
        step = steps[index] if steps is not None else None
        if starts is None or stops is None or step is None:
            result[axis] = context.fresh()
        else:
            first, size_ = _slice_size(context, dims[axis], starts[index], stops[index], step)
            begins.append(first)
            result[axis] = size_
    contents = None
    if starts is not None and stops is not None and steps is not None:
        contents = _sliced(context, dims, axes, starts, stops, steps)
        if contents is None and context.value(0).progression is not None:
            places = [context.axis(raw, len(dims)) for raw in axes]
            firsts = dict(zip(places, begins, strict=True))
            by = dict(zip(places, steps, strict=True))
            return _sliced_blocks(context, tuple(result), firsts, by)
    return Value(tuple(result), contents, context.value(0).element)


def _sliced_blocks(
    context: Context, dims: tuple[Dim, ...], starts: dict[int, Dim | None], steps: dict[int, int]
) -> Value:
    """What slices leave of a progression: of several blocks, only the last."""
    blocks, element = blocks_of(context, 0) or (), context.value(0).element
    begin = starts.get(0, ZERO)
    while len(blocks) > 1 and begin is not None and steps.get(0, 1) > 0:
        low, size = context.least(begin), blocks[0].size.constant
        if low is None or size is None or low < size:
            break
        blocks, begin = blocks[1:], begin - size
    if len(blocks) != 1 or begin is None:
        return Value(dims)
    starts = {**starts, 0: begin}
    block = blocks[0]
    for axis, start in starts.items():
        if start is None:
            return Value(dims)
        block = sliced(block, axis, start, steps.get(axis, 1), dims[0])
    return filled(context, dims, [block], element)


@dataclass
class Bounds:
    """The bounds of slices, counted from the front, and what that takes for granted."""

    context: Context
    size: Dim
    given: tuple[Dim | int, ...]
    assumed: list[Dim] = field(default_factory=list[Dim])
    """What has to be at least 1: bounds and 1, of which it isn't known that they aren't below 0."""

    def counted(self, bound: Dim, low: int, high: Dim) -> Dim:
        """A bound counted from the front: `low` and `high` for one far outside."""
        number, context = bound.constant, self.context
        if number is not None and number < 0:
            return bound + self.size if number > -(2**31) + 1 else Dim.of(low)
        if number is not None:
            return high if number >= 2**31 - 1 else bound
        if (bottom := context.least(bound)) is None or bottom < 0:
            found = context.provided.number(bound)
            below, above = context.least(-found.dim), context.least(found.dim)
            is_below = below is not None and below > 0
            is_known = is_below or (above is not None and above >= 0)
            self.assumed += found.sizes if is_known else [bound + 1]
            return bound + self.size if is_below else bound
        return bound

    def left(self, first: Dim | None, size: Dim) -> tuple[Dim | None, Dim]:
        """Where a slice begins and what it leaves, if that is known."""
        if not self.assumed:
            return first, size
        number = self.context.provided.number(size)
        sizes = (*number.sizes, *self.assumed)
        return None, self.context.provided.dim(
            Number(number.dim, sizes),
            self.context.solver,
            "count",
            ("Slice", self.size, *self.given),
        )


def _slice_size(
    context: Context, size_: Dim, start: Dim, stop: Dim, step: int
) -> tuple[Dim | None, Dim]:
    """Where a slice begins, unless it is empty, and how much it leaves of a size."""
    bounds_ = Bounds(context, size_, (start, stop, step))
    if step < 0:
        return _backward(bounds_, start, stop, -step)
    begin, end = bounds_.counted(start, 0, size_), bounds_.counted(stop, 0, size_)
    from_end, is_open = (stop.constant or 0) < 0, (stop.constant or 0) >= OPEN_ENDS[0]
    if (start.constant or 0) > 0 and (from_end or (is_open and step > 1)):
        return begin, largest([ceil_quotient(end - begin, step), ZERO])  # nothing where they cross
    first, last = largest([begin, ZERO]), largest([end, ZERO])
    if (start.constant or -1) < 0 or size_.weight <= SHORT:
        first = smallest([first, size_])
    # Else a start behind the end makes the distance negative: the slice is empty anyway. Of short
    # sizes both bounds are put inside, so that the slices before and behind a place add up to all.
    last = smallest([last, size_])
    return bounds_.left(first, largest([ceil_quotient(last - first, step), ZERO]))


def _backward(of: Bounds, start: Dim, stop: Dim, step: int) -> tuple[Dim | None, Dim]:
    """The same of a slice with a negative step. A stop behind the end leaves nothing anyway."""
    context, size_ = of.context, of.size
    if stop.constant in OPEN_ENDS:
        return None, context.fresh()
    first = of.counted(start, 0, size_ - 1)
    last = largest([of.counted(stop, -1, size_ - 1), Dim.of(-1)])
    is_inside = start.constant is None or start.constant >= -1
    if start.constant is not None and start.constant < 0 and size_.weight <= SHORT:
        is_open, count = last.constant == -1, start.constant - (stop.constant or 0)
        if is_open or ((stop.constant or 0) < 0 and count > 0):
            left = _from_end(size_, start.constant, step, None if is_open else count)
            progresses = context.value(0).progression is not None
            return of.left(largest([first, ZERO]) if progresses else None, left)
    if start.constant != -1:
        first = largest([first, ZERO])
    if start.constant is None or start.constant >= 0:
        first = smallest([first, size_ - 1])
    left = largest([ceil_quotient(first - last, step), ZERO])
    if is_inside or context.not_below(last, 0) or context.not_below(size_, 1):
        return of.left(first, left)
    return of.left(first, smallest([left, size_]) if size_.weight <= SHORT else context.fresh())


def _from_end(size_: Dim, start: int, step: int, count: int | None) -> Dim:
    """What a slice backward leaves that begins at a place counted from the end.

    It ends at the front, or has gone so far. It begins at the front at least, unless there is
    nothing.
    """
    left = ceil_quotient(size_ + start + 1, step)
    if count is not None:
        left = smallest([left, Dim.of(-(-count // step))])
    return left if start == -1 else largest([left, smallest([size_, ONE])])


def _sliced(
    context: Context, dims: tuple[Dim, ...], axes: list[int], starts: list[Dim],
    stops: list[Dim], steps: list[int],
) -> Array | None:  # fmt: skip
    contents = context.value(0).contents
    if contents is None:
        return None
    parts: list[slice] = [slice(None)] * len(dims)
    for index, axis in enumerate(axes):
        start, stop = starts[index].constant, stops[index].constant
        if start is None or stop is None or (steps[index] < 0 and stop in OPEN_ENDS):
            return None
        if steps[index] < 0:  # NumPy begins nowhere if that is before the start, ONNX at the start
            size = contents.shape[axis]
            parts[axis] = slice(max(start, -size), None if stop < -size else stop, steps[index])
        else:
            parts[axis] = slice(start, stop, steps[index])
    return contents[tuple(parts)]
