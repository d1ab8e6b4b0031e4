"""Operators on functions and trees: loops, derivatives, steps of optimisers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tawa.axon.running import optimisers
from tawa.axon.running.batching import whole
from tawa.axon.running.derivatives import backward
from tawa.axon.running.layers import Apart, Batch, Slices
from tawa.axon.running.tape import Algebra, Tape, Traced, Value, primal
from tawa.axon.running.trees import filled, leaves_of
from tawa.axon.typing.errors import NoDerivative, RunTimeError

Control = Callable[..., Value]


def _map(algebra: Algebra, f: Any, xs: Value) -> Value:
    return algebra.call("stack", *(f(x) for x in algebra.call("rows", xs)))


def _map2(algebra: Algebra, f: Any, xs: Value, ys: Value) -> Value:
    pairs = zip(algebra.call("rows", xs), algebra.call("rows", ys), strict=True)
    return algebra.call("stack", *(f(x)(y) for x, y in pairs))


def _scan(algebra: Algebra, f: Any, state: Value, xs: Value) -> Value:
    results: list[Value] = []
    for x in algebra.call("rows", xs):
        state, y = f(state)(x)
        results.append(y)
    return state, algebra.call("stack", *results)


def _fold(algebra: Algebra, f: Any, state: Value, xs: Value) -> Value:
    for x in algebra.call("rows", xs):
        state = f(state)(x)
    return state


def _iterate(algebra: Algebra, f: Any, state: Value, n: int) -> Value:
    for _ in range(n):
        state = f(state)
    return state


def _while(algebra: Algebra, condition: Any, f: Any, state: Value) -> Value:
    while algebra.decided(condition(state)):
        state = f(state)
    return state


def value_and_grad(algebra: Algebra, f: Any, at: Value) -> tuple[Value, Value]:
    """The result of a function, and its derivatives by the numbers of its argument, a tree."""
    tape = Tape()
    watched: list[Traced] = []

    def watch(leaf: Value) -> Value:
        if not algebra.is_float(primal(leaf)):
            return leaf
        watched.append(Traced(tape, leaf))
        return watched[-1]

    result = f(mapped(watch, at))
    plain = result.value if isinstance(result, Traced) and result.tape is tape else result
    found = iter(tape.derivatives(algebra, backward, result, algebra.number(1.0, plain), watched))

    def derivative(leaf: Value) -> Value:
        known = next(found) if algebra.is_float(primal(leaf)) else None
        if known is not None:
            return known
        zero = algebra.number(0.0, leaf)
        return algebra.call("broadcast", zero, to=tuple(leaf.shape))

    return plain, mapped(derivative, at)


def _grad(algebra: Algebra, f: Any, at: Value) -> Value:
    return value_and_grad(algebra, f, at)[1]


def _vmap(algebra: Algebra, f: Any, xs: Value) -> Value:
    """All slices at once; one by one if a condition depends on their numbers."""
    counts = [leaf.shape[0] for leaf in leaves_of(xs)]
    if not counts:
        raise RunTimeError("`vmap` is given no tensor: nothing says how many slices there are")
    batch = Batch(counts[0])
    try:
        result = f(mapped(lambda leaf: Slices(batch, leaf), xs))
    except Apart as apart:
        if apart.batch is not batch:
            raise
        return _each(algebra, f, xs)
    return mapped(lambda leaf: whole(algebra, batch, leaf).value, result)


def _each(algebra: Algebra, f: Any, xs: Value) -> Value:
    """A function of the slices of a tree, one by one."""
    rows = zip(*(algebra.call("rows", leaf) for leaf in leaves_of(xs)), strict=True)
    results = [f(filled(xs, iter(slices))) for slices in rows]
    parts = zip(*(leaves_of(result) for result in results), strict=True)
    return filled(results[0], (algebra.call("stack", *part) for part in parts))


def mapped(function: Callable[[Value], Value], tree: Value) -> Value:
    """A tree of tuples with a function applied to its arrays."""
    if isinstance(tree, tuple):
        return tuple(mapped(function, item) for item in cast("tuple[Value, ...]", tree))
    if callable(tree) or not hasattr(tree, "shape"):
        raise NoDerivative(
            "a derivative is taken by arrays and tuples of arrays",
            hint="take what else the function needs from around it: `grad (fn w -> loss f w) w`",
        )
    return function(tree)


CONTROL: dict[str, Control] = {
    "map": _map, "map2": _map2, "scan": _scan, "fold": _fold, "iterate": _iterate,
    "while": _while, "vmap": _vmap, "grad": _grad, "value_and_grad": value_and_grad,
    "sgd": optimisers.sgd, "adamw_start": optimisers.adamw_start, "adamw": optimisers.adamw,
    "clip_norm": optimisers.clip_norm,
}  # fmt: skip
"""The meaning of each operator on functions or trees, by its name in the prelude."""
