"""Runs a program on nodes instead of arrays: what it would compute becomes a graph.

Loops over sizes are unrolled, functions are inlined. Numbers that don't depend on the arguments'
contents are computed while tracing, by the NumPy operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tawa.axon.gpu import movement, rules, windows
from tawa.axon.gpu.errors import NotForGpu
from tawa.axon.gpu.nodes import Node, Tape
from tawa.axon.gpu.registry import RULES
from tawa.axon.running.contract import ELEMENT_NAMES
from tawa.axon.running.evaluate import Evaluator, Frame, Value, _arity, curried  # pyright: ignore[reportPrivateUsage]
from tawa.axon.running.registry import OPERATORS
from tawa.axon.sizes.patterns import parse_pattern
from tawa.axon.sizes.shapes import tensor_parts
from tawa.axon.typing import syntax as x
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.terms import Con, Variable

RULE_MODULES = (movement, rules, windows)
"""Importing them registers the rules."""


class Tracer(Evaluator):
    """An evaluator whose operators add nodes to a tape."""

    def __init__(self, module: CheckedModule, tape: Tape) -> None:
        self.tape = tape
        super().__init__(module)
        self.imports = {name: Tracer(m, tape) for name, m in module.imports.items()}
        self.imported = self._imported()

    def node(self, value: Value) -> Node:
        """A value as a node."""
        if isinstance(value, Node):
            return value
        array = np.asarray(value)
        return self.tape.constant(array, ELEMENT_NAMES[str(array.dtype)])

    def evaluate(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        """The value of an expression; a condition must not depend on arrays' contents."""
        if isinstance(expression, s.If):
            condition = self.evaluate(expression.condition, names, frame)
            if isinstance(condition, Node):
                raise NotForGpu(
                    "this condition depends on computed numbers", span=expression.condition.span,
                    hint="use `where`, which computes both sides",
                )  # fmt: skip
        return super().evaluate(expression, names, frame)

    def _simple(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        if isinstance(expression, s.Literal) and not isinstance(expression.value, str):
            return self._literal(expression, frame)
        if isinstance(expression, s.Vector):
            items = [self.evaluate(item, names, frame) for item in expression.items]
            return self.stacked(items)
        return super()._simple(expression, names, frame)

    def _literal(self, literal: s.Literal, frame: Frame) -> Value:
        """bf16 has no NumPy type: a literal of it is a node at once."""
        parts = tensor_parts(self.inference.solver.resolve(self.inference.types[literal]))
        element = None if parts is None else parts[0]
        found = frame.value(element) if isinstance(element, Variable) else element
        name = found.name if isinstance(found, Con) else found
        if name == "bf16":
            return self.tape.constant(np.float32(literal.value), "bf16")
        return super()._simple(literal, {}, frame)

    def stacked(self, items: list[Value]) -> Value:
        """Values one after the other along a new leading axis."""
        if not any(isinstance(item, Node) for item in items):
            return np.stack(items)
        nodes = [self.node(item) for item in items]
        return self.tape.join([self.tape.reshape(n, (1, *n.shape)) for n in nodes], 0)

    def _built_in(self, name: s.Name, frame: Frame) -> Value:
        plain = super()._built_in(name, frame)
        if name.name == "dim":
            return plain
        statics = {
            key: self._static(key, term, name, frame)
            for key, term in self.inference.statics.get(name, {}).items()
        }
        if name.name == "cast":
            return self._cast(str(statics["to"]), plain, name)
        if name in self.inference.patterns:
            return self._pattern(self.inference.patterns[name], statics, name)
        if name.name in CONTROL:
            function = CONTROL[name.name]
            arity = _arity(self.inference.instances[name].type)
            return curried(name, lambda *given, **more: function(self, *given, **more), statics,
                           arity)  # fmt: skip
        implicit = name.name == "take" and name not in self.inference.instances
        arity = 2 if implicit else _arity(self.inference.instances[name].type)
        return curried(name, self._operator(name), statics, arity)

    def _cast(self, to: str, plain: Callable[[Value], Value], name: s.Name) -> Callable[..., Value]:
        def cast(value: Value) -> Value:
            if not isinstance(value, Node) and to != "bf16":
                return plain(value)
            self.tape.span = name.span
            return self.tape.map("cast", self.node(value), element=to)

        return cast

    def _pattern(self, text: str, statics: dict[str, Any], name: s.Name) -> Callable[..., Value]:
        pattern = parse_pattern(text)

        def build(*given: Value) -> Value:
            self.tape.span = name.span
            nodes = [self.node(value) for value in given]
            return movement.patterned(self.tape, pattern, nodes, statics)

        return curried(name, build, {}, len(pattern.inputs))

    def _operator(self, name: s.Name) -> Callable[..., Value]:
        def build(*given: Value, **statics: Any) -> Value:
            if not any(isinstance(value, Node) for value in given):
                return OPERATORS[name.name](*given, **statics)
            if name.name not in RULES:
                raise NotForGpu(f"`{name.name}` has no GPU kernel", span=name.span)
            self.tape.span = name.span
            return RULES[name.name](self.tape, *map(self.node, given), **statics)

        return build

    def _call(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        match expression:
            case s.Binary(operator, left, _) if operator.name in ("&&", "||"):
                if isinstance(self.evaluate(left, names, frame), Node):
                    raise NotForGpu(
                        "this condition depends on computed numbers", span=left.span,
                        hint="use `both` or `either`",
                    )  # fmt: skip
            case _:
                pass
        return super()._call(expression, names, frame)


def _slices(tracer: Tracer, xs: Value) -> list[Value]:
    if not isinstance(xs, Node):
        return list(xs)
    tape = tracer.tape
    return [tape.reshape(tape.part(xs, 0, i, 1), xs.shape[1:]) for i in range(xs.shape[0])]


def _map(tracer: Tracer, f: Any, xs: Value) -> Value:
    return tracer.stacked([f(x) for x in _slices(tracer, xs)])


def _map2(tracer: Tracer, f: Any, xs: Value, ys: Value) -> Value:
    pairs = zip(_slices(tracer, xs), _slices(tracer, ys), strict=True)
    return tracer.stacked([f(x)(y) for x, y in pairs])


def _scan(tracer: Tracer, f: Any, state: Value, xs: Value) -> Value:
    results: list[Value] = []
    for item in _slices(tracer, xs):
        state, y = f(state)(item)
        results.append(y)
    return state, tracer.stacked(results)


def _fold(tracer: Tracer, f: Any, state: Value, xs: Value) -> Value:
    for item in _slices(tracer, xs):
        state = f(state)(item)
    return state


def _iterate(tracer: Tracer, f: Any, state: Value, n: int) -> Value:
    for _ in range(n):
        state = f(state)
    return state


def _while(tracer: Tracer, condition: Any, f: Any, state: Value) -> Value:
    while True:
        found = condition(state)
        if isinstance(found, Node):
            raise NotForGpu(
                "the condition of this `while` depends on computed numbers",
                hint="use `iterate{n}`, which runs a known number of times",
            )
        if not bool(found):
            return state
        state = f(state)


CONTROL: dict[str, Callable[..., Value]] = {
    "map": _map, "map2": _map2, "scan": _scan, "fold": _fold, "iterate": _iterate,
    "while": _while,
}  # fmt: skip
"""Operators on functions, unrolled."""

_ = x
