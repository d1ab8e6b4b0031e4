"""Operators on sequences and optionals, and those with a graph inside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tawa.axon.onnx.context import Context, rule
from tawa.axon.onnx.values import UNKNOWN, Value, known, tensor
from tawa.axon.sizes.dims import ONE, Dim, total

MAX_TURNS = 64
"""Loops with more turns, or of unknown length, are inferred by their body's fixed point."""


def sequence(items: tuple[Value, ...] | None, item: Value | None = None) -> Value:
    """A sequence of known items, or of unknown length."""
    return Value((), items=items, item=item, is_sequence=True)


def merged(context: Context, one: Value, other: Value) -> Value:
    """What is known of a value that is one or the other."""
    if one.is_sequence or other.is_sequence:
        return one if one is other else sequence(None)
    if one.dims is None or other.dims is None or len(one.dims) != len(other.dims):
        return UNKNOWN
    solver = context.solver
    pairs = [(solver.dim(a), solver.dim(b)) for a, b in zip(one.dims, other.dims, strict=True)]
    return tensor([a if a == b else context.fresh() for a, b in pairs])


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
    if items is None or (context.has(2) and at is None):
        return sequence(None)
    place = len(items) if not context.has(2) else int(at) + (len(items) if at < 0 else 0)
    return sequence((*items[:place], item, *items[place:]))


@rule("SequenceErase")
def erase(context: Context) -> Value:
    """One item less."""
    items = context.value(0).items
    at = context.number(1, -1)
    if items is None or at is None:
        return sequence(None)
    place = int(at) % len(items)
    return sequence((*items[:place], *items[place + 1 :]))


@rule("SequenceAt")
def at(context: Context) -> Value:
    """One item."""
    value, index = context.value(0), context.number(1)
    if value.items is None:
        return value.item or UNKNOWN
    if index is not None and -len(value.items) <= index < len(value.items):
        return value.items[int(index)]
    result = value.items[0] if value.items else UNKNOWN
    for item in value.items[1:]:
        result = merged(context, result, item)
    return result


@rule("SequenceLength")
def length(context: Context) -> Value:
    """A number."""
    items = context.value(0).items
    return tensor([]) if items is None else known(np.array(len(items)))


@rule("ConcatFromSequence")
def concat_sequence(context: Context) -> Value | None:
    """The items joined or stacked."""
    items = context.value(0).items
    if not items or any(item.dims is None for item in items):
        return None
    shapes = [item.dims for item in items if item.dims is not None]
    if context.attribute("new_axis", 0):
        shared = context.same(*shapes) or ()
        axis = context.axis(context.attribute("axis"), len(shared) + 1)
        return tensor([*shared[:axis], Dim.of(len(items)), *shared[axis:]])
    axis = context.axis(context.attribute("axis"), len(shapes[0]))
    joined = total(dims[axis] for dims in shapes)
    return tensor([*shapes[0][:axis], joined, *shapes[0][axis + 1 :]])


@rule("SplitToSequence")
def split_to_sequence(context: Context) -> Value | None:
    """Parts along an axis."""
    dims = context.dims(0)
    if dims is None:
        return sequence(None)
    axis = context.axis(context.attribute("axis", 0), len(dims))
    size, rank = dims[axis].constant, len(context.dims(1) or ())
    keep = context.attribute("keepdims", 1) or context.has(1)
    numbers = context.numbers(1) if context.has(1) else [1]
    if numbers is None or ((not context.has(1) or rank == 0) and size is None):
        return sequence(None)
    if not context.has(1) or rank == 0:
        step = int(numbers[0])
        parts = [min(step, (size or 0) - start) for start in range(0, size or 0, step)]
    else:
        parts = [int(n) for n in numbers]
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


@rule("If")
def if_(context: Context) -> list[Value]:
    """One of two graphs; both if it isn't known which."""
    names = ("else_branch", "then_branch")
    chosen = context.number(0)
    if chosen is not None:
        return context.subgraph(context.attribute(names[bool(chosen)]), [])
    other, one = (context.subgraph(context.attribute(name), []) for name in names)
    return [merged(context, a, b) for a, b in zip(one, other, strict=True)]


