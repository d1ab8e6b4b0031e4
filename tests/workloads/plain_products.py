"""A product as a tutorial writes it: for tests of what passes make of one."""

from __future__ import annotations

import tawa
import tawa.language as tl


@tawa.jit
def gemm(a, b, c, K):
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))
