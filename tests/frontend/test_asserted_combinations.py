"""Assertions in the combine functions of reductions and scans: of what is combined, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret import hopper, tile
from tawa.simulate.interpret.tile import DeviceAssertion


@tawa.jit
def small(a, b):
    total = a + b
    tl.device_assert(total <= 100, "the sum is above 100")
    tl.device_assert(total >= 0, "the sum is below 0")
    return total


@tawa.jit
def sums(x, o, total, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    tl.store(o + at, tl.associative_scan(v, 0, small))
    tl.store(total + tl.arange(0, 4), tl.reduce(v.reshape(4, N // 4), 1, small))


def test_assertions_hold_for_what_is_combined() -> None:
    x = np.zeros(128, np.int32)
    x[::16] = 5
    o, total = np.zeros_like(x), np.zeros(4, np.int32)
    compiled = sums.compile(x, o, total, 128)
    for run in (tile.run, hopper.run):
        level = "tile" if run is tile.run else "hopper"
        o[:], total[:] = 0, 0
        run(compiled.module(level), (1,), [x, o, total])
        np.testing.assert_array_equal(o, np.cumsum(x))
        np.testing.assert_array_equal(total, x.reshape(4, 32).sum(axis=1))


@pytest.mark.parametrize(("place", "value"), [(127, 61), (3, -1)])
def test_one_that_does_not_hold_stops_the_program(place: int, value: int) -> None:
    x = np.zeros(128, np.int32)
    x[::16] = 5  # 40 in all
    x[place] = value
    results: list[Any] = [np.zeros(128, np.int32), np.zeros(4, np.int32)]
    with pytest.raises(DeviceAssertion, match="the sum is"):
        sums[(1,)](x, *results, 128)


@tawa.jit
def only_if(a, b):
    if a > b:
        tl.device_assert(a < 100, "large")
    return a + b


@tawa.jit
def chosen(x, o):
    tl.store(o, tl.reduce(tl.load(x + tl.arange(0, 32)), 0, only_if))


def test_assertions_under_conditions_are_refused() -> None:
    with pytest.raises(tawa.TawaError, match="assert"):
        chosen.compile("*i32", "*i32")
