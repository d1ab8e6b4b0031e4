"""Between which powers of two a positive number lies, and whether it is ordinary for sure."""

from __future__ import annotations

import math
from typing import Any

import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    UnitAttr,
    f32,
)
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Region, SSAValue

from tawa.ir.elementwise import Map
from tawa.ir.kernels import POSITIVE
from tawa.tile.analysis.magnitude import NORMAL, PROMISED, is_ordinary, magnitude
from tawa.tile.dialect.ops import Splat


def number(value: float) -> SSAValue:
    return arith.ConstantOp(FloatAttr(value, f32)).result


def argument(promised: bool) -> SSAValue:
    """Of a kernel whose launch has looked at it, or not."""
    facts = [DictionaryAttr({}), DictionaryAttr({POSITIVE: UnitAttr()} if promised else {})]
    kernel = func.FuncOp(
        "k", FunctionType.from_lists([f32, f32], []), Region(Block(arg_types=[f32, f32])),
        arg_attrs=ArrayAttr(facts),
    )  # fmt: skip
    return kernel.body.block.args[1]


def tile(value: SSAValue) -> SSAValue:
    return Splat(value, (8,)).result


def of(function: str, *values: SSAValue) -> SSAValue:
    return Map(function, values).result


X, Y, UNKNOWN = argument(True), argument(False), Made(result_types=[f32]).results[0]
LOW, HIGH = PROMISED


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (number(8.0), (3, 3)), (number(0.25), (-2, -2)), (tile(number(8.0)), (3, 3)), (X, PROMISED),
        (tile(X), PROMISED), (Y, None), (UNKNOWN, None), (number(0.0), None), (number(-2.0), None),
        (number(math.inf), None), (number(math.nan), None),
        (of("mulf", X, number(4.0)), (LOW + 2, HIGH + 2)), (of("mulf", X, X), (2 * LOW, 2 * HIGH)),
        (of("divf", X, number(4.0)), (LOW - 2, HIGH - 2)), (of("divf", number(4.0), X), (2 - HIGH, 2 - LOW)),
        (of("divf_rn", X, number(4.0)), (LOW - 2, HIGH - 2)), (of("sqrt", X), (LOW / 2, HIGH / 2)),
        (of("sqrt_rn", number(64.0)), (3, 3)), (of("rsqrt", of("mulf", X, number(4.0))),
                                                (-(HIGH + 2) / 2, -(LOW + 2) / 2)),
        (of("absf", X), PROMISED), (of("mulf", X, Y), None), (of("mulf", Y, X), None),
        (of("addf", X, X), None), (of("exp2", X), None), (of("negf", X), None),
        (of("mulf", tile(X), tile(number(4.0))), (LOW + 2, HIGH + 2)),
    ],
)  # fmt: skip
def test_powers_of_two(value: SSAValue, expected: Any) -> None:
    found = magnitude(value)
    assert found == expected
    ordinary = expected is not None and NORMAL[0] <= expected[0] <= expected[1] <= NORMAL[1]
    assert is_ordinary(value) is ordinary


@pytest.mark.parametrize(
    ("power", "ordinary"),
    [(-126, True), (-127, False), (127, True), (0, True), (-149, False)],
)
def test_the_least_and_the_greatest_ordinary_number(power: int, ordinary: bool) -> None:
    """Those whose logarithm is within f32's normal numbers, one binade short of the largest."""
    assert is_ordinary(number(2.0**power)) is ordinary
    both = of("mulf", of("mulf", X, X), number(1.0))
    assert magnitude(both) == (2 * LOW, 2 * HIGH)
    assert not is_ordinary(both)
    assert is_ordinary(of("sqrt", both))
    low, high = of("mulf", X, number(2.0**-62)), of("mulf", X, number(2.0**63))
    assert [is_ordinary(low), is_ordinary(high)] == [True, True]
    assert not is_ordinary(of("mulf", X, number(2.0**-63)))
    assert not is_ordinary(of("mulf", X, number(2.0**64)))


def test_arguments_of_functions_without_facts() -> None:
    bare = func.FuncOp("k", FunctionType.from_lists([f32], []), Region(Block(arg_types=[f32])))
    assert magnitude(bare.body.block.args[0]) is None
    assert magnitude(Block(arg_types=[f32]).args[0]) is None
