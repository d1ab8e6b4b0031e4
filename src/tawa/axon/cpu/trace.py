"""Runs a program on symbols instead of arrays: what it would compute becomes an ONNX graph.

Loops over sizes are unrolled, functions are inlined; what doesn't depend on the arguments' contents
is computed at once.
"""

from __future__ import annotations

from typing import Any, cast

from tawa.axon.cpu import rules, windows
from tawa.axon.cpu.errors import NotForOnnx
from tawa.axon.cpu.graph import Graph, Symbol
from tawa.axon.cpu.hoist import Hoist
from tawa.axon.running.compositions import COMPOSITIONS
from tawa.axon.running.evaluate import Evaluator, Frame, Value
from tawa.axon.running.numbers import Number
from tawa.functional import syntax as s
from tawa.functional.language import CheckedModule

RULE_MODULES = (rules, windows)
"""Importing them registers the rules."""


class GraphTracer(Evaluator):
    """An evaluator whose operators add nodes to a graph."""

    def __init__(self, module: CheckedModule, graph: Graph, hoist: Hoist | None = None) -> None:
        self.graph = graph
        self.hoist = hoist or Hoist(graph)
        super().__init__(module)
        self.imports = {n: GraphTracer(m, graph, self.hoist) for n, m in module.imports.items()}
        self.imported = self._imported()

    def symbol(self, value: Value) -> Symbol:
        """A value as a symbol."""
        return value if isinstance(value, Symbol) else self.graph.constant(value)

    def primitive(self, name: str, given: tuple[Value, ...], statics: dict[str, Any]) -> Value:
        """An operator on symbols; on arrays, it is computed at once."""
        if not any(isinstance(value, Symbol) for value in given):
            return super().primitive(name, given, statics)
        rule = rules.RULES.get(name)
        if rule is not None:
            operands = [self.symbol(value) for value in given]
            if name == "stack":
                return self.hoist.stacked(operands)
            hoisted = None if statics else self.hoist.apply(name, operands)
            if hoisted is not None:
                return hoisted
            since = self.graph.size
            found = rule(self.graph, *operands, **statics)
            if name == "rows":
                self.hoist.taken_apart(operands[0], found, since)
            return tuple(cast("list[Symbol]", found)) if isinstance(found, list) else found
        if name not in COMPOSITIONS:
            raise NotForOnnx(f"`{name}` has no ONNX operator")
        made = COMPOSITIONS[name](*(Number(self, value) for value in given), **statics)
        return tuple(n.value for n in made) if isinstance(made, tuple) else made.value

    def evaluate(self, expression: s.Expression, names: dict[str, Value], frame: Frame) -> Value:
        """The value of an expression; a condition must not depend on arrays' contents."""
        if isinstance(expression, s.If):
            condition = self.evaluate(expression.condition, names, frame)
            if isinstance(condition, Symbol):
                raise NotForOnnx(
                    "this condition depends on computed numbers", span=expression.condition.span,
                    hint="use `where`, which computes both sides",
                )  # fmt: skip
        return super().evaluate(expression, names, frame)

    def decided(self, condition: Value) -> bool:
        """Whether a condition holds, which must not depend on arrays' contents."""
        if isinstance(condition, Symbol):
            raise NotForOnnx(
                "the condition of this `while` depends on computed numbers",
                hint="use `iterate{n}`, which runs a known number of times",
            )
        return super().decided(condition)
