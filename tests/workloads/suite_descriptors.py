"""Descriptors that kernels ask for their sizes."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, block, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def described(a, b, c, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A product whose sizes are those of its descriptors."""
    M, K = a.shape
    N = b.shape[1]
    tiles_n = tl.cdiv(N, BN)
    pid = tl.program_id(0)
    m = pid // tiles_n * BM
    n = pid % tiles_n * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    rows = m + tl.arange(0, BM)
    columns = n + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], acc, mask=mask)


def _described(a: Arrays, **options: bool) -> Launch:
    x, y = a.random("f16", 100, 72), a.random("f16", 72, 96)
    return Launch(
        described,
        (4,),
        [block(x, 64, 32), block(y, 32, 64), a.output("f32", 100, 96)],
        {2: values(x) @ values(y)},
        {"BM": 64, "BN": 64, "BK": 32, **options},
    )


@case
def product_of_described_sizes(a: Arrays) -> Launch:
    return _described(a)


@case
def persistent_product_of_described_sizes(a: Arrays) -> Launch:
    return _described(a, persistent=True)


@tawa.jit
def strides_of(x, out, N: tl.constexpr):
    """Sizes and strides of a descriptor."""
    tl.store(out, x.shape[0])
    tl.store(out + 1, x.shape[1])
    tl.store(out + 2, x.strides[0])
    tl.store(out + 3, x.strides[1])


@case
def sizes_of_a_descriptor(a: Arrays) -> Launch:
    x = stored(values(a.random("f16", 64, 72)), "f16")
    return Launch(
        strides_of,
        (1,),
        [block(x, 16, 32), a.output("i64", 4)],
        {1: np.array([64, 72, 72, 1])},
        {"N": 4},
    )
