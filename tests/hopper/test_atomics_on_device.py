"""Atomics of every kind: what the assembler gets does what the ops mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret import hopper
from tawa.simulate.ptx.launch import run as run_ptx

N = 64


@tawa.jit
def whole(x, y, old, N: tl.constexpr):
    """Each kind has a row of `y` of its own; every second element is masked off."""
    i = tl.arange(0, N)
    v, some = tl.load(x + i), i % 2 == 0
    tl.store(old + i, tl.atomic_add(y + i, v, mask=some))
    tl.store(old + N + i, tl.atomic_max(y + N + i, v, mask=some))
    tl.store(old + 2 * N + i, tl.atomic_min(y + 2 * N + i, v, mask=some))
    tl.store(old + 3 * N + i, tl.atomic_and(y + 3 * N + i, v, mask=some))
    tl.store(old + 4 * N + i, tl.atomic_or(y + 4 * N + i, v, mask=some))
    tl.store(old + 5 * N + i, tl.atomic_xor(y + 5 * N + i, v, mask=some))
    tl.store(old + 6 * N + i, tl.atomic_xchg(y + 6 * N + i, v, mask=some))
    tl.store(old + 7 * N + i, tl.atomic_cas(y + 7 * N + i, v, v * 0 + 3))
    tl.atomic_add(y + 8 * N + i, v)


@tawa.jit
def floats(x, y, old, N: tl.constexpr):
    i = tl.arange(0, N)
    v, some = tl.load(x + i), i % 2 == 0
    tl.store(old + i, tl.atomic_add(y + i, v, mask=some))
    tl.store(old + N + i, tl.atomic_max(y + N + i, v, mask=some))
    tl.store(old + 2 * N + i, tl.atomic_min(y + 2 * N + i, v, mask=some))
    tl.store(old + 3 * N + i, tl.atomic_xchg(y + 3 * N + i, v, mask=some))
    tl.atomic_add(y + 4 * N + i, v)


@tawa.jit
def sums(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(y + i, tl.load(x + i))
    tl.atomic_add(y + N + i, tl.load(x + i), mask=i < N - 4)


def same(kernel: tawa.Kernel, expected: Callable[..., None], *arrays: np.ndarray) -> None:
    """Run the hopper level and the PTX, and compare what is in memory."""
    exact = [a.copy() for a in arrays]
    expected(*exact)
    compiled = kernel.compile(*arrays, N, num_warps=1)
    for level in ("hopper", "ptx"):
        found = [a.copy() for a in arrays]
        if level == "hopper":
            hopper.run(compiled.module("hopper"), (1,), found)
        else:
            run_ptx(str(compiled.stages["ptx"]), compiled.spec, (1,), found)
        for one, other in zip(exact, found, strict=True):
            np.testing.assert_array_equal(other, one, err_msg=level)


@pytest.mark.parametrize("element", [np.int32, np.uint32, np.int64])
def test_whole_numbers(element: Any) -> None:
    random = np.random.default_rng(0)
    low = 0 if element is np.uint32 else -40
    x = random.integers(low, 40, N).astype(element)
    y = random.integers(low, 40, (9, N)).astype(element)
    y[7, ::3] = x[::3]

    def expected(x: Any, y: Any, old: Any) -> None:
        some = np.arange(N) % 2 == 0
        new = [y[0] + x, np.maximum(y[1], x), np.minimum(y[2], x), y[3] & x, y[4] | x, y[5] ^ x, x]
        for row, value in enumerate(new):
            old[row] = np.where(some, y[row], 0)
            y[row] = np.where(some, value, y[row])
        old[7] = y[7]
        y[7] = np.where(y[7] == x, 3, y[7])
        y[8] += x

    same(whole, expected, x, y, np.zeros((8, N), element))


def test_floats() -> None:
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, N).astype(np.float32)
    y = random.integers(-9, 9, (5, N)).astype(np.float32)

    def expected(x: Any, y: Any, old: Any) -> None:
        some = np.arange(N) % 2 == 0
        for row, value in enumerate([y[0] + x, np.maximum(y[1], x), np.minimum(y[2], x), x]):
            old[row] = np.where(some, y[row], 0)
            y[row] = np.where(some, value, y[row])
        y[4] += x

    same(floats, expected, x, y, np.zeros((4, N), np.float32))


@pytest.mark.parametrize("element", [np.float16, np.float32, np.float64])
def test_sums_of_neighbours(element: Any) -> None:
    """Several neighbours are added by one instruction where nobody reads the old values."""
    x = np.arange(N).astype(element)

    def expected(x: Any, y: Any) -> None:
        y[0] += x
        y[1, :-4] += x[:-4]

    same(sums, expected, x, np.ones((2, N), element))
