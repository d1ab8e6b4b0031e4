"""Reverse-mode differentiation: values that remember how they were computed.

While a function is differentiated, its argument's arrays are `Traced`. An operator on a traced
value computes as always, and notes on the tape what it was given. Walking the tape backwards, each
operator's rule (`derivatives.py`) turns the derivative by its result into those by its operands.
The rules compute with operators of the language too: so derivatives can be differentiated again,
and whatever runs a program (NumPy, or the tracer that builds GPU kernels) runs its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from tawa.axon.running.layers import Batch, Slices, levels

Value = Any
"""An array, a GPU node, or a traced one of these, or all slices of one."""

Thunk = Callable[[], Value]
Statics = dict[str, Any]


class Algebra(Protocol):
    """What computes with values: an evaluator."""

    def call(self, name: str, *given: Value, **statics: Any) -> Value:
        """The result of an operator."""
        ...

    def number(self, value: float, like: Value) -> Value:
        """A number of the element type of another value."""
        ...

    def decided(self, condition: Value) -> bool:
        """Whether a condition holds."""
        ...

    def is_float(self, value: Value) -> bool:
        """Whether a value's derivative is not 0 everywhere."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One operator applied: what it was given, what came out, and where operands came from."""

    name: str
    given: tuple[Value, ...]
    statics: Statics
    result: Value
    sources: tuple[Traced | None, ...]


@dataclass(eq=False, slots=True)
class Traced:
    """A value on a tape: the result (or one of the results) of a step; of none if it is watched."""

    tape: Tape
    value: Value
    step: Step | None = None
    part: int | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The value's shape."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.value.shape)

    @property
    def dtype(self) -> Any:
        """The value's element type."""
        return self.value.dtype

    def __bool__(self) -> bool:
        return bool(self.value)


Rule = Callable[[Algebra, Step, "dict[int, Value]"], "list[Thunk | None]"]
"""From the derivatives by a step's results, those by its operands."""


@dataclass(eq=False)
class Tape:
    """The steps of one differentiation. Of nested ones, the innermost has the highest level."""

    steps: list[Step] = field(default_factory=list[Step])
    level: int = field(default_factory=lambda: next(levels))

    def derivatives(
        self, algebra: Algebra, rule: Rule, result: Value, by: Value, watched: list[Traced]
    ) -> list[Value | None]:
        """The derivatives of `sum(result * by)` by watched values; None where it doesn't depend.

        `rule` gives those by a step's operands.
        """
        found: dict[Traced, Value] = {}
        parts: dict[int, dict[int, Value]] = {}

        def add(to: Traced, more: Value) -> None:
            if to.step is None:
                before = found.get(to)
                found[to] = more if before is None else algebra.call("+", before, more)
                return
            known = parts.setdefault(id(to.step), {})
            part = to.part or 0
            known[part] = more if part not in known else algebra.call("+", known[part], more)

        if isinstance(result, Traced) and result.tape is self:
            add(result, by)
        for step in reversed(self.steps):
            known = parts.pop(id(step), None)
            if known is None:
                continue
            for source, thunk in zip(step.sources, rule(algebra, step, known), strict=False):
                if source is not None and thunk is not None:
                    add(source, thunk())
        return [found.get(value) for value in watched]


def innermost(values: tuple[Value, ...]) -> Tape | Batch | None:
    """The innermost tape that any of some values is on, or batch that it is slices of."""
    layers = [
        value.tape if isinstance(value, Traced) else value.batch
        for value in values
        if isinstance(value, Traced | Slices)
    ]
    return max(layers, key=lambda layer: layer.level) if layers else None


def record(
    algebra: Algebra, tape: Tape, name: str, given: tuple[Value, ...], statics: Statics
) -> Value:
    """Apply an operator to values of which some are on a tape."""
    mine = tuple(v if isinstance(v, Traced) and v.tape is tape else None for v in given)
    plain = tuple(v.value if m is not None else v for v, m in zip(given, mine, strict=True))
    result = algebra.call(name, *plain, **statics)
    step = Step(name, plain, statics, result, mine)
    tape.steps.append(step)
    if isinstance(result, tuple):
        items = cast("tuple[Value, ...]", result)
        return tuple(Traced(tape, item, step, part) for part, item in enumerate(items))
    return Traced(tape, result, step)


def primal(value: Value) -> Value:
    """A value without what any tape knows of it, and with all slices."""
    while isinstance(value, Traced | Slices):
        value = value.value
    return value


def decided(value: Value) -> Value:
    """The array that a decision depends on. Raises Apart where each slice has its own."""
    while isinstance(value, Traced):
        value = value.value
    return bool(value) if isinstance(value, Slices) else value
