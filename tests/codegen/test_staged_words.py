"""Words that products read along the other dimension, and memory that copies take in turn."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.base.layout import LANES
from tawa.codegen.exchanges import BANKS
from tawa.hopper.dialect.memory import SharedStore, access_bytes
from tawa.hopper.dialect.structure import Ring
from tawa.hopper.dialect.types import FragType, TileType


def most_lanes_of_a_bank(op: SharedStore) -> int:
    """Of the first access of a warp: words that one bank has to take, over what is least."""
    frag, tile = op.value.type, op.tile.type
    assert isinstance(frag, FragType)
    assert isinstance(tile, TileType)
    where, width = frag.layout.coordinates[:LANES, 0], access_bytes(frag, tile)
    first = tile.offsets(where[:, 0], where[:, 1])
    words = np.unique((first[:, None] + np.arange(0, width, 4)) // 4)
    return int(np.bincount(words % BANKS).max()) * BANKS // len(words)


@tawa.jit
def sums_of_columns(x, before, up_to, N: tl.constexpr):
    """Sums by products: of the rows before each row, and of those up to it."""
    i, j = tl.arange(0, N), tl.arange(0, N)
    v = tl.load(x + i[:, None] * N + j[None, :]).to(tl.float32)
    low = tl.where(i[:, None] >= i[None, :], 1.0, 0.0)
    lower = tl.where(i[:, None] > i[None, :], 1.0, 0.0)
    tl.store(up_to + i[:, None] * N + j[None, :], tl.dot(low, v))
    tl.store(before + i[:, None] * N + j[None, :], tl.dot(lower, v))


def test_halves_that_become_words_are_turned_without_conflicts_and_once() -> None:
    arrays, n = Arrays(), 64
    x = arrays.random("bf16", n, n)
    before, up_to = (arrays.output("f32", n, n) for _ in range(2))
    found = np.cumsum(values(x), 0)
    compiled = check(
        sums_of_columns, (1,), [x, before, up_to], {2: found, 1: found - values(x)}, 2e-3,
        ("tile", "hopper", "ptx"), N=n, num_warps=4,
    )  # fmt: skip
    stores = [op for op in compiled.module("hopper").walk() if isinstance(op, SharedStore)]
    assert len(stores) == 3
    assert [most_lanes_of_a_bank(op) for op in stores] == [1] * 3


@tawa.jit
def scaled_columns(a, b, c, K: tl.constexpr, N: tl.constexpr):
    """B lies with K contiguous, and is computed before it is multiplied."""
    m, n, k = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.exp2(tl.load(b + k[:, None] + n[None, :] * K))
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y))


@pytest.mark.parametrize("warps", [1, 2])
def test_warps_read_words_along_k_where_they_lie_so(warps: int) -> None:
    arrays, k, n = Arrays(), 32, 16
    a, b = arrays.random("f32", 16, k), arrays.random("f32", n, k)
    c = arrays.output("f32", 16, n)
    expected = values(a) @ np.exp2(values(b)).T
    compiled = check(
        scaled_columns, (1,), [a, b, c], {2: expected}, 2e-3, ("tile", "hopper", "ptx"),
        K=k, N=n, num_warps=warps,
    )  # fmt: skip
    stores = [op for op in compiled.module("hopper").walk() if isinstance(op, SharedStore)]
    wide = [access_bytes(op.value.type, op.tile.type) for op in stores[:2]]
    assert wide == [16, 16]
    assert "ldmatrix" in compiled.stages["cu"]


@tawa.jit
def powers(a, c, N: tl.constexpr, COUNT: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(a + i[:, None] * N + i[None, :])
    found = x
    for _ in tl.static_range(COUNT):
        found = tl.dot(found, found * 0.5, input_precision="tf32x3")
    tl.store(c + i[:, None] * N + i[None, :], found)


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_products_one_after_the_other_take_the_memory_of_few(warps: int) -> None:
    arrays, n = Arrays(), 16
    a, c = arrays.random("f32", n, n), arrays.output("f32", n, n)
    expected = values(a)
    for _ in range(5):
        expected = expected @ (0.5 * expected)
    compiled = check(
        powers, (1,), [a, c], {1: expected}, 1e-4, ("tile", "hopper", "ptx"),
        N=n, COUNT=5, num_warps=warps,
    )  # fmt: skip
    rings = [op for op in compiled.module("hopper").walk() if isinstance(op, Ring)]
    assert len({op.offset.value.data for op in rings}) <= 4
    assert compiled.spec.shared_bytes <= 4 * 1024 + 64