@rule("Loop")
def loop(context: Context) -> list[Value]:
    """A graph over and over: the last states, and stacks of results."""
    body = context.attribute("body")
    count = len(context.inputs) - 2
    state = [context.value(index + 2) for index in range(count)]
    turns = context.number(0) if context.has(0) else None
    going = context.number(1, 1)
    if (turns is not None or not context.has(0)) and going is not None:
        found = _unrolled(context, state, turns, bool(going))
        if found is not None:
            return found
    first = [tensor([]), tensor([])]
    stable = [_widened(context, value, value) for value in state]
    for _ in range(3):
        result = context.subgraph(body, [*first, *stable])[1:]
        after = [_widened(context, a, b) for a, b in zip(stable, result, strict=False)]
        if after == stable:
            break
        stable = after
    result = context.subgraph(body, [*first, *stable])
    sizes = context.sizes(0) if context.has(0) else None
    always = result[0].numbers
    fixed = sizes is not None and always is not None and bool(always.ravel()[0])
    number = sizes[0] if fixed and sizes is not None else context.fresh()
    stacks = [
        UNKNOWN if value.dims is None else tensor([number, *value.dims])
        for value in result[count + 1 :]
    ]
    return [*stable, *stacks]


def _widened(context: Context, one: Value, other: Value) -> Value:
    """A value of the shape that both have; contents are forgotten."""
    found = merged(context, one, other)
    return replace(found, contents=None)


def _unrolled(
    context: Context, state: list[Value], turns: float | None, going: bool
) -> list[Value] | None:
    body = context.attribute("body")
    count = len(state)
    stacks: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - count)]
    turn = 0
    while going and (turns is None or turn < turns):
        if turn >= MAX_TURNS:
            return None
        result = context.subgraph(body, [known(np.array(turn)), known(np.array(True)), *state])
        numbers = result[0].numbers
        if numbers is None:
            return None
        going = bool(numbers.ravel()[0])
        state = result[1 : count + 1]
        for stack, value in zip(stacks, result[count + 1 :], strict=True):
            stack.append(value)
        turn += 1
    results: list[Value] = []
    for stack in stacks:
        dims = context.same(*(value.dims for value in stack)) if stack else None
        results.append(UNKNOWN if dims is None else tensor([Dim.of(turn), *dims]))
    return [*state, *results]


@rule("Scan")
def scan(context: Context) -> list[Value] | None:
    """A graph for each slice of the inputs."""
    if context.opset < 9:
        return _scan_of_batches(context)
    body = context.attribute("body")
    scanned = context.attribute("num_scan_inputs")
    count = len(context.inputs) - scanned
    axes = context.attribute("scan_input_axes", [0] * scanned)
    state = [replace(context.value(index), contents=None) for index in range(count)]
    turns: Dim | None = None
    slices: list[Value] = []
    for number, axis in enumerate(axes):
        dims = context.dims(count + number)
        if dims is None:
            slices.append(UNKNOWN)
            continue
        axis = context.axis(axis, len(dims))
        turns = dims[axis] if turns is None else context.equal(turns, dims[axis])
        slices.append(tensor([*dims[:axis], *dims[axis + 1 :]]))
    result = context.subgraph(body, [*state, *slices])
    for before, after in zip(state, result, strict=False):
        context.same(before.dims, after.dims)
    outputs = len(result) - count
    places = context.attribute("scan_output_axes", [0] * outputs)
    stacks: list[Value] = []
    for value, place in zip(result[count:], places, strict=True):
        if value.dims is None or turns is None:
            stacks.append(UNKNOWN)
            continue
        axis = context.axis(place, len(value.dims) + 1)
        stacks.append(tensor([*value.dims[:axis], turns, *value.dims[axis:]]))
    return [*state, *stacks]


def _scan_of_batches(context: Context) -> list[Value] | None:
    """Opset 8: a batch axis before the scanned one, and a first input of lengths."""
    body = context.attribute("body")
    scanned = context.attribute("num_scan_inputs")
    values = [context.dims(index) for index in range(1, len(context.inputs))]
    count = len(values) - scanned
    if any(dims is None for dims in values):
        return None
    states = [tensor(dims[1:]) for dims in values[:count] if dims is not None]
    slices = [tensor(dims[2:]) for dims in values[count:] if dims is not None]
    last = values[-1] or (ONE, ONE)
    result = context.subgraph(body, [*states, *slices])
    finals = [tensor([last[0], *(value.dims or ())]) for value in states]
    stacks = [
        UNKNOWN if value.dims is None else tensor([last[0], last[1], *value.dims])
        for value in result[count:]
    ]
    return [*finals, *stacks]


@rule("SequenceMap")
def sequence_map(context: Context) -> list[Value]:
    """A graph for each item of the first sequence (and of others)."""
    items = context.value(0).items
    outputs = len(context.node.output)
    if items is None:
        return [sequence(None)] * outputs
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
