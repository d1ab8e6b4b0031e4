"""Results that are spread over their tile again and reshaped stay in the threads that have them."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret.hopper import run


@tawa.jit
def swapped(x, out, step, N: tl.constexpr, OUTER: tl.constexpr, INNER: tl.constexpr):
    """Smaller ones to the left, larger ones to the right, of elements INNER apart."""
    at = tl.arange(0, N)
    held = tl.load(x + at * step)
    pairs = tl.reshape(held, [OUTER, 2, INNER])
    right = tl.arange(0, 2)[None, :, None]
    first = tl.broadcast_to(tl.sum(pairs * (1 - right), 1)[:, None, :], pairs.shape)
    second = tl.broadcast_to(tl.sum(pairs * right, 1)[:, None, :], pairs.shape)
    first, second = tl.reshape(first, [N]), tl.reshape(second, [N])
    changed = tl.where(first > second, first ^ second, 0)
    tl.store(out + at * step, held ^ changed)


@pytest.mark.parametrize(("inner", "warps"), [(1, 2), (4, 4), (16, 2), (32, 2), (64, 4), (128, 2)])
def test_neighbours_change_places_by_shuffles(inner: int, warps: int) -> None:
    """Only what other warps hold goes through shared memory."""
    found = swapped.compile("*i32", "*i32", "i32", 256, 128 // inner, inner, num_warps=warps)
    names = [op.name for op in found.module("hopper").walk()]
    across = 32 <= inner < 32 * warps
    assert names.count("hopper.shared_store") == (2 if across else 0)
    assert names.count("hopper.shuffle_xor") == (2 if inner < 32 else 0)
    x = np.random.default_rng(inner).permutation(256).astype(np.int32)
    out = np.zeros_like(x)
    run(found.module("hopper"), (1,), [x, out, 1])
    pairs = x.reshape(-1, 2, inner)
    np.testing.assert_array_equal(out.reshape(-1, 2, inner), np.sort(pairs, axis=1))


@tawa.jit
def columns_of_rows(x, out, R: tl.constexpr, C: tl.constexpr):
    """The sum of each row in all places of a tile whose rows are read as one vector."""
    r, c = tl.arange(0, R), tl.arange(0, C)
    sums = tl.sum(tl.load(x + r[:, None] * C + c[None, :]), 1)
    spread = tl.reshape(tl.broadcast_to(sums[:, None], [R, C]), [R * C])
    tl.store(out + tl.arange(0, R * C), spread)


@pytest.mark.parametrize(("rows", "columns"), [(32, 16), (2, 512), (512, 2)])
def test_sums_of_rows_are_spread(rows: int, columns: int) -> None:
    found = columns_of_rows.compile("*f32", "*f32", rows, columns)
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) % 17
    out = np.zeros(rows * columns, np.float32)
    run(found.module("hopper"), (1,), [x, out])
    np.testing.assert_array_equal(out.reshape(rows, columns), x.sum(1, keepdims=True) + 0 * x)
