"""Convolutions, transforms and sparse products."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def conv2d(
    x, w, y, N, C, H, W, F, OH, OW, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr,
    PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """NHWC, by implicit GEMM: loops over the window and blocks of channels."""
    pixel = tl.program_id(0) * BM + tl.arange(0, BM)
    f = tl.program_id(1) * BN + tl.arange(0, BN)
    n = pixel // (OH * OW)
    oh = pixel % (OH * OW) // OW
    ow = pixel % OW
    acc = tl.zeros((BM, BN), tl.float32)
    for rs in range(R * S):
        r, s = rs // S, rs % S
        ih = oh * STRIDE + r - PAD
        iw = ow * STRIDE + s - PAD
        inside = (n < N) & (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
        row = ((n * H + ih) * W + iw) * C
        for c0 in range(0, C, BC):
            c = c0 + tl.arange(0, BC)
            xt = tl.load(
                x + row[:, None] + c[None, :], mask=inside[:, None] & (c < C)[None, :], other=0.0
            )
            wt = tl.load(
                w + (rs * C + c[:, None]) * F + f[None, :],
                mask=(c < C)[:, None] & (f < F)[None, :],
                other=0.0,
            )
            acc = tl.dot(xt, wt, acc)
    tl.store(y + pixel[:, None] * F + f[None, :], acc, mask=(n < N)[:, None] & (f < F)[None, :])


@case
def convolution_2d_strided(a: Arrays) -> Launch:
    x, w = a.random("f16", 2, 9, 10, 20), a.random("f16", 3, 3, 20, 24)
    padded = np.pad(values(x), ((0, 0), (1, 1), (1, 1), (0, 0)))
    e = np.zeros((2, 5, 5, 24))
    for i in range(5):
        for j in range(5):
            e[:, i, j] = np.einsum(
                "nrsc,rscf->nf", padded[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3], values(w)
            )
    args = [x, w, a.output("f16", 2, 5, 5, 24), 2, 20, 9, 10, 24, 5, 5]
    constants = {"R": 3, "S": 3, "STRIDE": 2, "PAD": 1, "BM": 64, "BN": 32, "BC": 16}
    return Launch(conv2d, (1, 1), args, {2: e}, constants, 2e-3)


@tawa.jit
def depthwise_update(
    x, state, w, b, y, D, W: tl.constexpr, BLOCK: tl.constexpr, SILU: tl.constexpr
):
    """One step of a causal depthwise convolution; the state shifts."""
    batch = tl.program_id(0)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = d < D
    acc = tl.load(b + d, mask=mask, other=0.0).to(tl.float32)
    new = tl.load(x + batch * D + d, mask=mask, other=0.0)
    base = state + batch * D * (W - 1) + d * (W - 1)
    for i in tl.static_range(W):
        if i < W - 1:
            v = tl.load(base + i, mask=mask, other=0.0)
            if i > 0:
                tl.store(base + i - 1, v, mask=mask)
        else:
            v = new
            tl.store(base + W - 2, v, mask=mask)
        acc += v.to(tl.float32) * tl.load(w + d * W + i, mask=mask, other=0.0)
    if SILU:
        acc = acc / (1 + tl.exp(-acc))
    tl.store(y + batch * D + d, acc, mask=mask)


@case
def depthwise_convolution_step(a: Arrays) -> Launch:
    x, st, w, b = (
        a.random("bf16", 2, 100),
        a.random("bf16", 2, 100, 3),
        a.random("bf16", 100, 4),
        a.random("bf16", 100),
    )
    window = np.concatenate([values(st), values(x)[:, :, None]], -1)
    z = (window * values(w)).sum(-1) + values(b)
    args = [x, st, w, b, a.output("bf16", 2, 100), 100]
    expected = {1: window[:, :, 1:], 4: z / (1 + np.exp(-z))}
    return Launch(
        depthwise_update, (2, 2), args, expected, {"W": 4, "BLOCK": 64, "SILU": True}, 5e-3
    )


@tawa.jit
def depthwise_conv(x, w, y, L, D, W: tl.constexpr, BL: tl.constexpr, BD: tl.constexpr):
    z = tl.program_id(2)
    t = tl.program_id(0) * BL + tl.arange(0, BL)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    acc = tl.zeros((BL, BD), tl.float32)
    for i in tl.static_range(0, W):
        at = t + (i - W + 1)
        v = tl.load(
            x + (z * L + at[:, None]) * D + d[None, :],
            mask=(at[:, None] >= 0) & (at[:, None] < L) & (d[None, :] < D),
            other=0.0,
        )
        acc += v * tl.load(w + i * D + d, mask=d < D, other=0.0)[None, :]
    tl.store(
        y + (z * L + t[:, None]) * D + d[None, :], acc, mask=(t[:, None] < L) & (d[None, :] < D)
    )


@case
def depthwise_convolution_1d(a: Arrays) -> Launch:
    x, w = a.random("f16", 2, 40, 70), a.random("f16", 3, 70)
    padded = np.pad(values(x), ((0, 0), (2, 0), (0, 0)))
    e = sum(padded[:, i : i + 40] * values(w)[i] for i in range(3))
    return Launch(
        depthwise_conv,
        (2, 2, 2),
        [x, w, a.output("f16", 2, 40, 70), 40, 70],
        {2: e},
        {"W": 3, "BL": 32, "BD": 64},
    )


@tawa.jit
def butterfly(xr, xi, wr, wi, yr, yi, N1: tl.constexpr, N2: tl.constexpr, fr1, fi1, fr2, fi2):
    """A DFT of N1 * N2 points as two products and twiddles."""
    row = tl.program_id(0)
    a, b = tl.arange(0, N1), tl.arange(0, N2)
    at = a[:, None] * N2 + b[None, :]
    re = tl.load(xr + row * N1 * N2 + at)
    im = tl.load(xi + row * N1 * N2 + at)
    f1r = tl.load(fr1 + a[:, None] * N1 + a[None, :])
    f1i = tl.load(fi1 + a[:, None] * N1 + a[None, :])
    r = tl.dot(f1r, re) - tl.dot(f1i, im)
    i = tl.dot(f1r, im) + tl.dot(f1i, re)
    tr, ti = tl.load(wr + at), tl.load(wi + at)
    r, i = r * tr - i * ti, r * ti + i * tr
    f2r = tl.load(fr2 + b[:, None] * N2 + b[None, :])
    f2i = tl.load(fi2 + b[:, None] * N2 + b[None, :])
    rb, ib = r.to(f2r.dtype), i.to(f2r.dtype)
    outr = tl.dot(rb, f2r) - tl.dot(ib, f2i)
    outi = tl.dot(rb, f2i) + tl.dot(ib, f2r)
    out = b[None, :] * N1 + a[:, None]
    tl.store(yr + row * N1 * N2 + out, outr)
    tl.store(yi + row * N1 * N2 + out, outi)


@case
def fourier_transform_by_dots(a: Arrays) -> Launch:
    N1, N2 = 16, 32
    x, xi = a.random("f32", 2, 512), a.random("f32", 2, 512)
    first, second = (
        np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) for n in (N1, N2)
    )
    tw = np.exp(-2j * np.pi * np.outer(np.arange(N1), np.arange(N2)) / 512)
    y = np.fft.fft(values(x) + 1j * values(xi))
    complex_parts = [p for z in (tw, first, second) for p in (z.real, z.imag)]
    twr, twi, *factors = (stored(np.ascontiguousarray(p), "f32") for p in complex_parts)
    outputs = [a.output("f32", 2, 512), a.output("f32", 2, 512)]
    args = [x, xi, twr, twi, *outputs, 16, 32, *factors]
    return Launch(butterfly, (2,), args, {4: y.real, 5: y.imag}, {}, 3e-3)


@tawa.jit
def matvec(w, x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    acc = tl.zeros([BM], dtype=tl.float32)
    wp = w + m[:, None] * N + tl.arange(0, BN)[None, :]
    xp = x + tl.arange(0, BN)
    for n in range(N, 0, -BN):
        col = tl.arange(0, BN)
        wt = tl.load(
            wp, mask=(m < M)[:, None] & (col < n)[None, :], other=0.0, eviction_policy="evict_first"
        )
        xt = tl.load(xp, mask=col < n, other=0.0, eviction_policy="evict_last")
        acc += tl.sum(wt.to(tl.float32) * xt.to(tl.float32)[None, :], axis=1)
        wp += BN
        xp += BN
    tl.store(y + m, acc, mask=m < M)


@case
def matrix_times_vector(a: Arrays) -> Launch:
    w, x = a.random("bf16", 50, 300), a.random("bf16", 300)
    return Launch(
        matvec,
        (4,),
        [w, x, a.output("f32", 50), 50, 300],
        {2: values(w) @ values(x)},
        {"BM": 16, "BN": 128},
    )


@tawa.jit
def block_sparse_sdd(a, b, c, lut, M, N, K, BLOCK: tl.constexpr, BK: tl.constexpr):
    """A product at the blocks of a list only; C holds the blocks."""
    z = tl.program_id(0)
    i = tl.load(lut + z * 2)
    j = tl.load(lut + z * 2 + 1)
    m = i * BLOCK + tl.arange(0, BLOCK)
    n = j * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        acc += tl.dot(
            tl.load(a + m[:, None] * K + kk[None, :]), tl.load(b + kk[:, None] * N + n[None, :])
        )
    r = tl.arange(0, BLOCK)
    tl.store(c + z * BLOCK * BLOCK + r[:, None] * BLOCK + r[None, :], acc.to(c.dtype.element_ty))


@case
def sampled_block_product(a: Arrays) -> Launch:
    x, y = a.random("f16", 64, 64), a.random("f16", 64, 96)
    lut = np.array([[0, 2], [1, 0], [1, 1]])
    full = values(x) @ values(y)
    e = np.stack([full[i * 32 : i * 32 + 32, j * 32 : j * 32 + 32] for i, j in lut])
    args = [x, y, a.output("f16", 3, 32, 32), stored(lut, "i32"), 64, 96, 64]
    return Launch(block_sparse_sdd, (3,), args, {2: e}, {"BLOCK": 32, "BK": 32})


@tawa.jit
def bsr_times_dense(
    vals, cols, crow, b, c, N, BR: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr
):
    row = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    begin, end = tl.load(crow + row), tl.load(crow + row + 1)
    if begin == end:
        return
    r, k = tl.arange(0, BR), tl.arange(0, BC)
    acc = tl.zeros((BR, BN), tl.float32)
    for i in range(begin, end):
        col = tl.load(cols + i)
        v = tl.load(vals + i * BR * BC + r[:, None] * BC + k[None, :])
        d = tl.load(b + (col * BC + k)[:, None] * N + n[None, :], mask=(n < N)[None, :], other=0.0)
        acc += tl.dot(v, d, out_dtype=tl.float32)
    tl.store(c + (row * BR + r)[:, None] * N + n[None, :], acc, mask=(n < N)[None, :])


@case
def block_sparse_times_dense(a: Arrays) -> Launch:
    v, b = a.random("bf16", 4, 64, 32), a.random("bf16", 96, 72)
    cols, crow = np.array([0, 2, 1, 2]), np.array([0, 2, 2, 4])
    c = np.zeros((192, 72))
    for row in range(3):
        for i in range(crow[row], crow[row + 1]):
            c[row * 64 : row * 64 + 64] += (
                values(v)[i] @ values(b)[cols[i] * 32 : cols[i] * 32 + 32]
            )
    args = [v, stored(cols, "i32"), stored(crow, "i32"), b, stored(np.zeros((192, 72)), "f32"), 72]
    return Launch(bsr_times_dense, (3, 2), args, {4: c}, {"BR": 64, "BC": 32, "BN": 64})
