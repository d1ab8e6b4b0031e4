"""What ops of roles are: which roles compute, load and share iterations; whose cursor moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, UnitAttr, f16, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.aref.dialect.ops import Advance, AnyAbove, Create, LanePartials, Start, WarpDot, WarpGroup
from tawa.aref.dialect.types import ViewType
from tawa.ir.effects import TAKEN, WRITE, touches


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


@pytest.mark.parametrize(
    ("of", "computes", "loads"),
    [
        ({}, True, False), ({"single": True}, False, True), ({"copies": True}, False, True),
        ({"moves": True}, False, False), ({"converts": True}, True, False),
        ({"single": True, "copies": True}, False, True),
    ],
)  # fmt: skip
def test_what_roles_do(of: dict[str, bool], computes: bool, loads: bool) -> None:
    group = WarpGroup("role", 4, 2, **of)
    assert (group.computes, group.loads) == (computes, loads)


@pytest.mark.parametrize("teams", [1, 2, 4])
def test_teams_that_share_iterations(teams: int) -> None:
    group = WarpGroup("role", 4, teams)
    assert group.slices == 1
    group.sliced = UnitAttr()
    assert group.slices == teams


def test_only_the_group_s_own_cursor_takes_slots() -> None:
    ring, count = Create(2, [TensorType(f16, (64, 64))]).ref, made(i32)
    assert touches(Advance(ring, count), TAKEN, WRITE)
    assert not touches(Advance(ring, count, Start().cursor), TAKEN, WRITE)


def test_products_of_warps_know_their_operands() -> None:
    """Views and values alike; the run along K where there is one."""
    view, tile = made(ViewType(TensorType(f16, (16, 64)))), made(TensorType(f16, (64, 32)))
    for run in (0, 16):
        dot = WarpDot(view, tile, made(TensorType(f32, (16, 32))), "tf32", run)
        product = dot.product
        assert (product.rows, product.columns, product.inner) == (16, 32, 64)
        assert dot.layout(1, 4) == product.operand(4, 1, run)
        assert dot.layout(0, 4) == product.operand(4, 0, run)
        assert (dot.run is None) is (run == 0)


@pytest.mark.parametrize("columns", [8, 64])
def test_sums_of_lanes(columns: int) -> None:
    """A lane has two elements of every eight."""
    op = LanePartials(made(TensorType(f32, (4, columns))))
    value = np.arange(4 * columns, dtype=np.float32).reshape(4, columns)
    found = op.evaluate(value)
    for row in range(4):
        for lane in range(4):
            own = [value[row, k] for k in range(columns) if k % 8 // 2 == lane]
            assert found[row, lane] == sum(own)


@pytest.mark.parametrize(
    ("values", "bounds", "scale", "above", "unsure"),
    [
        ([[1, 2], [3, 4]], [5, 5], None, False, False), ([[1, 2], [3, 6]], [5, 5], None, True, True),
        ([[1, 2], [3, 5]], [5, 5], None, False, False), ([[1, 2], [3, 4]], [5, np.inf], None, False, True),
        ([[1, 2], [3, 4]], [5, np.nan], None, False, True), ([[np.nan, np.nan], [3, 4]], [5, 5], None, False, True),
        ([[1, 2], [3, 4]], [5, 5], 2.0, True, True), ([[1, 2], [3, 4]], [5, 8], 2.0, False, False),
    ],
)  # fmt: skip
def test_whether_something_is_above_its_bound(
    values: Any, bounds: Any, scale: float | None, above: bool, unsure: bool
) -> None:
    """With `unsure`, also where nothing can be said."""
    tile, row = made(TensorType(f32, (2, 2))), made(TensorType(f32, (2,)))
    array, bound = np.array(values, np.float32), np.array(bounds, np.float32)
    more = [] if scale is None else [np.float32(scale)]
    for ask, expected in ((False, above), (True, unsure)):
        op = AnyAbove(tile, row, 1, unsure=ask)
        assert bool(op.evaluate(array, bound, *more)) is expected
    turned = AnyAbove(tile, row, 0)
    assert bool(turned.evaluate(array.T, bound, *more)) is above
