"""Quotients that are one instruction, and those that may not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.driver.compiled import Compiled
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.hopper import run


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
