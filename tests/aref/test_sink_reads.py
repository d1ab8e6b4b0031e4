"""Ordinary code reads a slot behind the products that read it, and its warps meet there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.aref.dialect.ops import AnyAbove, DotIssue, ViewRead
from tawa.driver.compiled import Compiled
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.sync import NamedBarrierSync
from tawa.simulate.check.protocol import check
from tawa.simulate.interpret.errors import OverwriteWhileBorrowed

BLOCK = tl.constexpr(64)


@tawa.jit
def product_and_sums(a: Any, b: Any, c: Any, sums_ptr: Any, turns: Any, FIRST: tl.constexpr):
    """A product and the row sums of A, always or by the first program alone."""
    column = tl.program_id(0)
    acc = tl.zeros((64, 64), tl.float32)
    sums = tl.zeros((64,), tl.float32)
    for k in range(0, turns):
        tile = a.load([0, k * BLOCK])
        acc = tl.dot(tile, b.load([column * BLOCK, k * BLOCK]).T, acc)
        if not FIRST or column == 0:
            sums += tl.sum(tile.to(tl.float32), axis=1)
    c.store([0, column * BLOCK], acc.to(tl.float16))
    tl.store(sums_ptr + column * 64 + tl.arange(0, 64), sums)


@tawa.jit
def scaled_by_a_maximum(q_desc: Any, k_desc: Any, out_desc: Any, turns: Any):
    """Products whose rows are scaled when a warp sees a new maximum, and a tile that they read."""
    q = q_desc.load([0, 0])
    top = tl.full((64,), -1.0e30, tl.float32)
    acc = tl.zeros((64, 64), tl.float32)
    for block in range(0, turns):
        k = k_desc.load([block * BLOCK, 0])
        scores = tl.dot(q, k.T)
        found = tl.max(scores, axis=1)
        top = tl.where(found > top, found, top)
        acc += scores * tl.exp2(-tl.abs(top))[:, None] + k.to(tl.float32)
    out_desc.store([0, 0], acc)


def compiled(first: bool) -> Compiled:
    types = [*["desc<f16,64x64>"] * 3, "*f32", "i32"]
    return product_and_sums.compile(*types, first, num_stages=2)


def launch(found: Any, first: bool) -> tuple[list[np.ndarray], list[Any]]:
    """Check two programs of four turns; returns the arrays and what was expected."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 256)).astype(np.float16) for rows in (64, 128))
    c, sums = np.full((64, 128), np.nan, np.float16), np.full(128, np.nan, np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    described = [describe(x, [64, 64]) for x in (a, b, c)]
    report = check(found, (2,), [*described, sums, 4])
    assert report.proved
    wide = a.astype(np.float32)
    other = wide.sum(1) * (not first)
    return [c, sums], [wide @ b.T.astype(np.float32), np.concatenate([wide.sum(1), other])]


@pytest.mark.parametrize("first", [False, True])
def test_slots_are_read_behind_their_products(first: bool) -> None:
    """Nothing that needs registers stands before a product or among its instructions."""
    found = compiled(first)
    (read,) = [op for op in found.module("aref").walk() if isinstance(op, ViewRead)]
    place = read.parent_op() if first else read
    assert isinstance(place, scf.IfOp if first else ViewRead)
    assert place.parent is not None
    issues = [op for op in place.parent.ops if isinstance(op, DotIssue)]
    assert issues
    assert all(op.is_before_in_block(place) for op in issues)
    assert read.meets is not None
    for array, expected in zip(*launch(found.module("hopper"), first), strict=True):
        np.testing.assert_allclose(array, expected, 1e-2, 1e-2)


@pytest.mark.parametrize("first", [False, True])
def test_warps_have_to_meet(first: bool) -> None:
    """Without the meeting one warp returns the slot that another still reads."""
    module = compiled(first).module("hopper")
    (load,) = [op for op in module.walk() if isinstance(op, SharedLoad)]
    assert load.parent is not None
    behind = [op for op in load.parent.ops if load.is_before_in_block(op)]
    meeting = next(op for op in behind if isinstance(op, NamedBarrierSync))
    meeting.detach()
    meeting.erase()
    with pytest.raises(OverwriteWhileBorrowed):
        launch(module, first)


def test_no_meeting_behind_a_question_of_warps() -> None:
    """Of a branch that each warp takes by itself, a meeting would never end."""
    types = ["desc<f16,64x64>", "desc<f16,64x64>", "desc<f32,64x64>", "i32"]
    module = scaled_by_a_maximum.compile(*types).module("aref")
    asked = [op for op in module.walk() if isinstance(op, AnyAbove)]
    reads = [op for op in module.walk() if isinstance(op, ViewRead) and op.meets is not None]
    assert asked
    assert reads
    for read in reads:
        parent = read.parent_op()
        assert not (isinstance(parent, scf.IfOp) and isinstance(parent.cond.owner, AnyAbove))
