"""What only some programs store, only they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.compiled import Compiled
from tawa.simulate.hopper import run
from tawa.tile.ops import Reduce

BLOCK = tl.constexpr(64)


@tawa.jit
def by_mask(a: Any, b: Any, c: Any, sums_ptr: Any, turns: Any, EVERYWHERE: tl.constexpr):
    """A product and the row sums of A, which the first column of programs stores, or all do."""
    column = tl.program_id(0)
    acc = tl.zeros((64, 64), tl.float32)
    sums = tl.zeros((64,), tl.float32)
    for k in range(0, turns):
        tile = a.load([0, k * BLOCK])
        acc = tl.dot(tile, b.load([column * BLOCK, k * BLOCK]).T, acc)
        sums += tl.sum(tile.to(tl.float32), axis=1)
    c.store([0, column * BLOCK], acc.to(tl.float16))
    rows = tl.arange(0, 64)
    first = column == 0
    if EVERYWHERE:
        tl.store(sums_ptr + column * 64 + rows, sums)
    else:
        tl.store(sums_ptr + rows, sums, mask=(rows < 63) & first)


@tawa.jit
def by_branch(a: Any, b: Any, c: Any, sums_ptr: Any, turns: Any, EVERYWHERE: tl.constexpr):
    """The same with a branch around the store; with EVERYWHERE the product is stored there, too."""
    column = tl.program_id(0)
    acc = tl.zeros((64, 64), tl.float32)
    sums = tl.zeros((64,), tl.float32)
    for k in range(0, turns):
        tile = a.load([0, k * BLOCK])
        acc = tl.dot(tile, b.load([column * BLOCK, k * BLOCK]).T, acc)
        sums += tl.sum(tile.to(tl.float32), axis=1)
    if EVERYWHERE:
        acc += sums[:, None]
    c.store([0, column * BLOCK], acc.to(tl.float16))
    if column == 0:
        tl.store(sums_ptr + tl.arange(0, 64), sums)


@tawa.jit
def by_what_was_computed(a: Any, b: Any, c: Any, sums_ptr: Any, turns: Any, COUNTED: tl.constexpr):
    """Row sums that are stored on a condition which the loop itself computes, or, without, not."""
    column = tl.program_id(0)
    acc = tl.zeros((64, 64), tl.float32)
    sums = tl.zeros((64,), tl.float32)
    left = turns
    for k in range(0, turns):
        tile = a.load([0, k * BLOCK])
        acc = tl.dot(tile, b.load([column * BLOCK, k * BLOCK]).T, acc)
        sums += tl.sum(tile.to(tl.float32), axis=1)
        left -= k
    c.store([0, column * BLOCK], acc.to(tl.float16))
    last = left if COUNTED else column
    tl.store(sums_ptr + tl.arange(0, 64), sums, mask=last == 0)


def compiled(kernel: tawa.Kernel, flag: bool) -> Compiled:
    return kernel.compile(*["desc<f16,64x64>"] * 3, "*f32", "i32", flag)


def guarded(found: Compiled) -> list[bool]:
    """Of each sum of rows in a loop, whether it is inside of a branch."""
    return [
        isinstance(op.parent_op(), scf.IfOp)
        for op in found.module("aref").walk()
        if isinstance(op, Reduce)
    ]


@pytest.mark.parametrize("kernel", [by_mask, by_branch])
def test_sums_of_some_programs(kernel: tawa.Kernel) -> None:
    """Only where they are stored, and with the right result."""
    found = compiled(kernel, False)
    assert guarded(found) == [True]
    assert any(line.startswith("partial-dead-code") for line in found.remarks)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 192)).astype(np.float16) for rows in (64, 128))
    c, sums = np.full((64, 128), np.nan, np.float16), np.full(64, np.nan, np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    arguments = [describe(x, [64, 64]) for x in (a, b, c)]
    run(found.module("hopper"), (2,), [*arguments, sums, 3])
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.T.astype(np.float32), 1e-2, 1e-2)
    rows = 63 if kernel is by_mask else 64
    np.testing.assert_allclose(sums[:rows], a.astype(np.float32).sum(1)[:rows], 1e-3, 1e-3)
    assert np.isnan(sums[rows:]).all()


@pytest.mark.parametrize("kernel", [by_mask, by_branch])
def test_sums_that_are_needed_everywhere(kernel: tawa.Kernel) -> None:
    assert guarded(compiled(kernel, True)) == [False]


def test_a_condition_has_to_be_known_before_the_loop() -> None:
    assert guarded(compiled(by_what_was_computed, True)) == [False]
    assert guarded(compiled(by_what_was_computed, False)) == [True]
