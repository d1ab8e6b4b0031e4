"""Operators that move numbers: shapes, slices, joins, gathers, paddings."""

from __future__ import annotations

import numpy as np

from tawa.axon.onnx.context import Context, dims_array, product, rule
from tawa.axon.onnx.values import MAX_CONTENTS, Array, Value, computed, known, object_array, tensor
from tawa.axon.sizes.dims import ONE, ZERO, Dim, largest, smallest, total


@rule("Shape")
def shape(context: Context) -> Value | None:
    """The sizes of the input, as a tensor."""
    dims = context.dims(0)
    if dims is None:
        return tensor([context.fresh()])
    start, stop = context.attribute("start", 0), context.attribute("end", len(dims))
    return computed(dims_array(dims[start:stop]))


@rule("Size")
def size(context: Context) -> Value:
    """The number of elements."""
    dims = context.dims(0)
    if dims is None:
        return tensor([])
    return computed(object_array([product(dims)], ()))


@rule("Constant")
def constant(context: Context) -> Value | None:
    """A constant."""
    for name in ("value", "value_int", "value_ints", "value_float", "value_floats"):
        value = context.attribute(name)
        if value is not None:
            return known(np.asarray(value))
    strings = context.attribute("value_strings")
    return tensor([Dim.of(len(strings))] if strings is not None else [])


@rule("ConstantOfShape")
def constant_of_shape(context: Context) -> Value | None:
    """A tensor of the given shape."""
    dims = dims_from(context, 0)
    value = context.attribute("value", np.zeros(1, np.float32))
    sizes = [None if d is None else d.constant for d in dims or [None]]
    if dims is not None and all(size is not None for size in sizes):
        shape_ = tuple(size for size in sizes if size is not None)
        if int(np.prod(shape_)) <= MAX_CONTENTS:
            return known(np.full(shape_, value.ravel()[0]))
    return tensor(dims)


def dims_from(context: Context, index: int) -> list[Dim] | None:
    """Sizes that a tensor contains; new ones where its contents aren't known."""
    sizes = context.sizes(index)
    if sizes is not None:
        return sizes
    dims = context.dims(index)
    rank = dims[0].constant if dims is not None and len(dims) == 1 else None
    return None if rank is None else context.fresh_dims(rank)


@rule("Reshape")
def reshape(context: Context) -> Value | None:
    """The same numbers in another shape: the products of the sizes are equal."""
    target = dims_from(context, 1) if context.has(1) else None
    if "shape" in context.attributes:
        target = [Dim.of(n) for n in context.attribute("shape")]
    dims = context.dims(0)
    if target is None:
        return None
    result: list[Dim] = []
    for index, dim in enumerate(target):
        if dim == ZERO and not context.attribute("allowzero", 0):
            result.append(dims[index] if dims is not None else context.fresh())
        else:
            result.append(context.fresh() if dim.constant == -1 else dim)
    if dims is not None:
        _same_size(context, dims, result)
    known = [context.solver.dim(dim) for dim in result]
    return Value(tuple(result), _reshaped(context.value(0).contents, known))


def _same_size(context: Context, dims: tuple[Dim, ...], result: list[Dim]) -> None:
    left, right = list(dims), list(result)
    if ZERO in left or ZERO in right:
        if not (ZERO in left and ZERO in right):
            context.equal(product(left), product(right))
        return
    for dim in dims:
        if dim in right:
            left.remove(dim)
            right.remove(dim)
    context.equal(product(left), product(right))


def _reshaped(contents: Array | None, dims: list[Dim]) -> Array | None:
    sizes = [dim.constant for dim in dims]
    if contents is None or any(size is None for size in sizes):
        return None
    shape_ = [size for size in sizes if size is not None]
    return contents.reshape(shape_) if int(np.prod(shape_)) == contents.size else None


@rule("Flatten")
def flatten(context: Context) -> Value | None:
    """Two dimensions: the product of those before the axis, and of the others."""
    dims = context.dims(0)
    if dims is None:
        return tensor(context.fresh_dims(2))
    axis = context.axis(context.attribute("axis", 1), len(dims))
    return tensor([product(dims[:axis]), product(dims[axis:])])


