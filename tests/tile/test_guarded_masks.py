"""Masks behind a branch, in the loops of persistent kernels that may run on from tile to tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.base.options import Options
from tawa.driver.inspection.tile_programs import run_tile_module
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import LoopJoined, MasksGuarded
from tawa.ir.elementwise import Map
from tawa.tile.passes.guarded_masks import GuardMasks
from tawa.tile.passes.simplify import simplify
from tawa.tile.passes.split_loops import SplitLoops

BLOCK = 32


@tawa.jit
def banded(
    x: Any, y: Any, out: Any, rows: Any, columns: Any, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    MORE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Products of x and y, of which a band counts: what is kept depends on the blocks' order."""
    a = x.load([0, 0])
    row = rows + tl.arange(0, 64)
    total = tl.zeros((64, BLOCK), tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        tile = tl.dot(a, y.load([0, start]))
        if RIGHT is not None:
            tile = tl.where(column[None, :] <= row[:, None] + RIGHT, tile, 0.0)
        if LEFT is not None:
            tile = tl.where(
                (row[:, None] - LEFT <= column[None, :]) & (column != 5)[None, :], tile, 0.0
            )
        total = total * 0.5 + tile
    if MORE:
        total += tl.dot(a, y.load([0, 0]))
    out.store([0, 0], total)


TYPES = ["desc<f16,64x16>", "desc<f16,16x32>", "desc<f32,64x32>", "i32", "i32"]


def guarded(options: Options, **constants: Any) -> Any:
    """The module after both passes, and its branches."""
    given = {"LEFT": None, "RIGHT": 0, "MORE": False, "BLOCK": BLOCK, **constants}
    module = lower_to_tile(banded, [parse_argument(t) for t in TYPES], given)
    simplify(module)
    decided = Decisions()
    SplitLoops(options, decided).apply(module)
    GuardMasks(options, decided).apply(module)
    module.verify()
    return module, [op for op in module.walk() if isinstance(op, scf.IfOp)]


def loops(module: Any) -> int:
    """How many loops there are."""
    return sum(isinstance(op, scf.ForOp) for op in module.walk())


@pytest.mark.parametrize(("left", "right", "found"), [(None, 0, 1), (40, None, 1), (40, 17, 2)])
def test_masks_stand_behind_branches(left: Any, right: Any, found: int) -> None:
    module, branches = guarded(Options(persistent=True), LEFT=left, RIGHT=right)
    assert (loops(module), len(branches)) == (1, found)
    for branch in branches:
        then = [op.function.data for op in branch.true_region.walk() if isinstance(op, Map)]
        assert "select" in then
    kept = [op for op in branches[-1].false_region.walk() if isinstance(op, Map)]
    assert bool(kept) == (left is not None), "what another condition masks stays masked"


def test_other_loops_are_split() -> None:
    """Where nothing may run on: no persistent kernel, or other products in a tile."""
    assert loops(guarded(Options())[0]) == 2
    assert loops(guarded(Options(persistent=True), MORE=True)[0]) == 2


BANDS = [(None, 0), (0, None), (40, 0), (70, 33), (None, -200), (None, 500), (500, 500), (-9, 3)]


@pytest.mark.parametrize(("left", "right"), BANDS)
@pytest.mark.parametrize(("rows", "columns"), [(0, 320), (97, 250), (300, 1), (64, 0)])
def test_results_stay(left: Any, right: Any, rows: int, columns: int) -> None:
    module, _ = guarded(Options(persistent=True), LEFT=left, RIGHT=right)
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (64, 16)).astype(np.float16)
    y = rng.integers(-3, 4, (16, 320)).astype(np.float16)
    out = np.empty((64, BLOCK), np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    blocks = ([64, 16], [16, BLOCK], [64, BLOCK])
    arrays = [describe(a, block) for a, block in zip((x, y, out), blocks, strict=True)]
    run_tile_module(module, 1, [*arrays, rows, columns])
    row, column = rows + np.arange(64)[:, None], np.arange(320)[None, :]
    keep = np.ones((64, 320), bool)
    if right is not None:
        keep &= column <= row + right
    if left is not None:
        keep &= (row - left <= column) & (column != 5)
    scores, total = np.where(keep, x.astype(float) @ y.astype(float), 0), np.zeros((64, BLOCK))
    for start in range(0, columns, BLOCK):
        total = total * 0.5 + scores[:, start : start + BLOCK]
    np.testing.assert_allclose(out, total, rtol=1e-6)


@tawa.jit
def attend(q: Any, k: Any, v: Any, o: Any, scale: Any, keys: Any):
    """Attention of one head that masks the last keys, and takes scaled maxima over lazily."""
    tl.assume(keys > 0)
    rows = tl.program_id(0) * 128
    a = q.load([rows, 0])
    top = tl.full((128,), -float("inf"), tl.float32)
    total = tl.zeros((128,), tl.float32)
    acc = tl.zeros((128, 64), tl.float32)
    for start in range(0, keys, 64):
        scores = tl.dot(a, k.load([start, 0]).T) * scale
        scores = tl.where((start + tl.arange(0, 64))[None, :] < keys, scores, -float("inf"))
        found = tl.max(scores, axis=1)
        grown = found > top + 8
        new = tl.where(grown, found, top)
        correction = tl.where(grown, tl.exp2(top - new), 1.0)
        p = tl.exp2(scores - new[:, None])
        total = total * correction + tl.sum(p, axis=1)
        acc = tl.dot(p.to(tl.float16), v.load([start, 0]), acc * correction[:, None])
        top = new
    o.store([rows, 0], (acc * (1 / total)[:, None]).to(tl.float16))


def test_a_masked_softmax_runs_on_from_tile_to_tile() -> None:
    """With one question a turn: whether a scaled maximum has grown."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 384, 64)).astype(np.float16)
    k, v = k[:150] * np.linspace(0.1, 9, 150)[:, None].astype(np.float16), v[:150]
    out = np.full_like(q, np.nan)
    describe = tawa.TensorDescriptor.from_tensor
    blocks = zip((q, k, v, out), (128, 64, 64, 128), strict=True)
    arrays = [describe(x, [n, 64]) for x, n in blocks]
    kernel = attend.compile(*arrays, 0.18, 150, persistent=True, consumers=2)
    assert kernel.decided(LoopJoined)
    assert kernel.decided(MasksGuarded)
    assert "aref.any_above" in str(kernel.stages["aref"])
    from tawa.simulate.interpret.hopper import run

    run(kernel.module("hopper"), (3,), [*arrays, 0.18, 150], multiprocessors=2)
    p = np.exp2(q.astype(float) @ k.astype(float).T * 0.18)
    assert abs(out - p @ v.astype(float) / p.sum(1, keepdims=True)).max() < 0.01


@tawa.jit
def weighed(x: Any, y: Any, out: Any, rows: Any, columns: Any, BY: tl.constexpr):
    """Sums of powers of products, masked by numbers that are added."""
    a = x.load([0, 0])
    row, total = rows + tl.arange(0, 64), tl.zeros((64, 32), tl.float32)
    for start in range(0, columns, 32):
        column = start + tl.arange(0, 32)
        tile = tl.dot(a, y.load([0, start])) * 0.25
        if BY == "column":
            tile += tl.where(column < rows, 0.0, -float("inf"))[None, :]
        else:
            tile += tl.where(column[None, :] <= row[:, None], 0.0, -float("inf"))
        total += tl.exp2(tile)
    out.store([0, 0], total)


@pytest.mark.parametrize("by", ["column", "element"])
@pytest.mark.parametrize(("rows", "columns"), [(0, 320), (97, 250), (300, 1), (64, 0)])
def test_masks_that_are_added(by: str, rows: int, columns: int) -> None:
    """What is left of the sum where the mask holds is the product."""
    module = lower_to_tile(weighed, [parse_argument(t) for t in TYPES], {"BY": by})
    simplify(module)
    GuardMasks(Options(persistent=True), Decisions()).apply(module)
    module.verify()
    (branch,) = [op for op in module.walk() if isinstance(op, scf.IfOp)]
    then, otherwise = (
        [op.function.data for op in region.walk() if isinstance(op, Map)]
        for region in (branch.true_region, branch.false_region)
    )
    assert {"addf", "select"} <= set(then)
    assert otherwise == []
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (64, 16)).astype(np.float16)
    y = rng.integers(-3, 4, (16, 320)).astype(np.float16)
    out = np.empty((64, 32), np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    blocks = ([64, 16], [16, 32], [64, 32])
    arrays = [describe(a, block) for a, block in zip((x, y, out), blocks, strict=True)]
    run_tile_module(module, 1, [*arrays, rows, columns])
    column = np.arange(320)[None, :]
    keep = column < rows if by == "column" else column <= rows + np.arange(64)[:, None]
    powers = np.where(keep, np.exp2(x.astype(float) @ y.astype(float) / 4), 0)
    expected = sum((powers[:, at : at + 32] for at in range(0, columns, 32)), np.zeros((64, 32)))
    np.testing.assert_allclose(out, expected, rtol=1e-5)
