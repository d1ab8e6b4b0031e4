"""Operators with a graph inside that runs once, many times, or not at all.

What a graph that may not run demands of the sizes outside of it is no demand of the model: it is
inferred in a branch, which is forgotten. The state of a loop is what holds after any number of
iterations: its sizes and ranks are widened until the body keeps them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import GraphProto, TensorProto

from tawa.axon.onnx.context import Branch, Context, IllFormed, product, rule
from tawa.axon.onnx.forms import given_inputs
from tawa.axon.onnx.schemas import type_name
from tawa.axon.onnx.sequences import (
    each_after,
    each_of,
    either_sequence,
    merged,
    sequence,
)
from tawa.axon.onnx.values import UNKNOWN, Value, known, tensor
from tawa.axon.sizes.dims import ONE, Dim
from tawa.functional.terms import Term, Variable

MAX_ITERATIONS = 64
"""Loops with more iterations, or of unknown length, are inferred by their body's fixed point."""

MAX_UNROLLED = 4096
"""Iterations of a loop and of those inside of it, after which none is inferred one by one."""

GOING = known(np.array(True), TensorProto.BOOL)
"""What a loop's body is told of whether to go on."""


def _check_graph(context: Context, graph: GraphProto, inputs: int, least: int) -> None:
    """Raise IllFormed unless a graph inside the node takes and gives as many values as it needs."""
    given = len(given_inputs(graph))
    if given != inputs:
        raise IllFormed(f"its graph has {given} inputs, not {inputs}")
    if len(graph.output) < max(least, len(context.node.output)):
        raise IllFormed(f"its graph has only {len(graph.output)} outputs")


def _check_one(context: Context, index: int, what: str) -> None:
    """Raise IllFormed unless an input may be a single number."""
    dims = context.dims(index) if context.has(index) else None
    if dims is not None and product(dims).constant not in (None, 1):
        raise IllFormed(f"its {what} is not a single number")


def _check_going(result: list[Value]) -> None:
    """Raise IllFormed unless a loop's body may say first whether to go on."""
    if result and result[0].element not in (0, TensorProto.BOOL):
        raise IllFormed(f"its graph says by {type_name(result[0].element)} whether to go on")


@rule("If")
def if_(context: Context) -> list[Value]:
    """One of two graphs; what both agree on if it isn't known which."""
    graphs = [context.attribute(name) for name in ("else_branch", "then_branch")]
    for graph in graphs:
        _check_graph(context, graph, 0, 1)
    counts = [len(graph.output) for graph in graphs]
    if counts[0] != counts[1]:
        raise IllFormed(f"its graphs have {counts[1]} and {counts[0]} outputs")
    _check_one(context, 0, "condition")
    chosen = context.number(0)
    if chosen is not None:
        return context.subgraph(graphs[bool(chosen)], [])
    other, one = (context.branch(graph, []) for graph in graphs)
    if one.values is None and other.values is None and one.error is not None:
        raise one.error
    if one.values is None or other.values is None:  # the one that can run does
        return context.subgraph(graphs[one.values is not None], [])
    return [
        _either(context, (a, one), (b, other))
        for a, b in zip(one.values, other.values, strict=True)
    ]


def _either(context: Context, one: tuple[Value, Branch], other: tuple[Value, Branch]) -> Value:
    """What is known of a value that comes from one branch or the other.

    A size that is `N` in one and 1 in the other, where that demands that N is 1, is N in both.
    """
    (left, first), (right, second) = one, other
    if 0 not in (left.element, right.element) and left.element != right.element:
        names = f"{type_name(left.element)} and of {type_name(right.element)}"
        raise IllFormed(f"an output of its graphs consists of {names}")
    if left.dims is not None and right.dims is not None and len(left.dims) == len(right.dims):
        pairs = list(zip(left.dims, right.dims, strict=True))
        left = left._replace(dims=tuple(_where(b, a, first) for a, b in pairs))
        right = right._replace(dims=tuple(_where(a, b, second) for a, b in pairs))
    return merged(context, left, right)


def _where(general: Dim, special: Dim, branch: Branch) -> Dim:
    """The size of another branch, if this branch's own is the same in it."""
    learned = branch.learned

    def inside(variable: Variable) -> Term | None:
        return learned.get(variable)

    return general if general.substitute(inside) == special else special


