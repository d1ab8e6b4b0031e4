"""Loops that leave out turns or end before their range does."""

from __future__ import annotations

from typing import Any

import numpy as np
from simulation import Arrays, block, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def first_above(x, found, N, limit, BLOCK: tl.constexpr):
    """Where each row's running sum first exceeds a limit; -1 if nowhere."""
    row = tl.program_id(0)
    total = 0.0
    at = -1
    for i in range(0, N, BLOCK):
        j = i + tl.arange(0, BLOCK)
        v = tl.load(x + row * N + j, mask=j < N, other=0.0)
        sums = total + tl.cumsum(v, 0)
        over = sums > limit
        if tl.sum(over.to(tl.int32), 0) == 0:
            total += tl.sum(v, 0)
            continue
        at = i + tl.argmax(over.to(tl.int32), 0)
        break
    tl.store(found + row, at)


@case
def search_that_ends_early(a: Arrays) -> Launch:
    x = stored(np.abs(values(a.random("f32", 5, 300))), "f32")
    s = np.cumsum(values(x), 1)
    e = np.where((s > 90).any(1), (s > 90).argmax(1), -1)
    return Launch(first_above, (5,), [x, a.output("i32", 5), 300, 90.0], {1: e}, {"BLOCK": 64})


@tawa.jit
def block_product(a, b, i, acc, K, BK: tl.constexpr):
    """One block of K more."""
    m = tl.arange(0, acc.shape[0])
    n = tl.arange(0, acc.shape[1])
    k = i + tl.arange(0, BK)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * acc.shape[1] + n[None, :])
    return tl.dot(x, y, acc)


@tawa.jit
def product_until(a, b, c, steps, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """A product over the first blocks of K whose step is not negative."""
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        if tl.load(steps + i // BK) < 0:
            break
        acc = block_product(a, b, i, acc, K, BK)
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)


@tawa.jit
def product_skipping(a, b, c, steps, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """A product over the blocks of K whose step is not negative."""
    acc = tl.zeros((M, N), tl.float32)
    for i in range(0, K, BK):
        if tl.load(steps + i // BK) < 0:
            continue
        acc = block_product(a, b, i, acc, K, BK)
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)


def _by_steps(a: Arrays, kernel: Any, steps: list[int], taken: list[int]) -> Launch:
    """A product of those columns and rows whose block of 32 is taken."""
    x, y = a.random("f16", 64, 128), a.random("f16", 128, 64)
    k = np.isin(np.arange(128) // 32, taken)
    return Launch(
        kernel,
        (1,),
        [x, y, a.output("f32", 64, 64), stored(np.array(steps), "i32"), 128],
        {2: values(x)[:, k] @ values(y)[k]},
        {"M": 64, "N": 64, "BK": 32},
    )


@case
def product_that_ends_early(a: Arrays) -> Launch:
    return _by_steps(a, product_until, [1, 2, 0, -1], [0, 1, 2])


@case
def product_that_skips(a: Arrays) -> Launch:
    return _by_steps(a, product_skipping, [1, -2, 0, -1], [0, 2])


@tawa.jit
def described_until(a_desc, b_desc, c, n_steps, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    i = 0
    while True:
        if i >= n_steps:
            break
        acc = tl.dot(a_desc.load([0, i * BK]), b_desc.load([i * BK, 0]), acc)
        i += 1
    tl.store(c + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :], acc)


@case
def described_product_that_ends_early(a: Arrays) -> Launch:
    x, y = a.random("f16", 64, 128), a.random("f16", 128, 64)
    return Launch(
        described_until,
        (1,),
        [block(x, 64, 32), block(y, 32, 64), a.output("f32", 64, 64), 3],
        {2: values(x)[:, :96] @ values(y)[:96]},
        {"M": 64, "N": 64, "BK": 32},
    )
