"""Matrix products through pointers: shapes, types, epilogues, batches, quantised operands."""

from __future__ import annotations

from typing import Any

import numpy as np
from simulation import Arrays, block, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@tawa.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ACTIVATION: tl.constexpr = None,
    PRECISION: tl.constexpr = None,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    columns = tl.cdiv(N, BN)
    pid_m, pid_n = pid // columns, pid % columns
    offs_m = pid_m * BM + tl.arange(0, BM)
    offs_n = pid_n * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < left) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if ACTIVATION is not None:
        acc = ACTIVATION(acc)
    c_ptrs = c_ptr + stride_cm * offs_m[:, None] + stride_cn * offs_n[None, :]
    mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptrs, acc.to(c_ptr.dtype.element_ty), mask=mask)


def product(
    a: Arrays, element: str, sizes: tuple[int, int, int], block: tuple[int, int, int],
    out: str = "f32", turned: str = "", tolerance: float = 2e-3, **more: Any,
) -> Launch:  # fmt: skip
    """One launch of `matmul`; `turned` names the operands that lie transposed in memory."""
    m, n, k = sizes
    x = a.random(element, *((k, m) if "a" in turned else (m, k)))
    y = a.random(element, *((n, k) if "b" in turned else (k, n)))
    xv = values(x).T if "a" in turned else values(x)
    yv = values(y).T if "b" in turned else values(y)
    strides = [*((1, m) if "a" in turned else (k, 1)), *((1, k) if "b" in turned else (n, 1)), n, 1]
    grid = (tawa.cdiv(m, block[0]) * tawa.cdiv(n, block[1]),)
    expected = xv @ yv
    if more.get("ACTIVATION") is leaky_relu:
        expected = np.where(expected >= 0, expected, 0.01 * expected)
    constants = {"BM": block[0], "BN": block[1], "BK": block[2], **more}
    args = [x, y, a.output(out, m, n), m, n, k, *strides]
    return Launch(matmul, grid, args, {2: expected}, constants, tolerance)


@case
def matmul_64(a: Arrays) -> Launch:
    return product(a, "f16", (100, 130, 70), (64, 64, 32), "f16", ACTIVATION=leaky_relu)


@case
def matmul_rows_16(a: Arrays) -> Launch:
    return product(a, "f16", (16, 96, 64), (16, 32, 32))


@case
def matmul_rows_32_one_warp(a: Arrays) -> Launch:
    return product(a, "bf16", (40, 48, 64), (32, 16, 16), num_warps=1)


@case
def matmul_rows_48_turned(a: Arrays) -> Launch:
    return product(a, "f16", (48, 80, 64), (48, 80, 16), turned="ab")


@case
def matmul_rows_32_eight_warps(a: Arrays) -> Launch:
    return product(a, "f16", (32, 64, 128), (32, 64, 64), num_warps=8, turned="b")


@case
def matmul_f32(a: Arrays) -> Launch:
    return product(a, "f32", (70, 50, 40), (64, 64, 16))


@case
def matmul_f32_turned(a: Arrays) -> Launch:
    return product(a, "f32", (64, 64, 64), (64, 64, 32), turned="a")


@case
def matmul_f32_ieee(a: Arrays) -> Launch:
    return product(a, "f32", (40, 33, 50), (32, 32, 16), PRECISION="ieee", tolerance=1e-6)


@case
def matmul_f32_three_products(a: Arrays) -> Launch:
    return product(a, "f32", (64, 64, 64), (64, 64, 32), PRECISION="tf32x3", tolerance=2e-6)


@case
def matmul_e4m3(a: Arrays) -> Launch:
    return product(a, "e4m3", (64, 64, 128), (64, 64, 64))


@case
def matmul_e5m2_rows_32(a: Arrays) -> Launch:
    return product(a, "e5m2", (32, 64, 64), (32, 32, 32), turned="b")


@case
def matmul_k_8(a: Arrays) -> Launch:
    return product(a, "f32", (64, 32, 24), (64, 32, 8))


