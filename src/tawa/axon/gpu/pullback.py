"""What a compiled function computes: its value, or the derivatives by its arguments."""

from __future__ import annotations

from typing import Any, cast

from tawa.axon.gpu.trace import Tracer
from tawa.axon.running.control import mapped
from tawa.axon.running.derivatives import backward
from tawa.axon.running.tape import Tape, Traced, Value, primal


def applied(value: Any, arguments: tuple[Any, ...], tracer: Tracer) -> Any:
    """A function's value for arguments of nodes."""
    for argument in arguments:
        value = value(argument)
    return value


def pulled_back(value: Any, arguments: tuple[Any, ...], tracer: Tracer) -> tuple[Any, ...]:
    """The derivatives by each array of a floating-point type among a function's arguments.

    The last of `arguments` is a tuple: the derivative by each array of the result, in order.
    """
    *given, slopes = arguments
    tape = Tape()
    watched: list[Traced] = []

    def watch(leaf: Value) -> Value:
        if not tracer.is_float(primal(leaf)):
            return leaf
        watched.append(Traced(tape, leaf))
        return watched[-1]

    result = applied(value, tuple(mapped(watch, argument) for argument in given), tracer)
    totals: list[Any] = [None] * len(watched)
    for part, slope in zip(_leaves(result), slopes, strict=True):
        found = tape.derivatives(tracer, backward, part, slope, watched)
        totals = [_sum(tracer, a, b) for a, b in zip(totals, found, strict=True)]
    return tuple(
        _zeros(tracer, of) if total is None else total
        for of, total in zip(watched, totals, strict=True)
    )


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for item in cast("tuple[Any, ...]", value) for leaf in _leaves(item)]
    return [value]


def _sum(tracer: Tracer, one: Value | None, other: Value | None) -> Value | None:
    if one is None or other is None:
        return other if one is None else one
    return tracer.call("+", one, other)


def _zeros(tracer: Tracer, like: Traced) -> Value:
    return tracer.call("broadcast", tracer.number(0.0, like), to=tuple(like.shape))
