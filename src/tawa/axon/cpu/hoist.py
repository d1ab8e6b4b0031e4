"""What a loop computes of its rows alone is computed for all rows at once.

A loop over a tensor takes its rows one by one. A product or a pointwise function of a row, with
operands that were there before the loop, is the row of one operator on the whole tensor: so a
recurrence multiplies its inputs by their weights in one product, and such a `map` is no loop.

Nodes are made row by row. When the graph is finished, those that every row has give way to one
operator; what only some rows ask for (a first step from a constant state) stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onnx import NodeProto

from tawa.axon.cpu.graph import Graph, Symbol
from tawa.axon.cpu.rules import BINARY, RULES, UNARY

POINTWISE = frozenset(
    (*BINARY, *(f".{symbol}" for symbol in "+-*/"), *UNARY, "rsqrt", "silu", "gelu")
)
PRODUCTS = frozenset(("@", "matmul"))


@dataclass(frozen=True, eq=False)
class Made:
    """A value, and the nodes that compute it."""

    value: Symbol
    nodes: list[NodeProto]


@dataclass(eq=False)
class Common:
    """An operator that rows were given to: what became of each, and, in the end, of all at once."""

    name: str
    given: list[Symbol | Common]
    count: int
    made: dict[int, Made] = field(default_factory=dict[int, Made])
    whole: Symbol | None = None


@dataclass(frozen=True, eq=False)
class Row:
    """One of `count` rows, which a loop began to take apart when `since` values had been made."""

    of: Symbol | Common
    index: int
    count: int
    since: int


@dataclass
class Hoist:
    """The rows that are known, what was computed of each, and where they are joined again."""

    graph: Graph
    rows: dict[Symbol, Row] = field(default_factory=dict[Symbol, Row])
    commons: dict[Any, Common] = field(default_factory=dict[Any, Common])
    joined: list[Any] = field(default_factory=list[Any])
    """Tensors that were taken apart, each with the value that is all its rows again."""

    def taken_apart(self, whole: Symbol, rows: list[Symbol], since: int) -> None:
        """Remember the rows of a tensor."""
        count = len(rows)
        self.rows.update((row, Row(whole, i, count, since)) for i, row in enumerate(rows))

    def apply(self, name: str, operands: list[Symbol]) -> Symbol | None:
        """An operator on a row, remembered as such; None if it isn't one."""
        found = [self.rows.get(value) for value in operands]
        mine = [row for row in found if row is not None]
        if not mine or not self._fits(name, operands, found):
            return None
        first, since = mine[0], min(row.since for row in mine)
        if any((row.index, row.count) != (first.index, first.count) for row in mine):
            return None
        before = (v for v, row in zip(operands, found, strict=True) if row is None)
        if not all(self.graph.was_there(value, since) for value in before):
            return None
        given = [v if row is None else row.of for v, row in zip(operands, found, strict=True)]
        common = self.commons.setdefault((name, *given), Common(name, given, first.count))
        if first.index not in common.made:
            made = self._made(name, operands)
            common.made[first.index] = made
            self.rows[made.value] = Row(common, first.index, first.count, since)
        return common.made[first.index].value

    def stacked(self, operands: list[Symbol]) -> Symbol:
        """Values one after the other; those that are all the rows of a tensor are that again."""
        made = self._made("stack", operands)
        found = [self.rows.get(value) for value in operands]
        first = found[0]
        if first is not None and first.count == len(found) and all(
            row is not None and row.of is first.of and row.index == i
            for i, row in enumerate(found)
        ):  # fmt: skip
            self.joined.append((first.of, made))
        return made.value

    def _made(self, name: str, operands: list[Symbol]) -> Made:
        start = len(self.graph.nodes)
        return Made(RULES[name](self.graph, *operands), self.graph.nodes[start:])

    @staticmethod
    def _fits(name: str, operands: list[Symbol], rows: list[Row | None]) -> bool:
        """Whether axes meet as they should once the rows have one in front."""
        ranks = {value.ndim for value, row in zip(operands, rows, strict=True) if row is not None}
        others = [v.ndim for v, row in zip(operands, rows, strict=True) if row is None]
        if name == "linear":
            return rows[2] is not None and others == [2, 1]
        if name in PRODUCTS:
            return rows[1] is None and others == [2]
        return name in POINTWISE and len(ranks) == 1 and max(others, default=0) <= min(ranks)

    def finish(self) -> None:
        """Put one operator where every row has its own."""
        graph, place = self.graph, {id(node): i for i, node in enumerate(self.graph.nodes)}
        old, instead = graph.nodes, dict[int, list[NodeProto]]()

        def replace(made: list[Made]) -> None:
            """Let the nodes that were made since stand where the first of others did."""
            places = [place[id(node)] for value in made for node in value.nodes]
            instead.update((i, []) for i in places)
            instead[min(places)], graph.nodes = graph.nodes, []

        graph.nodes = []
        for common in self.commons.values():
            if len(common.made) == common.count > 1:
                self._compute(common)
                replace(list(common.made.values()))
        for of, made in self.joined:
            whole = of.whole if isinstance(of, Common) else of
            if whole is not None:
                self._named([graph.add("Identity", whole, to=whole.shape)], [made.value])
                replace([made])
        graph.nodes = [new for i, node in enumerate(old) for new in instead.get(i, [node])]

    def _compute(self, common: Common) -> None:
        """An operator on all rows, and what it makes of each under the name that it had."""
        given = [g.whole if isinstance(g, Common) else g for g in common.given]
        common.whole = RULES[common.name](self.graph, *given)
        rows = RULES["rows"](self.graph, common.whole)
        self._named(rows, [common.made[i].value for i in range(common.count)])

    def _named(self, values: list[Symbol], others: list[Symbol]) -> None:
        """Let new values have the names of others."""
        names = {value.name: other.name for value, other in zip(values, others, strict=True)}
        for node in self.graph.nodes:
            outputs = [names.get(name, name) for name in node.output]
            del node.output[:]
            node.output.extend(outputs)
