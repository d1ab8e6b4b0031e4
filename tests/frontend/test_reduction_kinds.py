"""Which combinations are one operation that reductions know, and which are followed as written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tawa.frontend.builtins.reductions import known_kind
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import REDUCTION_KINDS, Yield

Body = Callable[..., Sequence[Operation]]


def combining(body: Body, *types: Attribute) -> Block:
    block = Block(arg_types=types)
    block.add_ops(body(*block.args))
    return block


def one(function: str) -> Body:
    def made(a: SSAValue, b: SSAValue) -> Sequence[Operation]:
        return (op := Map(function, [a, b])), Yield([op.result])

    return made


@pytest.mark.parametrize("function", REDUCTION_KINDS)
def test_one_operation_of_both_operands(function: str) -> None:
    kind = f32 if function.endswith("f") else i32
    assert known_kind(combining(one(function), kind, kind)) == function
    turned = combining(lambda a, b: one(function)(b, a), kind, kind)
    assert known_kind(turned) == function


def twice(a: SSAValue, b: SSAValue) -> Sequence[Operation]:
    first = Map("addf", [a, b])
    return first, (second := Map("addf", [first.result, b])), Yield([second.result])


def of_one_operand(a: SSAValue, b: SSAValue) -> Sequence[Operation]:
    return (op := Map("mulf", [a, a])), Yield([op.result])


def of_a_number(a: SSAValue, b: SSAValue) -> Sequence[Operation]:
    number = arith.ConstantOp(FloatAttr(1.0, f32))
    return number, (op := Map("addf", [a, number.result])), Yield([op.result])


def a_number(a: SSAValue, b: SSAValue) -> Sequence[Operation]:
    return (number := arith.ConstantOp(IntegerAttr(1, i32))), Yield([number.result])


def the_first(a: SSAValue, b: SSAValue) -> Sequence[Operation]:
    return (Yield([a]),)


@pytest.mark.parametrize(
    "body", [twice, of_one_operand, of_a_number, a_number, the_first, one("subf"), one("divf")]
)
def test_what_is_followed_as_it_is_written(body: Body) -> None:
    kind = i32 if body is a_number else f32
    assert known_kind(combining(body, kind, kind)) is None


def test_combinations_of_two_tensors_are_followed() -> None:
    def sums(a: SSAValue, b: SSAValue, c: SSAValue, d: SSAValue) -> Sequence[Operation]:
        return (op := Map("addf", [a, c])), Yield([op.result, b])

    assert known_kind(combining(sums, f32, f32, f32, f32)) is None
