"""When levels agree: whole numbers are equal, floats nearly, and what is no number is the same."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i32

from tawa.base.types import bf16, e4m3
from tawa.simulate.check.levels import Agreement, differing

F = np.float32

SAME = {
    "equal": (f32, F([1, 2]), F([1, 2])),
    "another order of sums": (f32, F([100, 1]), F([100, 1.5])),
    "as much as sums may make": (f32, F([100, 1]), F([100, 2])),
    "zeros": (f32, F([0, 0]), F([0, -0.0])),
    "infinite": (f32, F([np.inf, 1]), F([np.inf, 1])),
    "no numbers": (f32, F([np.nan, 1]), F([np.nan, 1])),
    "whole": (i32, np.int32([3, 4]), np.int32([3, 4])),
    "rounded to halves": (f16, np.float16([1, 0.5]), np.float16([1.02, 0.5])),
    "nothing": (f32, F([]), F([])),
}
APART = {
    "beyond what sums make": (f32, F([100, 1]), F([100, 2.5])),
    "one more": (i32, np.int32([1 << 30, 4]), np.int32([1 << 30, 5])),
    "infinite in one": (f32, F([np.inf, 1]), F([3, 1])),
    "infinite in the other": (f32, F([3, 1]), F([np.inf, 1])),
    "another infinity": (f32, F([np.inf, 1]), F([-np.inf, 1])),
    "no number for an infinity": (f32, F([np.nan, 1]), F([np.inf, 1])),
    "zero for one": (f32, F([0, 0]), F([0, 1])),
    "rounding of f32": (f32, F([1, 0.5]), F([1.02, 0.5])),
}


@pytest.mark.parametrize("name", [*SAME, *APART])
def test_levels(name: str):
    element, found, first = {**SAME, **APART}[name]
    for new, old in ((found, first), (first, found)):
        report = Agreement(["tile"])
        report.add("hopper", [new], [old], [("x", element)])
        assert report.same == (name in SAME)
        assert differing([("x", element)], [new], [old]) == ([] if name in SAME else ["x"])
        assert report.levels == ["tile", "hopper"]
        text = report.render()
        assert ("LEVELS DIFFER: `x` at the hopper level" in text) == (name in APART)
        assert ("levels tile, hopper: the same results" in text) == (name in SAME)


def test_the_largest_difference_that_is_allowed_is_told():
    report = Agreement(["tile"])
    elements = [("x", f32), ("y", f32)]
    first = [F([100, 1]), F([100, 1])]
    report.add("hopper", [F([100, 1.5]), F([100, 1.25])], first, elements)
    assert report.worst == pytest.approx(5e-3)
    report.add("PTX", [F([100, 9]), F([100, 1])], first, elements)
    assert report.worst == pytest.approx(5e-3)
    assert len(report.differences) == 1


def test_what_the_order_of_programs_decides_is_left_out():
    report = Agreement(["tile"], varying=("x",), left_out=["PTX: no grid"])
    report.add("hopper", [F([1]), F([2])], [F([5]), F([2])], [("x", f32), ("y", f32)])
    assert report.same
    assert report.render().splitlines()[-1] == "not compared: PTX: no grid"


def test_bits_are_decoded():
    one, two = np.uint16([0x3F80]), np.uint16([0x4000])
    assert differing([("x", bf16)], [one], [one]) == []
    assert differing([("x", bf16)], [one], [two]) == ["x"]
    byte = np.uint8([0x38])
    assert differing([("x", e4m3)], [byte], [byte + 1]) == []  # 1 and 1.125
    assert differing([("x", e4m3)], [byte], [byte + 8]) == ["x"]  # 1 and 2
