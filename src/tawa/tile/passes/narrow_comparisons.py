"""Comparisons of 64-bit indices in 32 bits, where a choice between values asks for them.

Kernels for long arrays make positions of 64 bits: `block * 64 + arange(0, 64)`, in 64 bits. What
they compare with each other often begins at the same block, which cancels; what is left over are
small numbers. A bound, as the length of an array, has the block's start taken off once, and is cut
off where no element reaches. A comparison of 64 bits takes two instructions and a sum of two
others, for every element that a thread holds.

Masks of loads and stores stay as they are: what is known of their runs is known of sums and bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import element_of, i32, i64, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.axis_info import AxisAnalysis
from tawa.tile.analysis.linear import linear
from tawa.tile.analysis.masks import is_choice
from tawa.tile.analysis.zero import constant_of
from tawa.tile.dialect.ops import Splat, spreads

COMPARISONS = ("cmpi_slt", "cmpi_sle", "cmpi_sgt", "cmpi_sge", "cmpi_eq", "cmpi_ne")
SMALL = 1 << 20
"""Elements are at most as large."""
FAR = 4 * SMALL
"""A bound beyond which no difference of elements, and no number beside them, reaches."""


@dataclass(frozen=True)
class NarrowComparisons:
    """`block + i < n` in 64 bits -> `i < n - block` in 32."""

    name: ClassVar[str] = "narrow-comparisons"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Look at the conditions of choices."""
        axes = AxisAnalysis()
        for choice in [op for op in all_of(module, Map) if is_choice(op)]:
            narrow = _Conditions(axes, choice).of(choice.arguments[0])
            if narrow is not None:
                choice.operands[0] = narrow


@dataclass(frozen=True)
class _Sum:
    """Numbers of 64 bits: the same scalars and number for all elements, and what differs."""

    number: int = 0
    scalars: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    """How often each is added."""
    elements: Callable[[SSAValue | None], SSAValue] | None = None
    """Make the rest, of 32 bits, and add a scalar of 32 bits to it."""

    def plus(self, other: _Sum, sign: int) -> _Sum | None:
        """The sum or the difference; None if both have elements."""
        if other.elements is not None and (self.elements is not None or sign < 0):
            return None
        scalars = dict(self.scalars)
        for scalar, count in other.scalars.items():
            scalars[scalar] = scalars.get(scalar, 0) + sign * count
        left = {scalar: count for scalar, count in scalars.items() if count}
        return _Sum(self.number + sign * other.number, left, self.elements or other.elements)


