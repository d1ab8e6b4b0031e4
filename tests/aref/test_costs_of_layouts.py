"""Why products have no instruction, and when rows are shared: the conditions one by one."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import TensorType, f16, f32, i32
from xdsl.dialects.test import TestOp as Made

from tawa.aref.analysis.product_check import product_obstacle
from tawa.aref.analysis.shared_rows import BARRIER, lines, pays_to_share
from tawa.base.layout import Layout, Mode
from tawa.machine.chips import SM_90A
from tawa.tile.dialect.ops import Dot


def tile(element: Any, *shape: int) -> Any:
    return Made(result_types=[TensorType(element, shape)]).results[0]


def obstacle(m: int, n: int, k: int, warps: int = 4, element: Any = f16,
             precision: str | None = None, **options: Any) -> str | None:  # fmt: skip
    op = Dot(tile(element, m, k), tile(element, k, n), tile(f32, m, n), precision)
    return product_obstacle(op, warps, SM_90A, **options)


@pytest.mark.parametrize(
    ("sizes", "options", "found"),
    [
        ((64, 64, 64), {}, None),
        ((64, 8, 64), {}, "rows of 16 bytes have no swizzle"),
        ((32, 64, 64), {}, "32 rows are no multiple of 64"),
        ((64, 64, 64), {"warps": 8}, "64 rows are no multiple of 128"),
        ((64, 64, 64), {"warps": 8, "by_columns": True}, None),
        ((64, 24, 64), {"warps": 8, "by_columns": True}, "24 columns are no multiple of 16"),
        ((64, 64, 64), {"warps": 6}, "6 warps are no whole warp groups"),
        ((64, 64, 8), {}, "8 elements of K are no multiple of 16"),
        ((64, 64, 64), {"element": f32}, None),
        ((64, 64, 64), {"element": f32, "precision": "tf32"}, None),
        ((64, 64, 64), {"element": f32, "precision": "ieee"}, "precision ieee"),
        ((64, 64, 64), {"element": f16, "precision": "ieee"}, None),
        ((64, 64, 64), {"element": i32}, "there is no warp-group instruction for i32"),
    ],
)
def test_why_a_product_has_no_instruction(
    sizes: tuple[int, int, int], options: dict[str, Any], found: str | None
) -> None:
    assert obstacle(*sizes, **options) == found


def test_a_batch_is_no_product_of_warp_groups() -> None:
    op = Dot(tile(f16, 2, 64, 64), tile(f16, 2, 64, 64), tile(f32, 2, 64, 64))
    assert product_obstacle(op, 4, SM_90A) == "it is a batch of products"


def test_lanes_with_one_element_share_its_line() -> None:
    apart = Layout((64,), (Mode(2, 0, 32),), (Mode(32, 0, 1),), ())
    assert lines(apart) == 64
    alike = Layout((8,), (Mode(8, 0, 1),), (Mode(32, -1, 0),), ())
    assert lines(alike) == 8


def test_rows_are_shared_from_some_lines_on() -> None:
    """Own and exchanged accesses of all warps, and a barrier, against those of the lines."""
    own = Layout((32,), (), (Mode(32, 0, 1),), (Mode(4, -1, 0),))
    for registers in (4, 8, 16, 32):
        spread = Mode(32 // registers, 0, registers), Mode(registers, -1, 0)
        wanted = Layout((32,), (Mode(registers, 0, 1),), spread, (Mode(4, -1, 0),))
        exchanged = (32 + 1 + registers / 4) * 4 + BARRIER
        assert pays_to_share(wanted, own, 4) is (lines(wanted) * 4 > exchanged)
    many = Layout((4096,), (Mode(128, 0, 1),), (Mode(32, 0, 128),), (Mode(4, -1, 0),))
    few = Layout((4096,), (Mode(32, 0, 1),), (Mode(32, 0, 32),), (Mode(4, 0, 1024),))
    assert pays_to_share(many, few, 4)
    assert not pays_to_share(few, few, 4)


@pytest.mark.parametrize(("barrier", "shared"), [(-1, True), (0, False), (1, False)])
def test_rows_are_not_shared_for_nothing(
    monkeypatch: pytest.MonkeyPatch, barrier: int, shared: bool
) -> None:
    """Where both ways take as many accesses each thread loads its own."""
    row = Layout((32,), (), (Mode(32, 0, 1),), (Mode(4, -1, 0),))
    wanted = Layout((1024,), (Mode(32, 0, 1),), (Mode(32, 0, 32),), (Mode(4, -1, 0),))
    equal = lines(wanted) * 4 - (lines(row) + 1 + 32 / 4) * 4
    monkeypatch.setattr("tawa.aref.analysis.shared_rows.BARRIER", equal + barrier)
    assert pays_to_share(wanted, row, 4) is shared