@rule("Squeeze")
def squeeze(context: Context) -> Value | None:
    """Without some dimensions of size 1."""
    dims = context.dims(0)
    if dims is None:
        return None
    axes = context.setting("axes", 1)
    if axes is None and not context.has(1):
        sizes = [dim.constant for dim in dims]
        if any(
            size is None and (dim.least() or 1) <= 1 for size, dim in zip(sizes, dims, strict=True)
        ):
            return None
        axes = [index for index, size in enumerate(sizes) if size == 1]
    if axes is None:
        return None
    gone = {context.axis(axis, len(dims)) for axis in axes}
    for axis in gone:
        context.equal(dims[axis], ONE)
    result = [dim for index, dim in enumerate(dims) if index not in gone]
    return Value(tuple(result), _reshaped(context.value(0).contents, result))


@rule("Unsqueeze")
def unsqueeze(context: Context) -> Value | None:
    """With new dimensions of size 1."""
    dims, axes = context.dims(0), context.setting("axes", 1)
    if dims is None or axes is None:
        return None
    rank = len(dims) + len(axes)
    new = {context.axis(axis, rank) for axis in axes}
    rest = iter(dims)
    result = [ONE if index in new else next(rest) for index in range(rank)]
    return Value(tuple(result), _reshaped(context.value(0).contents, result))


@rule("Transpose")
def transpose(context: Context) -> Value | None:
    """The dimensions in another order."""
    dims = context.dims(0)
    if dims is None:
        return None
    order: list[int] = context.attribute("perm", [*range(len(dims))][::-1])
    contents = context.value(0).contents
    moved = None if contents is None else contents.transpose(order)
    return Value(tuple(dims[index] for index in order), moved)


@rule("Concat")
def concat(context: Context) -> Value | None:
    """Joined along an axis."""
    shapes = [context.dims(index) for index in range(len(context.inputs))]
    ranks = {len(shape_) for shape_ in shapes if shape_ is not None}
    if not ranks:
        return None
    axis = context.axis(context.attribute("axis", 1), ranks.pop())
    parts = [shape_ for shape_ in shapes if shape_ is not None]
    whole = len(parts) == len(shapes)
    joined = total(part[axis] for part in parts) if whole else context.fresh()
    result: list[Dim] = []
    for index in range(len(parts[0])):
        column = [part[index] for part in parts]
        if index == axis:
            result.append(joined)
            continue
        for other in column[1:]:
            column[0] = context.equal(column[0], other)
        result.append(column[0])
    return Value(tuple(result), _joined(context, axis))


def _joined(context: Context, axis: int) -> Array | None:
    values = [context.value(index) for index in range(len(context.inputs))]
    arrays = [value.contents for value in values]
    if all(array is not None and array.dtype != object for array in arrays):
        return np.concatenate([array for array in arrays if array is not None], axis=axis)
    symbolic: list[Array] = []
    for value in values:
        array = value.symbolic()
        if array is None:
            sizes = [dim.constant for dim in value.dims or ()]
            if value.dims is None or len(sizes) != 1 or sizes[0] is None or sizes[0] > 8:
                return None
            unknown = [Dim.of(context.solver.fresh("integer")) for _ in range(sizes[0])]
            array = dims_array(unknown)
        symbolic.append(array)
    return np.concatenate(symbolic, axis=axis)


