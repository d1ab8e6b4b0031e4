"""Operators that move numbers: shapes, slices, joins, gathers, paddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from onnx import TensorProto, helper

from tawa.axon.onnx.contents import (
    MAX_LISTED,
    blocks_of,
    filled,
    integral,
    listed,
    listed_at,
)
from tawa.axon.onnx.context import Context, IllFormed, dims_array, product, rule
from tawa.axon.onnx.progressions import Block, item_at, moved, stretched
from tawa.axon.onnx.provided import Number, out_of
from tawa.axon.onnx.values import (
    MAX_CONTENTS,
    MAX_SIZE,
    Array,
    Value,
    computed,
    known,
    object_array,
    stored,
    stored_sparse,
    tensor,
)
from tawa.axon.sizes.choices import is_not_one, largest
from tawa.axon.sizes.dims import ONE, ZERO, Dim, exact_quotient

MAX_AXES = 64
"""NumPy's limit."""


@rule("Shape")
def shape(context: Context) -> Value | None:
    """The sizes of the input, as a tensor."""
    dims = context.dims(0)
    if dims is None:
        return tensor([context.fresh()])
    start, stop = context.attribute("start", 0), context.attribute("end", len(dims))
    if start >= 0 and stop < -len(dims):
        stop = 0
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
    if len(context.node.attribute) != 1:
        raise IllFormed("it has not exactly one value")
    given = context.node.attribute[0]
    match given.name:
        case "value":
            return stored(given.t)
        case "sparse_value":
            return stored_sparse(given.sparse_tensor)
        case "value_string":
            return Value((), None, TensorProto.STRING)
        case "value_strings":
            return Value((Dim.of(len(given.strings)),), None, TensorProto.STRING)
        case "value_int" | "value_ints":
            return known(np.array(context.attribute(given.name), np.int64), TensorProto.INT64)
        case _:
            return known(np.array(context.attribute(given.name), np.float32), TensorProto.FLOAT)


@rule("ConstantOfShape")
def constant_of_shape(context: Context) -> Value | None:
    """A tensor of the given shape."""
    if context.value(0).element not in (0, TensorProto.INT64):
        raise IllFormed("its sizes are no 64-bit integers")
    dims = dims_from(context, 0)
    value = context.attribute("value", np.zeros(1, np.float32))
    if value.size != 1:
        raise IllFormed("its value is not one number")
    element = helper.np_dtype_to_tensor_dtype(value.dtype)
    sizes = [None if d is None else d.constant for d in dims or [None]]
    if dims is not None and all(size is not None for size in sizes):
        shape_ = tuple(size for size in sizes if size is not None)
        if math.prod(shape_) <= MAX_CONTENTS:
            return known(np.full(shape_, value.ravel()[0]), element)
    fill = value.ravel()[0].item()
    return Value(None if dims is None else tuple(dims), None, element, fill=fill)


def dims_from(context: Context, index: int) -> list[Dim] | None:
    """Sizes that a tensor contains; new ones where its contents aren't known.

    What a tensor contains may turn out to be negative, and is no size then: that is demanded.
    """
    numbers = numbers_from(context, index)
    if numbers is None:
        return None
    for number in numbers:
        context.at_least(number, 0)
    return [context.solver.dim(number) for number in numbers]


def numbers_from(context: Context, index: int) -> list[Dim] | None:
    """The numbers that a vector contains, any where they aren't known."""
    sizes = context.sizes(index)
    if sizes is not None:
        return sizes
    dims = context.ranked(index, 1)
    rank = dims[0].constant if dims is not None else None
    if rank is None or rank > MAX_AXES:
        return None
    return [Dim.of(context.solver.fresh("integer")) for _ in range(rank)]


