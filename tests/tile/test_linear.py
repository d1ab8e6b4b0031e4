"""Integer tiles as sums of scalars, and what comparisons of them say."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.ir.elementwise import Map
from tawa.tile.analysis.linear import DEPTH, Linear, linear, margin
from tawa.tile.dialect.ops import Arange, Broadcast, ExpandDims, Splat


def unknown(kind: Any = i32) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def number(value: int) -> SSAValue:
    return arith.ConstantOp(IntegerAttr(value, i32)).result


def of(function: str, *values: SSAValue, kind: Any = None) -> SSAValue:
    return Map(function, values, kind).results[0]


def row(start: int, end: int) -> SSAValue:
    return Arange(start, end).result


def tile(value: SSAValue, size: int = 8) -> SSAValue:
    return Splat(value, (size,)).result


N, M = unknown(), unknown()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (number(7), Linear(7, 7)), (N, Linear(0, 0, {N: 1})), (row(0, 8), Linear(0, 7)),
        (row(8, 24), Linear(8, 23)), (tile(number(-3)), Linear(-3, -3)),
        (of("addi", tile(N), row(4, 12)), Linear(4, 11, {N: 1})),
        (of("subi", tile(N), row(4, 12)), Linear(-11, -4, {N: 1})),
        (of("subi", row(4, 12), tile(N)), Linear(4, 11, {N: -1})),
        (of("addi", N, M), Linear(0, 0, {N: 1, M: 1})), (of("subi", N, N), Linear(0, 0)),
        (of("muli", N, number(3)), Linear(0, 0, {N: 3})),
        (of("muli", number(-3), of("addi", N, number(2))), Linear(-6, -6, {N: -3})),
        (of("muli", row(1, 9), tile(number(-2))), Linear(-16, -2)),
        (of("muli", row(1, 9), tile(number(0))), Linear(0, 0)),
        (of("extsi", tile(N), kind=i64), Linear(0, 0, {N: 1})),
        (Broadcast(ExpandDims(row(0, 8), 1).result, (8, 4)).result, Linear(0, 7)),
        (of("muli", tile(N), row(0, 8)), None), (of("muli", tile(N), tile(M)), None),
        (of("minsi", tile(N), row(0, 8)), None), (of("addi", of("xori", row(0, 8), row(0, 8)),
                                                    row(0, 8)), None),
    ],
)  # fmt: skip
def test_tiles_as_sums(value: SSAValue, expected: Linear | None):
    assert linear(value) == expected


@pytest.mark.parametrize("function", ["muli", "minsi", "extui"])
def test_a_scalar_that_is_no_sum_stands_for_itself(function: str):
    value = of(function, N, kind=i64) if function == "extui" else of(function, N, M)
    assert linear(value) == Linear(0, 0, {value: 1})


@pytest.mark.parametrize("step", ["addi", "extsi", "splat"])
def test_long_sums_are_not_followed(step: str):
    """A scalar behind so many ops stands for itself; of a tile nothing is known."""

    def longer(value: SSAValue) -> SSAValue:
        return of("addi", value, number(1))

    value = N
    for _ in range(DEPTH - 1):
        value = longer(value)
    last: Callable[[SSAValue], SSAValue] = {
        "addi": longer, "extsi": lambda v: of("extsi", v, kind=i64), "splat": tile,
    }[step]  # fmt: skip
    found = linear(last(value))
    assert found is not None
    assert found.terms == {N: 1}
    assert found.least == DEPTH - (step != "addi")
    found = linear(last(longer(value)))
    assert found is not None
    assert list(found.terms.values()) == [1]
    assert N not in found.terms


COMPARED = {
    "cmpi_sge": lambda a, b: a >= b, "cmpi_sgt": lambda a, b: a > b,
    "cmpi_sle": lambda a, b: a <= b, "cmpi_slt": lambda a, b: a < b,
}  # fmt: skip


@pytest.mark.parametrize("function", COMPARED)
def test_margins_of_comparisons(function: str):
    """At least zero where the comparison holds, and no wider than that for numbers."""
    for a, b in itertools.product(range(-2, 3), repeat=2):
        found = margin(of(function, number(a), number(b)))
        assert found is not None
        assert (found.least, found.terms) == (found.most, {})
        assert (found.least >= 0) is COMPARED[function](a, b)
    found = margin(of(function, of("addi", tile(N), row(0, 8)), tile(M)))
    assert found is not None
    sign = 1 if function in ("cmpi_sge", "cmpi_sgt") else -1
    assert found.terms == {N: sign, M: -sign}
    assert found.most - found.least == 7


@pytest.mark.parametrize("function", ["cmpi_eq", "cmpi_ne", "cmpi_ult"])
def test_other_comparisons_say_nothing(function: str):
    assert margin(of(function, N, M)) is None
    assert margin(of("cmpi_slt", tile(N), of("muli", tile(M), row(0, 8)))) is None
    assert margin(unknown()) is None
