"""Which additions become the beginning of a product, and which stay."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType, f16, f32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Dot, Splat
from tawa.tile.passes.accumulate import FuseAccumulate


class Program:
    """Ops of a module, as they are made."""

    def __init__(self) -> None:
        self.module = ModuleOp([])

    def add(self, op: Any) -> Any:
        self.module.body.block.add_op(op)
        return op.results[0] if op.results else None

    def tile(self, *shape: int, element: Any = f32) -> SSAValue:
        return self.add(Made(result_types=[TensorType(element, shape)]))

    def number(self, value: float) -> SSAValue:
        scalar = self.add(ConstantOp(FloatAttr(value, f32)))
        return self.add(Splat(scalar, (64, 32)))

    def product(self, start: SSAValue) -> SSAValue:
        a, b = self.tile(64, 16, element=f16), self.tile(16, 32, element=f16)
        return self.add(Dot(a, b, start, "tf32"))

    def fused(self) -> list[Dot]:
        FuseAccumulate().apply(self.module)
        self.module.verify()
        return [op for op in self.module.walk() if isinstance(op, Dot)]

    def sums(self) -> int:
        return sum(isinstance(op, Map) for op in self.module.walk())


@pytest.mark.parametrize("first", [False, True])
def test_a_product_from_zero_begins_with_what_is_added(first: bool):
    p = Program()
    x = p.tile(64, 32)
    product = p.product(p.number(0.0))
    total = p.add(Map("addf", [product, x] if first else [x, product]))
    user = Made(operands=[total])
    p.add(user)
    (dot,) = p.fused()
    assert dot.acc is x
    assert dot.precision is not None
    assert dot.precision.data == "tf32"
    assert user.operands[0] is dot.result
    assert p.sums() == 0


@pytest.mark.parametrize("first", [False, True])
def test_of_two_products_one_begins_with_the_other(first: bool):
    p = Program()
    zero = p.number(0.0)
    one, other = p.product(zero), p.product(zero)
    p.add(Map("addf", [one, other] if first else [other, one]))
    dots = p.fused()
    assert len(dots) == 2
    assert dots[1].acc is dots[0].result
    assert p.sums() == 0


@pytest.mark.parametrize(
    ("start", "function", "users"), [(1.0, "addf", 0), (0.0, "subf", 0), (0.0, "addf", 1)]
)
def test_other_sums_stay(start: float, function: str, users: int):
    """Of a product that begins with something, a difference, one that is used elsewhere."""
    p = Program()
    x, product = p.tile(64, 32), p.product(p.number(start))
    p.add(Map(function, [x, product]))
    for _ in range(users):
        p.add(Made(operands=[product]))
    (dot,) = p.fused()
    assert dot.result is product
    assert p.sums() == 1