@tawa.jit
def split_k_matmul(a, b, c, M, N, K, SPLIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.program_id(2) * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK * SPLIT)):
        at = ks + k * BK * SPLIT
        x = tl.load(a + rows[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        y = tl.load(b + at[:, None] * N + cols[None, :], mask=at[:, None] < K, other=0.0)
        acc += tl.dot(x, y)
    tl.atomic_add(c + rows[:, None] * N + cols[None, :], acc, mask=rows[:, None] < M)


@tawa.jit
def sums_in_halves(a_d, b_d, c_d, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float16)
    for k in range(0, K, BK):
        acc = tl.dot(a_d.load([m, k]), b_d.load([k, n]), acc, out_dtype=tl.float16)
    c_d.store([m, n], acc)


@case
def product_that_adds_up_in_halves(a: Arrays) -> Launch:
    x, y = a.random("f16", 100, 128), a.random("f16", 128, 96)
    x[...] = x * 0.125
    out = a.output("f16", 100, 96)
    args = [block(x, 64, 32), block(y, 32, 64), block(out, 64, 64), 128]
    constants = {"BM": 64, "BN": 64, "BK": 32}
    return Launch(sums_in_halves, (2, 2), args, {2: values(x) @ values(y)}, constants, 5e-3)


@case
def split_k(a: Arrays) -> Launch:
    x, y = a.random("f16", 64, 200), a.random("f16", 200, 64)
    out = stored(np.zeros((64, 64)), "f32")
    constants = {"SPLIT": 2, "BM": 64, "BN": 64, "BK": 64}
    return Launch(
        split_k_matmul, (1, 1, 2), [x, y, out, 64, 64, 200], {2: values(x) @ values(y)}, constants
    )


@tawa.jit
def batched_dots(x, y, z, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    b = tl.arange(0, B)[:, None, None]
    m, n = tl.arange(0, M), tl.arange(0, N)
    k = tl.arange(0, K)
    p = tl.load(x + b * M * K + m[None, :, None] * K + k[None, None, :])
    q = tl.load(y + b * K * N + k[None, :, None] * N + n[None, None, :])
    tl.store(z + b * M * N + m[None, :, None] * N + n[None, None, :], tl.dot(p, q))


@case
def batched_dot(a: Arrays) -> Launch:
    x, y = a.random("f16", 4, 32, 32), a.random("f16", 4, 32, 16)
    args = [x, y, a.output("f32", 4, 32, 16)]
    constants = {"B": 4, "M": 32, "N": 16, "K": 32}
    return Launch(batched_dots, (1,), args, {2: values(x) @ values(y)}, constants)


@tawa.jit
def grouped_tiles(
    a_ptrs, b_ptrs, c_ptrs, sizes, count, PROGRAMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    last_end = 0
    for g in range(count):
        m, n, k = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        num_n = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * num_n
        while tile >= last_end and tile < last_end + tiles:
            a = a_ptrs + tl.load(sizes + 3 * count + g * 3)
            b = b_ptrs + tl.load(sizes + 3 * count + g * 3 + 1)
            c = c_ptrs + tl.load(sizes + 3 * count + g * 3 + 2)
            local = tile - last_end
            rows = (local // num_n) * BM + tl.arange(0, BM)
            cols = (local % num_n) * BN + tl.arange(0, BN)
            ks = tl.arange(0, BK)
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for kk in range(0, tl.cdiv(k, BK)):
                at = kk * BK + ks
                x = tl.load(a + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)  # fmt: skip
                y = tl.load(b + at[:, None] * n + cols[None, :], mask=(at[:, None] < k) & (cols[None, :] < n), other=0.0)  # fmt: skip
                acc += tl.dot(x, y)
            mask = (rows[:, None] < m) & (cols[None, :] < n)
            tl.store(c + rows[:, None] * n + cols[None, :], acc.to(tl.float16), mask=mask)
            tile += PROGRAMS
        last_end += tiles


@case
def grouped(a: Arrays) -> Launch:
    shapes = [(70, 64, 48), (64, 100, 32), (10, 20, 64)]
    x = a.random("f16", sum(m * k for m, _, k in shapes))
    y = a.random("f16", sum(k * n for _, n, k in shapes))
    starts, expected, at = [], [], [0, 0, 0]
    for m, n, k in shapes:
        starts += at
        p = values(x)[at[0] : at[0] + m * k].reshape(m, k)
        q = values(y)[at[1] : at[1] + k * n].reshape(k, n)
        expected.append((p @ q).reshape(-1))
        at = [at[0] + m * k, at[1] + k * n, at[2] + m * n]
    sizes = stored(np.array([*sum(shapes, ()), *starts]), "i32")
    args = [x, y, a.output("f16", at[2]), sizes, 3]
    constants = {"PROGRAMS": 2, "BM": 64, "BN": 64, "BK": 32}
    return Launch(grouped_tiles, (2,), args, {2: np.concatenate(expected)}, constants)


@tawa.jit
def matrix_vector(a, x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    acc = tl.zeros((BM,), dtype=tl.float32)
    for n in range(0, N, BN):
        cols = n + tl.arange(0, BN)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        tile = tl.load(a + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
        acc += tl.sum(tile * tl.load(x + cols, mask=cols < N, other=0.0)[None, :], axis=1)
    tl.store(y + rows, acc, mask=rows < M)


@case
def gemv(a: Arrays) -> Launch:
    m, x = a.random("f32", 70, 150), a.random("f32", 150)
    args = [m, x, a.output("f32", 70), 70, 150]
    return Launch(matrix_vector, (3,), args, {2: values(m) @ values(x)}, {"BM": 32, "BN": 64})


@tawa.jit
def implicit_gemm(
    x, w, y, N, C, H, W, K, P, Q, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
    PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    n = rows // (P * Q)
    p = (rows // Q) % P
    q = rows % Q
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(C * R * S, BK)):
        at = k * BK + tl.arange(0, BK)
        c = at // (R * S)
        h = p[:, None] * STRIDE - PAD + ((at // S) % R)[None, :]
        v = q[:, None] * STRIDE - PAD + (at % S)[None, :]
        inside = (h >= 0) & (h < H) & (v >= 0) & (v < W) & (c[None, :] < C) & (n[:, None] < N)
        a = tl.load(x + ((n[:, None] * C + c[None, :]) * H + h) * W + v, mask=inside, other=0.0)
        mask = (at[:, None] < C * R * S) & (cols[None, :] < K)
        b = tl.load(w + cols[None, :] * (C * R * S) + at[:, None], mask=mask, other=0.0)
        acc = tl.dot(a, b, acc)
    out = ((n[:, None] * K + cols[None, :]) * P + p[:, None]) * Q + q[:, None]
    tl.store(y + out, acc.to(tl.float16), mask=(n[:, None] < N) & (cols[None, :] < K))


@case
def convolution_by_implicit_gemm(a: Arrays) -> Launch:
    x, w = a.random("f16", 2, 3, 9, 8), a.random("f16", 10, 3, 3, 3)
    padded = np.pad(values(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    expected = np.einsum("nchwrs,kcrs->nkhw", windows, values(w))
    p, q = expected.shape[2:]
    args = [x, w, a.output("f16", 2, 10, p, q), 2, 3, 9, 8, 10, p, q]
    constants = {"R": 3, "S": 3, "STRIDE": 2, "PAD": 1, "BM": 64, "BN": 16, "BK": 32}
    return Launch(implicit_gemm, (tawa.cdiv(2 * p * q, 64), 1), args, {2: expected}, constants)


@tawa.jit
def lora(x, w, down, up, out, scale, M, N, K, RANK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    ks, rank = tl.arange(0, BK), tl.arange(0, RANK)
    acc = tl.zeros((BM, BN), tl.float32)
    low = tl.zeros((BM, RANK), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(x + rows[:, None] * K + k + ks[None, :], mask=rows[:, None] < M, other=0.0)
        acc += tl.dot(a, tl.load(w + (k + ks)[:, None] * N + cols[None, :]))
        low += tl.dot(a, tl.load(down + (k + ks)[:, None] * RANK + rank[None, :]))
    u = tl.load(up + rank[:, None] * N + cols[None, :])
    acc += tl.dot(low.to(tl.float16), u) * scale
    tl.store(out + rows[:, None] * N + cols[None, :], acc.to(tl.float16), mask=rows[:, None] < M)


@case
def low_rank_update(a: Arrays) -> Launch:
    x, w, d, u = (a.random("f16", *s) for s in ((70, 64), (64, 96), (64, 16), (16, 96)))
    expected = values(x) @ values(w) + 0.5 * (values(x) @ values(d) @ values(u))
    args = [x, w, d, u, a.output("f16", 70, 96), 0.5, 70, 96, 64]
    constants = {"RANK": 16, "BM": 64, "BN": 96, "BK": 32}
    return Launch(lora, (2, 1), args, {4: expected}, constants, 2e-3)


@tawa.jit
def described_product(
    a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TURN_A: tl.constexpr, TURN_B: tl.constexpr,
):  # fmt: skip
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float64 if a.dtype == tl.float64 else tl.float32)
    for k in range(0, K, BK):
        x = a.load([k, m]).T if TURN_A else a.load([m, k])
        y = b.load([n, k]).T if TURN_B else b.load([k, n])
        acc = tl.dot(x, y, acc)
    c.store([m, n], acc.to(c.dtype))


def described(
    a: Arrays, element: str, sizes: tuple[int, int, int], tile: tuple[int, int, int],
    turned: str = "", **options: Any,
) -> Launch:  # fmt: skip
    """A product of tiles that descriptors load."""
    (m, n, k), (bm, bn, bk) = sizes, tile
    x = a.random(element, *((k, m) if "a" in turned else (m, k)))
    y = a.random(element, *((n, k) if "b" in turned else (k, n)))
    out = a.output("f32", m, n)
    xv, yv = (values(v).T if s in turned else values(v) for v, s in ((x, "a"), (y, "b")))
    args = [block(x, *((bk, bm) if "a" in turned else (bm, bk))),
            block(y, *((bn, bk) if "b" in turned else (bk, bn))), block(out, bm, bn), k]  # fmt: skip
    constants = {"BM": bm, "BN": bn, "BK": bk, "TURN_A": "a" in turned, "TURN_B": "b" in turned}
    grid = (tawa.cdiv(m, bm), tawa.cdiv(n, bn))
    return Launch(described_product, grid, args, {2: xv @ yv}, constants | options, 2e-3)


@case
def described_rows_16(a: Arrays) -> Launch:
    return described(a, "f16", (16, 64, 128), (16, 64, 64), "b")


@case
def described_rows_32_turned(a: Arrays) -> Launch:
    return described(a, "bf16", (40, 48, 72), (32, 24, 48), "a")


@case
def described_f32_turned(a: Arrays) -> Launch:
    return described(a, "f32", (64, 72, 64), (64, 64, 32), "a")


@case
def described_f32_columns_48(a: Arrays) -> Launch:
    return described(a, "f32", (128, 48, 64), (128, 48, 16))


@case
def described_k_80(a: Arrays) -> Launch:
    return described(a, "f16", (128, 96, 160), (128, 96, 80), "b")


@case
def described_rows_192_persistent(a: Arrays) -> Launch:
    return described(a, "f16", (200, 104, 96), (192, 40, 32), persistent=True)


@case
def described_rows_80(a: Arrays) -> Launch:
    return described(a, "f16", (80, 80, 80), (80, 80, 16), "ab")


@case
def described_f64(a: Arrays) -> Launch:
    return described(a, "f64", (32, 32, 32), (32, 32, 16))


@tawa.jit
def options_of_dot(x, y, z, w, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tl.load(x + at), tl.load(y + at)
    tl.store(z + at, tl.dot(a, b, allow_tf32=False))
    half = tl.dot(a.to(tl.float16), b.to(tl.float16), out_dtype=tl.float16)
    tl.store(w + at, half + tl.dot(b.to(tl.float16), a.to(tl.float16), out_dtype=tl.float16))


@case
def dot_in_f16_and_ieee(a: Arrays) -> Launch:
    x, y = a.random("f32", 64, 64), a.random("f32", 64, 64)
    xv, yv = values(x), values(y)
    args = [x, y, a.output("f32", 64, 64), a.output("f16", 64, 64)]
    expected = {2: xv @ yv, 3: xv @ yv + yv @ xv}
    return Launch(options_of_dot, (1,), args, expected, {"N": 64}, 3e-3)


@tawa.jit
def three_products(x, y, z, w, M: tl.constexpr, N: tl.constexpr):
    """Dots of small tiles whose operands are results of dots: (x y) y^T and its column sums."""
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    a = tl.load(x + rows[:, None] * N + cols[None, :])
    b = tl.load(y + cols[:, None] * N + cols[None, :])
    ab = tl.dot(a, b)
    abb = tl.dot(ab.to(tl.bfloat16), tl.trans(b))
    tl.store(
        z + rows[:, None] * N + cols[None, :],
        tl.dot(tl.sqrt(tl.abs(abb)).to(tl.bfloat16), b, acc=ab),
    )
    tl.store(w + cols, tl.sum(abb, axis=0))


@case
def products_of_products(a: Arrays) -> Launch:
    x, y = a.random("bf16", 16, 32), a.random("bf16", 32, 32)
    ab = values(x) @ values(y)
    abb = ab @ values(y).T
    expected = {2: np.sqrt(np.abs(abb)) @ values(y) + ab, 3: abb.sum(0)}
    args = [x, y, a.output("f32", 16, 32), a.output("f32", 32)]
    return Launch(three_products, (1,), args, expected, {"M": 16, "N": 32}, 2e-2)
