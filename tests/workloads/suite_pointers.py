"""Operands of products that are loaded through pointers, as most published kernels load them."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def product(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, CARRIED: tl.constexpr,
):  # fmt: skip
    """Masked at all edges; the pointer tiles are carried, or made anew in each turn."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    at = a + m[:, None] * stride_am + k[None, :] * stride_ak
    bt = b + k[:, None] * stride_bk + n[None, :] * stride_bn
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        if CARRIED:
            left = K - start
            x = tl.load(at, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
            y = tl.load(bt, mask=(k[:, None] < left) & (n[None, :] < N), other=0.0)
            at += BK * stride_ak
            bt += BK * stride_bk
        else:
            kk = start + k
            x = tl.load(
                a + m[:, None] * stride_am + kk[None, :] * stride_ak,
                mask=(m[:, None] < M) & (kk[None, :] < K),
            )
            y = tl.load(
                b + kk[:, None] * stride_bk + n[None, :] * stride_bn,
                mask=(kk[:, None] < K) & (n[None, :] < N),
            )
        acc = tl.dot(x, y, acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def _product(
    a: Arrays, element: str, turned: tuple[bool, bool], carried: bool, **blocks: int
) -> Launch:
    m, n, k = 80, 176, 112
    x = a.random(element, k, m) if turned[0] else a.random(element, m, k)
    y = a.random(element, n, k) if turned[1] else a.random(element, k, n)
    left, right = (values(v) for v in (x, y))
    wanted = (left.T if turned[0] else left) @ (right.T if turned[1] else right)
    strides = [*((1, m) if turned[0] else (k, 1)), *((1, k) if turned[1] else (n, 1))]
    constants = {"BM": 64, "BN": 128, "BK": 32, **blocks, "CARRIED": carried}
    grid = (-(-m // constants["BM"]), -(-n // constants["BN"]))
    args = [x, y, a.output("f32", m, n), m, n, k, *strides]
    return Launch(product, grid, args, {2: wanted}, constants, 2e-3)


@case
def copied_operands(a: Arrays) -> Launch:
    return _product(a, "f16", (False, False), carried=True)


@case
def copied_operands_both_turned(a: Arrays) -> Launch:
    return _product(a, "bf16", (True, True), carried=False)


@case
def copied_operands_for_two_groups(a: Arrays) -> Launch:
    return _product(a, "f16", (False, True), carried=True, BM=128, BK=64)


@case
def copied_operands_of_8_bits(a: Arrays) -> Launch:
    return _product(a, "e4m3", (False, True), carried=True, BK=64)


@case
def copied_operands_of_32_bits(a: Arrays) -> Launch:
    return _product(a, "f32", (False, True), carried=False)


@tawa.jit
def shifted_rows(a, b, c, first, rows, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Chunks of 8 bytes: rows start anywhere, at multiples of 4 elements."""
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    start = first * 4
    acc = tl.zeros((BM, BN), tl.float32)
    for kk in range(0, K, BK):
        x = tl.load(
            a + start + m[:, None] * K + (kk + k)[None, :], mask=m[:, None] < rows, other=0.0
        )
        y = tl.load(b + n[None, :] * K + (kk + k)[:, None])
        acc += tl.dot(x, y)
    tl.store(c + m[:, None] * BN + n[None, :], acc)


@case
def copied_rows_that_start_anywhere(a: Arrays) -> Launch:
    x, y = a.random("f16", 64 * 96 + 12), a.random("f16", 64, 96)
    wanted = values(x)[12:].reshape(64, 96).copy()
    wanted[50:] = 0
    args = [x, y, a.output("f32", 64, 64), 3, 50, 96]
    constants = {"BM": 64, "BN": 64, "BK": 32}
    return Launch(shifted_rows, (1,), args, {2: wanted @ values(y).T}, constants)


@tawa.jit
def gathered_rows(
    x, w, index, counts, out, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Rows that a table names, as many as another says, for as long as there are any."""
    n, k = tl.arange(0, BN), tl.arange(0, BK)
    count = tl.load(counts + tl.program_id(0))
    first = tl.program_id(0) * 2 * BM
    done = 0
    while done < count:
        m = done + tl.arange(0, BM)
        row = tl.load(index + first + m, mask=m < count, other=0)
        acc = tl.zeros((BM, BN), tl.float32)
        for kk in range(0, K, BK):
            at = x + row[:, None] * K + (kk + k)[None, :]
            here = (m[:, None] < count) & ((kk + k)[None, :] < K)
            a = tl.load(at, mask=here, other=0.0)
            b = tl.load(
                w + n[None, :] * K + (kk + k)[:, None], mask=(kk + k)[:, None] < K, other=0.0
            )
            acc = tl.dot(a, b, acc)
        tl.store(out + (first + m)[:, None] * N + n[None, :], acc, mask=m[:, None] < count)
        done += BM


@case
def copied_rows_of_a_table(a: Arrays) -> Launch:
    x, w = a.random("f16", 40, 80), a.random("f16", 64, 80)
    index = np.random.default_rng(0).integers(0, 40, (3, 128))
    counts = np.array([70, 0, 128])
    out = stored(np.zeros((3, 128, 64)), "f32")
    wanted = np.zeros((3, 128, 64))
    for p, count in enumerate(counts):
        wanted[p, :count] = values(x)[index[p, :count]] @ values(w).T
    args = [x, w, stored(index, "i32"), stored(counts, "i32"), out, 64, 80]
    return Launch(gathered_rows, (3,), args, {4: wanted}, {"BM": 64, "BN": 64, "BK": 32})


@tawa.jit
def mixed(a_desc, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """One operand by descriptor, the other through pointers, which is also summed up."""
    n, k = tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    total = tl.zeros((BN,), tl.float32)
    for kk in range(0, K, BK):
        x = a_desc.load([0, kk])
        y = tl.load(b + n[None, :] * K + (kk + k)[:, None])
        acc = tl.dot(x, y, acc)
        total += tl.sum(y.to(tl.float32), 0)
    m = tl.arange(0, BM)
    tl.store(c + m[:, None] * BN + n[None, :], acc + total[None, :])


@case
def one_operand_copied_one_by_descriptor(a: Arrays) -> Launch:
    x, y = a.random("f16", 64, 128), a.random("f16", 64, 128)
    wanted = values(x) @ values(y).T + values(y).sum(1)
    args = [tawa.TensorDescriptor.from_tensor(x, [64, 32]), y, a.output("f32", 64, 64), 128]
    constants = {"BM": 64, "BN": 64, "BK": 32}
    return Launch(mixed, (1,), args, {2: wanted}, constants)


@tawa.jit
def widened(x, w, scale, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Weights of 8 bits, converted and scaled in registers on their way to the product."""
    m, n, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for kk in range(0, tl.cdiv(K, BK)):
        at = kk * BK + k
        xt = tl.load(x + m[:, None] * K + at[None, :], mask=(m[:, None] < M) & (at[None, :] < K))
        wt = tl.load(w + n[None, :] * K + at[:, None], mask=(n[None, :] < N) & (at[:, None] < K))
        s = tl.load(scale + n, mask=n < N, other=0.0)
        acc += tl.dot(xt, (wt.to(tl.float32) * s[None, :]).to(xt.dtype))
    tl.store(y + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@case
def copied_weights_of_8_bits(a: Arrays) -> Launch:
    x, w, s = a.random("f16", 96, 160), a.random("i8", 48, 160), a.random("f32", 48)
    args = [x, w, s, a.output("f32", 96, 48), 96, 48, 160]
    wanted = values(x) @ (values(w).T * values(s))
    constants = {"BM": 128, "BN": 64, "BK": 64}
    return Launch(widened, (1,), args, {3: wanted}, constants, 2e-3)


@tawa.jit
def wrapped(
    a, b, c, M, N, K, stride_a, stride_b, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Rows and columns that begin again: the last programs' tiles are no boxes, the others' are."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    at = a + (m % M)[:, None] * stride_a + k[None, :]
    bt = b + k[:, None] * stride_b + (n % N)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(tl.cdiv(K, BK)):
        x = tl.load(at, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(bt, mask=k[:, None] < K - i * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        at += BK
        bt += BK * stride_b
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@case
def boxes_and_rows_that_begin_again(a: Arrays) -> Launch:
    m, n, k = 160, 336, 208
    x, y = a.random("f16", m, k + 16), a.random("f16", k, n + 32)
    wanted = values(x)[:, :k] @ values(y)[:, :n]
    args = [x, y, a.output("f32", m, n), m, n, k, k + 16, n + 32]
    return Launch(wrapped, (3, 3), args, {2: wanted}, {"BM": 64, "BN": 128, "BK": 64})
