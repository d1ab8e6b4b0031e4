"""Operators on sequences and optionals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tawa.axon.onnx.context import Context, IllFormed, rule
from tawa.axon.onnx.values import UNKNOWN, Array, Value, known, object_array, tensor
from tawa.axon.sizes.dims import ONE, Dim

MAX_ITEMS = 1024
"""Longer sequences are of unknown length."""

EACH = "each"
"""What the unknowns are called that stand for a size of which each item has its own."""


def sequence(items: tuple[Value, ...] | None, item: Value | None = None) -> Value:
    """A sequence of known items, or of unknown length."""
    return Value((), items=items, item=item, is_sequence=True)


def has_own(context: Context, dim: Dim) -> bool:
    """Whether a size of a sequence's items differs from item to item."""
    declared = context.solver.declared
    return any(v.hint == EACH and v not in declared for v in dim.free)


def one_of(context: Context, item: Value) -> Value:
    """An item, by what is known of each: sizes that differ from item to item are its own."""
    return item.mapped(lambda dim: context.fresh() if has_own(context, dim) else dim)


def each_of(context: Context, value: Value) -> Value | None:
    """What is known of each item of a sequence: None if nothing is, or if it is empty."""
    return value.item if value.items is None else _general(context, value.items)


def _general(context: Context, values: Sequence[Value]) -> Value | None:
    """What holds of each of some tensors."""
    if not values or any(value.is_sequence for value in values):
        return None
    elements = {value.element for value in values}
    element = elements.pop() if len(elements) == 1 else 0
    shapes = [context.resolved(value.dims) for value in values if value.dims is not None]
    if len(shapes) < len(values) or len(set(map(len, shapes))) > 1:
        return Value(None, None, element)
    columns = (dict.fromkeys(column) for column in zip(*shapes, strict=True))
    return Value(tuple(_shared(context, column) for column in columns), None, element)


def _shared(context: Context, sizes: dict[Dim, None]) -> Dim:
    if len(sizes) == 1:
        return next(iter(sizes))
    own = next((dim for dim in sizes if has_own(context, dim)), None)
    return Dim.of(context.solver.fresh("count", EACH)) if own is None else own


def either_sequence(context: Context, one: Value, other: Value) -> Value:
    """A sequence of unknown length whose items are those of one or of another."""
    items = [each_of(context, value) for value in (one, other) if value.items != ()]
    found = [item for item in items if item is not None]
    return sequence(None, _general(context, found) if len(found) == len(items) else None)


def merged(context: Context, one: Value, other: Value) -> Value:
    """What is known of a value that is one or the other."""
    if one is other:
        return one
    if one.is_sequence or other.is_sequence:
        return _merged_sequences(context, one, other)
    element = one.element if one.element == other.element else 0
    contents = _merged_contents(context, one, other)
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return Value(None, None, element)
    solver = context.solver
    pairs = [(solver.dim(a), solver.dim(b)) for a, b in zip(one.dims, other.dims, strict=True)]
    return Value(tuple(a if a == b else context.fresh() for a, b in pairs), contents, element)


def _merged_sequences(context: Context, one: Value, other: Value) -> Value:
    if not (one.is_sequence and other.is_sequence):
        return UNKNOWN
    if one.items is None or other.items is None or len(one.items) != len(other.items):
        return either_sequence(context, one, other)
    pairs = zip(one.items, other.items, strict=True)
    return sequence(tuple(merged(context, a, b) for a, b in pairs))


def _merged_contents(context: Context, one: Value, other: Value) -> Array | None:
    left, right = one.contents, other.contents
    if left is None or right is None or left.shape != right.shape:
        return None
    if left.dtype != object and right.dtype != object:
        return left if np.array_equal(left, right) else None
    mine, theirs = one.sizes, other.sizes
    if mine is None or theirs is None:
        return None
    either = [
        a if a == b else Dim.of(context.solver.fresh("integer"))
        for a, b in zip(mine, theirs, strict=True)
    ]
    return object_array(either, left.shape)


@rule("SequenceConstruct")
def construct(context: Context) -> Value:
    """A sequence of the inputs."""
    return sequence(tuple(context.value(index) for index in range(len(context.inputs))))


@rule("SequenceEmpty")
def empty(context: Context) -> Value:
    """A sequence without items."""
    return sequence(())


@rule("SequenceInsert")
def insert(context: Context) -> Value:
    """One item more."""
    items, item = context.value(0).items, context.value(1)
    at = context.number(2, None)
    if items is None or (context.has(2) and at is None) or len(items) >= MAX_ITEMS:
        return either_sequence(context, context.value(0), sequence((item,)))
    place = len(items) if not context.has(2) else _place(int(at), len(items) + 1, len(items))
    return sequence((*items[:place], item, *items[place:]))


