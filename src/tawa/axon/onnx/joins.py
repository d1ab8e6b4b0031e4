"""Operators that join tensors along an axis, or stack them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tawa.axon.onnx.contents import blocks_of, filled, integral, is_float, listed
from tawa.axon.onnx.context import Context, IllFormed, dims_array, rule
from tawa.axon.onnx.progressions import MAX_BLOCKS, Block, Progression, progression
from tawa.axon.onnx.sequences import each_of, one_of
from tawa.axon.onnx.values import Array, Dims, Value, tensor
from tawa.axon.sizes.chunks import joined_parts
from tawa.axon.sizes.dims import ONE, ZERO, Dim, total


@rule("Concat")
def concat(context: Context) -> Value | None:
    """Joined along an axis."""
    shapes = [context.dims(index) for index in range(len(context.inputs))]
    ranks = {len(shape_) for shape_ in shapes if shape_ is not None}
    if not ranks:
        return None
    if len(ranks) > 1:
        if context.is_supposed and not all(
            context.has_elements(s) for s in shapes if s is not None
        ):
            return None  # a runtime that doesn't know the ranks beforehand skips what is empty
        raise IllFormed("its inputs have different numbers of dimensions")
    axis = context.axis(context.attribute("axis", 1), ranks.pop())
    along = [None if shape_ is None else shape_[axis] for shape_ in shapes]
    sizes = [size for size in along if size is not None]
    shared = _shared(context, shapes, axis)
    if shared is None:
        return None
    result = list(shared)
    result[axis] = joined_parts(sizes) if len(sizes) == len(along) else context.fresh()
    contents = _joined(context, axis)
    if contents is None and len(result) == 1:
        element = context.value(0).element
        return filled(context, tuple(result), _blocks(context), element)
    return Value(tuple(result), contents)


def _blocks(context: Context) -> Progression | None:
    """What vectors contain, behind each other, if one of them is a progression."""
    count = len(context.inputs)
    if all(context.value(index).progression is None for index in range(count)):
        return None
    found: list[Block] = []
    for index in range(count):
        blocks = blocks_of(context, index) or _single_blocks(context, index)
        if blocks is None:
            return None
        found.extend(blocks)
    return progression(found)


def _single_blocks(context: Context, index: int) -> Progression | None:
    """A block for each of a few numbers."""
    items = integral(context.value(index))
    if items is None or items.size > MAX_BLOCKS:
        return None
    found: list[Block] = []
    for item in items.ravel():
        number = context.provided.number(context.solver.dim(Dim.of(item)))
        found.append(Block(ONE, number.dim, (ZERO,), number.sizes))
    return tuple(found)


def _joined(context: Context, axis: int) -> Array | None:
    values = [context.value(index) for index in range(len(context.inputs))]
    arrays = [value.contents for value in values]
    if all(array is not None and array.dtype != object for array in arrays):
        numbers = [array for array in arrays if array is not None]
        rest = {(*a.shape[:axis], *a.shape[axis + 1 :]) for a in numbers}
        return np.concatenate(numbers, axis=axis) if len(rest) == 1 else None
    if axis != 0 or any(value.rank != 1 for value in values):
        return None
    if any(is_float(value) for value in values):
        return _joined_floats(values)
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


def _joined_floats(values: list[Value]) -> Array | None:
    """Floats behind each other that have no fraction; an unknown one may have one."""
    arrays = [integral(value) for value in values]
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays):
        return None
    items = [Dim.of(item) for array in known for item in array]
    return listed(items, (len(items),), values[0].element)


@rule("ConcatFromSequence")
def concat_sequence(context: Context) -> Value | None:
    """The items joined or stacked."""
    items = context.value(0).items
    if items is None:
        return _joined_each(context, each_of(context, context.value(0)))
    if not items or any(item.dims is None for item in items):
        return None
    if len({item.rank for item in items}) > 1:
        return None
    shapes = [context.resolved(item.dims) for item in items if item.dims is not None]
    if context.flag("new_axis"):
        shared = _shared(context, shapes) or ()
        axis = context.axis(context.attribute("axis"), len(shared) + 1)
        return tensor([*shared[:axis], Dim.of(len(items)), *shared[axis:]])
    axis = context.axis(context.attribute("axis"), len(shapes[0]))
    joined = total(dims[axis] for dims in shapes)
    shared = _shared(context, shapes, axis) or ()
    return tensor([*shared[:axis], joined, *shared[axis + 1 :]])


def _joined_each(context: Context, item: Value | None) -> Value | None:
    """So many items joined or stacked, by what is known of each: there is one at least."""
    dims = None if item is None else one_of(context, item).dims
    if dims is None:
        return None
    is_stacked = context.flag("new_axis")
    axis = context.axis(context.attribute("axis"), len(dims) + is_stacked)
    return tensor([*dims[:axis], context.fresh(), *dims[axis + (not is_stacked) :]])


def _shared(
    context: Context, shapes: Sequence[Dims | None], axis: int | None = None
) -> Dims | None:
    """The sizes of what is joined along an axis or stacked: those of a part with elements.

    onnxruntime asks nothing of parts without elements: the first that has some gives the sizes,
    and the first of all if none has. So only those that surely have some must agree. What stands at
    `axis` means nothing. None if the rank isn't known: a part without elements has any.
    """
    parts = [shape_ for shape_ in shapes if shape_ is not None]
    full = [part for part in parts if context.has_elements(part)]
    if full:
        return _agreeing(context, full, axis)
    if len(parts) < len(shapes):
        return None
    deciding = [part for index, part in enumerate(shapes) if not index or not _is_empty(part)]
    columns = zip(*(part for part in deciding if part is not None), strict=True)
    return tuple(column[0] if len(set(column)) == 1 else context.fresh() for column in columns)


def _agreeing(context: Context, parts: list[Dims], axis: int | None) -> Dims:
    found = list(parts[0])
    for part in parts[1:]:
        for index, size_ in enumerate(part):
            if index != axis:
                found[index] = context.equal(found[index], size_)
    return tuple(found)


def _is_empty(dims: Dims | None) -> bool:
    return dims is not None and ZERO in dims
