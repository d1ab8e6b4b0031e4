"""Divisions by what many elements share: a reciprocal for all of them, and products.

A division of f32 takes a reciprocal and scales both operands where the divisor lies so far out that
its reciprocal would leave the range of normal numbers. The assembler computes a shared reciprocal
once, but asks and scales for every element: three instructions each. Here an element is multiplied
by the reciprocal of the scaled divisor, then by the scale, which is a power of two: that gives the
same number, unless it is subnormal. By a constant it is one product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import Float32Type, FloatAttr, ModuleOp, f32
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.zero import constant_of
from tawa.tile.dialect.ops import Splat, spreads

LARGE, SMALL = 2.0**126, 2.0**-126
"""Between them lie the numbers whose reciprocals are normal numbers, too."""
DOWN, UP = 0.25, 2.0**24
"""What larger and smaller divisors are scaled by: then all but zero and infinity lie between."""


@dataclass(frozen=True)
class SharedDivisors:
    """`x / spread(d)` -> `x * spread(1 / (d * s)) * spread(s)`."""

    name: ClassVar[str] = "shared-divisors"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite all quotients of f32 whose divisor repeats."""
        made: dict[SSAValue, tuple[SSAValue, SSAValue]] = {}
        for op in list(all_of(module, Map)):
            if op.function.data == "divf" and isinstance(element_of(op.result.type), Float32Type):
                _rewrite(op, made)


def _rewrite(op: Map, made: dict[SSAValue, tuple[SSAValue, SSAValue]]) -> None:
    dividend, divisor = op.arguments
    path, constant = list[Operation](), constant_of(divisor)
    if constant is not None:
        if SMALL <= abs(constant) <= LARGE:
            number = arith.ConstantOp(FloatAttr(1.0 / constant, f32))
            factor = _insert(op, Splat(_insert(op, number), shape_of(op.result.type)))
            _replace(op, Map("mulf", [dividend, factor]))
        return
    while isinstance(divisor.owner, Splat) or spreads(divisor.owner):
        path.append(divisor.owner)
        divisor = divisor.owner.operands[0]
    shared = prod(shape_of(divisor.type)) < prod(shape_of(op.result.type))
    if not shared or constant_of(dividend) is not None:
        return
    if divisor not in made:
        made[divisor] = _reciprocal(divisor)
    inverse, scale = (_spread(op, value, path) for value in made[divisor])
    product = _insert(op, Map("mulf", [dividend, inverse]))
    _replace(op, Map("mulf", [product, scale]))


def _reciprocal(divisor: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The reciprocal of a divisor that was scaled, and the scale; made where the divisor is."""
    made = _After(divisor)
    size = made.add(Map("absf", [divisor]))
    large = made.add(Map("cmpf_ogt", [size, made.number(LARGE)]))
    small = made.add(Map("cmpf_olt", [size, made.number(SMALL)]))
    above = made.add(Map("select", [small, made.number(UP), made.number(1.0)]))
    scale = made.add(Map("select", [large, made.number(DOWN), above]))
    return made.add(Map("recip", [made.add(Map("mulf", [divisor, scale]))])), scale


class _After:
    """Ops right after what makes a value, one after the other."""

    def __init__(self, value: SSAValue) -> None:
        self.value, self.last = value, value.owner

    def add(self, op: Operation) -> SSAValue:
        """The result of an op that is put there."""
        if isinstance(self.last, Block):
            first = self.last.ops.first
            assert first is not None
            self.last.insert_op_before(op, first)
        else:
            copy_span(self.last, [op])
            assert self.last.parent is not None
            self.last.parent.insert_op_after(op, self.last)
        self.last = op
        return op.results[0]

    def number(self, number: float) -> SSAValue:
        """A number in the shape of the value."""
        scalar = self.add(arith.ConstantOp(FloatAttr(number, f32)))
        shape = shape_of(self.value.type)
        return self.add(Splat(scalar, shape)) if shape else scalar


def _spread(op: Map, value: SSAValue, path: list[Operation]) -> SSAValue:
    """A value in place of the divisor, spread as it is."""
    for step in reversed(path):
        value = _insert(op, step.clone({step.operands[0]: value}))
    return value


def _replace(op: Map, new: Map) -> None:
    result = _insert(op, new)
    result.name_hint = op.result.name_hint
    op.result.replace_all_uses_with(result)
    op.detach()
    op.erase()


def _insert(op: Map, new: Operation) -> SSAValue:
    assert op.parent is not None
    copy_span(op, [new])
    op.parent.insert_op_before(new, op)
    return new.results[0]
