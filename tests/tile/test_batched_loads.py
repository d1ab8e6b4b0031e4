"""Loops that load a little are done several iterations at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl

LEVELS = ["tile", "hopper", "ptx"]


@tawa.jit
def grid_stride(x, y, n, tiles: int, N: tl.constexpr):
    for j in range(tiles):
        at = (tl.program_id(0) + j * tl.num_programs(0)) * N + tl.arange(0, N)
        tl.store(y + at, tl.load(x + at, mask=at < n) * 2 + j, mask=at < n)


@tawa.jit
def moved(x, y, n, first, last, N: tl.constexpr, STEP: tl.constexpr):
    """Pointers and a sum go from iteration to iteration."""
    at = tl.arange(0, N)
    from_, to, total = x + at, y + at, tl.zeros([N], tl.float32)
    for _ in range(first, last, STEP):
        v = tl.load(from_)
        total += v
        tl.store(to, total)
        from_ += N
        to += N
    tl.store(y + n * N + at, total)


@tawa.jit
def looked_up(x, index, y, n, N: tl.constexpr):
    """What is loaded says where to load."""
    for j in range(n):
        at = j * N + tl.arange(0, N)
        tl.store(y + at, tl.load(x + tl.load(index + at)))


def batched(kernel: tawa.Kernel, *arguments: Any, **options: Any) -> int:
    """Iterations of its loop that are done together."""
    decisions = kernel.compile(*arguments, **options).decisions
    found = [d.count for d in decisions if d.by == "batched-loads"]
    return found[0] if found else 1


@pytest.mark.parametrize("tiles", [0, 1, 3, 4, 5, 8, 9])
def test_tiles_of_a_grid(tiles: int) -> None:
    a = Arrays()
    n = 2 * 128 * max(tiles, 1) - 37
    x, y = a.random("f32", n), a.output("f32", n)
    at = np.arange(n)
    exact = np.where(at < 256 * tiles, values(x) * 2 + at // 256, np.nan)
    if tiles:
        check(grid_stride, (2,), [x, y, n, tiles], {1: exact}, 1e-6, levels=LEVELS, N=128)


@pytest.mark.parametrize(("first", "last", "step"), [(0, 7, 1), (2, 13, 2), (-3, 6, 1), (5, 5, 1)])
def test_what_iterations_pass_on(first: int, last: int, step: int) -> None:
    a, count = Arrays(), len(range(first, last, step))
    x, y = a.random("f32", count + 1, 64), a.output("f32", count + 1, 64)
    exact = np.zeros((count + 1, 64))
    exact[:count] = values(x)[:count].cumsum(0)
    exact[count] = exact[count - 1] if count else 0
    check(moved, (1,), [x, y, count, first, last], {1: exact}, 1e-6, levels=LEVELS,
          N=64, STEP=step, num_warps=2)  # fmt: skip


def test_loads_that_depend_on_loads() -> None:
    x, y = np.arange(640, dtype=np.float32), np.zeros(640, np.float32)
    index = np.random.default_rng(0).permutation(640).astype(np.int32)
    looked_up[(1,)](x, index, y, 10, N=64)
    np.testing.assert_array_equal(y, x[index])


def test_how_many() -> None:
    kinds = "*f16:16", "*f16:16", "i32", "i32"
    assert batched(grid_stride, *kinds, N=128) == 8
    assert batched(grid_stride, *kinds, N=256) == 4
    assert batched(grid_stride, *kinds, N=1024) == 1  # 16 bytes a thread as it is
    assert batched(grid_stride, *kinds, N=256, num_warps=8) == 8
    assert batched(moved, "*f32:16", "*f32:16", "i32", 0, 3, N=256, STEP=1) == 2
    assert batched(looked_up, "*f32:16", "*i32:16", "*f32:16", "i32", N=256) == 1


def test_what_stays() -> None:
    assert batched(in_turn, "*f32:16", "i32", N=128) == 1
    assert batched(read_back, "*f32:16", "*f32:16", "i32", N=128) == 1
    assert batched(counted, "*i32:16", "*i32:16", "i32", N=128) == 1
    assert batched(watched, "*i32:16", "*i32:16", "i32", N=128) == 1
    assert batched(grid_stride, "*f16:16", "*f16:16", "i32", "i32", N=128,
                   may_overlap=(("x", "y"),)) == 1  # fmt: skip


@tawa.jit
def in_turn(x, n, N: tl.constexpr):
    for j in range(n):
        at = x + j * N + tl.arange(0, N)
        tl.store(at + N, tl.load(at))


@tawa.jit
def read_back(x, y, n, N: tl.constexpr):
    for j in range(n):
        at = j * N + tl.arange(0, N)
        tl.store(y + at, tl.load(x + at) + tl.load(y + tl.arange(0, N)))


@tawa.jit
def counted(x, y, n, N: tl.constexpr):
    for j in range(n):
        at = j * N + tl.arange(0, N)
        tl.atomic_add(y + at, tl.load(x + at))
        tl.store(y + n * N + at, tl.load(x + at))


@tawa.jit
def watched(x, y, n, N: tl.constexpr):
    for j in range(n):
        at = j * N + tl.arange(0, N)
        tl.store(y + at, tl.load(x + at, volatile=True))
