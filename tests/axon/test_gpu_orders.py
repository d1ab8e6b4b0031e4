"""Sorting, running sums and computed conditions, compiled for the GPU: against the evaluator's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.axon.test_gpu import check, define, single

from tawa import axon
from tawa.axon.gpu.graph.errors import NotForGpu

ORDERS: list[tuple[str, list[tuple[int, ...]]]] = [
    ("def f x = (sort x, sort{axis = 0} x)", [(3, 17)]),
    ("def f x = (cumsum x, cumsum{axis = 0} x)", [(70, 3)]),
    ("def f x = cumsum x", [(2, 150)]),
    ("def f x = grad (fn y -> sum_all (sort y .* y + cumsum y)) x", [(4, 9)]),
    ("def f x = vmap (fn y -> if sum y > 0.0 then sort y else cumsum y) x", [(4, 9)]),
]
"""Programs, and the shapes of what they are given: for the simulator and for a device."""

CONDITIONS = [
    "def f x = if sum x > 0.0 && max x < 2.0 then (x, sum x) else (x + x, max x)",
    "def f x = if sum x > 0.0 || min x > 0.0 then 1.0 else 2.0",
    "def f x = if sum x > 9.0 then x else if max x > 1.0 then x * x else exp x",
    "def f x = grad (fn y -> if sum y > 0.0 then sum (y * y) else sum (exp y)) x",
]


@pytest.mark.parametrize(("text", "shapes"), ORDERS)
def test_orders(text: str, shapes: list[tuple[int, ...]]):
    check(define(text), *(single(*shape) for shape in shapes))


@pytest.mark.parametrize("dtype", [np.float16, np.int64])
def test_orders_of_other_numbers(dtype: Any):
    numbers = np.random.default_rng(1).integers(-5, 5, (3, 11)).astype(dtype)
    check(define("def f x = (sort x, cumsum x)"), numbers)


def test_nan_is_sorted_last_and_added_to_what_follows():
    x = np.array([[2, np.nan, -np.inf, 1], [np.inf, 0, np.nan, np.nan]], np.float32)
    check(define("def f x = (sort x, cumsum x)"), x)


@pytest.mark.parametrize("text", CONDITIONS)
def test_of_a_computed_condition_both_sides_are_computed(text: str):
    for sign in (1, -1):
        check(define(text), sign * np.linspace(0.1, 1.5, 9).astype(np.float32))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f x = (if sum x > 0.0 then (fn y -> y) else (fn y -> y + y)) x", "chooses no tensor"),
        ("def f x = if sum x > 9.0 then x else f (x + x)", "one inside the other"),
    ],
)
def test_conditions_that_choose_no_tensor_or_do_not_end(text: str, message: str):
    with pytest.raises(NotForGpu, match=message):
        axon.compile(define(text))(single(4))