@rule("Loop")
def loop(context: Context) -> list[Value]:
    """A graph over and over: the last states, and stacks of results."""
    count = len(context.inputs) - 2
    _check_graph(context, context.attribute("body"), count + 2, count + 1)
    _check_one(context, 0, "number of iterations")
    _check_one(context, 1, "condition")
    state = [context.value(index + 2) for index in range(count)]
    iterations = context.number(0) if context.has(0) else None
    going = context.number(1, 1)
    if going is None and iterations is not None:
        found = _perhaps_unrolled(context, state, iterations)
    elif going is not None and (iterations is not None or not context.has(0)):
        found = _unrolled(context, state, iterations, bool(going), context.subgraph)
    else:
        found = None
    if found is not None:
        return found
    stable, result = _fixed_point(context, state, [Value((), None, TensorProto.INT64), GOING], [])
    _check_going(result)
    sizes = context.sizes(0) if context.has(0) else None
    always = result[0].numbers if result else None
    whole = going is not None and always is not None and bool(always.ravel()[0])
    number = sizes[0] if whole and sizes is not None else None
    return [*stable, *(_stacked(context, value, number) for value in result[count + 1 :])]


def _stacked(context: Context, value: Value, iterations: Dim | None, place: int = 0) -> Value:
    """The results of all iterations in one tensor; nothing is known of it if there may be none."""
    if value.dims is None or iterations is None or (context.least(iterations) or 0) < 1:
        return Value(None, None, value.element)
    axis = context.axis(place, len(value.dims) + 1)
    return Value((*value.dims[:axis], iterations, *value.dims[axis:]), None, value.element)


def _fixed_point(
    context: Context, state: list[Value], before: list[Value], after: list[Value]
) -> tuple[list[Value], list[Value]]:
    """The state after any number of iterations, and all that the body gives for such a state.

    `before` and `after` are what else the body is given. A size that an iteration may change is
    unknown: each round forgets one at least, so that they come to an end. A body that can't run
    doesn't.
    """
    body = context.attribute("body")
    skipped = 1 if before else 0  # a loop's body says first whether to go on
    stable = [_without_contents(value) for value in state]
    mark = context.solver.fresh().id
    while True:
        iteration = context.branch(body, [*before, *stable, *after])
        if iteration.values is None:
            return state, [UNKNOWN] * len(body.output)
        results = iteration.values[skipped : skipped + len(stable)]
        widened = [
            _widened_sequence(context, a, b, mark) if a.is_sequence
            else _widened(context, a, b, iteration)
            for a, b in zip(stable, results, strict=True)
        ]  # fmt: skip
        if widened == stable:
            last = [_forgotten(context, value, stable) for value in stable]
            return last, [_forgotten(context, value, stable) for value in iteration.values]
        stable = widened


def _without_contents(value: Value) -> Value:
    items = None if value.items is None else tuple(map(_without_contents, value.items))
    item = None if value.item is None else _without_contents(value.item)
    return value.without_contents()._replace(items=items, item=item)


def _widened_sequence(context: Context, before: Value, after: Value, mark: int) -> Value:
    """What holds of a sequence before and after an iteration.

    Of its items, sizes that an iteration makes are different from item to item.
    """
    after = _without_contents(after)
    if before == after or not after.is_sequence:
        return before if after.is_sequence else sequence(None)
    if after.items == ():
        return either_sequence(context, before, after)
    item = each_of(context, after)
    lasting = None if item is None else each_after(context, item, mark)
    return either_sequence(context, before, sequence(None, lasting))


def _widened(context: Context, before: Value, after: Value, iteration: Branch) -> Value:
    """What holds of a state before and after an iteration; contents are forgotten."""
    if before.dims is None:
        return before
    if after.dims is None or len(after.dims) != len(before.dims):
        return before._replace(dims=None)
    declared = context.solver.declared
    dims = [
        mine if _where(mine, theirs, iteration) == mine or _is_free(mine, declared)
        else Dim.of(_any(context))
        for mine, theirs in zip(before.dims, after.dims, strict=True)
    ]  # fmt: skip
    return before._replace(dims=tuple(dims))


ANY = "any"
"""What the unknowns are called that stand for a size that changes from iteration to iteration."""


def _any(context: Context) -> Variable:
    return context.solver.fresh("count", ANY)


def _is_free(dim: Dim, declared: set[Variable]) -> bool:
    """Whether a size is one that an iteration may change already."""
    variable = dim.sole_variable
    return variable is not None and variable.hint == ANY and variable not in declared


def _forgotten(context: Context, value: Value, states: list[Value]) -> Value:
    """A value without the sizes that change from iteration to iteration."""
    changing = {
        variable
        for state in states
        for dim in state.dims or ()
        for variable in dim.variables()
        if variable.hint == ANY
    }

    def known_size(dim: Dim) -> Dim:
        return dim if changing.isdisjoint(dim.variables()) else context.fresh()

    return value.mapped(known_size) if changing else value


def _perhaps_unrolled(
    context: Context, state: list[Value], iterations: float
) -> list[Value] | None:
    """A loop that either doesn't start or has a known length; None if that isn't known after all.

    What its iterations demand is no demand of the model.
    """

    def run(graph: GraphProto, given: list[Value]) -> list[Value]:
        return context.branch(graph, given).values or [UNKNOWN] * len(graph.output)

    found = _unrolled(context, state, iterations, True, run)
    if found is None:
        return None
    stacks = [UNKNOWN] * (len(found) - len(state))
    return [*(merged(context, *pair) for pair in zip(state, found, strict=False)), *stacks]