class _Conditions:
    """Makes conditions anew before a choice."""

    def __init__(self, axes: AxisAnalysis, choice: Map) -> None:
        self.axes, self.choice = axes, choice

    def of(self, condition: SSAValue) -> SSAValue | None:
        """A condition in which something was narrowed; None if nothing can be."""
        op = condition.owner
        if spreads(op) and not isinstance(op, Splat):
            inner = self.of(op.operands[0])
            return None if inner is None else self._spread(op, inner)
        if not isinstance(op, Map):
            return None
        if op.function.data in ("andi", "ori"):
            parts = [self.of(part) for part in op.arguments]
            if all(part is None for part in parts):
                return None
            whole = [new or old for new, old in zip(parts, op.arguments, strict=True)]
            return self._insert(Map(op.function.data, whole))
        return self._comparison(op) if op.function.data in COMPARISONS else None

    def _comparison(self, op: Map) -> SSAValue | None:
        """A comparison of sums, in 32 bits."""
        if not shape_of(op.result.type) or element_of(op.arguments[0].type) != i64:
            return None
        left, right = (self._sum(value) for value in op.arguments)
        if left is None or right is None or left.elements is right.elements is None:
            return None
        bound = _Sum(right.number, right.scalars).plus(_Sum(left.number, left.scalars), -1)
        assert bound is not None
        if abs(bound.number) > SMALL or (bound.scalars and self._has_runs(op)):
            return None
        one = self._whole(left, op.arguments[0], None)
        other = self._whole(right, op.arguments[1], self._cut(bound))
        return self._insert(Map(op.function.data, [one, other]))

    def _has_runs(self, op: Map) -> bool:
        """Whether neighbours are known to compare alike, so that one of them stands for all."""
        return max(self.axes.of(op.result).constant) > 1

    def _sum(self, value: SSAValue) -> _Sum | None:
        """A tile of 64 bits as a sum; None for others."""
        op, constant = value.owner, constant_of(value)
        if constant is not None:
            return _Sum(int(constant))
        if isinstance(op, Splat):
            return _Sum(0, {op.value: 1})
        if spreads(op):
            inner = self._sum(op.operands[0])
            return None if inner is None else self._spread_sum(op, inner)
        if not isinstance(op, Map):
            return None
        name, operands = op.function.data, op.arguments
        if name == "extsi" and element_of(operands[0].type) == i32:
            known = linear(operands[0])
            small = known is not None and known.least >= -SMALL and known.most <= SMALL
            if known is not None and small and not known.terms:
                return _Sum(elements=lambda added: self._added(operands[0], added))
        if name in ("addi", "subi"):
            first, second = map(self._sum, operands)
            if first is not None and second is not None:
                return first.plus(second, 1 if name == "addi" else -1)
        return None

    def _spread_sum(self, op: Operation, inner: _Sum) -> _Sum:
        if inner.elements is None:
            return inner
        make = inner.elements
        return _Sum(inner.number, inner.scalars, lambda added: self._spread(op, make(added)))

    def _whole(self, sum_: _Sum, like: SSAValue, added: SSAValue | None) -> SSAValue:
        """The elements of a sum, and a scalar: a tile of 32 bits."""
        if sum_.elements is not None:
            return sum_.elements(added)
        scalar = self._insert(integer_constant(0, i32)) if added is None else added
        return self._insert(Splat(scalar, shape_of(like.type)))

    def _cut(self, bound: _Sum) -> SSAValue | None:
        """A bound in 32 bits: as it is where elements reach, else beyond them; None for zero."""
        if not bound.scalars:
            number = bound.number
            return self._insert(integer_constant(number, i32)) if number else None
        total = self._insert(integer_constant(bound.number, i64))
        for scalar, count in bound.scalars.items():
            for _ in range(abs(count)):
                total = self._saturated("addi" if count > 0 else "subi", total, scalar)
        for name, end in (("minsi", FAR), ("maxsi", -FAR)):
            limit = self._insert(integer_constant(end, i64))
            total = self._insert(Map(name, [total, limit]))
        return self._insert(Map("trunci", [total], i32))

    def _saturated(self, name: str, one: SSAValue, other: SSAValue) -> SSAValue:
        """A sum or difference; where it would wrap around, a number that is far away.

        A bound that stands for none is the largest number, and blocks may begin below zero.
        """
        total = self._insert(Map(name, [one, other]))
        first = total if name == "addi" else one
        turned = [self._insert(Map("xori", pair)) for pair in ([first, other], [one, total])]
        both, zero = self._insert(Map("andi", turned)), self._insert(integer_constant(0, i64))
        wraps, below = (self._insert(Map("cmpi_slt", [v, zero])) for v in (both, one))
        ends = [self._insert(integer_constant(end, i64)) for end in (-(FAR << 32), FAR << 32)]
        end = self._insert(Map("select", [below, *ends]))
        return self._insert(Map("select", [wraps, end, total]))

    def _added(self, tile: SSAValue, added: SSAValue | None) -> SSAValue:
        if added is None:
            return tile
        return self._insert(Map("addi", [tile, self._insert(Splat(added, shape_of(tile.type)))]))

    def _spread(self, op: Operation, value: SSAValue) -> SSAValue:
        """Another tile, its elements where an op says."""
        type_ = TensorType(element_of(value.type), shape_of(op.results[0].type))
        return self._insert(
            type(op).create(operands=[value], result_types=[type_], properties=op.properties)
        )

    def _insert(self, op: Operation) -> SSAValue:
        assert self.choice.parent is not None
        copy_span(self.choice, [op])
        self.choice.parent.insert_op_before(op, self.choice)
        return op.results[0]
