"""Extremes and their positions: found together, in one warp and several, with ties and NaN."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret import hopper, tile
from tawa.simulate.ptx.launch import run as run_ptx
from tawa.tile.dialect.ops import ArgReduce, Reduce


@tawa.jit
def extremes(x, best, at, M: tl.constexpr, N: tl.constexpr, LEAST: tl.constexpr):
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + rows[:, None] * N + cols)
    if LEAST:
        tl.store(best + rows, tl.min(v, 1))
        tl.store(at + rows, tl.argmin(v, 1))
    else:
        tl.store(at + rows, tl.argmax(v, 1))
        tl.store(best + rows, tl.max(v, 1))


def contents(dtype, m: int, n: int) -> np.ndarray:
    """Few different numbers, so that many are equal, with every row's NaN elsewhere."""
    generator = np.random.default_rng(m * n)
    x = generator.integers(-4, 4, (m, n)).astype(dtype)
    if x.dtype.kind == "f":
        x[generator.random((m, n)) < 0.3] = np.nan
        x[0] = np.nan
        x[1, : n // 2], x[1, n // 2 :] = np.nan, -np.inf
        x[-1] = 0.0
        x[-1, 1::2] = -0.0
    return x


@pytest.mark.parametrize("least", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
@pytest.mark.parametrize(("shape", "warps"), [((4, 64), 1), ((2, 512), 4), ((64, 8), 4)])
def test_against_numpy(dtype, shape, warps, least):
    x = contents(dtype, *shape)
    best, at = np.zeros(shape[0], dtype), np.zeros(shape[0], np.int32)
    expected = (np.fmin if least else np.fmax).reduce(x, axis=1)
    compiled = extremes.compile(x, best, at, *shape, least, num_warps=warps)
    runs = {
        "tile": lambda args: tile.run(compiled.module("tile"), (1,), args),
        "hopper": lambda args: hopper.run(compiled.module("hopper"), (1,), args),
        "ptx": lambda args: run_ptx(compiled.stages["ptx"], compiled.spec, (1,), args),
    }
    for run in runs.values():
        best[:], at[:] = 9, -1
        run([x, best, at])
        assert np.array_equal(best, expected, equal_nan=x.dtype.kind == "f")
        assert np.array_equal(at, np.argmax(x == expected[:, None], axis=1))


def test_one_reduction_finds_both():
    x, out = np.zeros((1, 256), np.float32), np.zeros(1, np.float32)
    compiled = extremes.compile(x, out, out.astype(np.int32), 1, 256, False, num_warps=1)
    kinds = [type(op) for op in compiled.module("aref").walk()]
    assert kinds.count(ArgReduce) == 1
    assert Reduce not in kinds
    assert "shuffle_xor" not in str(compiled.module("hopper"))


@tawa.jit
def neighbours(x, best, at, N: tl.constexpr):
    cells = tl.arange(0, N)
    v = tl.load(x + cells[:, None] * N + cells)
    tl.store(best + cells, tl.max(v, 0) + tl.min(v, 1))
    tl.store(at + cells, tl.argmax(v, 1) + tl.argmin(v, 0))


def test_other_extremes_and_those_of_other_axes_stay_apart():
    x, best, at = np.zeros((16, 16), np.float32), np.zeros(16, np.float32), np.zeros(16, np.int32)
    compiled = neighbours.compile(x, best, at, 16, num_warps=1)
    kinds = [type(op) for op in compiled.module("aref").walk()]
    assert [kinds.count(kind) for kind in (ArgReduce, Reduce)] == [2, 2]