def _unrolled(
    context: Context, state: list[Value], iterations: float | None, going: bool,
    run: Callable[[GraphProto, list[Value]], list[Value]],
) -> list[Value] | None:  # fmt: skip
    """A loop of known length, iteration by iteration; None if its length isn't known after all."""
    body = context.attribute("body")
    count = len(state)
    stacks: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - count)]
    iteration = 0
    if iterations is not None and iterations > MAX_ITERATIONS:
        return None
    while going and (iterations is None or iteration < iterations):
        if iteration >= MAX_ITERATIONS or next(context.unrolled) >= MAX_UNROLLED:
            return None
        number = known(np.array(iteration), TensorProto.INT64)
        result = run(body, [number, GOING, *state])
        _check_going(result)
        numbers = result[0].numbers
        if numbers is None:
            return None
        going = bool(numbers.ravel()[0])
        state = result[1 : count + 1]
        for stack, value in zip(stacks, result[count + 1 :], strict=True):
            stack.append(value)
        iteration += 1
    return [*state, *(_collected(context, stack) for stack in stacks)]


def _collected(context: Context, values: list[Value]) -> Value:
    """The results of so many iterations in one tensor.

    Their shapes should be the same. That isn't demanded: onnxruntime joins what has no elements.
    """
    shapes = [context.resolved(value.dims) for value in values if value.dims is not None]
    if len(shapes) < len(values) or len({len(shape) for shape in shapes}) != 1:
        return UNKNOWN
    columns = zip(*shapes, strict=True)
    sizes = (column[0] if len(set(column)) == 1 else context.fresh() for column in columns)
    return Value((Dim.of(len(values)), *sizes), None, values[0].element)


@rule("Scan")
def scan(context: Context) -> list[Value] | None:
    """A graph for each slice of the inputs."""
    scanned, body = context.attribute("num_scan_inputs"), context.attribute("body")
    count = len(context.inputs) - scanned - (context.opset < 9)
    if scanned < 1 or count < 0:
        raise IllFormed(f"{scanned} of {len(context.inputs)} inputs are scanned")
    if count > len(context.node.output):
        raise IllFormed(f"{count} states and {len(context.node.output)} outputs")
    if context.opset < 9:
        return _scan_of_batches(context)
    _check_graph(context, body, len(context.inputs), count)
    axes = context.listed("scan_input_axes", scanned, 0, -64)
    state = [context.value(index) for index in range(count)]
    iterations: Dim | None = None
    slices: list[Value] = []
    for number, axis in enumerate(axes):
        dims = context.dims(count + number)
        if dims is None:
            slices.append(UNKNOWN)
            continue
        axis = context.axis(axis, len(dims))
        iterations = dims[axis] if iterations is None else context.equal(iterations, dims[axis])
        element = context.value(count + number).element
        slices.append(Value((*dims[:axis], *dims[axis + 1 :]), None, element))
    state = [value.without_contents() for value in state]
    if iterations is not None and len(body.output) > count:
        context.at_least(iterations, 1)  # without an iteration, nobody knows the results' sizes
        iterations = context.solver.dim(iterations)
    if iterations is None or (context.least(iterations) or 0) < 1:
        result = context.branch(body, [*state, *slices]).values or [UNKNOWN] * len(body.output)
    else:
        result = context.subgraph(body, [*state, *slices])
        for before, after in zip(state, result, strict=False):
            context.same(before.dims, after.dims)  # a state keeps its shape
    places = context.listed("scan_output_axes", len(result) - count, 0, -64)
    stacks = [
        _stacked(context, value, iterations, place)
        for value, place in zip(result[count:], places, strict=True)
    ]
    return [*state, *stacks]


def _scan_of_batches(context: Context) -> list[Value] | None:
    """Opset 8: a batch axis before the scanned one, and a first input of lengths."""
    scanned = context.attribute("num_scan_inputs")
    values = [context.dims(index) for index in range(1, len(context.inputs))]
    count = len(values) - scanned
    if any(dims is None for dims in values):
        return None
    states = [tensor(dims[1:]) for dims in values[:count] if dims is not None]
    slices = [tensor(dims[2:]) for dims in values[count:] if dims is not None]
    last = values[-1] or (ONE, ONE)
    iteration = context.branch(context.attribute("body"), [*states, *slices])
    result = iteration.values or []
    finals = [tensor([last[0], *(value.dims or ())]) for value in states]
    stacks = [
        UNKNOWN if value.dims is None else tensor([last[0], last[1], *value.dims])
        for value in result[count:]
    ]
    return [*finals, *stacks]
