"""Rows and columns that are loaded several times in a row are loaded once."""

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
    """The shapes of what is loaded through pointers, without a ring.

    Iterations that are done together load alike.
    """
    found = (op for op in compiled.module("aref").walk() if isinstance(op, Load))
    return list(dict.fromkeys(shape_of(op.result.type) for op in found))


def repeats(compiled: Compiled) -> list[int]:
    found = (op for op in compiled.module("aref").walk() if isinstance(op, Repeat))
    return list(dict.fromkeys(op.times.value.data for op in found))


@tawa.jit
def in_first(k, K, BK: tl.constexpr):
    """Whether rows are not in the last block."""
    return (k // BK < K // BK - 1)[:, None]


@tawa.jit
def turned(row, n, N):
    return tl.trans(row[None, :] * N + n[:, None])


@tawa.jit
def spread(  # noqa: C901
    x, out, N, K, HOW: tl.constexpr, R: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr
):
    """Row k of a block of `out` is row k // R of `x`, spelled in several ways."""
    n = tl.arange(0, BN)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        inside = n[None, :] < N
        if HOW == "quotient":
            at = (k // R)[:, None] * N + n[None, :]
        elif HOW == "turned":
            at = turned(k // R, n, N)
        elif HOW == "masked":
            at, inside = (k // R)[:, None] * N + n[None, :], inside & (k < K - R)[:, None]
        elif HOW == "one by one":
            at, inside = (k // R)[:, None] * N + n[None, :], inside & (k != 1)[:, None]
        elif HOW == "late":
            at = ((k + 1) // R)[:, None] * N + n[None, :]
        elif HOW == "below":
            at = ((k - BK) // R)[:, None] * N + n[None, :] + K // R * N
        elif HOW == "long group":
            at, inside = (k // (BK * R))[:, None] * N + n[None, :], inside & in_first(k, K, BK)
        elif HOW == "long group, turned":
            at, inside = turned(k // (BK * R), n, N), tl.trans((n < N)[:, None] & (k >= 0)[None, :])
        elif HOW == "one number":
            at = (k // BK)[:, None] + (n * 0)[None, :]
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
    elif how.startswith("long group"):
        rows = numbers // (block * r)
    found = np.full((k, columns), -1.0)
    found[:, : x.shape[1]] = x[rows]
    if how == "one number":
        found[:, : x.shape[1]] = x.reshape(-1)[numbers // block][:, None]
    if how == "long group":
        found[numbers // block >= k // block - 1] = -1
    if how == "masked":
        found[numbers >= k - r] = -1
    if how == "one by one":
        found[1] = -1
    return found


@pytest.mark.parametrize(
    ("how", "fires"),
    [("quotient", 4), ("turned", 4), ("masked", 4), ("one by one", 0), ("late", 0), ("below", 0),
     ("all", 32), ("long group", 32), ("long group, turned", 32), ("one number", 32)],
)  # fmt: skip
@pytest.mark.parametrize("warps", [1, 4])
def test_runs_of_rows(arrays: Arrays, how: str, fires: int, warps: int) -> None:
    x, out = arrays.random("f32", 33, 24), arrays.output("f32", 64, 32)
    expected = spread_rows(how, 4, 64, values(x), 32, 32)
    constants: dict[str, Any] = {"HOW": how, "R": 4, "BK": 32, "BN": 32, "num_warps": warps}
    compiled = check(spread, (1,), [x, out, 24, 64], {1: expected}, 1e-6, LEVELS, **constants)
    assert repeats(compiled) == [fires] * (1 < fires < 32)
    assert loaded(compiled) == [{0: (32, 32), 4: (8, 32), 32: (32,)}[fires]]


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


@tawa.jit
def moved(x, q, out, M, N, K, HOW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
          BK: tl.constexpr):  # fmt: skip
    """Two numbers a byte, each column's one after the other; pointers go on in the loop."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    xs = x + m[:, None] * K + k[None, :]
    rows = (k[:, None] // 2) if HOW != "late" else ((k[:, None] + 1) // 2)
    qs = q + rows + n[None, :] * (K // 2)
    if HOW == "down":
        qs += K // 2 - BK // 2
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(xs, mask=(m < M)[:, None], other=0.0)
        both = tl.load(qs)
        b = ((both >> (k[:, None] % 2) * 4) & 15).to(tl.float32) - 8.0
        acc = tl.dot(a, b.to(a.dtype), acc)
        xs += BK
        if HOW == "apart":
            qs += tl.where(n[None, :] < N, BK // 2, start)
        elif HOW == "down":
            qs -= BK // 2
        else:
            qs += BK // 2
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None])
    if HOW == "used after":
        tl.store(out + BM * N + n, tl.max((qs - (K // 2)).to(tl.int64) - q.to(tl.int64), 0))


@pytest.mark.parametrize(
    ("how", "fires"),
    [("", True), ("down", True), ("late", False), ("apart", False), ("used after", True)],
)
@pytest.mark.parametrize("rows", [16, 64])
def test_pointers_that_a_loop_moves(arrays: Arrays, how: str, fires: bool, rows: int) -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 16, (128 + 2, 32))
    packed = (numbers[:-2:2] + 16 * numbers[1:-2:2]).astype(np.uint8).T
    x, q = arrays.random("f16", rows, 128), arrays.random("i8", 33, 64)
    q[:32] = packed.view(np.int8)
    after = how == "used after"
    args = [x, q, arrays.output("f32", rows + after, 32), rows, 32, 128]
    k = np.arange(128)
    flat = values(q).astype(np.int64).reshape(-1) & 255
    byte = flat[(k + (how == "late"))[:, None] // 2 + np.arange(32) * 64]
    if how == "down":
        k = k.reshape(-1, 32)[::-1].reshape(-1)
        byte = flat[k[:, None] // 2 + np.arange(32) * 64]
    expected = np.zeros((rows + after, 32))
    expected[:rows] = values(x) @ (((byte >> (k % 2 * 4)[:, None]) & 15) - 8.0)
    if after:
        expected[rows] = 15 + 64 * np.arange(32)
    constants = {"HOW": how, "BM": rows, "BN": 32, "BK": 32}
    compiled = check(moved, (1,), args, {2: expected}, 2e-3, LEVELS, **constants)
    assert set(repeats(compiled)) == ({2} if fires else set())


@tawa.jit
def spread_columns(x, out, N, HOW: tl.constexpr, R: tl.constexpr, BN: tl.constexpr):
    """Column n of `out` is column n // R of `x`; or runs along both dimensions."""
    m = tl.arange(0, 16)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        inside = m[:, None] < 14
        if HOW == "quotient":
            at = m[:, None] * (N // R) + (n // R)[None, :]
        elif HOW == "both":
            at = (m // 2)[:, None] * (N // R) + (n // R)[None, :]
        elif HOW == "masked":
            at, inside = m[:, None] * (N // R) + (n // R)[None, :], inside & (n < N - R)[None, :]
        elif HOW == "late":
            at = m[:, None] * (N // R) + ((n + 1) // R)[None, :]
        else:
            at = m[:, None] * (N // R) + start // R + (n * 0)[None, :]
        tl.store(out + m[:, None] * N + n[None, :], tl.load(x + at, mask=inside, other=-1.0))


@pytest.mark.parametrize(
    ("how", "shape", "found"),
    [("quotient", (16, 8), [4]), ("masked", (16, 8), [4]), ("both", (8, 8), [2, 4]),
     ("late", (16, 32), []), ("all", (16,), [])],
)  # fmt: skip
@pytest.mark.parametrize("warps", [1, 4])
def test_runs_of_columns(
    arrays: Arrays, how: str, shape: tuple[int, ...], found: list[int], warps: int
) -> None:
    x, out = arrays.random("f32", 17, 16), arrays.output("f32", 16, 64)
    m, n = np.arange(16), np.arange(64)
    rows = m // 2 if how == "both" else m
    columns = {"late": (n + 1) // 4, "all": n // 32 * 8}.get(how, n // 4)
    expected = values(x).reshape(-1)[rows[:, None] * 16 + columns]
    expected[14:] = -1
    if how == "masked":
        expected[:, n >= 60] = -1
    if how == "both":
        expected[:, :] = np.where(m[:, None] < 14, values(x)[rows[:, None], columns], -1)
    constants: dict[str, Any] = {"HOW": how, "R": 4, "BN": 32, "num_warps": warps}
    compiled = check(spread_columns, (1,), [x, out, 64], {1: expected}, 1e-6, LEVELS, **constants)
    assert sorted(repeats(compiled)) == found
    assert loaded(compiled) == [shape]


@tawa.jit
def packed_along_rows(x, words, out, N, K, BN: tl.constexpr, BK: tl.constexpr):
    """Four numbers of a byte each a word, along the columns of the product."""
    m, n, k = tl.arange(0, 16), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((16, BN), tl.float32)
    w_ptrs = words + k[:, None] * (N // 4) + (n // 4)[None, :]
    for start in range(0, K, BK):
        a = tl.load(x + m[:, None] * K + start + k[None, :])
        b = ((tl.load(w_ptrs) >> (n % 4 * 8)[None, :]) & 255).to(tl.float32) - 128.0
        acc = tl.dot(a, b.to(a.dtype), acc)
        w_ptrs += BK * (N // 4)
    tl.store(out + m[:, None] * N + n[None, :], acc)


def test_words_that_are_packed_along_rows(arrays: Arrays) -> None:
    q = np.random.default_rng(0).integers(0, 256, (64, 128))
    words = sum(q[:, i::4].astype(np.int64) << (8 * i) for i in range(4)).astype(np.uint32)
    x, packed = arrays.random("f16", 16, 64), arrays.random("i32", 64, 32)
    packed[...] = words.view(np.int32)
    args = [x, packed, arrays.output("f32", 16, 128), 128, 64]
    expected = values(x) @ (q - 128.0)
    sizes = {"BN": 64, "BK": 32}
    compiled = check(packed_along_rows, (2,), args, {2: expected}, 2e-3, LEVELS, **sizes)
    assert set(repeats(compiled)) == {4}


@tawa.jit
def row_of_places(x, places, out):
    """A tile of one row, from addresses that are loaded."""
    n = tl.arange(0, 32)
    at = tl.load(places + n)
    tl.store(out + n[None, :], tl.load(x + at[None, :]))


def test_a_tile_of_one_row_is_left_as_it_is(arrays: Arrays) -> None:
    x, places, out = arrays.random("f32", 64), arrays.random("i32", 32), arrays.output("f32", 1, 32)
    places[...] = np.random.default_rng(0).integers(0, 64, 32)
    expected = values(x)[places.astype(int)][None, :]
    compiled = check(row_of_places, (1,), [x, places, out], {2: expected}, 1e-9, LEVELS)
    assert loaded(compiled) == [(32,), (1, 32)]


@tawa.jit
def of_groups(x, q, scales, out, N, K, G: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, 16), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((16, BN), tl.float32)
    for start in range(0, K, BK):
        at = start + k
        a = tl.load(x + m[:, None] * K + at[None, :])
        w = tl.load(q + at[:, None] * N + n[None, :])
        s = tl.load(scales + (at // G)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        acc = tl.dot(a, w.to(a.dtype) * s, acc)
    tl.store(out + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("group", [64, 32, 16])
def test_scales_of_groups(arrays: Arrays, group: int) -> None:
    """Of a group that is as long as a tile, or longer, there is one row of scales a tile."""
    x, q, s = (
        arrays.random("f16", 16, 128),
        arrays.random("i8", 128, 64),
        arrays.random("f16", 8, 64),
    )
    scaled = (values(q) * np.repeat(values(s), group, 0)[:128]).astype(np.float16)
    expected = values(x) @ scaled.astype(float)
    args = [x, q, s, arrays.output("f32", 16, 64), 64, 128]
    constants = {"G": group, "BN": 64, "BK": 32}
    compiled = check(of_groups, (1,), args, {3: expected}, 2e-3, LEVELS, **constants)
    rings = "".join(line for line in compiled.stages["aref"].splitlines() if "aref.create" in line)
    assert ("tensor<64xf16>" in rings) == (group >= 32)
    assert ("tensor<2x64xf16>" in rings) == (group == 16)


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
