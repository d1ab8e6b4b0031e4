"""Addresses and masks that few registers of a thread compute."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.aref.analysis.anchors import known_from
from tawa.base.layout import Layout, Mode, accumulator
from tawa.hopper.dialect.fragment import Anchored
from tawa.tile.analysis.axis_info import AxisInfo

LAYOUTS = {
    "strided": Layout((1024,), (Mode(8, 0, 128),), (Mode(32, 0, 1),), (Mode(4, 0, 32),)),
    "in a row": Layout((1024,), (Mode(8, 0, 1),), (Mode(32, 0, 8),), (Mode(4, 0, 256),)),
    "threes": Layout((384,), (Mode(3, 0, 1),), (Mode(32, 0, 3),), (Mode(4, 0, 96),)),
    "rows": accumulator((128, 64), 8),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("run", [1, 2, 4, 8, 64, 1024])
def test_what_registers_are_known_from_holds_in_every_thread(name: str, run: int) -> None:
    layout = LAYOUTS[name]
    where = layout.coordinates.astype(np.int64)
    rank = len(layout.shape)
    steps = [10_000, 1_000_000][:rank]
    # Along the last dimension numbers grow by one in runs; runs themselves lie anywhere.
    last = where[..., -1]
    grown = last // run * 7919 + last % run
    grown += sum(where[..., d] * steps[d] for d in range(rank - 1))
    ones = (1,) * (rank - 1)
    growing = AxisInfo((*ones, run), (1,) * rank, (1,) * rank)
    anchors, distances = known_from(growing, layout)
    np.testing.assert_array_equal(grown[:, anchors] + distances, grown)
    equal = last // run * 7919 + sum(where[..., d] * steps[d] for d in range(rank - 1))
    constant = AxisInfo((1,) * rank, (1,) * rank, (*ones, run))
    anchors, distances = known_from(constant, layout)
    assert not any(distances)
    np.testing.assert_array_equal(equal[:, anchors], equal)


def test_one_register_is_enough_where_a_thread_holds_one_run() -> None:
    whole = AxisInfo((1024,), (1,), (1,))
    assert set(known_from(whole, LAYOUTS["strided"])[0]) == {0}
    eight = AxisInfo((8,), (1,), (1,))
    assert len(set(known_from(eight, LAYOUTS["strided"])[0])) == 8
    assert set(known_from(eight, LAYOUTS["in a row"])[0]) == {0}


@tawa.jit
def shifted(x, y, start, N, BLOCK: tl.constexpr):
    at = start + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (at >= 0) & (at < N)
    tl.store(y + at, tl.load(x + at, mask=inside, other=0.0) + at, mask=inside)


@pytest.mark.parametrize("start", [-5, 0, 3])
def test_addresses_below_and_above_the_array_are_masked_off(start: int) -> None:
    arrays = Arrays()
    x, y = arrays.random("f32", 700), arrays.output("f32", 700)
    y[:] = 0
    compiled = check(shifted, (3,), [x, y, start, 700], {1: expected(x, start)}, 1e-6, BLOCK=256)
    ops = [op for op in compiled.module("hopper").walk() if isinstance(op, Anchored)]
    assert any(any(op.distances) for op in ops)


def expected(x: np.ndarray, start: int) -> np.ndarray:
    """What `shifted` stores in an output of zeros."""
    at = np.arange(700)
    stored = (at >= start) & (at < start + 768)
    return np.where(stored, values(x) + at, 0)


@tawa.jit
def extended(y, start, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, (start + at).to(tl.int64))


def test_numbers_that_begin_again_are_computed_each() -> None:
    y = Arrays().output("i64", 1024)
    wrapped = (np.arange(1024, dtype=np.int64) + 2**31 - 500).astype(np.int32)
    check(extended, (1,), [y, 2**31 - 500], {0: wrapped.astype(np.float64)}, 1e-9, BLOCK=1024)
    np.testing.assert_array_equal(np.asarray(y), wrapped)