@rule("Reshape")
def reshape(context: Context) -> Value | None:
    """The same numbers in another shape: the products of the sizes are equal."""
    target = numbers_from(context, 1) if context.has(1) else None
    if "shape" in context.attributes:
        target = [Dim.of(n) for n in context.attribute("shape")]
    if target is None:
        return None
    dims = context.dims(0)
    free = [index for index, dim in enumerate(target) if dim.constant == -1]
    if len(free) > 1:
        raise IllFormed("two sizes of its target are -1")
    result = [_reshaped_size(context, target[i], dims, i) for i in range(len(target))]
    others = [dim for index, dim in enumerate(result) if index not in free]
    if free:  # what is left over is found by dividing
        context.at_least(product(others), 1)
    if dims is not None:
        _same_size(context, dims, result)
    known = [context.solver.dim(dim) for dim in result]
    if dims is not None and context.has_elements(context.resolved(dims)):
        for dim in known:
            context.solver.note_floor(dim, 1)
    return _rearranged(context, tuple(result), known, None)


def _reshaped_size(context: Context, wanted: Dim, dims: tuple[Dim, ...] | None, index: int) -> Dim:
    """The size that one number of a Reshape's target means: itself, unless it is 0 or -1."""
    keeps_zero = context.flag("allowzero")
    old = dims[index] if dims is not None and index < len(dims) else None
    low = context.least(wanted)
    if wanted == ZERO and not keeps_zero:
        if dims is not None and old is None:
            raise IllFormed(f"its target copies axis {index}, and the input has {len(dims)}")
        return context.fresh() if old is None else old
    if low is not None and (low >= 1 or wanted == old or (keeps_zero and low >= 0)):
        return wanted
    if wanted.constant is not None and wanted.constant < -1:
        raise IllFormed(f"its target has the size {wanted.constant}")
    return context.fresh()


def _same_size(context: Context, dims: tuple[Dim, ...], result: list[Dim]) -> None:
    left, right = list(dims), list(result)
    for dim in dims:
        if dim in right and (context.least(dim) or 0) >= 1:
            left.remove(dim)
            right.remove(dim)
    context.equal(product(left), product(right))


def _rearranged(
    context: Context, dims: tuple[Dim, ...], sizes: list[Dim], axes: Sequence[int | None] | None
) -> Value:
    """The same numbers in another shape, which has these axes of the input and new ones (None)."""
    value = context.value(0)
    contents = _reshaped(value.contents, sizes)
    if contents is not None or value.progression is None or axes is None:
        return Value(dims, contents, fill=value.fill)
    blocks = blocks_of(context, 0) or ()
    if len(blocks) > 1:
        return Value(dims)
    return filled(context, dims, [moved(block, axes, dims) for block in blocks], value.element)


def _reshaped(contents: Array | None, dims: list[Dim]) -> Array | None:
    sizes = [dim.constant for dim in dims]
    if contents is None or any(size is None for size in sizes):
        return None
    shape_ = [size for size in sizes if size is not None]
    return contents.reshape(shape_) if math.prod(shape_) == contents.size else None


@rule("Flatten")
def flatten(context: Context) -> Value | None:
    """Two dimensions: the product of those before the axis, and of the others."""
    dims = context.dims(0)
    if dims is None:
        return tensor(context.fresh_dims(2))
    axis = context.attribute("axis", 1)
    axis = len(dims) if axis == len(dims) else context.axis(axis, max(len(dims), 1))
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
        if not all(
            size is not None or is_not_one(dim) for size, dim in zip(sizes, dims, strict=True)
        ):
            return None
        axes = [index for index, size in enumerate(sizes) if size == 1]
    if axes is None:
        return None
    gone = {context.axis(axis, len(dims)) for axis in axes}
    for axis in gone:
        context.equal(dims[axis], ONE)
    kept = [index for index in range(len(dims)) if index not in gone]
    result = [dims[index] for index in kept]
    return _rearranged(context, tuple(result), result, kept)


