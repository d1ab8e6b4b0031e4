"""Loops are split where masks hold for whole tiles; every iteration is made once, in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, block, check, values
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.base.options import Options
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.decisions.decision import Decisions
from tawa.ir.elementwise import Map
from tawa.tile.passes.simplify import simplify
from tawa.tile.passes.split_loops import SplitLoops


@tawa.jit
def banded(
    x: Any, out: Any, rows: Any, first: Any, columns: Any, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    BLOCK: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Sums of each row of x over the columns of a band, as an order-sensitive sum of blocks."""
    row = rows + tl.arange(0, 64)
    total = tl.zeros((64, BLOCK), tl.float32)
    for i in range(first, columns, BLOCK if STEPS == 1 else 1):
        start = i if STEPS == 1 else i * BLOCK
        column = start + tl.arange(0, BLOCK)
        tile = x.load([0, start]).to(tl.float32)
        if RIGHT is not None:
            tile = tl.where(column[None, :] <= row[:, None] + RIGHT, tile, 0.0)
        if LEFT is not None:
            tile = tl.where(row[:, None] - LEFT <= column[None, :], tile, 0.0)
        total = total * 0.5 + tile
    out.store([0, 0], total)


def loops_of(kernel: Any, types: list[str], constants: dict[str, Any]) -> list[scf.ForOp]:
    """The loops that a kernel has after the pass."""
    module = lower_to_tile(kernel, [parse_argument(t) for t in types], constants)
    simplify(module)
    SplitLoops(Options(), Decisions()).apply(module)
    module.verify()
    return [op for op in module.walk() if isinstance(op, scf.ForOp)]


def selects(loop: scf.ForOp) -> int:
    """Choices of elements in a loop."""
    maps = [op for op in loop.walk() if isinstance(op, Map)]
    return sum(op.function.data == "select" for op in maps)


TYPES = ["desc<f16,64x32>", "desc<f32,64x32>", "i32", "i32", "i32"]


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [(None, 0, [0, 1]), (5, None, [1, 0]), (40, 17, [2, 0, 2]), (None, None, [0])],
)
@pytest.mark.parametrize("steps", [1, 2])
def test_masks_are_left_out(left: Any, right: Any, found: list[int], steps: int) -> None:
    constants = {"LEFT": left, "RIGHT": right, "BLOCK": 32, "STEPS": steps}
    assert [selects(loop) for loop in loops_of(banded, TYPES, constants)] == found


BANDS = [(None, 0), (0, None), (40, 0), (70, 33), (None, -200), (None, 500), (500, 500), (-9, 3)]


@pytest.mark.parametrize(("left", "right"), BANDS)
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize(("rows", "first"), [(0, 0), (97, 0), (64, 2), (300, 1)])
def test_sums_stay(left: Any, right: Any, steps: int, rows: int, first: int) -> None:
    arrays = Arrays()
    x, out = arrays.random("f16", 64, 320), arrays.output("f32", 64, 32)
    start, end = (first * 32, 250) if steps == 1 else (first, 8)
    row, column = rows + np.arange(64)[:, None], np.arange(320)[None, :]
    keep = np.ones((64, 320), bool)
    if right is not None:
        keep &= column <= row + right
    if left is not None:
        keep &= row - left <= column
    total = np.zeros((64, 32))
    for at in range(start, end, 32) if steps == 1 else range(start * 32, end * 32, 32):
        total = total * 0.5 + np.where(keep, values(x), 0)[:, at : at + 32]
    described = [block(x, 64, 32), block(out, 64, 32)]
    constants = {"LEFT": left, "RIGHT": right, "BLOCK": 32, "STEPS": steps}
    check(banded, (1,), [*described, rows, start, end], {1: total}, 1e-6, **constants)


@tawa.jit
def not_a_sum(x: Any, out: Any, table: Any, n: Any, KIND: tl.constexpr):
    """Masks that say nothing of a counter, or of whole tiles."""
    total = tl.zeros((64, 32), tl.float32)
    limit = 20
    for i in range(0, n, 32):
        column = i + tl.arange(0, 32)
        tile = x.load([0, i]).to(tl.float32)
        if KIND == "loaded":
            limit = tl.load(table + i)
        elif KIND == "carried":
            limit = limit * 2
        elif KIND == "product":
            column = column * column
        tile = tl.where(column[None, :] < limit, tile, 0.0)
        total += tile
    out.store([0, 0], total)


