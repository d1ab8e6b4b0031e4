"""Runs a program on nodes instead of arrays: what it would compute becomes a graph.

Loops over sizes are unrolled, functions are inlined. Numbers that don't depend on the arguments'
contents are computed while tracing, by the NumPy operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tawa.axon.gpu import attention, movement, orders, rules, slopes, windows
from tawa.axon.gpu.graph.errors import NotForGpu
from tawa.axon.gpu.graph.nodes import Node, Tape
from tawa.axon.gpu.rules import RULES
from tawa.axon.running.contract import ELEMENT_NAMES
from tawa.axon.running.evaluate import Evaluator, Frame, Value
from tawa.axon.running.tape import primal
from tawa.axon.sizes.patterns import Pattern
from tawa.axon.sizes.shapes import tensor_parts
from tawa.axon.typing.infer import FLOATS
from tawa.base.source import Span
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule
from tawa.functional.terms import Con, Variable

RULE_MODULES = (attention, movement, orders, rules, slopes, windows)
"""Importing them registers the rules."""


MOST_UNDECIDED = 12
"""Conditions inside one another of which both sides are computed."""


class Tracer(Evaluator):
    """An evaluator whose operators add nodes to a tape."""

    def __init__(self, module: CheckedModule, tape: Tape) -> None:
        self.tape = tape
        self.undecided = 0
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
        """The value of an expression; where a condition is computed, both sides are."""
        if isinstance(expression, s.If):
            condition = self.evaluate(expression.condition, names, frame)
            if not isinstance(primal(condition), Node):
                chosen = expression.yes if bool(condition) else expression.no
                return self.evaluate(chosen, names, frame)
            span = expression.condition.span
            if self.undecided >= MOST_UNDECIDED:
                raise NotForGpu(
                    f"{MOST_UNDECIDED} conditions on computed numbers, one inside the other",
                    span=span, hint="both sides are computed: let fewer decide, or known sizes",
                )  # fmt: skip
            self.undecided += 1
            try:
                yes, no = (self.evaluate(e, names, frame) for e in (expression.yes, expression.no))
            finally:
                self.undecided -= 1
            return self._either(condition, yes, no, span)
        return super().evaluate(expression, names, frame)

    def _either(self, condition: Value, yes: Value, no: Value, span: Span) -> Value:
        """One of two trees of tensors, number by number."""
        if isinstance(yes, tuple):
            pairs = zip(cast("tuple[Value, ...]", yes), no, strict=True)
            return tuple(self._either(condition, *pair, span) for pair in pairs)
        if callable(yes) or not hasattr(primal(yes), "shape"):
            raise NotForGpu(
                "this condition depends on computed numbers, and chooses no tensor", span=span,
                hint="let each side give tensors, or tuples of them",
            )  # fmt: skip
        self.tape.span = span
        return self.call("where", condition, yes, no)

    def _simple(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        if isinstance(expression, s.Literal) and not isinstance(expression.value, str):
            return self._literal(expression, frame)
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

    # Operators.

    def operator(self, name: str, span: Span) -> Callable[..., Value]:
        """An operator of the prelude; the nodes that it adds are its place's."""
        operator = super().operator(name, span)

        def build(*given: Value, **statics: Any) -> Value:
            self.tape.span = span
            return operator(*given, **statics)

        return build

    def primitive(self, name: str, given: tuple[Value, ...], statics: dict[str, Any]) -> Value:
        """An operator on nodes; on arrays, it is computed at once."""
        to_bf16 = name == "cast" and statics["to"] == "bf16"
        if not to_bf16 and not any(isinstance(value, Node) for value in given):
            return super().primitive(name, given, statics)
        if name == "stack":
            return self.stacked(list(given))
        nodes = [self.node(value) for value in given]
        if name in BUILT:
            return BUILT[name](self.tape, *nodes, **statics)
        if name not in RULES:
            raise NotForGpu(f"`{name}` has no GPU kernel", span=self.tape.span)
        found = RULES[name](self.tape, *nodes, **statics)
        # of others, where no kernel takes these operands
        return self._composed(name, tuple(nodes), statics) if found is None else found

    def number(self, value: float, like: Value) -> Value:
        """A number of the element type of another value."""
        of = primal(like)
        if isinstance(of, Node):
            return self.tape.constant(value, of.element)
        return super().number(value, like)

    def is_float(self, value: Value) -> bool:
        """Whether a value has derivatives."""
        of = primal(value)
        return of.element in FLOATS if isinstance(of, Node) else super().is_float(value)

    def decided(self, condition: Value) -> bool:
        """Whether a condition holds, which must not depend on arrays' contents."""
        if isinstance(condition, Node):
            raise NotForGpu(
                "the condition of this `while` depends on computed numbers",
                hint="use `iterate{n}`, which runs a known number of times",
            )
        return super().decided(condition)

    def _call(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        match expression:
            case s.Binary(operator, left, right) if operator.name in ("&&", "||"):
                found = self.evaluate(left, names, frame)
                if isinstance(primal(found), Node):
                    other = self.evaluate(right, names, frame)
                    self.tape.span = expression.span
                    return self.call("both" if operator.name == "&&" else "either", found, other)
            case _:
                pass
        return super()._call(expression, names, frame)


def _rows(tape: Tape, x: Node) -> tuple[Node, ...]:
    return tuple(tape.reshape(tape.part(x, 0, i, 1), x.shape[1:]) for i in range(x.shape[0]))


def _cast(tape: Tape, x: Node, to: str) -> Node:
    return x if x.element == to else tape.map("cast", x, element=to)


def _like(tape: Tape, x: Node, of: Node) -> Node:
    return _cast(tape, x, of.element)


def _pattern(tape: Tape, *inputs: Node, pattern: Pattern, sizes: dict[str, Any]) -> Node:
    return movement.patterned(tape, pattern, list(inputs), sizes)


def _contract(
    tape: Tape, *operands: Node, inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...]
) -> Node:
    names = [tuple((f"a{axis}",) for axis in axes) for axes in (*inputs, output)]
    return movement.patterned(tape, Pattern(tuple(names[:-1]), names[-1]), list(operands), {})


BUILT: dict[str, Callable[..., Any]] = {
    "rows": _rows, "cast": _cast, "like": _like, "pattern": _pattern, "contract": _contract,
}  # fmt: skip
"""Operators that no rule of the prelude's is for."""
