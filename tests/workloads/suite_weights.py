"""Matrix products with weights of a few bits, unpacked in the loop."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def int4_gemm_tall_packed(
    x, qw, s, z, y, M, N, K, G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """GPTQ's form: eight 4-bit weights along K an int32; zeros are packed along N."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    shift = (k % 8) * 4
    zshift = (n % 8) * 4
    acc = tl.zeros((BM, BN), tl.float32)
    for kk in range(0, K // BK):
        at = kk * BK + k
        xt = tl.load(x + m[:, None] * K + at[None, :], mask=m[:, None] < M, other=0.0)
        word = tl.load(qw + (at // 8)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0)
        group = at // G
        scale = tl.load(s + group[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        zero = tl.load(
            z + group[:, None] * (N // 8) + (n // 8)[None, :], mask=n[None, :] < N, other=0
        )
        zero = (zero >> zshift[None, :]) & 0xF
        w = (word >> shift[:, None]) & 0xF
        w = ((w - zero - 1) * scale).to(xt.dtype)
        acc += tl.dot(xt, w)
    tl.store(y + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def _packed(q: np.ndarray, axis: int) -> np.ndarray:
    moved = np.moveaxis(q, axis, 0)
    words = sum(moved[i::8].astype(np.int64) << (4 * i) for i in range(8))
    return np.moveaxis((words & 0xFFFFFFFF).astype(np.uint32).view(np.int32), 0, axis)


@case
def gptq_product(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    q, z = rng.integers(0, 16, (128, 72)), rng.integers(0, 15, (4, 72))
    x, s = a.random("f16", 20, 128), a.random("f16", 4, 72)
    w = (q - np.repeat(z, 32, 0) - 1) * np.repeat(values(s), 32, 0)
    args = [
        x,
        stored(_packed(q, 0), "i32"),
        s,
        stored(_packed(z, 1), "i32"),
        a.output("f16", 20, 72),
        20,
        72,
        128,
    ]
    constants = {"G": 32, "BM": 32, "BN": 32, "BK": 64}
    return Launch(int4_gemm_tall_packed, (1, 3), args, {4: values(x) @ w}, constants, 2e-3)


@tawa.jit
def int8_weights(
    x,
    w,
    s,
    bias,
    y,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    m = pid_m * BM + tl.arange(0, BM)
    n = pid_n * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    xp = x + m[:, None] * K + k[None, :]
    wp = w + n[None, :] * K + k[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for kk in range(0, tl.cdiv(K, BK)):
        xt = tl.load(xp, mask=(m[:, None] < M) & (k[None, :] < K - kk * BK), other=0.0)
        wt = tl.load(wp, mask=(n[None, :] < N) & (k[:, None] < K - kk * BK), other=0)
        acc = tl.dot(xt, wt.to(xt.dtype), acc=acc)
        xp += BK
        wp += BK
    acc *= tl.load(s + n, mask=n < N, other=0.0)[None, :]
    if HAS_BIAS:
        acc += tl.load(bias + n, mask=n < N, other=0.0)[None, :]
    tl.store(y + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@case
def w8a16(a: Arrays) -> Launch:
    x, w, s, b = (
        a.random("bf16", 70, 100),
        a.random("i8", 72, 100),
        a.random("f32", 72),
        a.random("bf16", 72),
    )
    e = values(x) @ values(w).T * values(s) + values(b)
    args = [x, w, s, b, a.output("bf16", 70, 72), 70, 72, 100]
    constants = {"BM": 64, "BN": 64, "BK": 32, "HAS_BIAS": True}
    return Launch(int8_weights, (2, 2), args, {4: e}, constants, 5e-3)


@tawa.jit
def block_scaled_fp8(
    A,
    B,
    C,
    As,
    Bs,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_m, num_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP_M * num_n
    first = pid // in_group * GROUP_M
    size = min(num_m - first, GROUP_M)
    pid_m = first + (pid % size)
    pid_n = (pid % in_group) // size
    m = (pid_m * BM + tl.arange(0, BM)) % M
    n = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    ap = A + (m[:, None] * K + k[None, :])
    bp = B + (k[:, None] + n[None, :] * K)
    asp = As + m * tl.cdiv(K, BK)
    bsp = Bs + (n // BN) * tl.cdiv(K, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(bp, mask=k[:, None] < K - i * BK, other=0.0)
        acc += tl.dot(x, y) * tl.load(asp + i)[:, None] * tl.load(bsp + i)[None, :]
        ap += BK
        bp += BK
    if C.dtype.element_ty == tl.bfloat16:
        c = acc.to(tl.bfloat16)
    elif C.dtype.element_ty == tl.float16:
        c = acc.to(tl.float16)
    else:
        c = acc.to(tl.float32)
    cm = pid_m * BM + tl.arange(0, BM)
    cn = pid_n * BN + tl.arange(0, BN)
    tl.store(C + cm[:, None] * N + cn[None, :], c, mask=(cm[:, None] < M) & (cn[None, :] < N))


@case
def fp8_with_scales_of_blocks(a: Arrays) -> Launch:
    x, y = a.random("e4m3", 96, 256), a.random("e4m3", 128, 256)
    xs, ys = a.random("f32", 96, 4), a.random("f32", 2, 4)
    xv = values(x) * np.repeat(values(xs), 64, 1)
    yv = values(y) * np.repeat(np.repeat(values(ys), 64, 0), 64, 1)
    args = [x, y, a.output("bf16", 96, 128), xs, ys, 96, 128, 256]
    constants = {"BM": 64, "BN": 64, "BK": 64, "GROUP_M": 2}
    return Launch(block_scaled_fp8, (4,), args, {2: xv @ yv.T}, constants, 5e-3)


@tawa.jit
def ternary_weights(x, w, s, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Four 2-bit weights a byte, interleaved by join and reshape."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.int32)
    for k in range(0, K, BK):
        kb = k // 4 + tl.arange(0, BK // 4)
        byte = tl.load(w + n[:, None] * (K // 4) + kb[None, :]).to(tl.uint8, bitcast=True)
        low = tl.join(byte & 3, (byte >> 2) & 3)
        high = tl.join((byte >> 4) & 3, byte >> 6)
        four = tl.permute(tl.join(low, high), (0, 1, 3, 2))
        wt = tl.reshape(four, (BN, BK)).to(tl.int8) - 1
        kk = k + tl.arange(0, BK)
        xt = tl.load(x + m[:, None] * K + kk[None, :], mask=m[:, None] < M, other=0)
        acc = tl.dot(xt, wt.T, acc, out_dtype=tl.int32)
    out = acc.to(tl.float32) * tl.load(s)
    tl.store(y + m[:, None] * N + n[None, :], out, mask=m[:, None] < M)


@case
def two_bit_weights(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    q = rng.integers(0, 3, (64, 128))
    packed = (
        (q[:, ::4] | q[:, 1::4] << 2 | q[:, 2::4] << 4 | q[:, 3::4] << 6)
        .astype(np.uint8)
        .view(np.int8)
    )
    x = a.random("i8", 50, 128)
    args = [
        x,
        stored(packed, "i8"),
        stored(np.array([0.5]), "f32"),
        a.output("f32", 50, 64),
        50,
        64,
        128,
    ]
    return Launch(
        ternary_weights,
        (1, 1),
        args,
        {3: values(x) @ (q - 1).T * 0.5},
        {"BM": 64, "BN": 64, "BK": 64},
    )


@tawa.jit
def moe_int4(
    x, packed, scales, y, ids, experts, N, K, valid, TOP: tl.constexpr, GROUP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Tokens sorted by expert times weights of 4 bits, two a byte along K; pointers go on."""
    num_n = tl.cdiv(N, BN)
    block, column = tl.program_id(0) // num_n, tl.program_id(0) % num_n
    expert = tl.load(experts + block).to(tl.int64)
    token = tl.load(ids + block * BM + tl.arange(0, BM)).to(tl.int64)
    real = token < valid
    n, k = (column * BN + tl.arange(0, BN).to(tl.int64)) % N, tl.arange(0, BK)
    x_ptrs = x + token[:, None] // TOP * K + k[None, :]
    w_ptrs = packed + expert * N * (K // 2) + n[None, :] * (K // 2) + k[:, None] // 2
    half = k[:, None] % 2 * 4
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K // BK):
        a = tl.load(x_ptrs, mask=real[:, None], other=0.0)
        w = (tl.load(w_ptrs) >> half) & 15
        group = (k[:, None] + i * BK) // GROUP
        scale = tl.load(scales + (expert * N + n[None, :]) * (K // GROUP) + group)
        b = ((w.to(tl.float32) - 8) * scale.to(tl.float32)).to(a.dtype)
        acc = tl.dot(a, b, acc)
        x_ptrs += BK
        w_ptrs += BK // 2
    at = y + token[:, None] * N + (column * BN + tl.arange(0, BN))[None, :]
    inside = real[:, None] & (column * BN + tl.arange(0, BN) < N)[None, :]
    tl.store(at, acc.to(y.dtype.element_ty), mask=inside)


@case
def experts_of_four_bits(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    q, x = rng.integers(0, 16, (3, 80, 128)), a.random("bf16", 20, 128)
    scales, pick = a.random("bf16", 3, 80, 4), rng.integers(0, 3, 40)
    packed = (q[..., ::2] | q[..., 1::2] << 4).astype(np.uint8).view(np.int8)
    ids, experts = list[int](), list[int]()
    for e in range(3):
        mine = np.flatnonzero(pick == e).tolist()
        ids += mine + [40] * (-len(mine) % 16)
        experts += [e] * -(-len(mine) // 16)
    w = (q - 8.0) * np.repeat(values(scales), 32, 2)
    expected = np.stack([w[pick[t]] @ values(x)[t // 2] for t in range(40)])
    args = [x, stored(packed, "i8"), scales, a.output("bf16", 40, 80),
            stored(np.array(ids), "i32"), stored(np.array(experts), "i32"), 80, 128, 40]  # fmt: skip
    constants = {"TOP": 2, "GROUP": 32, "BM": 16, "BN": 64, "BK": 64}
    grid = (len(experts) * 2,)
    return Launch(moe_int4, grid, args, {3: expected}, constants, 2e-2)
