"""How many neighbours one access of shared memory moves, and when bytes are read as words."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import f16, f32, f64, i8
from xdsl.dialects.test import TestOp as Made

from tawa.base.layout import REPLICA, Layout, Mode
from tawa.codegen.shared_memory import tile_for
from tawa.hopper.dialect.memory import SharedLoad, _vector
from tawa.hopper.dialect.types import FragType


def rows(columns: int, element: Any) -> FragType:
    """A row for each lane of a warp."""
    layout = Layout(
        (32, columns), (Mode(columns, 1, 1),), (Mode(32, 0, 1),), (Mode(1, REPLICA, 0),)
    )
    return FragType.of(element, layout)


def words(columns: int, element: Any) -> FragType:
    """Rows of neighbours of which each lane has a few."""
    each = columns // 32
    reg, lane = (Mode(each, 1, 1), Mode(8, 0, 1)), (Mode(32, 1, each),)
    return FragType.of(element, Layout((8, columns), reg, lane, (Mode(1, REPLICA, 0),)))


@pytest.mark.parametrize(
    ("frag", "vector"),
    [
        (rows(16, i8), 16), (rows(32, i8), 16), (rows(64, i8), 16), (rows(8, i8), 8),
        (rows(4, i8), 4), (rows(2, i8), 2), (rows(1, i8), 1), (rows(16, f16), 8),
        (rows(16, f32), 4), (rows(2, f32), 2), (rows(8, f64), 2), (rows(12, f32), 1),
        (rows(24, f16), 1), (rows(24, i8), 1), (words(64, i8), 2), (words(128, i8), 4),
        (words(96, i8), 1), (words(256, f16), 8), (words(32, f32), 1),
    ],
)  # fmt: skip
def test_neighbours_of_one_access(frag: FragType, vector: int) -> None:
    """Powers of two, 16 bytes at most."""
    tile = tile_for(frag.layout.shape, frag.element_type)
    assert _vector(frag, tile) == vector
    load = SharedLoad(Made(result_types=[tile]).results[0], frag)
    assert load.in_words is (frag.element_type == i8 and vector in (4, 8, 16))