def _place(at: int, count: int, length: int) -> int:
    """A position of a sequence, counted from the front. Raises IllFormed."""
    found = at + length if at < 0 else at
    if not 0 <= found < count:
        raise IllFormed(f"a sequence of {length} items has no position {at}")
    return found


@rule("SequenceErase")
def erase(context: Context) -> Value:
    """One item less."""
    items = context.value(0).items
    at = context.number(1, -1)
    if items is None or at is None:
        return sequence(None, each_of(context, context.value(0)))
    place = _place(int(at), len(items), len(items))
    return sequence((*items[:place], *items[place + 1 :]))


@rule("SequenceAt")
def at(context: Context) -> Value:
    """One item."""
    value, index = context.value(0), context.number(1)
    if value.items is None:
        return UNKNOWN if value.item is None else one_of(context, value.item)
    if index is not None:
        return value.items[_place(int(index), len(value.items), len(value.items))]
    result = value.items[0] if value.items else UNKNOWN
    for item in value.items[1:]:
        result = merged(context, result, item)
    return result


@rule("SequenceLength")
def length(context: Context) -> Value:
    """A number."""
    items = context.value(0).items
    return tensor([]) if items is None else known(np.array(len(items)))


@rule("SplitToSequence")
def split_to_sequence(context: Context) -> Value | None:
    """Parts along an axis."""
    dims = context.dims(0)
    if dims is None:
        return sequence(None)
    axis = context.axis(context.attribute("axis", 0), len(dims))
    size, rank = dims[axis].constant, len(context.dims(1) or ())
    keep = context.has(1) or context.flag("keepdims", True)
    numbers = context.numbers(1) if context.has(1) else [1]
    is_even = numbers is not None and (not context.has(1) or rank == 0)
    step = int(numbers[0]) if numbers is not None and is_even else 0
    if is_even and step < 1:
        raise IllFormed("the parts are empty")
    if numbers is None or (is_even and (size is None or size // step >= MAX_ITEMS)):
        part = ONE if step == 1 else Dim.of(context.solver.fresh("count", EACH))
        middle = [part] if keep else []
        return sequence(None, tensor([*dims[:axis], *middle, *dims[axis + 1 :]]))
    if is_even:
        parts = [min(step, (size or 0) - start) for start in range(0, size or 0, step)]
    else:
        parts = [int(n) for n in numbers]
        if any(part < 0 for part in parts):
            raise IllFormed("a part has a negative size")
        context.equal(Dim.of(sum(parts)), dims[axis])
    items: list[Value] = []
    for part in parts:
        middle = [Dim.of(part)] if keep else []
        items.append(tensor([*dims[:axis], *middle, *dims[axis + 1 :]]))
    return sequence(tuple(items))


@rule("Optional", "OptionalGetElement")
def optional(context: Context) -> Value:
    """The value inside."""
    return context.value(0)


@rule("OptionalHasElement")
def has_element(context: Context) -> Value:
    """A truth value."""
    return tensor([])


@rule("SequenceMap")
def sequence_map(context: Context) -> list[Value]:
    """A graph for each item of the first sequence (and of others)."""
    items = context.value(0).items
    outputs = len(context.node.output)
    if items is None:
        return _mapped_each(context, outputs)
    results: list[list[Value]] = [[] for _ in range(outputs)]
    for index in range(len(items)):
        given: list[Value] = []
        for number in range(len(context.inputs)):
            value = context.value(number)
            inner = value.items if value.is_sequence else None
            given.append(value if inner is None else inner[index])
        for result, value in zip(
            results, context.subgraph(context.attribute("body"), given), strict=True
        ):
            result.append(value)
    return [sequence(tuple(result)) for result in results]


def _mapped_each(context: Context, outputs: int) -> list[Value]:
    """What a graph makes of each item of sequences of unknown length: it may never run."""
    mark = context.solver.fresh().id
    given: list[Value] = []
    for number in range(len(context.inputs)):
        value = context.value(number)
        item = each_of(context, value) if value.is_sequence else value
        given.append(UNKNOWN if item is None else one_of(context, item))
    found = context.branch(context.attribute("body"), given).values
    if found is None:
        return [sequence(None)] * outputs
    return [sequence(None, each_after(context, value, mark)) for value in found]


def each_after(context: Context, value: Value, mark: int) -> Value | None:
    """What is known of an item that is made again and again, from unknowns made after a mark."""
    if value.is_sequence:
        return None
    own = context.solver.fresh("count", EACH)

    def lasting(dim: Dim) -> Dim:
        return dim if all(v.id < mark for v in dim.free) else Dim.of(own)

    return value.without_contents().mapped(lasting)