@pytest.mark.parametrize(
    ("kind", "loops"), [("loaded", 1), ("carried", 1), ("product", 1), ("", 2)]
)
def test_only_sums_that_are_known_before(kind: str, loops: int) -> None:
    types = ["desc<f16,64x32>", "desc<f32,64x32>", "*i32:16", "i32"]
    assert len(loops_of(not_a_sum, types, {"KIND": kind})) == loops


@tawa.jit
def added(x: Any, out: Any, rows: Any, n: Any, KIND: tl.constexpr):
    """Weights of columns up to a length, whose mask is a row of numbers that are added."""
    total = tl.zeros((64, 32), tl.float32)
    for i in range(0, n, 32):
        column = i + tl.arange(0, 32)
        mask = tl.where(column[None, :] < rows, 0.0, -float("inf"))
        tile = x.load([0, i]).to(tl.float32)
        if KIND == "added":
            tile += mask
        else:
            tile = tl.where(column[None, :] < rows, tile, -float("inf"))
        total += tl.exp(tile)
    out.store([0, 0], total)


@pytest.mark.parametrize("kind", ["added", "chosen"])
def test_masks_that_are_added_by_column(kind: str) -> None:
    """What is left of them without the mask is a zero, whose sum with anything is left out."""
    types = ["desc<f16,64x32>", "desc<f32,64x32>", "i32", "i32"]
    first, second = loops_of(added, types, {"KIND": kind})
    names = [op.function.data for op in first.walk() if isinstance(op, Map)]
    assert "select" not in names
    assert names.count("addf") == 1
    assert selects(second) == 1


@pytest.mark.parametrize("rows", [0, 31, 32, 70, 128])
def test_weights_of_the_columns_that_are_there(rows: int) -> None:
    arrays = Arrays()
    x, out = arrays.random("f16", 64, 128), arrays.output("f32", 64, 32)
    keep = np.arange(128)[None, :] < rows
    expected = np.where(keep, np.exp(values(x)), 0).reshape(64, 4, 32).sum(1)
    described = [block(x, 64, 32), block(out, 64, 32)]
    check(added, (1,), [*described, rows, 128], {1: expected}, 1e-5, KIND="added")


@tawa.jit
def masked_within_masked(x: Any, out: Any, rows: Any, columns: Any):
    """Sums over blocks of rows and, in each, of columns, masked where either ends."""
    total = tl.zeros((64, 32), tl.float32)
    for i in range(0, rows, 64):
        row = i + tl.arange(0, 64)
        weight = tl.where((row < rows)[:, None], tl.full((64, 32), 2.0, tl.float32), 0.0)
        for j in range(0, columns, 32):
            column = j + tl.arange(0, 32)
            tile = tl.load(x + row[:, None] * 128 + column[None, :]).to(tl.float32)
            total += tl.where((column < columns)[None, :], tile, 0.0) * weight
    tl.store(out + tl.arange(0, 64)[:, None] * 32 + tl.arange(0, 32)[None, :], total)


def test_the_inner_of_two_masked_loops_is_split() -> None:
    types = ["*f16:16", "*f32:16", "i32", "i32"]
    around, *inner = loops_of(masked_within_masked, types, {})
    assert [selects(loop) for loop in inner] == [0, 1]
    assert selects(around) == 2


@pytest.mark.parametrize(("rows", "columns"), [(96, 96), (50, 70), (7, 128), (128, 9)])
def test_masked_loops_within_masked_loops_add_the_same(rows: int, columns: int) -> None:
    arrays = Arrays()
    x, out = arrays.random("f16", 128, 128), arrays.output("f32", 64, 32)
    kept = np.zeros((128, 128))
    kept[:rows, :columns] = 2.0 * values(x)[:rows, :columns]
    total = kept.reshape(2, 64, 4, 32).sum((0, 2))
    check(masked_within_masked, (1,), [x, out, rows, columns], {1: total}, 1e-5)
