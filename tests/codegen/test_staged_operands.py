"""Computed operands of products, copied to shared memory in a loop."""

from __future__ import annotations

import pytest

import tawa
import tawa.language as tl


@tawa.jit
def doubled(a, b, c, K, N: tl.constexpr, BLOCK: tl.constexpr):
    rows, columns, inner = tl.arange(0, 128), tl.arange(0, N), tl.arange(0, BLOCK)
    total = tl.zeros((128, N), tl.float32)
    for k in range(0, K, BLOCK):
        x = tl.load(a + rows[:, None] * K + (k + inner)[None, :]) * 2
        y = tl.load(b + columns[None, :] * K + (k + inner)[:, None]) + 1
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@pytest.mark.parametrize(("n", "block", "copies"), [(128, 64, 2), (256, 128, 1), (256, 256, 1)])
def test_two_copies_only_where_they_fit(n: int, block: int, copies: int) -> None:
    types = "*f16:16", "*f16:16", "*f32:16", "i32:16"
    compiled = doubled.compile(*types, N=n, BLOCK=block, num_warps=8)
    assert copies * 2 * block * (128 + n) <= compiled.spec.shared_bytes <= 232448
