"""Arithmetic that rounds down, up or towards zero, against the list of all halves."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from tawa.ir.scalars.directed import WAYS, directed

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
ORDERED: list[float] = np.unique(HALVES[np.isfinite(HALVES)].astype(np.float64)).tolist()

SOME = [0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.1, 1.001, 2047.0, 2048.0, -2049.0, 65504.0, -65504.0,
        5.96e-8, -5.96e-8, 6.1e-5, 0.333, -1e-3]  # fmt: skip

EXACT: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x,
    "fma": lambda x, y, z: x * y + z,
}
COUNT = {"rcp": 1, "fma": 3, "sqrt": 1}


def rounded(exact: Fraction, way: str) -> float:
    """The half beside an exact number, on the side that is asked for."""
    down = way == "rd" or (way == "rz" and exact > 0)
    if down:
        place = bisect_right(ORDERED, exact) - 1
        return ORDERED[place] if place >= 0 else -math.inf
    place = bisect_left(ORDERED, exact)
    return ORDERED[place] if place < len(ORDERED) else math.inf


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", EXACT)
def test_a_result_is_the_half_on_its_side(name: str, way: str) -> None:
    few = SOME if name != "fma" else SOME[::2]
    cases = [c for c in product(few, repeat=COUNT.get(name, 2))
             if name not in ("div", "rcp") or c[-1]]  # fmt: skip
    arrays = [np.asarray(column, np.float16) for column in zip(*cases, strict=True)]
    found = directed(name, way)(*arrays)
    assert found.dtype == np.float16
    for got, *values in zip(found, *arrays, strict=True):
        exact = EXACT[name](*(Fraction(float(v)) for v in values))
        assert float(got) == rounded(exact, way), (name, way, values)


@pytest.mark.parametrize("way", WAYS)
def test_a_root_is_the_half_on_its_side(way: str) -> None:
    values = HALVES[(HALVES >= 0) & np.isfinite(HALVES)][::7]
    for got, value in zip(directed("sqrt", way)(values), values, strict=True):
        square, exact = Fraction(float(got)) ** 2, Fraction(float(value))
        other = np.nextafter(got, np.float16(np.inf))
        if way == "ru":
            other = np.nextafter(got, np.float16(-np.inf))
            assert square >= exact
            assert other < 0 or Fraction(float(other)) ** 2 < exact or square == exact
        else:
            assert square <= exact < Fraction(float(other)) ** 2


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_number_stays(way: str) -> None:
    one, zero, infinite = np.float16([1.0]), np.float16([0.0]), np.float16([np.inf])
    assert directed("div", way)(one, zero)[0] == np.inf
    assert directed("rcp", way)(-zero)[0] == -np.inf
    assert directed("add", way)(one, infinite)[0] == np.inf
    assert np.isnan(directed("sub", way)(infinite, infinite)[0])
    assert np.isnan(directed("sqrt", way)(-one)[0])


@pytest.mark.parametrize(
    ("name", "values", "sign"),
    [
        ("add", (1.0, -1.0), -1),
        ("add", (0.0, 0.0), 1),
        ("add", (0.0, -0.0), -1),
        ("sub", (1.0, 1.0), -1),
        ("sub", (0.0, -0.0), 1),
        ("sub", (0.0, 0.0), -1),
        ("fma", (1.0, 1.0, -1.0), -1),
        ("fma", (0.0, 1.0, 0.0), 1),
        ("fma", (2.0, 0.0, -0.0), -1),
        ("mul", (0.0, 1.0), 1),
        ("mul", (0.0, -1.0), -1),
    ],
)
def test_the_sign_of_a_zero_rounded_down(name: str, values: tuple[float, ...], sign: int) -> None:
    arrays = [np.float16([value]) for value in values]
    found = directed(name, "rd")(*arrays)[0]
    assert found == 0
    assert math.copysign(1, found) == sign
    if name != "mul":
        up = directed(name, "ru")(*arrays)[0]
        assert math.copysign(1, up) == (-1 if all(math.copysign(1, v) < 0 for v in values) else 1)


def test_shapes_are_spread() -> None:
    column, row = np.float32([[1.0], [2.0]]), np.float32([3.0, 5.0, 7.0])
    found = directed("mul", "ru")(column, row)
    assert found.tolist() == [[3.0, 5.0, 7.0], [6.0, 10.0, 14.0]]
