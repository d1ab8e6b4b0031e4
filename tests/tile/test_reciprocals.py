"""Quotients that are one instruction, and those that may not be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f32, i1
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

import tawa
import tawa.language as tl
from tawa.driver.compiled import Compiled
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.hopper import run
from tawa.tile.dialect.ops import Splat
from tawa.tile.passes.reciprocals import DEPTH, least


@tawa.jit
def quotient(out: Any, x_ptr: Any, CASE: tl.constexpr):
    """A quotient of each kind."""
    at = tl.arange(0, 128)
    x = tl.load(x_ptr + at)
    if CASE == "logistic":
        y = tl.sigmoid(x)
    elif CASE == "square":
        y = 1 / (x * x + 1.5)
    elif CASE == "clamped":
        y = 1.0 / tl.maximum(x, 1.0)
    elif CASE == "chosen":
        y = 1 / tl.where(x > 2.0, tl.abs(x) + 1.0, 3.0)
    elif CASE == "half":
        y = 1 / (tl.abs(x) + 0.5)
    elif CASE == "any":
        y = 1 / (x + 2.0)
    elif CASE == "sum":
        y = 1 / (tl.exp(x) + x + 1.0)
    else:
        y = 3.0 / (tl.exp(x) + 1.0)
    tl.store(out + at, y)


def compiled(case: str) -> Compiled:
    return quotient.compile("*f32", "*f32", case)


def functions(found: Compiled) -> set[str]:
    module = found.module("aref")
    return {op.function.data for op in module.walk() if isinstance(op, Map)}


@pytest.mark.parametrize("case", ["logistic", "square", "clamped", "chosen"])
def test_of_what_is_at_least_one(case: str) -> None:
    found = compiled(case)
    assert "recip" in functions(found)
    assert "divf" not in functions(found)
    assert "div.full" not in str(found.stages["ptx"])
    x = np.linspace(-90, 90, 128, dtype=np.float32)
    x[:3] = np.inf, -np.inf, np.nan
    expected = {
        "logistic": lambda: 1 / (1 + np.exp(-x)),
        "square": lambda: 1 / (x * x + np.float32(1.5)),
        "clamped": lambda: 1 / np.fmax(x, np.float32(1)),
        "chosen": lambda: 1 / np.where(x > 2, np.abs(x) + 1, np.float32(3)),
    }[case]
    out = np.empty(128, np.float32)
    with np.errstate(all="ignore"):
        run(found.module("hopper"), (1,), [out, x])
        np.testing.assert_allclose(out, expected(), 1e-6, 1e-37)


@pytest.mark.parametrize("case", ["half", "any", "sum", "three"])
def test_of_what_may_be_less(case: str) -> None:
    assert "divf" in functions(compiled(case))
    assert "recip" not in functions(compiled(case))


def unknown(kind: Any = f32) -> SSAValue:
    return Splat(Made(result_types=[kind]).results[0], (8,)).result


def number(value: float) -> SSAValue:
    return Splat(arith.ConstantOp(FloatAttr(value, f32)).result, (8,)).result


def of(function: str, *values: SSAValue) -> SSAValue:
    return Map(function, values).result


X, EXP, CONDITION = unknown(), of("exp", unknown()), unknown(i1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (X, -math.inf), (number(-3.0), -3.0), (number(math.nan), -math.inf), (EXP, 0.0),
        (of("mulf", X, X), 0.0), (of("mulf", X, EXP), -math.inf), (of("mulf", EXP, of("exp", X)), -math.inf),
        (of("addf", EXP, number(1.0)), 1.0), (of("addf", X, number(1.0)), -math.inf),
        (of("maxnumf", X, number(2.0)), 2.0), (of("maxnumf", number(2.0), number(5.0)), 5.0),
        (of("maxnumf", number(math.nan), EXP), -math.inf), (of("maxnumf", X, EXP), -math.inf),
        (of("maxnumf", EXP, of("addf", EXP, number(1.0))), 0.0),
        (of("maxnumf", number(math.nan), number(2.0)), 2.0),
        (of("maximumf", X, EXP), 0.0), (of("maximumf", EXP, number(2.0)), 2.0),
        (of("minimumf", EXP, number(2.0)), 0.0), (of("minnumf", X, number(2.0)), -math.inf),
        (of("select", CONDITION, EXP, number(2.0)), 0.0), (of("subf", EXP, X), -math.inf),
    ],
)  # fmt: skip
def test_the_least_that_a_value_can_be(value: SSAValue, expected: float) -> None:
    assert least(value) == expected


@pytest.mark.parametrize(
    "around",
    [
        lambda v: of("maxnumf", v, v), lambda v: of("maxnumf", EXP, v),
        lambda v: of("addf", v, EXP), lambda v: of("minnumf", EXP, v),
        lambda v: of("select", CONDITION, EXP, v),
    ],
    ids=["greater", "greater than another", "sum", "less", "chosen"],
)  # fmt: skip
def test_how_far_a_value_is_followed(around: Callable[[SSAValue], SSAValue]) -> None:
    value = EXP
    for _ in range(DEPTH - 1):
        value = around(value)
    assert least(value) == 0.0
    assert least(around(value)) == -math.inf
