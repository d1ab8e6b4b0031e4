"""`max_num_imprecise_acc`: sums of so many products of fp8 are added in f32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tawa
import tawa.language as tl


@tawa.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr, MOST: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK)
    total = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BLOCK):
        x = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        y = tl.load(b + columns[None, :] * K + (k + inner)[:, None])
        total = tl.dot(x, y, total, max_num_imprecise_acc=MOST)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@pytest.mark.parametrize("most", [None, 40, 128])
def test_partial_sums_are_added(most: int | None) -> None:
    m, n, block = 64, 64, 128  # one warp group
    compiled = product.compile(
        "*e4m3:16", "*e4m3:16", "*f32:16", "i32:16", M=m, N=n, BLOCK=block, MOST=most
    )
    length = 0 if most is None else -(-most // 32) * 32
    sums = -(-block // length) if length else 0
    assert compiled.asm["ptx"].count("add.f32") == sums * m * n // (32 * 4)


def test_values_and_a_first_sum() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(r, 256)).astype(ml_dtypes.float8_e4m3fn) for r in (64, 32))
    c = np.zeros((64, 32), np.float32)
    product[(1,)](a, b, c, 256, M=64, N=32, BLOCK=128, MOST=64)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-5)
