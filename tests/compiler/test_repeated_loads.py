"""Rows that are loaded several times in a row are loaded once, whatever they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.base.layout import accumulator, blocked
from tawa.base.types import shape_of
from tawa.driver.compiled import Compiled
from tawa.tile.dialect.ops import Load, Repeat

LEVELS = ("tile", "hopper", "ptx")


def loaded(compiled: Compiled) -> list[tuple[int, ...]]:
    """The shapes of matrices that are loaded through pointers, without a ring."""
    found = (op for op in compiled.module("aref").walk() if isinstance(op, Load))
    return [shape for op in found if len(shape := shape_of(op.result.type)) == 2]


def repeats(compiled: Compiled) -> list[int]:
    found = (op for op in compiled.module("aref").walk() if isinstance(op, Repeat))
    return [op.times.value.data for op in found]


@tawa.jit
def spread(x, out, N, K, HOW: tl.constexpr, R: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr):
    """Row k of a block of `out` is row k // R of `x`, spelled in several ways."""
    n = tl.arange(0, BN)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        inside = n[None, :] < N
        if HOW == "quotient":
            at = (k // R)[:, None] * N + n[None, :]
        elif HOW == "turned":
            at = tl.trans((k // R)[None, :] * N + n[:, None])
        elif HOW == "masked":
            at, inside = (k // R)[:, None] * N + n[None, :], inside & (k < K - R)[:, None]
        elif HOW == "one by one":
            at, inside = (k // R)[:, None] * N + n[None, :], inside & (k != 1)[:, None]
        elif HOW == "late":
            at = ((k + 1) // R)[:, None] * N + n[None, :]
        elif HOW == "below":
            at = ((k - BK) // R)[:, None] * N + n[None, :] + K // R * N
        else:
            at = (start // R + k * 0)[:, None] * N + n[None, :]
        tl.store(out + k[:, None] * BN + n[None, :], tl.load(x + at, mask=inside, other=-1.0))


def spread_rows(how: str, r: int, k: int, x: np.ndarray, columns: int, block: int) -> np.ndarray:
    """What the kernel above stores."""
    numbers = np.arange(k)
    rows = numbers // r
    if how == "late":
        rows = (numbers + 1) // r
    elif how == "below":
        rows = np.trunc((numbers - block) / r).astype(int) + k // r
    elif how == "all":
        rows = numbers // block * block // r
    found = np.full((k, columns), -1.0)
    found[:, : x.shape[1]] = x[rows]
    if how == "masked":
        found[numbers >= k - r] = -1
    if how == "one by one":
        found[1] = -1
    return found


@pytest.mark.parametrize(
    ("how", "fires"),
    [("quotient", 4), ("turned", 4), ("masked", 4), ("one by one", 0), ("late", 0), ("below", 0),
     ("all", 0)],
)  # fmt: skip
@pytest.mark.parametrize("warps", [1, 4])
def test_runs_of_rows(arrays: Arrays, how: str, fires: int, warps: int) -> None:
    x, out = arrays.random("f32", 33, 24), arrays.output("f32", 64, 32)
    expected = spread_rows(how, 4, 64, values(x), 32, 32)
    constants: dict[str, Any] = {"HOW": how, "R": 4, "BK": 32, "BN": 32, "num_warps": warps}
    compiled = check(spread, (1,), [x, out, 24, 64], {1: expected}, 1e-6, LEVELS, **constants)
    assert repeats(compiled) == [fires] * bool(fires)
    assert loaded(compiled) == [(8, 32) if fires else (32, 32)]


@tawa.jit
def unpacked(x, words, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        at = start + k
        a = tl.load(x + m[:, None] * K + at[None, :], mask=(m < M)[:, None], other=0.0)
        word = tl.load(words + (at // 4)[:, None] * N + n[None, :])
        b = ((word >> ((at % 4) * 8)[:, None]) & 255).to(tl.float32) - 128.0
        acc = tl.dot(a, b.to(a.dtype), acc)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None])


@pytest.mark.parametrize("rows", [16, 64, 128])
def test_packed_weights(arrays: Arrays, rows: int) -> None:
    """The slots that words go through are a quarter as large."""
    rng = np.random.default_rng(0)
    q = rng.integers(0, 256, (128, 64))
    words = sum(q[i::4].astype(np.int64) << (8 * i) for i in range(4)).astype(np.uint32)
    x, packed = arrays.random("f16", rows, 128), arrays.random("i32", 32, 64)
    packed[...] = words.view(np.int32)
    args = [x, packed, arrays.output("f32", rows, 64), rows, 64, 128]
    expected = values(x) @ (q - 128.0)
    compiled = check(unpacked, (1,), args, {2: expected}, 2e-3, LEVELS, BM=rows, BN=64, BK=32)
    assert set(repeats(compiled)) == {4}


@pytest.mark.parametrize("layout", [blocked((8, 32), 4, 4), accumulator((64, 16), 4)])
def test_layouts_of_repeated_rows(layout: Any) -> None:
    repeated = layout.repeated(0, 4)
    assert repeated.verify() is None
    assert repeated.shape == (4 * layout.shape[0], layout.shape[1])
    rows = layout.coordinates
    for register in range(repeated.registers):
        found = repeated.coordinates[:, register]
        np.testing.assert_array_equal(found[:, 0] // 4, rows[:, register // 4, 0])
        np.testing.assert_array_equal(found[:, 1], rows[:, register // 4, 1])
