"""Reductions that a loop carries are put off to behind it; others stay where they are."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, Recorded, check, stored, values
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.driver.compiled import Compiled
from tawa.simulate import run
from tawa.tile.dialect.ops import Reduce

LEVELS = ["tile", "hopper", "ptx"]


@tawa.jit
def of_rows(x, out, n, START: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0 + START
    largest = -float("inf")
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        total += tl.sum(v * v, 0)
        largest = tl.maximum(tl.max(v, 0), largest)
    tl.store(out + row * 2, total)
    tl.store(out + row * 2 + 1, largest)


@tawa.jit
def of_tiles(x, out, m, n, BM: tl.constexpr, BN: tl.constexpr, AXIS: tl.constexpr):
    total = tl.zeros((BN if AXIS == 0 else BM,), x.dtype.element_ty)
    for i in range(0, m, BM):
        for j in range(0, n, BN):
            r, c = i + tl.arange(0, BM)[:, None], j + tl.arange(0, BN)[None, :]
            v = tl.load(x + r * n + c, mask=(r < m) & (c < n), other=0)
            total += tl.sum(v, AXIS)
    tl.store(out + tl.arange(0, BN if AXIS == 0 else BM), total)


@tawa.jit
def normalised(x, out, n, BLOCK: tl.constexpr):
    """The sum so far is used in the loop."""
    total = 1.0
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + at)
        total += tl.sum(v, 0)
        tl.store(out + at, v / total)


@tawa.jit
def narrow(x, out, n, BLOCK: tl.constexpr):
    total = tl.sum(tl.zeros((BLOCK,), tl.float16), 0)
    for i in range(0, n, BLOCK):
        total += tl.sum(tl.load(x + i + tl.arange(0, BLOCK)), 0)
    tl.store(out, total)


def within(compiled: Compiled) -> int:
    """Reductions inside loops."""
    loops = [op for op in compiled.module("aref").walk() if isinstance(op, scf.ForOp)]
    return sum(isinstance(op, Reduce) for loop in loops for op in loop.walk())


@pytest.mark.parametrize("n", [0, 100, 900])
def test_sums_and_extremes_of_rows(n: int) -> None:
    a = Arrays()
    x, out = a.random("f32", 2, max(n, 1)), a.output("f32", 2, 2)
    v = values(x)[:, :n]
    expected = np.stack([3 + (v * v).sum(1), v.max(1, initial=-np.inf)], 1)
    if n % 128 and n:
        expected[:, 1] = np.maximum(expected[:, 1], 0)
    finite = {1: np.where(np.isinf(expected), 0, expected)}
    compiled = of_rows.compile(x, out, n, START=3.0, BLOCK=128)
    assert within(compiled) == 0
    if n:
        check(of_rows, (2,), [x, out, n], finite, 1e-5, levels=LEVELS, START=3.0, BLOCK=128)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("element", ["f32", "i32"])
def test_sums_of_tiles_in_loops_of_loops(element: str, axis: int) -> None:
    a, (m, n) = Arrays(), (40, 70)
    x = stored(np.random.default_rng(1).integers(-9, 9, (m, n)), element)
    size = 32 if axis == 0 else 16
    out = a.output(element, size)
    wide = np.zeros((48, 96))
    wide[:m, :n] = values(x)
    parts = wide.reshape(3, 16, 3, 32).sum((0, 2)).sum(axis)
    compiled = check(of_tiles, (1,), [x, out, m, n], {1: parts}, 1e-6, levels=LEVELS, BM=16, BN=32,
                     AXIS=axis)  # fmt: skip
    assert within(compiled) == 0


def test_what_is_not_a_number_stays() -> None:
    x, out = stored(np.ones((1, 256)), "f32"), Arrays().output("f32", 1, 2)
    x[0, 5] = np.nan
    compiled = of_rows.compile(x, out, 256, START=0.0, BLOCK=128)
    run(compiled.module("hopper"), (1,), [x, out, 256])
    assert np.isnan(out[0, 0])
    assert out[0, 1] == 1


def test_a_sum_that_is_used_in_the_loop_is_made_there() -> None:
    a = Arrays()
    x, out = stored(np.random.default_rng(0).random(512) + 1, "f32"), a.output("f32", 512)
    v = values(x).reshape(4, 128)
    expected = (v / (1 + v.sum(1).cumsum()[:, None])).reshape(-1)
    compiled = check(normalised, (1,), [x, out, 512], {1: expected}, 1e-5, BLOCK=128)
    assert within(compiled) == 1


def test_sums_of_few_bits_are_made_block_by_block() -> None:
    compiled = narrow.compile("*f16", "*f16", "i32", BLOCK=128)
    assert within(compiled) == 1


def test_tiles_that_take_too_many_registers_are_reduced_at_once() -> None:
    types = "*f32:16", "*f32", "i32:16"
    assert within(of_rows.compile(*types, START=0.0, BLOCK=2048, num_warps=4)) == 0
    assert within(of_rows.compile(*types, START=0.0, BLOCK=4096, num_warps=4)) == 1
    assert within(of_rows.compile(*types, START=0.0, BLOCK=8192, num_warps=4)) == 2


@tawa.jit
def largest_number(x, out, n, BLOCK: tl.constexpr):
    largest = tl.load(out)
    for i in range(0, n, BLOCK):
        largest = tl.maximum(tl.max(tl.load(x + i + tl.arange(0, BLOCK)), 0), largest)
    tl.store(out, largest)


@pytest.mark.parametrize("n", [0, 256])
@pytest.mark.parametrize("level", LEVELS)
def test_a_maximum_of_nothing_but_nan_stays_nan(n: int, level: str) -> None:
    x, out = (stored(np.full(size, np.nan), "f32") for size in (256, 1))
    launch = Recorded(largest_number, (1,), (x, out, n), {"BLOCK": 128})
    compiled = launch.compile()
    assert within(compiled) == 0
    launch.run(compiled, level)
    assert np.isnan(values(out)[0])