@rule("Unsqueeze")
def unsqueeze(context: Context) -> Value | None:
    """With new dimensions of size 1."""
    dims, axes = context.dims(0), context.setting("axes", 1)
    if dims is None or axes is None:
        return None
    rank = len(dims) + len(axes)
    new = set(context.axes(axes, rank))
    rest = iter(range(len(dims)))
    axes = [None if index in new else next(rest) for index in range(rank)]
    result = [ONE if axis is None else dims[axis] for axis in axes]
    return _rearranged(context, tuple(result), result, axes)


@rule("Transpose")
def transpose(context: Context) -> Value | None:
    """The dimensions in another order."""
    dims = context.dims(0)
    if dims is None:
        return None
    order: list[int] = context.attribute("perm", [*range(len(dims))][::-1])
    if sorted(order) != [*range(len(dims))]:
        raise IllFormed(f"`perm` is no order of {len(dims)} axes")
    contents, result = context.value(0).contents, tuple(dims[index] for index in order)
    if contents is None:
        return _rearranged(context, result, list(result), order)
    return Value(result, contents.transpose(order))


@rule("Gather")
def gather(context: Context) -> Value | None:
    """Slices by index along an axis."""
    data, indices = context.dims(0), context.dims(1)
    if data is None or indices is None:
        return None
    axis = context.axis(context.attribute("axis", 0), len(data))
    if data[axis] == ZERO and ZERO not in indices:
        raise IllFormed("there is nothing to gather from")
    result = [*data[:axis], *indices, *data[axis + 1 :]]
    contents, chosen = context.value(0).contents, context.value(1).numbers
    taken = None
    if context.value(0).progression is not None and chosen is not None:
        return _gathered(context, tuple(result), chosen, axis)
    if contents is not None and chosen is not None and _in_range(contents, chosen, axis):
        taken = np.asarray(np.take(contents, chosen.astype(np.int64), axis=axis))
        if contents.dtype == object and taken.dtype != object:
            taken = taken.astype(object)
    return Value(tuple(result), taken)


def _gathered(context: Context, dims: tuple[Dim, ...], chosen: Array, axis: int) -> Value:
    """What stands at known indices of a progression, one by one or at a single index."""
    blocks, element = blocks_of(context, 0) or (), context.value(0).element
    old = context.dims(0) or (ZERO,)
    if chosen.size != 1 and (len(old) != 1 or chosen.size > MAX_LISTED):
        return Value(dims)
    if axis > 0:
        index = Dim.of(int(chosen.ravel()[0]))
        place = index if chosen.ravel()[0] >= 0 else index + old[axis]
        taken = [replace(block.at(place, axis), size=old[0]) for block in blocks]
    else:
        taken = [item_at(blocks, int(index), context.least) for index in chosen.ravel()]
    if chosen.size == 1:
        new = (ZERO,) * chosen.ndim
        spread = [
            None if block is None
            else replace(block, size=dims[0] if dims else ZERO,
                         steps=(*block.steps[:axis], *new, *block.steps[axis:]))
            for block in taken
        ]  # fmt: skip
        return filled(context, dims, spread, element)
    items = [None if block is None else listed_at(context, block) for block in taken]
    known = [item for item in items if item is not None]
    return Value(dims, listed(known, chosen.shape, element) if len(known) == len(items) else None)


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
    batch, depth = context.attribute("batch_dims", 0), indices[-1].constant
    if not 0 <= batch < min(len(data), len(indices)) or not 1 <= depth <= len(data) - batch:
        raise IllFormed(f"indices of {depth} numbers into {len(data)} axes, {batch} of a batch")
    if context.has_elements((*indices, *data[batch + depth :])):
        for mine, theirs in zip(data[:batch], indices[:batch], strict=True):
            if None not in (mine.constant, theirs.constant):  # onnxruntime takes multiples, too
                context.equal(mine, theirs)
    return tensor([*indices[:-1], *data[batch + depth :]])


