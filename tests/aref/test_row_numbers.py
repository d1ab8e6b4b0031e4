"""What vectors are at their first and last place: the same arithmetic on one number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation, SSAValue

from tawa.aref.analysis.row_numbers import at_edge
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.tile.dialect.ops import Arange, Splat

COUNT = 8


def number(value: int) -> SSAValue:
    return arith.ConstantOp(IntegerAttr(value, i32)).result


def of(function: str, *values: SSAValue, kind: Any = None) -> SSAValue:
    return Map(function, values, kind).result


def tile(value: int | SSAValue) -> SSAValue:
    return Splat(number(value) if isinstance(value, int) else value, (COUNT,)).result


def rows(start: int = 0) -> SSAValue:
    return Arange(start, start + COUNT).result


def value_of(value: SSAValue) -> Any:
    """What constants and arithmetic give."""
    op = value.owner
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, IntegerAttr)
        return np.int32(op.value.value.data)
    if isinstance(op, Arange):
        return np.arange(op.start.value.data, op.end.value.data, dtype=np.int32)
    if isinstance(op, Splat):
        return np.full(COUNT, value_of(op.value))
    assert isinstance(op, Map)
    return op.evaluate(*map(value_of, op.arguments))


@pytest.mark.parametrize(
    "vector",
    [
        rows(), rows(5), tile(7), of("addi", rows(), tile(-3)), of("addi", rows(), rows(4)),
        of("subi", rows(), tile(3)), of("muli", rows(), tile(3)), of("muli", rows(), tile(1)),
        of("divsi", rows(), tile(3)), of("divsi", rows(2), tile(1)), of("shrsi", rows(), tile(1)),
        of("minsi", rows(), tile(3)), of("maxsi", rows(), tile(3)), of("maxsi", tile(3), rows()),
        of("minsi", of("muli", rows(), tile(2)), of("addi", rows(), tile(3))),
        of("extsi", rows(), kind=i64), of("trunci", of("extsi", rows(), kind=i64), kind=i32),
        of("xori", tile(6), tile(3)), of("remsi", of("addi", tile(9), tile(4)), tile(5)),
        of("addi", rows(), of("xori", tile(6), tile(3))), of("muli", tile(-2), tile(3)),
    ],
)  # fmt: skip
def test_a_vector_that_grows_is_least_at_its_first_place(vector: SSAValue) -> None:
    exact = value_of(vector)
    for place in (0, COUNT - 1):
        new: list[Operation] = []
        found = at_edge(vector, lambda place=place: integer_constant(place, i32), new)
        assert found is not None
        assert value_of(found) == exact[place]
        assert exact[place] == (exact.max() if place else exact.min())
        assert all(op.parent is None for op in new)
        assert found.owner in new or isinstance(vector.owner, Splat)


@pytest.mark.parametrize(
    "vector",
    [
        of("subi", tile(3), rows()), of("subi", rows(), rows()), of("muli", rows(), tile(-1)),
        of("muli", rows(), tile(0)), of("muli", rows(), rows()), of("divsi", rows(), tile(-2)),
        of("divsi", rows(), rows(1)), of("divsi", tile(8), rows(1)), of("shrsi", rows(), rows()),
        of("xori", rows(), tile(1)), of("remsi", rows(), tile(3)), of("andi", tile(3), rows()),
        of("muli", rows(), tile(Made(result_types=[i32]).results[0])),
        of("addi", rows(), of("xori", rows(), tile(1))),
        of("addi", of("xori", rows(), tile(1)), rows()),
    ],
)  # fmt: skip
def test_of_one_that_may_fall_nothing_is_known(vector: SSAValue) -> None:
    assert at_edge(vector, lambda: integer_constant(0, i32), []) is None


def test_other_ops_give_nothing() -> None:
    loaded = Made(result_types=[rows().type]).results[0]
    assert at_edge(loaded, lambda: integer_constant(0, i32), []) is None
    assert at_edge(of("addi", rows(), loaded), lambda: integer_constant(0, i32), []) is None
    unknown = Made(result_types=[i32]).results[0]
    new: list[Operation] = []
    assert at_edge(tile(unknown), lambda: integer_constant(0, i32), new) is unknown
    assert not new
