"""What ops of the aref level compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f16, f32
from xdsl.dialects.test import TestOp as Made

from tawa.aref.dialect.compute_ops import AnyAbove, LanePartials


def tile(*shape: int, element: Any = f32) -> Any:
    return Made(result_types=[TensorType(element, shape)]).results[0]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("unsure", [False, True])
def test_an_element_above_its_rows_bound(axis: int, unsure: bool) -> None:
    op = AnyAbove(tile(3, 3), tile(3), axis, unsure=unsure)
    value = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
    bound = value.max(axis)
    assert not op.evaluate(value, bound)
    assert op.evaluate(value, bound - np.float32([0, 0.5, 0]))
    swapped = bound[::-1].copy()
    assert op.evaluate(value, swapped)
    assert bool(op.evaluate(value, bound + np.float32([0, np.inf, 0]))) is unsure
    assert bool(op.evaluate(value, bound + np.float32([np.nan, 0, 0]))) is unsure
    nothing = np.full((3, 3), np.nan, np.float32)
    assert bool(op.evaluate(nothing, bound)) is unsure


def test_elements_are_scaled_first() -> None:
    op = AnyAbove(tile(2, 2), tile(2), 1, scales=Made(result_types=[f32]).results)
    value, bound = np.float32([[1, 2], [3, 4]]), np.float32([4, 8])
    assert not op.evaluate(value, bound, np.float32(2))
    assert op.evaluate(value, bound, np.float32(2.5))
    assert op.evaluate(value, np.float32([1, 9]), np.float32(1))


@pytest.mark.parametrize("element", [np.float32, np.float16])
def test_sums_of_what_lanes_hold(element: Any) -> None:
    op = LanePartials(tile(2, 16, element=f32 if element is np.float32 else f16))
    value = np.arange(32).reshape(2, 16).astype(element)
    found = op.evaluate(value)
    columns = [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]]
    assert found.dtype == element
    assert np.array_equal(found, np.stack([value[:, c].sum(1) for c in columns], 1))
