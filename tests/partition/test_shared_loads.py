"""Loads that the CTAs of a cluster share, at coordinates that a loop computes."""

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate import run as run_hopper


@tawa.jit
def by_tiles(x, w, y, taps, BLOCKS: tl.constexpr):
    """Consecutive programs have one tile of x, and other columns of w: coordinates by division."""
    block = tl.program_id(0) % BLOCKS
    row = tl.program_id(0) // BLOCKS * 64
    acc = tl.zeros((64, 64), tl.float32)
    for t in range(taps):
        acc = tl.dot(x.load([row + t // 2 * 64, t % 2 * 64]), w.load([t * 64, block * 64]), acc)
    y.store([row, block * 64], acc)


@tawa.jit
def inside_the_loop(x, w, y, taps, BLOCKS: tl.constexpr):
    """The same with the program's number asked for in the loop."""
    acc = tl.zeros((64, 64), tl.float32)
    for t in range(taps):
        row = tl.program_id(0) // BLOCKS * 64 + t // 2 * 64
        column = tl.program_id(0) % BLOCKS * 64
        acc = tl.dot(x.load([row, t % 2 * 64]), w.load([t * 64, column]), acc)
    y.store([tl.program_id(0) // BLOCKS * 64, tl.program_id(0) % BLOCKS * 64], acc)


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("kernel", [by_tiles, inside_the_loop], ids=["before", "inside"])
def test_right_however_coordinates_are_computed(kernel: Any, blocks: int):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float16) for s in ((256, 128), (256, 128)))
    y = np.full((128 if blocks == 2 else 256, 64 * blocks), np.nan, np.float32)
    rows = y.shape[0] // 64
    types = "desc<f16,64x64>", "desc<f16,64x64>", "desc<f32,64x64>", "i32", blocks
    compiled = kernel.compile(*types, cluster=2)
    given = [tawa.TensorDescriptor.from_tensor(a, [64, 64]) for a in (x, w, y)]
    run_hopper(compiled.module("hopper"), (rows * blocks,), [*given, 3])
    wide, taps = np.pad(x.astype(np.float64), ((0, 256), (0, 0))), w.astype(np.float64)
    for r in range(rows):
        at = [(r * 64 + t // 2 * 64, t % 2 * 64) for t in range(3)]
        expected = sum(
            wide[i : i + 64, j : j + 64] @ taps[t * 64 : t * 64 + 64, : 64 * blocks]
            for t, (i, j) in enumerate(at)
        )
        assert np.abs(y[r * 64 : r * 64 + 64] - expected).max() < 0.1
