"""What a loop computes of its rows alone is computed for all rows at once.

A loop over a tensor takes its rows one by one. A product or a pointwise function of a row, with
operands that were there before the loop, is the row of one operator on the whole tensor: so a
recurrence multiplies its inputs by their weights in one product, and such a `map` is no loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tawa.axon.cpu.graph import Graph, Symbol
from tawa.axon.cpu.rules import BINARY, RULES, UNARY

POINTWISE = frozenset(
    (*BINARY, *(f".{symbol}" for symbol in "+-*/"), *UNARY, "rsqrt", "silu", "gelu")
)
PRODUCTS = frozenset(("@", "matmul"))

Split = Callable[[Symbol], "list[Symbol]"]


@dataclass(frozen=True, eq=False)
class Row:
    """A row of `whole`, which a loop began to take apart when `since` values had been made."""

    whole: Symbol
    index: int
    since: int


@dataclass
class Hoist:
    """The rows that are known, and what was computed of all at once."""

    graph: Graph
    rows: dict[Symbol, Row] = field(default_factory=dict[Symbol, Row])
    done: dict[Any, list[Symbol]] = field(default_factory=dict[Any, "list[Symbol]"])

    def taken_apart(self, whole: Symbol, rows: list[Symbol], since: int) -> list[Symbol]:
        """Remember the rows of a tensor."""
        self.rows.update((row, Row(whole, i, since)) for i, row in enumerate(rows))
        return rows

    def apply(self, name: str, operands: list[Symbol]) -> Symbol | None:
        """An operator on a row, from the same operator on all rows; None if it isn't one."""
        found = [self.rows.get(value) for value in operands]
        mine = [row for row in found if row is not None]
        if not mine or not self._fits(name, operands, found):
            return None
        index, since = mine[0].index, min(row.since for row in mine)
        if any(row.index != index or row.whole.shape[0] != mine[0].whole.shape[0] for row in mine):
            return None
        before = (v for v, row in zip(operands, found, strict=True) if row is None)
        if not all(self.graph.was_there(value, since) for value in before):
            return None
        given = [row.whole if row else v for v, row in zip(operands, found, strict=True)]
        key = (name, *given)
        if key not in self.done:
            whole = RULES[name](self.graph, *given)
            self.done[key] = self.taken_apart(whole, RULES["rows"](self.graph, whole), since)
        return self.done[key][index]

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
