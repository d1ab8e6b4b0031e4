"""Sums that are only stored: each lane keeps a share of the rows, not a copy of all."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.aref.analysis.spread_rows import halvings
from tawa.base.layout import LANES, Layout, Mode, accumulator, blocked
from tawa.runtime import sass


def shared_out(layout: Layout, axis: int) -> np.ndarray:
    """What each thread holds after the exchanges, of sums of each element's own number."""
    rest = layout.without(axis)
    where = rest.coordinates @ np.cumprod([1, *rest.shape[:0:-1]])[::-1]
    held = where.astype(float)
    thread = np.arange(len(held))
    for step in halvings(layout, axis):
        upper = ((thread % LANES) & step.lanes != 0)[:, None]
        low, high = held[:, list(step.low)], held[:, list(step.high)]
        kept, given = np.where(upper, high, low), np.where(upper, low, high)
        assert (kept == given[thread ^ step.lanes]).all(), "lanes combine parts of one element"
        held = kept
    return held


@pytest.mark.parametrize(
    ("layout", "left"),
    [
        (blocked((16, 64), 1, 8), 1),
        (blocked((64, 64), 2, 4), 1),
        (blocked((64, 32), 2, 4), 1),
        (accumulator((64, 32), 4), 1),
        (accumulator((128, 64), 4), 1),
        (blocked((64, 8), 1, 4), 2),
    ],
)
def test_exchanges_halve_what_threads_hold(layout: Layout, left: int) -> None:
    found = halvings(layout, 1)
    result = found[-1].layout if found else layout.without(1)
    assert result.registers == left
    np.testing.assert_array_equal(shared_out(layout, 1)[..., None], result.coordinates)


def test_warps_that_share_the_axis_keep_copies() -> None:
    layout = Layout((4, 256), (Mode(4, 0, 1), Mode(4, 1, 1)), (Mode(32, 1, 4),), (Mode(2, 1, 128),))
    assert halvings(layout, 1) == []


@tawa.jit
def scaled_sums(x, y, scale, R: tl.constexpr, C: tl.constexpr, KIND: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    for j in range(3):
        v = tl.load(x + (j * R + r[:, None]) * C + c[None, :]).to(tl.float32)
        found = tl.sum(v, 1) if KIND == "sum" else tl.max(v, 1)
        tl.store(y + j * R + r, found * scale)


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize(("rows", "columns", "warps"), [(16, 128, 1), (16, 64, 2), (64, 64, 4)])
def test_sums_of_rows_are_right(kind: str, rows: int, columns: int, warps: int) -> None:
    arrays = Arrays()
    x, y = arrays.random("bf16", 3, rows, columns), arrays.output("f32", 3, rows)
    wide = values(x)
    expected = 0.5 * (wide.sum(-1) if kind == "sum" else wide.max(-1))
    check(
        scaled_sums, (1,), [x, y, 0.5], {1: expected}, 1e-5, ("tile", "hopper", "ptx"),
        R=rows, C=columns, KIND=kind, num_warps=warps,
    )  # fmt: skip


def test_an_exchange_takes_half_the_shuffles_of_the_one_before() -> None:
    # 16 lanes share a row, a thread has 8 rows of 16: 4, 2, 1 and 1 shuffles, and one store.
    compiled = scaled_sums.compile("*bf16:16", "*f32:16", "f32", R=16, C=128, KIND="sum",
                                   num_warps=1)  # fmt: skip
    code = sass.disassemble(compiled.cubin)[compiled.spec.entry]
    turns = code.count("STG")
    assert code.count("SHFL") == 8 * turns
    assert turns in (1, 3)


@tawa.jit
def subtracted(x, y, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + r[:, None] * C + c[None, :])
    tl.store(y + r[:, None] * C + c[None, :], v - tl.sum(v, 1)[:, None])


def test_sums_that_lanes_need_are_in_all_of_them() -> None:
    compiled = subtracted.compile("*f32:16", "*f32:16", R=16, C=128, num_warps=1)
    code = sass.disassemble(compiled.cubin)[compiled.spec.entry]
    assert code.count("SHFL") == 5 * 16
