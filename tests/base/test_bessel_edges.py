"""Where Bessel's functions of an order end: orders and arguments that are too large, or nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

from tawa.ir.scalars.special_functions import MOST_ORDER, OF_ORDER

LARGE = float(MOST_ORDER)


def value(name: str, order: int, x: float) -> float:
    with np.errstate(all="ignore"):
        return float(OF_ORDER[name](np.asarray([x]), np.asarray([order]))[0])


@pytest.mark.parametrize(
    ("name", "order", "x", "expected"),
    [
        ("jn", -1, 1.0, math.nan), ("jn", 2, math.inf, 0.0), ("jn", -1, math.inf, math.nan),
        ("jn", 2, math.nan, math.nan), ("jn", 3, LARGE + 1, math.nan),
        ("jn", 2 * MOST_ORDER + 4, LARGE + 2, math.nan), ("jn", 2 * MOST_ORDER + 5, LARGE + 2, 0.0),
        ("jn", MOST_ORDER + 1, 1.0, 0.0), ("jn", 2 * MOST_ORDER + 5, -LARGE - 2, 0.0),
        ("yn", -1, 1.0, math.nan), ("yn", 0, 0.0, -math.inf), ("yn", 3, 0.0, -math.inf),
        ("yn", 3, -1.0, math.nan), ("yn", 3, math.inf, 0.0), ("yn", 2, 2 * LARGE, math.nan),
        ("yn", 400, 1.0, -math.inf),
    ],
)  # fmt: skip
def test_what_has_no_value_or_is_not_computed(name: str, order: int, x: float, expected: float):
    assert value(name, order, x) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("name", ["jn", "yn"])
@pytest.mark.parametrize(("order", "x"), [
    (0, 0.5), (1, 0.5), (2, 0.5), (5, 3.25), (30, 31.0), (30, 2.0),
])  # fmt: skip
def test_values_in_between(name: str, order: int, x: float):
    assert value(name, order, x) == pytest.approx(getattr(scipy.special, name)(order, x), rel=1e-6)


def test_the_largest_that_is_computed():
    assert value("jn", 3, LARGE) == pytest.approx(scipy.special.jn(3, LARGE), rel=1e-6)
