"""Counted and gathered elements: what the assembler gets does what the ops mean."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret import hopper
from tawa.simulate.ptx.launch import run as run_ptx


@tawa.jit
def counted(x, y, N: tl.constexpr, BINS: tl.constexpr):
    found = tl.histogram(tl.load(x + tl.arange(0, N)), BINS)
    tl.store(y + tl.arange(0, BINS), found)


@tawa.jit
def gathered(x, at, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, AXIS: tl.constexpr):
    rows: tl.constexpr = K if AXIS == 0 else M
    columns: tl.constexpr = K if AXIS == 1 else N
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    j = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]
    tl.store(y + j, tl.gather(tl.load(x + i), tl.load(at + j), AXIS))


@tawa.jit
def picked(x, at, y, N: tl.constexpr, K: tl.constexpr):
    j = tl.arange(0, K)
    tl.store(y + j, tl.gather(tl.load(x + tl.arange(0, N)), tl.load(at + j), 0))


def same(kernel: tawa.Kernel, expected: np.ndarray, *given: np.ndarray, **constants: int) -> None:
    """What the hopper level and the PTX leave in the last array."""
    out = np.full(expected.shape, 77, expected.dtype)
    compiled = kernel.compile(*given, out, **constants)
    for level in ("hopper", "ptx"):
        found = out.copy()
        if level == "hopper":
            hopper.run(compiled.module("hopper"), (1,), [*given, found])
        else:
            run_ptx(str(compiled.stages["ptx"]), compiled.spec, (1,), [*given, found])
        np.testing.assert_array_equal(found, expected, err_msg=level)


@pytest.mark.parametrize(("size", "bins", "warps"), [(256, 16, 2), (64, 64, 4), (32, 1, 1)])
def test_elements_are_counted(size: int, bins: int, warps: int) -> None:
    """Those outside the bins are not: below the first, and from the number of bins on."""
    x = np.random.default_rng(0).integers(-2, bins + 2, size).astype(np.int32)
    expected = np.array([(x == b).sum() for b in range(bins)], np.int32)
    same(counted, expected, x, N=size, BINS=bins, num_warps=warps)


@pytest.mark.parametrize(
    ("axis", "m", "n", "k", "element"),
    [(0, 16, 32, 8, np.float32), (1, 16, 32, 8, np.float16), (1, 8, 8, 64, np.int32)],
)
def test_elements_are_gathered_along_an_axis(
    axis: int, m: int, n: int, k: int, element: type
) -> None:
    x = np.arange(m * n).reshape(m, n).astype(element)
    shape = (k, n) if axis == 0 else (m, k)
    at = np.random.default_rng(1).integers(0, (m, n)[axis], shape).astype(np.int32)
    expected = np.take_along_axis(x, at, axis)
    same(gathered, expected, x, at, M=m, N=n, K=k, AXIS=axis, num_warps=2)


def test_elements_of_a_row_are_picked() -> None:
    x = np.arange(128, dtype=np.float32)
    at = np.random.default_rng(2).integers(0, 128, 32).astype(np.int32)
    same(picked, x[at], x, at, N=128, K=32, num_warps=4)
