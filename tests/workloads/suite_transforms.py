"""Transforms, quantisers, small matrices and loops that end by their data."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl
from tawa.base.numerics import round_to
from tawa.base.types import NAMES


@tawa.jit
def chunk_states(
    x,
    b,
    dt,
    dacs,
    states,
    T,
    H: tl.constexpr,
    P: tl.constexpr,
    N: tl.constexpr,
    C: tl.constexpr,
    BP: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    """State of each chunk: X^T (B * decay) over the chunk's positions."""
    tiles_n: tl.constexpr = N // BN
    pid = tl.program_id(0)
    c = tl.program_id(1)
    bh = tl.program_id(2)
    p = (pid // tiles_n) * BP + tl.arange(0, BP)
    n = (pid % tiles_n) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    x += bh * T * P + c * C * P
    b += (bh // H) * T * N + c * C * N
    dt += bh * T + c * C
    dacs += bh * T + c * C
    last = tl.load(dacs + C - 1).to(tl.float32)
    acc = tl.zeros((BP, BN), dtype=tl.float32)
    for i in range(0, C, BK):
        xt = tl.load(x + (i + k)[None, :] * P + p[:, None])
        bt = tl.load(b + (i + k)[:, None] * N + n[None, :]).to(tl.float32)
        scale = tl.exp(last - tl.load(dacs + i + k)) * tl.load(dt + i + k)
        bt = (bt * scale[:, None]).to(xt.dtype)
        acc += tl.dot(xt, bt)
    tl.store(states + ((bh * (T // C) + c) * P + p[:, None]) * N + n[None, :], acc)


@case
def states_of_chunks(a: Arrays) -> Launch:
    B, H, T, P, N, C = 1, 2, 128, 64, 64, 64
    x, b = a.random("bf16", B * H, T, P), a.random("bf16", B, T, N)
    dt = stored(np.abs(values(a.random("f32", B * H, T))), "f32")
    da = stored(
        np.cumsum(-np.abs(values(a.random("f32", B * H, 2, C))) * 0.05, 2).reshape(B * H, T), "f32"
    )
    D = values(da).reshape(B * H, 2, C)
    s = np.exp(D[..., -1:] - D) * values(dt).reshape(B * H, 2, C)
    bx = np.repeat(values(b), H, 0).reshape(B * H, 2, C, N) * s[..., None]
    e = np.einsum("hctp,hctn->hcpn", values(x).reshape(B * H, 2, C, P), bx)
    return Launch(
        chunk_states,
        (1, 2, 2),
        [x, b, dt, da, a.output("f32", B * H, 2, P, N), T],
        {4: e},
        {"H": H, "P": P, "N": N, "C": C, "BP": 64, "BN": 64, "BK": 32},
        5e-3,
    )


@tawa.jit
def nf4_dequantise(q, absmax, code, out, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Two codes a byte, a table of sixteen values."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b = tl.load(q + i, mask=i < n // 2, other=0).to(tl.int32)
    scale = tl.load(absmax + (i * 2) // GROUP, mask=i < n // 2, other=0.0)
    hi = tl.load(code + ((b >> 4) & 15)) * scale
    lo = tl.load(code + (b & 15)) * scale
    both = tl.interleave(hi, lo)
    j = tl.program_id(0) * BLOCK * 2 + tl.arange(0, BLOCK * 2)
    tl.store(out + j, both.to(out.dtype.element_ty), mask=j < n)


@case
def four_bit_normal_floats(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    q = rng.integers(-128, 128, 300).astype(np.int8)
    am, code = a.random("f32", 10), a.random("f32", 16)
    u = q.astype(np.int64) & 255
    e = (
        np.stack([values(code)[u >> 4], values(code)[u & 15]], 1).ravel()
        * np.repeat(values(am), 64)[:600]
    )
    return Launch(
        nf4_dequantise,
        (3,),
        [stored(q, "i8"), am, code, a.output("f16", 600), 600],
        {3: e},
        {"GROUP": 64, "BLOCK": 128},
    )


@tawa.jit
def hash_grid(xyz, table, out, n, LEVELS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Features of the eight corners of a point's cell by a spatial hash, weighted."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    level = tl.program_id(1)
    m = i < n
    res = (16 << level).to(tl.float32)
    x = tl.load(xyz + i * 3, mask=m, other=0.0) * res
    y = tl.load(xyz + i * 3 + 1, mask=m, other=0.0) * res
    z = tl.load(xyz + i * 3 + 2, mask=m, other=0.0) * res
    fx, fy, fz = tl.floor(x), tl.floor(y), tl.floor(z)
    wx, wy, wz = x - fx, y - fy, z - fz
    acc0 = tl.zeros((BLOCK,), tl.float32)
    acc1 = tl.zeros((BLOCK,), tl.float32)
    for c in tl.static_range(8):
        h = (
            (fx.to(tl.int32) + (c & 1)).to(tl.uint32)
            ^ ((fy.to(tl.int32) + ((c >> 1) & 1)).to(tl.uint32) * 2654435761)
            ^ ((fz.to(tl.int32) + ((c >> 2) & 1)).to(tl.uint32) * 805459861)
        )
        at = (level * SIZE + (h & (SIZE - 1)).to(tl.int32)) * 2
        w = (
            (wx if c & 1 else 1 - wx)
            * (wy if (c >> 1) & 1 else 1 - wy)
            * (wz if (c >> 2) & 1 else 1 - wz)
        )
        acc0 += w * tl.load(table + at, mask=m, other=0.0).to(tl.float32)
        acc1 += w * tl.load(table + at + 1, mask=m, other=0.0).to(tl.float32)
    o = out + i * LEVELS * 2 + level * 2
    tl.store(o, acc0, mask=m)
    tl.store(o + 1, acc1, mask=m)


@case
def spatial_hash(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    p, t = stored(rng.random((70, 3)), "f32"), a.random("f16", 2, 256, 2)
    e = np.zeros((70, 2, 2))
    for lv in range(2):
        x = values(p).astype(np.float32) * np.float32(16 << lv)
        f = np.floor(x)
        w = x - f
        for c in range(8):
            d = np.array([c & 1, c >> 1 & 1, c >> 2 & 1])
            q = (f.astype(np.int64) + d).astype(np.uint32).astype(np.uint64)
            h = (
                q[:, 0] ^ (q[:, 1] * 2654435761 & 0xFFFFFFFF) ^ (q[:, 2] * 805459861 & 0xFFFFFFFF)
            ) & 255
            e[:, lv] += np.prod(np.where(d, w, 1 - w), 1)[:, None] * values(t)[lv, h.astype(int)]
    return Launch(
        hash_grid,
        (2, 2),
        [p, t, a.output("f32", 70, 2, 2), 70],
        {2: e},
        {"LEVELS": 2, "SIZE": 256, "BLOCK": 64},
    )


@tawa.jit
def mx_quantise(x, q, scales, N, BM: tl.constexpr, BN: tl.constexpr):
    """Blocks of 32 share a power of two (e8m0), elements e4m3."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + m[:, None] * N + n[None, :]).to(tl.float32)
    g = tl.reshape(v, (BM, BN // 32, 32))
    largest = tl.max(tl.abs(g), 2)
    bits = largest.to(tl.int32, bitcast=True)
    e = ((bits >> 23) & 0xFF) - 8
    e = tl.maximum(e, 0)
    inverse = ((254 - e) << 23).to(tl.float32, bitcast=True)
    out = tl.reshape(g * inverse[:, :, None], (BM, BN)).to(tl.float8e4nv)
    tl.store(q + m[:, None] * N + n[None, :], out)
    b = tl.program_id(1) * (BN // 32) + tl.arange(0, BN // 32)
    tl.store(scales + m[:, None] * (N // 32) + b[None, :], e.to(tl.int8))


@case
def microscaled(a: Arrays) -> Launch:
    x = a.random("bf16", 32, 128)
    g = values(x).reshape(32, 4, 32)
    e = np.floor(np.log2(np.abs(g).max(-1))) + 127 - 8
    q = np.asarray(
        round_to((g * 2.0 ** (127 - e)[..., None]).astype(np.float32), NAMES["e4m3"]), np.float64
    ).reshape(32, 128)
    return Launch(
        mx_quantise,
        (2, 2),
        [x, a.output("e4m3", 32, 128), a.output("i8", 32, 4), 128],
        {1: q, 2: e},
        {"BM": 16, "BN": 64},
    )


@tawa.jit
def hadamard(x, y, scale, N: tl.constexpr, LOG: tl.constexpr):
    """Fast Walsh-Hadamard transform of each row in registers."""
    row = tl.program_id(0)
    i = tl.arange(0, N)
    v = tl.load(x + row * N + i).to(tl.float32)
    for s in tl.static_range(LOG):
        t = tl.reshape(v, (N // (2 << s), 2, 1 << s))
        a, b = tl.split(tl.permute(t, (0, 2, 1)))
        v = tl.reshape(tl.permute(tl.join(a + b, a - b), (0, 2, 1)), (N,))
    tl.store(y + row * N + i, v * scale)


@case
def walsh_transform(a: Arrays) -> Launch:
    x = a.random("f16", 3, 64)
    h = np.array([[1.0]])
    for _ in range(6):
        h = np.block([[h, h], [h, -h]])
    return Launch(
        hadamard,
        (3,),
        [x, a.output("f32", 3, 64), 0.125],
        {1: values(x) @ h.T * 0.125},
        {"N": 64, "LOG": 6, "num_warps": 1},
    )


@tawa.jit
def log_add(a, b):
    m = tl.maximum(a, b)
    return m + tl.log(tl.exp(a - m) + tl.exp(b - m))


@tawa.jit
def log_cumsum_exp(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = -1e30
    for i in range(0, N, BLOCK):
        j = i + tl.arange(0, BLOCK)
        v = tl.load(x + row * N + j, mask=j < N, other=-1e30)
        s = tl.associative_scan(v, 0, log_add)
        s = log_add(s, carry)
        tl.store(y + row * N + j, s, mask=j < N)
        carry = tl.max(s, 0)


@case
def running_log_sums(a: Arrays) -> Launch:
    x = a.random("f32", 3, 300)
    return Launch(
        log_cumsum_exp,
        (3,),
        [x, a.output("f32", 3, 300), 300],
        {1: np.logaddexp.accumulate(values(x), 1)},
        {"BLOCK": 128},
    )


@tawa.jit
def quantise_transposed(x, q, qt, scale, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """e4m3 as it is and transposed, from one read."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=mask, other=0.0).to(tl.float32) * tl.load(
        scale
    )
    o = tl.clamp(v, -448.0, 448.0).to(tl.float8e4nv)
    tl.store(q + m[:, None] * N + n[None, :], o, mask=mask)
    tl.store(qt + n[:, None] * M + m[None, :], tl.trans(o), mask=tl.trans(mask))


@case
def quantised_both_ways(a: Arrays) -> Launch:
    x, s = a.random("bf16", 80, 96), stored(np.array([2.0]), "f32")
    e = np.asarray(round_to((values(x) * 2).astype(np.float32), NAMES["e4m3"]), np.float64)
    return Launch(
        quantise_transposed,
        (2, 2),
        [x, a.output("e4m3", 80, 96), a.output("e4m3", 96, 80), s, 80, 96],
        {1: e, 2: e.T},
        {"BM": 64, "BN": 64},
    )


@tawa.jit
def sinkhorn(x, y, total, N: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows and columns of small matrices scaled to sum one, many matrices a program."""
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.arange(0, N)
    at = b[:, None, None] * (N * N) + i[None, :, None] * N + i[None, None, :]
    mask = (b < total)[:, None, None]
    v = tl.exp(tl.load(x + at, mask=mask, other=0.0))
    for _ in range(STEPS):
        v = v / tl.sum(v, 2, keep_dims=True)
        v = v / tl.sum(v, 1, keep_dims=True)
    tl.store(y + at, v, mask=mask)


@case
def doubly_stochastic(a: Arrays) -> Launch:
    x = a.random("f32", 20, 4, 4)
    v = np.exp(values(x))
    for _ in range(5):
        v = v / v.sum(2, keepdims=True)
        v = v / v.sum(1, keepdims=True)
    return Launch(
        sinkhorn,
        (2,),
        [x, a.output("f32", 20, 4, 4), 20],
        {1: v},
        {"N": 4, "STEPS": 5, "BLOCK": 16},
    )


@tawa.jit
def mandelbrot(out, W, H, STEPS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cx = (i % W).to(tl.float32) / W * 3.0 - 2.0
    cy = (i // W).to(tl.float32) / H * 2.0 - 1.0
    x = tl.zeros((BLOCK,), tl.float32)
    y = tl.zeros((BLOCK,), tl.float32)
    n = tl.zeros((BLOCK,), tl.int32)
    t = 0
    alive = 1
    while (t < STEPS) & (alive > 0):
        inside = x * x + y * y <= 4.0
        nx = x * x - y * y + cx
        y = tl.where(inside, 2 * x * y + cy, y)
        x = tl.where(inside, nx, x)
        n += inside.to(tl.int32)
        alive = tl.max(inside.to(tl.int32), 0)
        t += 1
    tl.store(out + i, n, mask=i < W * H)


@case
def escape_times(a: Arrays) -> Launch:
    W, H = 24, 10
    i = np.arange(W * H)
    cx = (i % W).astype(np.float32) / np.float32(W) * np.float32(3) - np.float32(2)
    cy = (i // W).astype(np.float32) / np.float32(H) * np.float32(2) - np.float32(1)
    x, y, n = np.zeros_like(cx), np.zeros_like(cx), np.zeros(W * H)
    for _ in range(20):
        ok = x * x + y * y <= 4
        x, y = np.where(ok, x * x - y * y + cx, x), np.where(ok, 2 * x * y + cy, y)
        n += ok
    return Launch(
        mandelbrot, (2,), [a.output("i32", W * H), W, H, 20], {0: n}, {"BLOCK": 128}, 0.02
    )


@tawa.jit
def cholesky_small(a, factors, total, N: tl.constexpr):
    """A = L L^T of small matrices, a matrix a program, columns by masks."""
    b = tl.program_id(0)
    i = tl.arange(0, N)
    at = b * N * N + i[:, None] * N + i[None, :]
    v = tl.load(a + at)
    out = tl.zeros((N, N), tl.float32)
    for k in range(N):
        col = tl.sum(tl.where(i[None, :] == k, v, 0.0), 1)
        pivot = tl.sum(tl.where(i == k, col, 0.0), 0)
        lk = tl.where(i >= k, col / tl.sqrt(pivot), 0.0)
        out = tl.where(i[None, :] == k, lk[:, None], out)
        v -= lk[:, None] * lk[None, :]
    tl.store(factors + at, out)


@case
def factors_of_small_matrices(a: Arrays) -> Launch:
    x = values(a.random("f32", 3, 16, 16))
    A = stored(x @ x.transpose(0, 2, 1) + 4 * np.eye(16), "f32")
    return Launch(
        cholesky_small,
        (3,),
        [A, a.output("f32", 3, 16, 16), 3],
        {1: np.linalg.cholesky(values(A))},
        {"N": 16, "num_warps": 1},
    )
