"""libdevice's functions of an integer order, and of the upper words of a float."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tawa.base.types import f64, i32
from tawa.ir.scalars.table import FUNCTIONS


def test_bessel_functions_of_an_order_mean_what_scipy_says() -> None:
    scipy: Any = pytest.importorskip("scipy.special")
    random = np.random.default_rng(1)
    x = np.concatenate([random.uniform(0.05, 40, 12), [0.0, 5.0, np.inf, np.nan, -1.0]])
    order = np.concatenate([np.arange(12), [2, -1, 3, 0, 1]]).astype(np.int32)
    with np.errstate(all="ignore"):
        first, second = scipy.jv(order, x), scipy.yn(order, x)
    first[13] = second[13] = np.nan  # CUDA: of negative orders
    first[14] = second[14] = 0
    for name, expected in (("jn", first), ("yn", second)):
        found = FUNCTIONS[name].evaluate([f64, i32], f64, x, order)
        np.testing.assert_allclose(found, expected, 1e-9, 1e-12, err_msg=name)


def test_functions_of_the_second_kind_far_from_zero() -> None:
    scipy: Any = pytest.importorskip("scipy.special")
    x = np.array([990.0, 1010.0, 4e3, 65504.0])
    for name in ("y0", "y1"):
        found = FUNCTIONS[name].evaluate([f64], f64, x)
        np.testing.assert_allclose(found, getattr(scipy, name)(x), 1e-9, 1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("name", "expected"), [("jn", [0, 0, 0, np.nan]), ("yn", [-np.inf, -np.inf, -np.inf, np.nan])]
)
def test_the_largest_order_takes_no_time(name: str, expected: list[float]) -> None:
    x, order = np.array([0.5, 448, 65504, 3e9]), np.full(4, 2**31 - 1, np.int32)
    found = FUNCTIONS[name].evaluate([f64, i32], f64, x, order)
    np.testing.assert_array_equal(found, expected)


def test_a_near_reciprocal_is_of_upper_words() -> None:
    x = np.concatenate([np.random.default_rng(2).standard_normal(50), [0.0, -0.0, 5e-324, np.inf]])
    with np.errstate(divide="ignore"):
        found = FUNCTIONS["rcp64h"].evaluate([f64], f64, x)
    np.testing.assert_allclose(found[:50] * x[:50], 1, atol=2.0**-19)  # PTX ISA: 2^-20, and the cut
    assert not (found.view(np.uint64) & 0xFFFFFFFF).any()
    assert found[50:].tolist() == [np.inf, -np.inf, np.inf, 0]
