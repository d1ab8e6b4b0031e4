"""Kernels as users of Triton write them, run at the tile level against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tawa.language as tl
from tawa.frontend import JITFunction as jit

rng = np.random.default_rng(7)


def close(actual, expected, tolerance=1e-3):
    actual, expected = actual.astype(np.float64), np.asarray(expected, dtype=np.float64)
    error = np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-30)
    assert error < tolerance, error


@jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    output = x + y
    tl.store(output_ptr + offsets, output, mask=mask)


@pytest.mark.parametrize("n", [1, 127, 128, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_vector_add(launch, n, dtype):
    x, y = (rng.standard_normal((2, n)) * 100).astype(dtype)
    out = np.zeros(n, dtype)
    launch(add_kernel, (-(-n // 128),), x, y, out, n, BLOCK_SIZE=128)
    np.testing.assert_array_equal(out, x + y)


@jit
def softmax_kernel(
    output_ptr, input_ptr, input_row_stride, output_row_stride, n_rows, n_cols,
    BLOCK_SIZE: tl.constexpr, num_stages: tl.constexpr,
):  # fmt: skip
    row_start = tl.program_id(0)
    row_step = tl.num_programs(0)
    for row_idx in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        row_start_ptr = input_ptr + row_idx * input_row_stride
        col_offsets = tl.arange(0, BLOCK_SIZE)
        input_ptrs = row_start_ptr + col_offsets
        mask = col_offsets < n_cols
        row = tl.load(input_ptrs, mask=mask, other=-float("inf"))
        row_minus_max = row - tl.max(row, axis=0)
        numerator = tl.exp(row_minus_max)
        denominator = tl.sum(numerator, axis=0)
        softmax_output = numerator / denominator
        output_row_start_ptr = output_ptr + row_idx * output_row_stride
        output_ptrs = output_row_start_ptr + col_offsets
        tl.store(output_ptrs, softmax_output, mask=mask)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_row_softmax(launch):
    x = rng.standard_normal((37, 100)).astype(np.float32)
    wide = np.zeros((37, 128), np.float32)
    out = wide[:, :100]
    launch(softmax_kernel, (5,), wide, x, 100, 128, 37, 100, BLOCK_SIZE=128, num_stages=4)
    close(out, softmax(x.astype(np.float64)), 1e-6)
    assert not wide[:, 100:].any()


@jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    tl.assume(pid_m >= 0)
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        accumulator = tl.dot(a, b, accumulator)
        a_ptrs += BLOCK_SIZE_K * stride_ak
        b_ptrs += BLOCK_SIZE_K * stride_bk
    if ACTIVATION == "leaky_relu":
        accumulator = leaky_relu(accumulator)
    c = accumulator.to(tl.float16)
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    tl.store(c_ptrs, c, mask=c_mask)


@pytest.mark.parametrize("shape", [(100, 70, 50), (64, 64, 64), (16, 16, 0)])
@pytest.mark.parametrize("activation", ["", "leaky_relu"])
def test_matmul_with_pointers(launch, shape, activation):
    M, N, K = shape
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((N, K)).astype(np.float16).T
    c = np.full((M, N), np.nan, np.float16)
    strides = [s // 2 for x in (a, b, c) for s in x.strides]
    launch(matmul_kernel, (-(-M // 32) * -(-N // 32),), a, b, c, M, N, K, *strides,
           BLOCK_SIZE_M=32, BLOCK_SIZE_N=32, BLOCK_SIZE_K=16, GROUP_SIZE_M=2,
           ACTIVATION=activation)  # fmt: skip
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if activation:
        expected = np.where(expected >= 0, expected, 0.01 * expected)
    close(c, expected)


@jit
def _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M):
    group_id = tile_id // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + (tile_id % group_size_m)
    pid_n = (tile_id % num_pid_in_group) // group_size_m
    return pid_m, pid_n


@jit
def matmul_persistent(
    a_desc, b_desc, c_desc, M, N, K,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr, FP8_OUTPUT: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):  # fmt: skip
    dtype = tl.float8e4nv if FP8_OUTPUT else tl.float16
    start_pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    k_tiles = tl.cdiv(K, BLOCK_SIZE_K)
    num_tiles = num_pid_m * num_pid_n
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    for tile_id in tl.range(
        start_pid, num_tiles, tl.num_programs(0), flatten=True, warp_specialize=WARP_SPECIALIZE
    ):
        pid_m, pid_n = _compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_SIZE_M)
        offs_am = pid_m * BLOCK_SIZE_M
        offs_bn = pid_n * BLOCK_SIZE_N
        accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BLOCK_SIZE_K
            a = a_desc.load([offs_am, offs_k])
            b = b_desc.load([offs_bn, offs_k])
            accumulator = tl.dot(a, b.T, accumulator)
        c_desc.store([offs_am, offs_bn], accumulator.to(dtype))


def test_persistent_matmul_with_descriptors(launch, block):
    M, N, K = 96, 200, 70
    a = rng.standard_normal((M, K)).astype(np.float16)
    b = rng.standard_normal((N, K)).astype(np.float16)
    c = np.full((M, N), np.nan, np.float16)
    launch(matmul_persistent, (3,), block(a, 32, 16), block(b, 24, 16), block(c, 32, 24), M, N, K,
           BLOCK_SIZE_M=32, BLOCK_SIZE_N=24, BLOCK_SIZE_K=16, GROUP_SIZE_M=2, FP8_OUTPUT=False,
           WARP_SPECIALIZE=True)  # fmt: skip
    close(c, a.astype(np.float64) @ b.astype(np.float64).T)


@jit
def matmul_device_descriptors(a_ptr, b_ptr, c_ptr, M, N, K, B: tl.constexpr):
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[B, B])
    b_desc = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [B, B])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [B, B])
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros([B, B], tl.float32)
    for k in range(0, K, B):
        a = tl.load_tensor_descriptor(a_desc, [pid_m * B, k])
        b = b_desc.load([k, pid_n * B])
        acc += tl.dot(a, b)
    tl.store_tensor_descriptor(c_desc, [pid_m * B, pid_n * B], acc.to(c_ptr.dtype.element_ty))


def test_matmul_with_descriptors_made_in_the_kernel(launch, typed):
    from tawa.base.numerics import decode, encode, round_to
    from tawa.base.types import bf16

    M, N, K = 40, 56, 72
    a, b = (encode(round_to(rng.standard_normal(s), bf16), bf16) for s in ((M, K), (K, N)))
    c = np.zeros((M, N), np.uint16)
    launch(matmul_device_descriptors, (3, 4), *(typed(x, "bf16") for x in (a, b, c)), M, N, K, B=16)
    expected = decode(a, bf16).astype(np.float64) @ decode(b, bf16).astype(np.float64)
    close(decode(c, bf16), expected, 1e-2)
    error = np.abs(decode(c, bf16) - decode(encode(round_to(expected, bf16), bf16), bf16))
    assert (error > 0).mean() < 0.05  # all but ties are rounded exactly


@jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@jit
def linear_gelu_residual(
    x_desc, w_desc, bias_ptr, residual_ptr, out_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0),
                                tl.num_programs(1), 2)  # fmt: skip
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        acc = tl.dot(x_desc.load([pid_m * BM, k * BK]), w_desc.load([k * BK, pid_n * BN]), acc)
    rows = pid_m * BM + tl.arange(0, BM)
    cols = pid_n * BN + tl.arange(0, BN)
    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    offsets = rows[:, None] * N + cols[None, :]
    y = gelu(acc + bias[None, :])
    y += tl.load(residual_ptr + offsets, mask=inside, other=0.0)
    tl.store(out_ptr + offsets, y, mask=inside)


def test_fused_gelu_and_residual(launch, block):
    M, N, K = 50, 60, 33
    x = rng.standard_normal((M, K)).astype(np.float16)
    w = rng.standard_normal((K, N)).astype(np.float16)
    bias = rng.standard_normal(N).astype(np.float16)
    residual = rng.standard_normal((M, N)).astype(np.float16)
    out = np.zeros((M, N), np.float16)
    launch(linear_gelu_residual, (4, 2), block(x, 16, 16), block(w, 16, 32), bias, residual, out,
           M, N, K, BM=16, BN=32, BK=16)  # fmt: skip
    z = x.astype(np.float64) @ w.astype(np.float64) + bias
    erf = np.vectorize(math.erf)
    close(out, 0.5 * z * (1 + erf(z / math.sqrt(2))) + residual)


@jit
def layer_norm_kernel(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    mean = 0
    _mean = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        a = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        _mean += a
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        _var += x * x
    var = tl.sum(_var, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        x_hat = (x - mean) * rstd
        y = x_hat * w + b
        tl.store(Y + cols, y, mask=mask)


def test_layer_norm(launch):
    rows, n = 5, 300
    x = rng.standard_normal((rows, n)).astype(np.float16)
    w, b = rng.standard_normal((2, n)).astype(np.float16)
    y = np.zeros_like(x)
    mean, rstd = np.zeros((2, rows), np.float32)
    launch(layer_norm_kernel, (rows,), x, y, w, b, mean, rstd, n, n, 1e-5, BLOCK_SIZE=128)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    close(mean, wide.mean(1), 1e-4)
    close(rstd, 1 / np.sqrt(wide.var(1) + 1e-5), 1e-5)
    close(y, centred / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w + b)


@jit
def _attn_fwd_inner(
    acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype: tl.constexpr, start_m, qk_scale,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr,
    offs_m: tl.constexpr, offs_n: tl.constexpr, N_CTX: tl.constexpr, warp_specialize: tl.constexpr,
):  # fmt: skip
    if STAGE == 1:
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:
        lo, hi = 0, N_CTX
    offsetk_y = offset_y + lo
    offsetv_y = offset_y + lo
    for start_n in tl.range(lo, hi, BLOCK_N, warp_specialize=warp_specialize):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = desc_k.load([offsetk_y, 0]).T
        qk = tl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = desc_v.load([offsetv_y, 0])
        p = p.to(dtype)
        acc = tl.dot(p, v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        offsetk_y += BLOCK_N
        offsetv_y += BLOCK_N
    return acc, l_i, m_i


@jit
def attention_forward(
    sm_scale, M, Z, H, q_ptr, k_ptr, v_ptr, o_ptr, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr,
):  # fmt: skip
    dtype: tl.constexpr = q_ptr.dtype.element_ty
    tl.static_assert(BLOCK_N <= HEAD_DIM)
    start_m = tl.program_id(0)
    off_hz = tl.program_id(1)
    y_dim = Z * H * N_CTX
    desc_q = tl.make_tensor_descriptor(q_ptr, [y_dim, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    desc_v = tl.make_tensor_descriptor(v_ptr, [y_dim, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    desc_k = tl.make_tensor_descriptor(k_ptr, [y_dim, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_N, HEAD_DIM])
    desc_o = tl.make_tensor_descriptor(o_ptr, [y_dim, HEAD_DIM], [HEAD_DIM, 1], [BLOCK_M, HEAD_DIM])
    off_z = off_hz // H
    off_h = off_hz % H
    offset_y = off_z * (N_CTX * H) + off_h * N_CTX
    qo_offset_y = offset_y + start_m * BLOCK_M
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504
    q = desc_q.load([qo_offset_y, 0])
    if STAGE & 1:
        acc, l_i, m_i = _attn_fwd_inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype, start_m,
                                   qk_scale, BLOCK_M, HEAD_DIM, BLOCK_N, 4 - STAGE, offs_m, offs_n,
                                   N_CTX, False)  # fmt: skip
    if STAGE & 2:
        acc, l_i, m_i = _attn_fwd_inner(acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype, start_m,
                                   qk_scale, BLOCK_M, HEAD_DIM, BLOCK_N, 2, offs_m, offs_n,
                                   N_CTX, False)  # fmt: skip
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    m_ptrs = M + off_hz * N_CTX + offs_m
    tl.store(m_ptrs, m_i)
    desc_o.store([qo_offset_y, 0], acc.to(dtype))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_forward(launch, causal):
    Z, H, N, D = 1, 2, 64, 32
    q, k, v = rng.standard_normal((3, Z, H, N, D)).astype(np.float16)
    out = np.full_like(q, np.nan)
    m = np.zeros((Z, H, N), np.float32)
    launch(attention_forward, (N // 32, Z * H), 0.3, m, Z, H, q, k, v, out, N, HEAD_DIM=D,
           BLOCK_M=32, BLOCK_N=16, STAGE=3 if causal else 1)  # fmt: skip
    scores = 0.3 * q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)
    if causal:
        scores = np.where(np.tri(N, dtype=bool), scores, -np.inf)
    close(out, softmax(scores) @ v.astype(np.float64), 2e-3)
    largest = np.log2(np.exp(scores).sum(-1))
    close(m, largest, 1e-4)


@jit
def sorting_kernel(x_ptr, out_ptr, ROWS: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, N)
    at = rows[:, None] * N + columns[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.sort(x))
    tl.store(out_ptr + ROWS * N + at, tl.sort(x, dim=1, descending=True))
    tl.store(out_ptr + 2 * ROWS * N + at, x.flip(1))
    top = rows[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(out_ptr + 3 * ROWS * N + top, tl.topk(x, K))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "float16"])
@pytest.mark.parametrize("n", [1, 2, 16])
def test_sorting(launch, dtype, n):
    x = (rng.standard_normal((4, n)) * 50).astype(np.int32).astype(dtype)
    k = min(n, 4)
    out = np.zeros(12 * n + 4 * k, dtype)
    launch(sorting_kernel, (1,), x, out, ROWS=4, N=n, K=k)
    ascending = np.sort(x, axis=1)
    expected = [ascending, ascending[:, ::-1], x[:, ::-1], ascending[:, ::-1][:, :k]]
    np.testing.assert_array_equal(out, np.concatenate([e.ravel() for e in expected]))


@jit
def rows_sorted(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, N), tl.sort(x))
    tl.store(out_ptr + N + tl.arange(0, N), tl.sort(x, descending=True))
    tl.store(out_ptr + 2 * N + tl.arange(0, 4), tl.topk(x, 4))


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint32", "uint64", "float64"])
def test_sorting_to_the_ends_of_a_type(launch, dtype):
    ends = [0, 1]
    if np.dtype(dtype).kind in "iu":
        ends += [np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max - 1]
    elif dtype != "bool":
        ends += [-np.inf, np.inf, np.finfo(dtype).max, -1e-320, 1e-320]
    x = np.resize(np.array(ends, dtype), 16)
    out = np.zeros(36, dtype)
    launch(rows_sorted, (1,), x, out, N=16)
    up = np.sort(x)
    np.testing.assert_array_equal(out, np.concatenate([up, up[::-1], up[::-1][:4]]))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sorting_keeps_every_bit_of_what_is_no_number(launch, dtype):
    x = np.array([0, -0.0, np.nan, 1, -np.inf, -1, -0.0, np.inf], dtype)
    out = np.zeros(20, dtype)
    launch(rows_sorted, (1,), x, out, N=8)
    bits = f"u{x.itemsize}"
    expected = np.array([-np.inf, -1, -0.0, -0.0, 0, 1, np.inf, np.nan], dtype)
    both = np.concatenate([expected, expected[::-1], expected[::-1][:4]])
    np.testing.assert_array_equal(out.view(bits), both.view(bits))


@jit
def histogram_kernel(x_ptr, out_ptr, n, BINS: tl.constexpr):
    i = tl.arange(0, 128)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, other=0)
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS, mask=inside))


def test_histogram(launch):
    x = rng.integers(0, 16, 100).astype(np.int32)
    out = np.zeros(16, np.int32)
    launch(histogram_kernel, (1,), x, out, 100, BINS=16)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=16))


@jit
def joining_kernel(x_ptr, out_ptr):
    at = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + at)
    down = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(out_ptr + down, tl.cat(x, x + 1))
    across = tl.arange(0, 4)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out_ptr + 64 + across, tl.cat(x, x + 1, dim=1))


def test_tiles_are_joined_along_any_dimension(launch):
    x, out = np.arange(32, dtype=np.int32).reshape(4, 8), np.zeros(128, np.int32)
    launch(joining_kernel, (1,), x, out)
    expected = [np.concatenate([x, x + 1], axis).ravel() for axis in (0, 1)]
    np.testing.assert_array_equal(out, np.concatenate(expected))
