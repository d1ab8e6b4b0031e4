"""Matrix products with quantised operands: int8, packed int4, fp8 with scales of blocks."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def int8_matmul(x, w, xs, ws, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(0, K, BK):
        a = tl.load(x + rows[:, None] * K + k + ks[None, :], mask=rows[:, None] < M, other=0)
        b = tl.load(w + cols[None, :] * K + k + ks[:, None], mask=cols[None, :] < N, other=0)
        acc += tl.dot(a, b)
    sa = tl.load(xs + rows, mask=rows < M, other=0.0)
    sb = tl.load(ws + cols, mask=cols < N, other=0.0)
    result = acc.to(tl.float32) * sa[:, None] * sb[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(out + rows[:, None] * N + cols[None, :], result.to(tl.bfloat16), mask=mask)


def _int8(a: Arrays, m: int, block: tuple[int, int, int]) -> Launch:
    x, w, xs, ws = (
        a.random("i8", m, 128),
        a.random("i8", 72, 128),
        a.random("f32", m),
        a.random("f32", 72),
    )
    expected = (values(x) @ values(w).T) * values(xs)[:, None] * values(ws)
    args = [x, w, xs, ws, a.output("bf16", m, 72), m, 72, 128]
    constants = dict(zip(("BM", "BN", "BK"), block, strict=True))
    grid = (tawa.cdiv(m, block[0]), tawa.cdiv(72, block[1]))
    return Launch(int8_matmul, grid, args, {4: expected}, constants, 1e-2)


@case
def int8_with_scales(a: Arrays) -> Launch:
    return _int8(a, 100, (64, 64, 64))


@case
def int8_rows_16(a: Arrays) -> Launch:
    return _int8(a, 9, (16, 32, 64))


@tawa.jit
def int4_matmul(
    x, packed, scales, zeros, out, M, N, K,
    GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    shift = (ks % 8) * 4
    for k in range(0, K, BK):
        a = tl.load(x + rows[:, None] * K + k + ks[None, :], mask=rows[:, None] < M, other=0.0)
        words = tl.load(packed + ((k + ks) // 8)[:, None] * N + cols[None, :])
        s = tl.load(scales + (k // GROUP) * N + cols)
        z = tl.load(zeros + (k // GROUP) * N + cols)
        b = (((words >> shift[:, None]) & 0xF).to(tl.float32) - z[None, :]) * s[None, :]
        acc += tl.dot(a, b.to(tl.float16))
    tl.store(out + rows[:, None] * N + cols[None, :], acc.to(tl.float16), mask=rows[:, None] < M)


def _int4(a: Arrays, m: int, bm: int) -> Launch:
    rng = np.random.default_rng(8)
    q = rng.integers(0, 16, (128, 64))
    words = np.zeros((16, 64), np.uint32)
    for i in range(8):
        words |= q[i::8].astype(np.uint32) << np.uint32(4 * i)
    x, scales = a.random("f16", m, 128), a.random("f32", 4, 64)
    zeros = stored(rng.integers(4, 12, (4, 64)), "f32")
    w = (q - np.repeat(values(zeros), 32, 0)) * np.repeat(values(scales), 32, 0)
    args = [
        x,
        stored(words.view(np.int32), "i32"),
        scales,
        zeros,
        a.output("f16", m, 64),
        m,
        64,
        128,
    ]
    constants = {"GROUP": 32, "BM": bm, "BN": 32, "BK": 32}
    return Launch(int4_matmul, (tawa.cdiv(m, bm), 2), args, {4: values(x) @ w}, constants, 2e-3)


@case
def int4_weights(a: Arrays) -> Launch:
    return _int4(a, 100, 64)


@case
def int4_weights_rows_16(a: Arrays) -> Launch:
    return _int4(a, 5, 16)


@tawa.jit
def fp8_block_scaled(
    x, w, xs, ws, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    blocks = tl.cdiv(K, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, blocks):
        a = tl.load(x + rows[:, None] * K + (k * BK + ks)[None, :])
        b = tl.load(w + cols[None, :] * K + (k * BK + ks)[:, None])
        sa = tl.load(xs + rows * blocks + k)
        sb = tl.load(ws + (cols // BK) * blocks + k)
        acc += tl.dot(a, b) * sa[:, None] * sb[None, :]
    tl.store(out + rows[:, None] * N + cols[None, :], acc.to(out.dtype.element_ty))


@case
def fp8_with_block_scales(a: Arrays) -> Launch:
    x, w = a.random("e4m3", 64, 128), a.random("e4m3", 128, 128)
    xs, ws = a.random("f32", 64, 2), a.random("f32", 2, 2)
    xv = values(x) * np.repeat(values(xs), 64, 1)
    wv = values(w) * np.repeat(np.repeat(values(ws), 64, 0), 64, 1)
    args = [x, w, xs, ws, a.output("bf16", 64, 128), 64, 128, 128]
    constants = {"BM": 64, "BN": 64, "BK": 64}
    return Launch(fp8_block_scaled, (1, 2), args, {4: xv @ wv.T}, constants, 1e-2)
