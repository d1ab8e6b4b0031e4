"""Products as tutorials write them: for tests of what passes make of one."""

from __future__ import annotations

import tawa
import tawa.language as tl


@tawa.jit
def gemm(a, b, c, K):
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


@tawa.jit
def product(
    a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TA: tl.constexpr,
    TB: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One tile, of operands that lie in either order."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    if TA:
        x = tl.trans(tl.load(a + k[:, None] * M + m[None, :]))
    else:
        x = tl.load(a + m[:, None] * K + k[None, :])
    if TB:
        y = tl.trans(tl.load(b + n[:, None] * K + k[None, :]))
    else:
        y = tl.load(b + k[:, None] * N + n[None, :])
    acc = tl.dot(x, y, input_precision=PRECISION)
    tl.store(out + m[:, None] * N + n[None, :], acc)
