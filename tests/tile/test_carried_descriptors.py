"""Descriptors that loops carry and branches choose, made on the way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret import aref, hopper, tile

RUNS = {"tile": tile.run, "aref": aref.run, "hopper": hopper.run}


@tawa.jit
def ragged_sum(x, starts, o, n, K: tl.constexpr, B: tl.constexpr):
    rows = tl.load(starts + 1) - tl.load(starts)
    d = tl.make_tensor_descriptor(x, [rows, K], [K, 1], [B, K])
    total = tl.zeros((B, K), tl.float32)
    for i in range(n):
        total += d.load([0, 0])
        s = tl.load(starts + i + 1)
        rows = tl.load(starts + i + 2) - s
        d = tl.make_tensor_descriptor(x + s * K, [rows, K], [K, 1], [B, K])
    i, j = tl.arange(0, B)[:, None], tl.arange(0, K)[None, :]
    tl.store(o + i * K + j, total)


@tawa.jit
def steps(x, y, o, n, K: tl.constexpr, B: tl.constexpr):
    i = 0
    e = tl.make_tensor_descriptor(x, [B, K], [K, 1], [B, K])
    while i < n:
        if i % 2 == 0:
            d = tl.make_tensor_descriptor(x + i * K, [B, K], [K, 1], [B, K])
        else:
            d = tl.make_tensor_descriptor(y, [i, K], [K, 1], [B, K])
        e.store([0, 0], d.load([0, 0]) + e.load([0, 0]))
        e = tl.make_tensor_descriptor(o + i * K * B, [B - 1, K], [K, 1], [B, K])
        i += 1


def run(kernel: Any, level: str, *values: Any) -> None:
    compiled = kernel.compile(*values)
    RUNS[level](compiled.module(level), (1,), list(values)[: len(compiled.spec.arguments)])


@pytest.mark.parametrize("level", RUNS)
def test_a_loop_carries_what_it_makes(level: str) -> None:
    x = np.arange(40 * 16, dtype=np.float32).reshape(40, 16)
    starts, o = np.array([0, 3, 10, 10, 25, 30, 40], np.int32), np.zeros((16, 16), np.float32)
    run(ragged_sum, level, x, starts, o, 5, 16, 16)
    expected = np.zeros_like(o)
    for first, end in pairwise(starts[:6]):
        expected[: end - first] += x[first:end]
    np.testing.assert_array_equal(o, expected)


@pytest.mark.parametrize("level", RUNS)
def test_branches_in_a_loop_choose_and_stores_go_where_they_should(level: str) -> None:
    x = np.arange(40 * 16, dtype=np.float32).reshape(40, 16)
    y, o = x * 2, np.zeros((5 * 16, 16), np.float32)
    wanted = [x.copy(), y.copy(), o.copy()]
    run(steps, level, x, y, o, 4, 16, 16)
    target = wanted[0][:16]
    for i in range(4):
        if i % 2 == 0:
            tiles = wanted[0][i : i + 16].copy()
        else:
            tiles = np.pad(wanted[1][:i], ((0, 16 - i), (0, 0)))
        target[...] = tiles[: len(target)] + target
        target = wanted[2][i * 16 : i * 16 + 15]
    np.testing.assert_array_equal(x, wanted[0])
    np.testing.assert_array_equal(o, wanted[2])