@rule("Expand")
def expand(context: Context) -> Value | None:
    """Broadcast to a shape."""
    target = dims_from(context, 1)
    dims = context.dims(0)
    if target is None or dims is None:
        return None
    result = context.broadcast(dims, tuple(target))
    value = context.value(0)
    one = value.numbers if value.contents is not None and value.contents.size == 1 else None
    fill = value.fill if one is None else one.ravel()[0].item()
    contents = _expanded(context, result)
    if contents is None and value.progression is not None and result is not None:
        spread = [stretched(block, dims, result) for block in blocks_of(context, 0) or ()]
        return filled(context, result, spread if len(spread) == 1 else None, value.element)
    return Value(result, contents, fill=fill)


def _expanded(context: Context, dims: tuple[Dim, ...] | None) -> Array | None:
    contents = context.value(0).contents
    sizes = [None if dim is None else dim.constant for dim in dims or [None]]
    if contents is None or dims is None or any(size is None for size in sizes):
        return None
    shape_ = tuple(size for size in sizes if size is not None)
    return np.broadcast_to(contents, shape_) if math.prod(shape_) <= MAX_CONTENTS else None


@rule("Tile")
def tile(context: Context) -> Value | None:
    """Repeated along each axis."""
    dims, times_ = context.dims(0), context.sizes(1)
    if dims is None:
        return None
    if times_ is None:
        return tensor(context.fresh_dims(len(dims)))
    if len(times_) != len(dims):
        raise IllFormed(f"{len(times_)} repetitions for {len(dims)} axes")
    for number in times_:
        context.at_least(number, 0)
    return tensor([dim * n for dim, n in zip(dims, times_, strict=True)])


def bounds(context: Context, name: str, index: int) -> list[Dim] | None:
    """Bounds along some axes: what older opsets give as an attribute, newer ones as an input."""
    if name in context.attributes:
        return [Dim.of(n) for n in context.attribute(name)]
    return context.sizes(index)


@rule("Pad")
def pad(context: Context) -> Value | None:
    """Longer (or, with negative numbers, shorter) at both ends of some axes."""
    dims = context.dims(0)
    if dims is None:
        return None
    pads = bounds(context, "pads", 1) or bounds(context, "paddings", 1)
    axes = context.numbers(3) if context.has(3) else list(range(len(dims)))
    if pads is None or axes is None:
        return tensor(context.fresh_dims(len(dims)))
    axes = context.axes(axes, len(dims))
    if len(pads) != 2 * len(axes):
        raise IllFormed(f"{len(pads)} paddings for both ends of {len(axes)} axes")
    result = list(dims)
    for index, axis in enumerate(axes):
        here = context.axis(axis, len(dims))
        more = pads[index] + pads[index + len(axes)]
        if (more.constant or 0) > MAX_SIZE:
            raise IllFormed("paddings of more than 64 bits")
        result[here] = dims[here] + more
        context.at_least(result[here], 0)
    return tensor(result)


@rule("Range")
def range_(context: Context) -> Value:
    """Numbers from a start to a limit."""
    values = [context.value(index).numbers for index in range(3)]
    numbers = [value.ravel()[0] for value in values if value is not None]
    if len(numbers) == 3:
        start, limit, step = (number.item() for number in numbers)
        if step == 0:
            raise IllFormed("its step is 0")
        length = math.ceil((limit - start) / step)
        if length > MAX_CONTENTS:
            return Value((Dim.of(length),))
        return known(np.arange(start, limit, step, dtype=numbers[0].dtype))
    arrays = [integral(context.value(index)) for index in range(3)]
    given = [context.solver.dim(array.ravel()[0]) for array in arrays if array is not None]
    if len(given) < 3:
        return tensor([context.fresh()])
    return _counted(context, *given)


