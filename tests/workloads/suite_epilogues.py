"""Matrix products with batches, residuals, both triangles and several stores."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, block, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def batched_broadcast(
    a, b, c, M, N, K, stride_ab, stride_bb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    z = tl.program_id(2).to(tl.int64)
    a_block = tl.make_block_ptr(
        a + z * stride_ab, (M, K), (K, 1), (tl.program_id(0) * BM, 0), (BM, BK), (1, 0)
    )
    b_block = tl.make_block_ptr(
        b + z * stride_bb, (K, N), (1, K), (0, tl.program_id(1) * BN), (BK, BN), (0, 1)
    )
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, y)
        a_block = tl.advance(a_block, (0, BK))
        b_block = tl.advance(b_block, (BK, 0))
    c_block = tl.make_block_ptr(
        c + z * M * N,
        (M, N),
        (N, 1),
        (tl.program_id(0) * BM, tl.program_id(1) * BN),
        (BM, BN),
        (1, 0),
    )
    tl.store(c_block, acc.to(c.dtype.element_ty), boundary_check=(0, 1))


@case
def batch_with_one_weight(a: Arrays) -> Launch:
    x, w = a.random("bf16", 3, 50, 88), a.random("bf16", 70, 88)
    args = [x, w, a.output("f32", 3, 50, 70), 50, 70, 88, 50 * 88, 0]
    constants = {"BM": 64, "BN": 32, "BK": 32}
    return Launch(batched_broadcast, (1, 3, 3), args, {2: values(x) @ values(w).T}, constants)


@tawa.jit
def relu(x):
    return tl.maximum(x, 0)


@tawa.jit
def residual_bias_act(
    a,
    b,
    bias,
    res,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACT: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a += m[:, None] * sam + k[None, :] * sak
    b += k[:, None] * sbk + n[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for left in range(K, 0, -BK):
        if EVEN_K:
            x = tl.load(a, mask=m[:, None] < M, other=0.0)
            y = tl.load(b, mask=n[None, :] < N, other=0.0)
        else:
            x = tl.load(a, mask=(k[None, :] < left) & (m[:, None] < M), other=0.0)
            y = tl.load(b, mask=(k[:, None] < left) & (n[None, :] < N), other=0.0)
        acc += tl.dot(x, y, allow_tf32=True)
        a += BK * sak
        b += BK * sbk
    acc += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    mask = (m[:, None] < M) & (n[None, :] < N)
    acc += tl.load(res + m[:, None] * N + n[None, :], mask=mask, other=0.0)
    if ACT == "relu":
        acc = relu(acc)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=mask)


@case
def residual_and_relu_of_odd_sizes(a: Arrays) -> Launch:
    x, w, b, r = (
        a.random("f16", 67, 61),
        a.random("f16", 61, 75),
        a.random("f16", 75),
        a.random("f16", 67, 75),
    )
    e = np.maximum(values(x) @ values(w) + values(b) + values(r), 0)
    args = [x, w, b, r, a.output("f16", 67, 75), 67, 75, 61, 61, 1, 75, 1]
    constants = {"BM": 64, "BN": 64, "BK": 32, "ACT": "relu", "EVEN_K": False, "num_warps": 8}
    return Launch(residual_bias_act, (2, 2), args, {4: e}, constants, 2e-3)


@tawa.jit
def gram(a, c, M, N, BN: tl.constexpr, BK: tl.constexpr):
    """A^T A, lower tiles; each is stored twice."""
    i, j = tl.program_id(0), tl.program_id(1)
    if j > i:
        return
    ri = i * BN + tl.arange(0, BN)
    rj = j * BN + tl.arange(0, BN)
    acc = tl.zeros((BN, BN), tl.float32)
    for k in range(0, M, BK):
        rows = k + tl.arange(0, BK)
        x = tl.load(
            a + rows[:, None] * N + ri[None, :],
            mask=(rows < M)[:, None] & (ri < N)[None, :],
            other=0.0,
        )
        y = tl.load(
            a + rows[:, None] * N + rj[None, :],
            mask=(rows < M)[:, None] & (rj < N)[None, :],
            other=0.0,
        )
        acc += tl.dot(tl.trans(x), y)
    mask = (ri < N)[:, None] & (rj < N)[None, :]
    tl.store(c + ri[:, None] * N + rj[None, :], acc, mask=mask)
    tl.store(c + rj[:, None] * N + ri[None, :], acc.T, mask=(rj < N)[:, None] & (ri < N)[None, :])


@case
def gram_matrix(a: Arrays) -> Launch:
    x = a.random("bf16", 90, 100)
    args = [x, a.output("f32", 100, 100), 90, 100]
    return Launch(gram, (2, 2), args, {1: values(x).T @ values(x)}, {"BN": 64, "BK": 32})


@tawa.jit
def descriptor_made_inside(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    EPILOGUE: tl.constexpr,
    SMS: tl.constexpr,
):
    dtype = c.dtype.element_ty
    num_m, num_n, k_tiles = tl.cdiv(M, BM), tl.cdiv(N, BN), tl.cdiv(K, BK)
    a_desc = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    b_desc = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    c_desc = tl.make_tensor_descriptor(
        c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN if not EPILOGUE else BN // 2]
    )
    for tile in tl.range(tl.program_id(0), num_m * num_n, SMS, flatten=True):
        m = tile % num_m * BM
        n = tile // num_m * BN
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(k_tiles):
            x = a_desc.load([m, k * BK])
            y = b_desc.load([n, k * BK])
            acc = tl.dot(x, y.T, acc)
        if EPILOGUE:
            acc = tl.reshape(acc, (BM, 2, BN // 2))
            acc = tl.permute(acc, (0, 2, 1))
            left, right = tl.split(acc)
            c_desc.store([m, n], left.to(dtype))
            c_desc.store([m, n + BN // 2], right.to(dtype))
        else:
            c_desc.store([m, n], acc.to(dtype))


@case
def persistent_with_split_epilogue(a: Arrays) -> Launch:
    x, y = a.random("f16", 200, 136), a.random("f16", 136, 136)
    args = [x, y, a.output("f16", 200, 136), 200, 136, 136]
    constants = {
        "BM": 128,
        "BN": 128,
        "BK": 64,
        "EPILOGUE": True,
        "num_stages": 3,
        "SMS": 2,
        "num_warps": 8,
    }
    return Launch(descriptor_made_inside, (2,), args, {2: values(x) @ values(y).T}, constants)


@tawa.jit
def dual_gemm_silu(x_d, w1_d, w3_d, y_d, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    gate = tl.zeros((BM, BN), tl.float32)
    up = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = x_d.load([m, k])
        gate = tl.dot(x, w1_d.load([k, n]), gate)
        up = tl.dot(x, w3_d.load([k, n]), up)
    y_d.store([m, n], (gate * tl.sigmoid(gate) * up).to(tl.bfloat16))


@case
def gated_mlp_by_descriptors(a: Arrays) -> Launch:
    x, w1, w3 = a.random("bf16", 100, 128), a.random("bf16", 128, 96), a.random("bf16", 128, 96)
    g, u = values(x) @ values(w1), values(x) @ values(w3)
    args = [
        block(x, 64, 64),
        block(w1, 64, 64),
        block(w3, 64, 64),
        block(a.output("bf16", 100, 96), 64, 64),
        128,
    ]
    return Launch(
        dual_gemm_silu,
        (2, 2),
        args,
        {3: g / (1 + np.exp(-g)) * u},
        {"BM": 64, "BN": 64, "BK": 64},
        5e-3,
    )
