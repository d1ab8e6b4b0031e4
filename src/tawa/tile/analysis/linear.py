"""Integer tiles as sums of scalars: what a comparison says of all elements at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue

from tawa.base.types import shape_of
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Arange, Splat, spreads

DEPTH = 32
"""Ops that a sum is followed through."""


@dataclass(frozen=True)
class Linear:
    """`terms[s] * s` of scalars s, added up, and for each element a number from `least` to `most`.

    Sums of indices are taken not to wrap around.
    """

    least: int
    most: int
    terms: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """The sum of this and a multiple of another."""
        terms = dict(self.terms)
        for value, count in other.terms.items():
            terms[value] = terms.get(value, 0) + factor * count
        ends = factor * other.least, factor * other.most
        left = {value: count for value, count in terms.items() if count}
        return Linear(self.least + min(ends), self.most + max(ends), left)

    def times(self, factor: int) -> Linear:
        """A multiple."""
        return Linear(0, 0).plus(self, factor)


def linear(value: SSAValue, depth: int = DEPTH) -> Linear | None:
    """What is known of an integer scalar or tile; None for a tile that is no such sum."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        number = op.value.value.data
        return Linear(number, number)
    if isinstance(op, Arange):
        start = op.start.value.data
        return Linear(start, start + shape_of(value.type)[0] - 1)
    if (isinstance(op, Splat) or spreads(op)) and depth:
        return linear(op.operands[0], depth - 1)
    found = _sum(op, depth) if isinstance(op, Map) and depth else None
    if found is None and not shape_of(value.type):
        return Linear(0, 0, {value: 1})
    return found


def _sum(op: Map, depth: int) -> Linear | None:
    name = op.function.data
    if name == "extsi":
        return linear(op.arguments[0], depth - 1)
    if name not in ("addi", "subi", "muli"):
        return None
    left, right = (linear(v, depth - 1) for v in op.arguments)
    if left is None or right is None:
        return None
    if name != "muli":
        return left.plus(right, 1 if name == "addi" else -1)
    for one, other in ((left, right), (right, left)):
        if not one.terms and one.least == one.most:
            return other.times(one.least)
    return None


COMPARISONS = {"cmpi_sge": (1, 0), "cmpi_sgt": (1, -1), "cmpi_sle": (-1, 0), "cmpi_slt": (-1, -1)}
"""Comparisons of a and b, as `sign * (a - b) + number >= 0`."""


def margin(condition: SSAValue) -> Linear | None:
    """A sum that is at least zero in every element for which a comparison holds."""
    op = condition.owner
    if not isinstance(op, Map) or op.function.data not in COMPARISONS:
        return None
    left, right = (linear(v) for v in op.arguments)
    if left is None or right is None:
        return None
    sign, number = COMPARISONS[op.function.data]
    return left.plus(right, -1).times(sign).plus(Linear(number, number))
