"""What threads compute is what the program on whole tiles says: small programs of many shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from two_levels import same_at_both

import tawa
import tawa.language as tl


def numbers(kind: str, *shape: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    if kind == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if kind.startswith("float"):
        return (random.integers(-64, 65, shape) / 8).astype(kind)
    return random.integers(-100, 100, shape).astype(kind)


@tawa.jit
def moved(x, y, n, first, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + first + at, mask=at < n, other=0)
    tl.store(y + at, v + v, mask=(at < n) & (at != 5))


@pytest.mark.parametrize(
    ("kind", "n", "first", "block", "warps"),
    [("int8", 509, 0, 256, 4), ("float16", 61, 3, 64, 1), ("float32", 509, 4, 256, 2),
     ("int64", 253, 0, 128, 4)],
)  # fmt: skip
def test_vectors_and_their_ends(kind: str, n: int, first: int, block: int, warps: int) -> None:
    x, y = numbers(kind, n + first), numbers(kind, n, seed=1)
    old = y[5]
    _, found, *_ = same_at_both(
        moved, (-(-n // block),), x, y, n, first, BLOCK=block, num_warps=warps)  # fmt: skip
    exact = x[first:] + x[first:]
    exact[5] = old
    np.testing.assert_array_equal(found, exact)


@tawa.jit
def turned(x, y, z, R, C, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    inside = (r[:, None] < R) & (c[None, :] < C)
    v = tl.load(x + r[:, None] * C + c[None, :], mask=inside, other=0.0)
    tl.store(y + c[:, None] * R + r[None, :], tl.trans(v), mask=(c[:, None] < C) & (r[None, :] < R))
    tl.store(z + c[None, :] * R + r[:, None], v * 2, mask=inside)


@pytest.mark.parametrize(
    ("rows", "columns", "warps"), [(16, 32, 4), (33, 17, 2), (8, 8, 1), (1, 96, 4)]
)
def test_rows_become_columns(rows: int, columns: int, warps: int) -> None:
    x = numbers("float32", rows, columns)
    y, z = np.zeros((columns, rows), np.float32), np.zeros((columns, rows), np.float32)
    tile = {"ROWS": 1 << (rows - 1).bit_length(), "COLUMNS": 1 << (columns - 1).bit_length()}
    _, y, z, *_ = same_at_both(turned, (1,), x, y, z, rows, columns, num_warps=warps, **tile)
    np.testing.assert_array_equal(y, x.T)
    np.testing.assert_array_equal(z, 2 * x.T)


@tawa.jit
def reduced(x, rows_, columns_, whole, spread, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    v = tl.load(x + r[:, None] * COLUMNS + c[None, :])
    of_rows, of_columns = tl.sum(v, 1), tl.max(v, 0)
    tl.store(rows_ + r, of_rows)
    tl.store(columns_ + c, of_columns)
    tl.store(whole, tl.min(of_rows, 0) + tl.sum(of_columns, 0))
    both = v - of_rows[:, None] + of_columns[None, :]
    tl.store(spread + r[:, None] * COLUMNS + c[None, :], both)


@pytest.mark.parametrize(
    ("rows", "columns", "warps"),
    [(4, 128, 4), (128, 4, 4), (16, 32, 1), (2, 2, 4), (1, 64, 2)],
)
def test_rows_and_columns_are_reduced(rows: int, columns: int, warps: int) -> None:
    x = numbers("float32", rows, columns)
    out = [np.zeros(n, np.float32) for n in (rows, columns, 1, (rows, columns))]
    _, of_rows, of_columns, whole, spread = same_at_both(
        reduced, (1,), x, *out, ROWS=rows, COLUMNS=columns, num_warps=warps)  # fmt: skip
    np.testing.assert_array_equal(of_rows, x.sum(1))
    np.testing.assert_array_equal(of_columns, x.max(0))
    assert whole[0] == x.sum(1).min() + x.max(0).sum()
    np.testing.assert_array_equal(spread, x - x.sum(1)[:, None] + x.max(0)[None, :])


@tawa.jit
def shaped(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    low, high = tl.split(tl.reshape(v, (N // 2, 2)))
    both = tl.join(high, low)
    square = tl.permute(tl.reshape(both, (2, N // 8, 4)), (2, 0, 1))
    tl.store(y + i, tl.reshape(square, (N,)))
    tl.store(y + N + 2 * tl.arange(0, N // 2), tl.flip(high))
    tl.store(y + N + 1 + 2 * tl.arange(0, N // 2), low)


@pytest.mark.parametrize(("n", "warps"), [(64, 1), (256, 4)])
def test_elements_change_places(n: int, warps: int) -> None:
    x, y = numbers("float32", n), np.zeros(2 * n, np.float32)
    _, y = same_at_both(shaped, (1,), x, y, N=n, num_warps=warps)
    low, high = x[::2], x[1::2]
    square = np.stack([high, low], 1).reshape(2, n // 8, 4).transpose(2, 0, 1)
    np.testing.assert_array_equal(y[:n], square.reshape(-1))
    np.testing.assert_array_equal(y[n::2], high[::-1])
    np.testing.assert_array_equal(y[n + 1 :: 2], low)


@tawa.jit
def updated(x, y, one, old, HOW: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i)
    to = y + i % 16
    if HOW == "add":
        tl.atomic_add(to, v, mask=i % 3 != 0)
        tl.atomic_add(one, 2)
    elif HOW == "max":
        tl.atomic_max(to, v)
        tl.atomic_max(one, tl.max(v, 0), sem="release")
    elif HOW == "min":
        tl.atomic_min(to, v, mask=v > 0)
        tl.atomic_min(one, tl.min(v, 0), sem="relaxed", scope="cta")
    elif HOW == "or":
        tl.atomic_or(to, v)
        tl.atomic_and(one, 6)
    elif HOW == "xor":
        tl.atomic_xor(to, v)
        tl.atomic_xor(one, 5, sem="acquire")
    elif HOW == "old":
        tl.store(old + i, tl.atomic_add(y + i, v))
        tl.store(old + 2 * N, tl.atomic_xchg(one, 9) if tl.program_id(0) == 0 else 0)
    else:
        tl.store(old + i, tl.atomic_cas(y + i, v, v + 1))


@pytest.mark.parametrize("how", ["add", "max", "min", "or", "xor", "old", "cas"])
def test_memory_is_updated(how: str) -> None:
    n = 64
    x, y, one = numbers("int32", 2 * n), numbers("int32", 2 * n, seed=1), np.array([3], np.int32)
    y[::2] = x[::2]
    before = y.copy()
    old = np.zeros(2 * n + 1, np.int32)
    _, y, one, old = same_at_both(updated, (2,), x, y, one, old, HOW=how, N=n, num_warps=4)
    i = np.arange(2 * n)
    exact = before.copy()
    if how == "add":
        np.add.at(exact, i[i % 3 != 0] % 16, x[i % 3 != 0])
        assert one[0] == 7
    if how == "max":
        np.maximum.at(exact, i % 16, x)
        assert one[0] == max(3, x.max())
    if how in ("old", "cas"):
        np.testing.assert_array_equal(old[: 2 * n], before)
        exact = before + x if how == "old" else np.where(before == x, x + 1, before)
    if how in ("add", "max", "old", "cas"):
        np.testing.assert_array_equal(y, exact)


@tawa.jit
def decided(x, y, n, limit, N: tl.constexpr):
    i = tl.arange(0, N)
    total = tl.zeros((N,), tl.int32)
    turns = 0
    while (tl.max(total, 0) < limit) & (turns < n):
        v = tl.load(x + turns * N + i)
        if turns % 2 == 0:
            total += v
            scale = 1
        else:
            total = tl.where(v > 0, total + v, total - 1)
            scale = 2
        for k in range(scale):
            total += k
        turns += 1
    tl.store(y + i, total)
    if turns > 2:
        tl.store(y + N, turns)


@pytest.mark.parametrize(("limit", "n"), [(1000, 3), (60, 9), (-99, 3)])
def test_loops_and_branches(limit: int, n: int) -> None:
    x, y = numbers("int32", n, 64), np.zeros(65, np.int32)
    _, y, *_ = same_at_both(decided, (1,), x, y, n, limit, N=64, num_warps=2)
    total, turns = np.zeros(64, np.int32), 0
    while total.max() < limit and turns < n:
        v = x[turns]
        total = total + v if turns % 2 == 0 else np.where(v > 0, total + v, total - 1) + 1
        turns += 1
    np.testing.assert_array_equal(y[:64], total)
    assert y[64] == (turns if turns > 2 else 0)


@tawa.jit
def looked_up(x, index, y, counts, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    place = r[:, None] * COLUMNS + c[None, :]
    i = tl.load(index + place)
    tl.store(y + place, tl.gather(tl.load(x + place), i, 1))
    tl.store(counts + tl.arange(0, 32), tl.histogram(tl.reshape(i, (ROWS * COLUMNS,)), 32))


@pytest.mark.parametrize(("rows", "columns", "warps"), [(4, 32, 1), (2, 64, 4)])
def test_elements_are_gathered_and_counted(rows: int, columns: int, warps: int) -> None:
    x = numbers("float32", rows, columns)
    index = np.random.default_rng(2).integers(0, columns, x.shape).astype(np.int32)
    y, counts = np.zeros_like(x), np.zeros(32, np.int32)
    _, _, y, counts = same_at_both(
        looked_up, (1,), x, index, y, counts, ROWS=rows, COLUMNS=columns, num_warps=warps)  # fmt: skip
    np.testing.assert_array_equal(y, np.take_along_axis(x, index, 1))
    inside = index[index < 32]
    np.testing.assert_array_equal(counts, np.bincount(inside, minlength=32))


@tawa.jit
def multiplied(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TURNS: tl.constexpr,
               TURNED: tl.constexpr):  # fmt: skip
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for t in range(TURNS):
        x = tl.load(a + m[:, None] * (K * TURNS) + t * K + k[None, :])
        if TURNED:
            y = tl.load(b + n[:, None] * (K * TURNS) + t * K + k[None, :]).T
        else:
            y = tl.load(b + (t * K + k[:, None]) * N + n[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + m[:, None] * N + n[None, :], total)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "k", "turns", "warps"),
    [(64, 16, 16, 2, 4), (16, 16, 16, 1, 1), (32, 32, 16, 2, 2)],
)
def test_products(m: int, n: int, k: int, turns: int, warps: int, turned: bool) -> None:
    a, b = numbers("float16", m, k * turns), numbers("float16", k * turns, n, seed=1)
    given = np.ascontiguousarray(b.T) if turned else b
    c = np.zeros((m, n), np.float32)
    *_, c = same_at_both(multiplied, (1,), a, given, c, M=m, N=n, K=k, TURNS=turns, TURNED=turned,
                         num_warps=warps, tolerance=1e-5)  # fmt: skip
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5)


@tawa.jit
def by_blocks(a, b, c, sums, TURNS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
              HOW: tl.constexpr):  # fmt: skip
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    total, beside = tl.zeros((M, N), tl.float32), tl.zeros((M,), tl.float32)
    for t in range(TURNS):
        x = a.load([row, t * K])
        y = b.load([column, t * K]).T if HOW == "turned" else b.load([t * K, column])
        if HOW == "scaled":
            x = (x * 2).to(tl.float16)
        total = tl.dot(x, y, total)
        if HOW == "beside":
            beside += tl.sum(x.to(tl.float32), 1)
    if HOW == "sums":
        beside = tl.sum(total, 1)
    if tl.program_id(1) == 0:
        tl.store(sums + row + tl.arange(0, M), beside)
    c.store([row, column], total.to(c.dtype))


@pytest.mark.parametrize(
    ("how", "options"),
    [("plain", {}), ("turned", {"num_stages": 2}), ("scaled", {}), ("sums", {"num_stages": 1}),
     ("plain", {"persistent": True}), ("plain", {"num_warps": 8, "num_stages": 3}),
     ("scaled", {"persistent": True, "ping_pong": True}), ("turned", {"slice_k": 2}),
     ("sums", {"specialize": False}), ("scaled", {"num_warps": 8}),
     ("beside", {}), ("beside", {"num_warps": 8})],
)  # fmt: skip
def test_blocks_that_end_behind_a_matrix(how: str, options: dict[str, Any]) -> None:
    """Of 100 x 72 and 72 x 40 elements: what is behind the edges is zero, and is not written."""
    m, n, k = 100, 40, 72
    block_m = 128 if options.get("num_warps") == 8 else 64
    a, b = numbers("float16", m, k), numbers("float16", k, n, seed=1)
    c, sums = np.full((m, n), -7, np.float32), np.zeros(128, np.float32)
    describe = tawa.TensorDescriptor.from_tensor
    given = np.ascontiguousarray(b.T) if how == "turned" else b
    of_b = describe(given, [32, 32])
    found = same_at_both(
        by_blocks, (-(-m // block_m), -(-n // 32)), describe(a, [block_m, 32]), of_b,
        describe(c, [block_m, 32]), sums, TURNS=3, M=block_m, N=32, K=32, HOW=how,
        tolerance=1e-5, **options)  # fmt: skip
    exact = a.astype(np.float64) @ b.astype(np.float64) * (2 if how == "scaled" else 1)
    np.testing.assert_allclose(found[2], exact, rtol=1e-5)
    rows = np.zeros(128)
    if how == "sums":
        rows[:m] = exact[:, :32].sum(1)
    if how == "beside":
        rows[:m] = a.astype(np.float64).sum(1)
    np.testing.assert_allclose(found[3], rows, rtol=1e-5, atol=1e-4)
