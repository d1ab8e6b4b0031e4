"""Picks of elements as exchanges between lanes, and tiles that are known when a kernel is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.base.layout import LANES, Layout, blocked
from tawa.codegen.gathers import constant_tile, exchange_of_lanes
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Arange, Broadcast, ExpandDims, Splat

LAYOUTS = [
    blocked((256,), 1, 4), blocked((256,), 4, 2), blocked((32, 8), 2, 4), blocked((4, 64), 1, 1),
    blocked((16, 32), 4, 2),
]  # fmt: skip


def fits(layout: Layout, indices: Any, axis: int, found: tuple[list[int], int]) -> bool:
    """Whether lanes that exchange in this way get the elements that are picked."""
    order, mask = found
    tile = np.arange(np.prod(layout.shape)).reshape(layout.shape)
    wanted = np.take_along_axis(tile, indices, axis)
    where = np.moveaxis(layout.coordinates, -1, 0)
    held, needed = tile[tuple(where)], wanted[tuple(where)]
    return bool((held[np.arange(layout.threads) ^ mask][:, order] == needed).all())


def swapped(layout: Layout, axis: int, bit: int) -> Any:
    """The positions along an axis with one bit turned over, for every element."""
    places = np.arange(layout.shape[axis]) ^ (1 << bit)
    shape = [-1 if d == axis else 1 for d in range(len(layout.shape))]
    return np.broadcast_to(places.reshape(shape), layout.shape)


@pytest.mark.parametrize("number", range(len(LAYOUTS)))
def test_a_bit_of_a_position_is_one_of_a_lane_or_a_register(number: int) -> None:
    layout = LAYOUTS[number]
    far = 0
    for axis, extent in enumerate(layout.shape):
        for bit in range(extent.bit_length() - 1):
            indices = swapped(layout, axis, bit)
            found = exchange_of_lanes(layout, indices, axis)
            if found is None:
                far += 1
                continue
            assert fits(layout, indices, axis, found), (axis, bit)
            assert found[1] < LANES
    assert far == layout.warps.bit_length() - 1, "other warps are too far"


@pytest.mark.parametrize("number", range(len(LAYOUTS)))
def test_what_is_said_is_right(number: int) -> None:
    layout, random = LAYOUTS[number], np.random.default_rng(number)
    for axis, extent in enumerate(layout.shape):
        same = np.broadcast_to(
            np.arange(extent).reshape([-1 if d == axis else 1 for d in range(len(layout.shape))]),
            layout.shape,
        )
        assert exchange_of_lanes(layout, same, axis) == (list(range(layout.registers)), 0)
        for indices in (random.integers(0, extent, layout.shape), np.zeros(layout.shape, int)):
            found = exchange_of_lanes(layout, indices, axis)
            assert found is None or fits(layout, indices, axis, found)


def test_rows_and_columns_are_not_confused() -> None:
    """Two elements whose row and column add up alike are different ones."""
    layout = blocked((8, 8), 1, 1)
    turned = np.arange(8)[None, :] ^ (np.arange(8)[:, None] & 1)
    found = exchange_of_lanes(layout, turned, 1)
    assert found is None or fits(layout, turned, 1, found)


def number(value: int) -> SSAValue:
    return arith.ConstantOp(IntegerAttr(value, i32)).result


def test_tiles_that_are_known() -> None:
    row = Arange(2, 6).result
    assert constant_tile(row).tolist() == [2, 3, 4, 5]
    doubled = Map("muli", [row, Splat(number(2), (4,)).result]).result
    assert constant_tile(doubled).tolist() == [4, 6, 8, 10]
    square = Broadcast(ExpandDims(doubled, 0).result, (3, 4)).result
    assert constant_tile(square).tolist() == [[4, 6, 8, 10]] * 3
    assert constant_tile(number(-1)) == -1


def test_tiles_that_are_not() -> None:
    unknown = Made(result_types=[TensorType(i32, (4,))]).results[0]
    assert constant_tile(unknown) is None
    assert constant_tile(Map("addi", [Arange(0, 4).result, unknown]).result) is None
    assert constant_tile(Map("addi", [unknown, Arange(0, 4).result]).result) is None
    assert constant_tile(Splat(Made(result_types=[i32]).results[0], (4,)).result) is None
    assert constant_tile(arith.ConstantOp(FloatAttr(1.0, f32)).result) is None
