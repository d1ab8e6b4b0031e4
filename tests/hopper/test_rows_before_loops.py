"""A row that a loop needs in another layout is exchanged once, before it."""

from __future__ import annotations

import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl


@tawa.jit
def of_columns(x, y, n, BM: tl.constexpr, BN: tl.constexpr):
    columns = tl.arange(0, BN)
    best = tl.full((BM, BN), -1e30, tl.float32)
    for i in range(0, n, BM):
        at = (i + tl.arange(0, BM))[:, None] * BN + columns[None, :]
        best = tl.maximum(best, tl.load(x + at).to(tl.float32))
    top = tl.max(best, axis=0)
    for i in range(0, n, BM):
        at = (i + tl.arange(0, BM))[:, None] * BN + columns[None, :]
        tl.store(y + at, tl.load(x + at).to(tl.float32) - top)


@pytest.mark.parametrize("rows", [16, 64])
def test_a_row_is_exchanged_before_the_loop(rows: int) -> None:
    a = Arrays()
    x, y = a.random("bf16", rows, 128), a.output("f32", rows, 128)
    compiled = check(
        of_columns, (1,), [x, y, rows], {1: values(x) - values(x).max(0)}, 1e-6,
        ("tile", "hopper", "ptx"), BM=16, BN=128, num_warps=4,
    )  # fmt: skip
    text = str(compiled.module("hopper"))
    assert "hopper.shared_load" in text
    assert "hopper.shared_load" not in text[text.rindex("scf.for") :]


@tawa.jit
def between(x, w, y, n, BM: tl.constexpr, BN: tl.constexpr):
    """Rows are reduced and exchanged in the loop, before it and after it."""
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    at = rows[:, None] * BN + columns[None, :]
    first = tl.max(tl.load(w + at), axis=0)
    total = tl.zeros((BN,), tl.float32)
    for i in range(n):
        tile = tl.load(x + i * BM * BN + at)
        total += tl.sum(tile * first[None, :], axis=0)
        total += tl.sum(tl.load(x + i * BM * BN + at + 0 * n) - first[None, :], axis=0)
    last = tl.min(tl.load(w + at), axis=0)
    tl.store(y + at, tl.load(w + at) + total[None, :] * last[None, :])


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("n", [0, 1, 3])
def test_exchanges_in_the_loop_and_after_it_keep_apart(n: int, warps: int) -> None:
    a = Arrays()
    x, w, y = a.random("f32", 3 * 16, 64), a.random("f32", 16, 64), a.output("f32", 16, 64)
    first, tiles = values(w).max(0), values(x).reshape(3, 16, 64)[:n]
    total = (tiles * first).sum((0, 1)) + (tiles - first).sum((0, 1))
    exact = values(w) + total * values(w).min(0)
    check(
        between, (1,), [x, w, y, n], {2: exact}, 1e-5, ("tile", "hopper", "ptx"),
        BM=16, BN=64, num_warps=warps,
    )  # fmt: skip