@rule("Split")
def split(context: Context) -> list[Value] | None:
    """Parts along an axis: given, or equal (the last may be smaller)."""
    dims = context.dims(0)
    if dims is None:
        return None
    axis = context.axis(context.attribute("axis", 0), len(dims))
    outputs = len(context.node.output)
    parts = context.sizes(1)
    if "split" in context.attributes:
        parts = [Dim.of(n) for n in context.attribute("split")]
    if parts is not None:
        context.equal(total(parts), dims[axis])
    elif context.has(1):
        parts = context.fresh_dims(outputs)
    else:
        count = context.attribute("num_outputs", outputs)
        part = -((-dims[axis]) // count)
        parts = [part] * (count - 1) + [dims[axis] - part * (count - 1)]
    return [tensor([*dims[:axis], part, *dims[axis + 1 :]]) for part in parts]


@rule("Slice")
def slice_(context: Context) -> Value | None:
    """Parts along some axes."""
    dims = context.dims(0)
    if dims is None:
        return None
    starts, stops = _bounds(context, "starts", 1), _bounds(context, "ends", 2)
    axes = context.setting("axes", 3)
    if axes is None and context.has(3):
        return tensor(context.fresh_dims(len(dims)))
    count = len(starts or stops or axes or dims)
    axes = list(range(count)) if axes is None else axes
    steps = context.numbers(4) if context.has(4) else [1] * count
    result = list(dims)
    for index, raw in enumerate(axes):
        axis = context.axis(raw, len(dims))
        step = steps[index] if steps is not None else None
        if starts is None or stops is None or step is None:
            result[axis] = context.fresh()
        else:
            result[axis] = _slice_size(context, dims[axis], starts[index], stops[index], step)
    contents = None
    if starts is not None and stops is not None and steps is not None:
        contents = _sliced(context, dims, axes, starts, stops, steps)
    return Value(tuple(result), contents)


def _bounds(context: Context, name: str, index: int) -> list[Dim] | None:
    if name in context.attributes:
        return [Dim.of(n) for n in context.attribute(name)]
    return context.sizes(index)


def _clamped(bound: Dim, size_: Dim, low: int, high: Dim) -> Dim | None:
    """A bound of a slice counted from the front and put between `low` and `high`."""
    number = bound.constant
    if number is not None and number < 0:
        bound = bound + size_ if number > -(2**31) + 1 else Dim.of(low)
    elif number is not None and number >= 2**31 - 1:
        return high
    elif number is None and (bound.least() is None or (bound.least() or 0) < 0):
        below = (-bound).least()
        if below is None or below <= 0:
            return None
        bound = bound + size_
    return smallest([largest([bound, Dim.of(low)]), high])


def _slice_size(context: Context, size_: Dim, start: Dim, stop: Dim, step: int) -> Dim:
    backward = step < 0
    high = size_ - 1 if backward else size_
    first = _clamped(start, size_, 0, high)
    last = _clamped(stop, size_, -1 if backward else 0, high)
    if first is None or last is None:
        return context.fresh()
    distance = first - last if backward else last - first
    return largest([-((-distance) // abs(step)), ZERO])


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
        if start is None or stop is None:
            return None
        if steps[index] < 0 and stop < -contents.shape[axis]:
            parts[axis] = slice(start, None, steps[index])
        else:
            parts[axis] = slice(start, stop, steps[index])
    return contents[tuple(parts)]


@rule("Gather")
def gather(context: Context) -> Value | None:
    """Slices by index along an axis."""
    data, indices = context.dims(0), context.dims(1)
    if data is None or indices is None:
        return None
    axis = context.axis(context.attribute("axis", 0), len(data))
    result = [*data[:axis], *indices, *data[axis + 1 :]]
    contents, chosen = context.value(0).contents, context.value(1).numbers
    taken = None
    if contents is not None and chosen is not None and _in_range(contents, chosen, axis):
        taken = np.asarray(np.take(contents, chosen.astype(np.int64), axis=axis))
        if contents.dtype == object and taken.dtype != object:
            taken = taken.astype(object)
    return Value(tuple(result), taken)


def _in_range(contents: Array, chosen: Array, axis: int) -> bool:
    size_ = contents.shape[axis]
    return chosen.dtype != object and bool(np.all((-size_ <= chosen) & (chosen < size_)))


@rule("GatherElements")
def gather_elements(context: Context) -> Value:
    """The shape of the indices."""
    return tensor(context.dims(1))


@rule("GatherND")
def gather_nd(context: Context) -> Value | None:
    """The indices' shape without the last dimension, then what an index leaves of the data."""
    data, indices = context.dims(0), context.dims(1)
    if data is None or indices is None or indices[-1].constant is None:
        return None
    batch = context.attribute("batch_dims", 0)
    return tensor([*indices[:-1], *data[batch + indices[-1].constant :]])


@rule("Expand")
def expand(context: Context) -> Value | None:
    """Broadcast to a shape."""
    target = dims_from(context, 1)
    dims = context.dims(0)
    if target is None or dims is None:
        return None
    if context.sizes(1) is None:
        return tensor(context.fresh_dims(max(len(target), len(dims))))
    result = context.broadcast(dims, tuple(target))
    return Value(result, _expanded(context, result))


def _expanded(context: Context, dims: tuple[Dim, ...] | None) -> Array | None:
    contents = context.value(0).contents
    sizes = [None if dim is None else dim.constant for dim in dims or [None]]
    if contents is None or dims is None or any(size is None for size in sizes):
        return None
    shape_ = tuple(size for size in sizes if size is not None)
    return np.broadcast_to(contents, shape_) if int(np.prod(shape_)) <= MAX_CONTENTS else None


@rule("Tile")
def tile(context: Context) -> Value | None:
    """Repeated along each axis."""
    dims, times_ = context.dims(0), context.sizes(1)
    if dims is None:
        return None
    if times_ is None:
        return tensor(context.fresh_dims(len(dims)))
    return tensor([dim * n for dim, n in zip(dims, times_, strict=True)])


@rule("Pad")
def pad(context: Context) -> Value | None:
    """Longer (or, with negative numbers, shorter) at both ends of some axes."""
    dims = context.dims(0)
    if dims is None:
        return None
    pads = _bounds(context, "pads", 1) or _bounds(context, "paddings", 1)
    axes = context.numbers(3) if context.has(3) else list(range(len(dims)))
    if pads is None or axes is None:
        return tensor(context.fresh_dims(len(dims)))
    result = list(dims)
    for index, axis in enumerate(axes):
        here = context.axis(axis, len(dims))
        result[here] = dims[here] + pads[index] + pads[index + len(axes)]
    return tensor(result)


@rule("Range")
def range_(context: Context) -> Value:
    """Numbers from a start to a limit."""
    values = [context.value(index).numbers for index in range(3)]
    numbers = [value.ravel()[0] for value in values if value is not None]
    if len(numbers) == 3:
        start, limit, step = (number.item() for number in numbers)
        return known(np.arange(start, limit, step, dtype=numbers[0].dtype))
    sizes = [context.sizes(index) for index in range(3)]
    if any(found is None for found in sizes):
        return tensor([context.fresh()])
    start, limit, step = (found[0] for found in sizes if found is not None)
    if step.constant is None or step.constant == 0:
        return tensor([context.fresh()])
    return tensor([largest([-((start - limit) // step), ZERO])])


@rule("OneHot")
def one_hot(context: Context) -> Value | None:
    """A new axis, as long as there are classes."""
    dims, depth = context.dims(0), context.sizes(1)
    if dims is None:
        return None
    number = context.numbers(1)
    if depth is None and number is not None:
        depth = [Dim.of(int(number[0]))]
    axis = context.axis(context.attribute("axis", -1), len(dims) + 1)
    size_ = depth[0] if depth is not None else context.fresh()
    return tensor([*dims[:axis], size_, *dims[axis:]])


@rule("DepthToSpace", "SpaceToDepth")
def depth_and_space(context: Context) -> Value | None:
    """Blocks of pixels against channels."""
    dims = context.dims(0)
    if dims is None:
        return tensor(context.fresh_dims(4))
    block = context.attribute("blocksize")
    b, c, h, w = dims
    if context.node.op_type == "SpaceToDepth":
        return tensor([b, c * (block * block), _part(context, h, block), _part(context, w, block)])
    return tensor([b, _part(context, c, block * block), h * block, w * block])


def _part(context: Context, dim: Dim, by: int) -> Dim:
    """A dimension divided by a number, without a rest."""
    quotient = context.fresh()
    context.equal(dim, quotient * by)
    return context.solver.dim(quotient)


@rule("CenterCropPad")
def center_crop_pad(context: Context) -> Value | None:
    """Given sizes along some axes."""
    dims = context.dims(0)
    if dims is None:
        return None
    axes = context.attribute("axes", list(range(len(dims))))
    sizes = context.sizes(1) or context.fresh_dims(len(axes))
    result = list(dims)
    for axis, dim in zip(axes, sizes, strict=True):
        result[context.axis(axis, len(dims))] = dim
    return tensor(result)


@rule("BitCast")
def bit_cast(context: Context) -> Value:
    """The shape stays: the element types have one size."""
    return tensor(context.dims(0))
