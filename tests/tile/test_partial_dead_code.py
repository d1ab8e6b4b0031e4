"""What only some programs store, only they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.driver.compiled import Compiled
from tawa.ir.decisions.loops import ComputedWhereStored
from tawa.simulate.interpret.hopper import run
from tawa.tile.dialect.ops import Reduce

BLOCK = tl.constexpr(64)


@tawa.jit
def product_and_sums(a: Any, b: Any, c: Any, sums_ptr: Any, turns: Any, HOW: tl.constexpr):
    """A product and the row sums of A, which some programs or all of them store."""
    column = tl.program_id(0)
    acc = tl.zeros((64, 64), tl.float32)
    sums = tl.zeros((64,), tl.float32)
    left = turns
    for k in range(0, turns):
        tile = a.load([0, k * BLOCK])
        acc = tl.dot(tile, b.load([column * BLOCK, k * BLOCK]).T, acc)
        sums += tl.sum(tile.to(tl.float32), axis=1)
        left -= k
    if HOW == "added":
        acc += sums[:, None]
    c.store([0, column * BLOCK], acc.to(tl.float16))
    rows = tl.arange(0, 64)
    if HOW == "branch" or HOW == "added":
        if column == 0:
            tl.store(sums_ptr + rows, sums)
    elif HOW == "everywhere":
        tl.store(sums_ptr + column * 64 + rows, sums)
    elif HOW == "counted":
        tl.store(sums_ptr + rows, sums, mask=left == 0)
    else:
        tl.store(sums_ptr + rows, sums, mask=(rows < 63) & (column == 0))


def compiled(how: str) -> Compiled:
    return product_and_sums.compile(*["desc<f16,64x64>"] * 3, "*f32", "i32", how)


def guarded(found: Compiled) -> list[bool]:
    """Of each sum of rows in a loop, whether it is inside of a branch."""
    return [
        isinstance(op.parent_op(), scf.IfOp)
        for op in found.module("aref").walk()
        if isinstance(op, Reduce)
    ]


@pytest.mark.parametrize(("how", "rows"), [("mask", 63), ("branch", 64)])
def test_sums_of_some_programs(how: str, rows: int) -> None:
    """Only where they are stored, and with the right result."""
    found = compiled(how)
    assert guarded(found) == [True]
    assert found.decided(ComputedWhereStored)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 192)).astype(np.float16) for rows in (64, 128))
    c, sums = np.full((64, 128), np.nan, np.float16), np.full(64, np.nan, np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    arguments = [describe(x, [64, 64]) for x in (a, b, c)]
    run(found.module("hopper"), (2,), [*arguments, sums, 3])
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.T.astype(np.float32), 1e-2, 1e-2)
    np.testing.assert_allclose(sums[:rows], a.astype(np.float32).sum(1)[:rows], 1e-3, 1e-3)
    assert np.isnan(sums[rows:]).all()


@pytest.mark.parametrize("how", ["everywhere", "added"])
def test_sums_that_all_programs_need(how: str) -> None:
    assert guarded(compiled(how)) == [False]


def test_a_condition_has_to_be_known_before_the_loop() -> None:
    assert guarded(compiled("counted")) == [False]