def _counted(context: Context, *given: Dim) -> Value:
    """Numbers from a start to a limit, by a step, that depend on sizes."""
    start, limit, step = map(context.provided.number, given)
    by, element = step.dim.constant, context.value(0).element
    if not by:
        return tensor([context.fresh()])
    difference = limit.dim - start.dim
    sizes = (*start.sizes, *limit.sizes, *step.sizes, *out_of(element, (difference,)))
    length = largest([-(-difference // by), ZERO])
    made_of = ("Range", element, *given)
    size = context.provided.dim(Number(length, sizes), context.solver, "count", made_of)
    block = Block(size, start.dim, (step.dim,), sizes)
    return filled(context, (size,), [block], element)


WRAPPING = 11
"""The opset from which indices below 0 count from the end."""


@rule("OneHot")
def one_hot(context: Context) -> Value | None:
    """A new axis, as long as there are classes."""
    dims, depth = context.dims(0), context.sizes(1)
    if dims is None:
        return None
    number = context.numbers(1)
    if depth is None and number is not None:
        depth = [Dim.of(int(number[0]))]
    if depth is not None and len(depth) > 1:
        raise IllFormed("its depth is not one number")
    if depth and (depth[0].constant or 0) < 0:
        raise IllFormed("its depth is below 0")
    indices = context.numbers(0)
    if context.opset < WRAPPING and indices is not None and min(indices, default=0) < 0:
        raise IllFormed("an index is below 0")
    axis = context.axis(context.attribute("axis", -1), len(dims) + 1)
    size_ = depth[0] if depth else context.fresh()
    contents = _marked(context.value(0), size_.constant, context.value(2), axis)
    return Value((*dims[:axis], size_, *dims[axis:]), contents)


def _marked(indices: Value, count: int | None, values: Value, axis: int) -> Array | None:
    """The contents of a one-hot tensor, if all that decides them is known."""
    places, off_on = indices.numbers, values.symbolic()
    if count is None or places is None or off_on is None or off_on.size != 2:
        return None
    if places.size * count > MAX_CONTENTS:
        return None
    classes = np.arange(count).reshape(count, *(1,) * (places.ndim - axis))
    at = np.expand_dims(places, axis)
    inside = (at >= -count) & (at < count)
    marked = inside & (at % max(count, 1) == classes)
    return off_on.ravel()[marked.astype(int)]


@rule("DepthToSpace", "SpaceToDepth")
def depth_and_space(context: Context) -> Value | None:
    """Blocks of pixels against channels."""
    dims = context.dims(0)
    if dims is None:
        return tensor(context.fresh_dims(4))
    block = context.attribute("blocksize")
    if block < 1:
        raise IllFormed("`blocksize` is below 1")
    b, c, h, w = context.ranked(0, 4) or dims
    if context.node.op_type == "SpaceToDepth":
        return tensor(
            [b, c * (block * block), part_of(context, h, block), part_of(context, w, block)]
        )
    return tensor([b, part_of(context, c, block * block), h * block, w * block])


def part_of(context: Context, dim: Dim, by: int) -> Dim:
    """A dimension divided by a number, without a rest."""
    exact = exact_quotient(context.written.get(dim, dim), Dim.of(by))
    if exact is not None and ((low := exact.least()) is not None and low >= 0):
        return context.solver.dim(exact)
    quotient = context.fresh()
    context.equal(dim, quotient * by)
    return context.solver.dim(quotient)


@rule("CenterCropPad")
def center_crop_pad(context: Context) -> Value | None:
    """Given sizes along some axes."""
    dims = context.dims(0)
    if dims is None:
        return None
    axes = context.axes(context.attribute("axes", list(range(len(dims)))), len(dims))
    sizes = context.sizes(1) or context.fresh_dims(len(axes))
    result = list(dims)
    for axis, dim in zip(axes, sizes, strict=True):
        result[context.axis(axis, len(dims))] = dim
    return tensor(result)


@rule("BitCast")
def bit_cast(context: Context) -> Value:
    """The shape stays: the element types have one size."""
    return tensor(context.dims(0))
