"""Kernels of training: backward passes, losses, optimisers, recomputation."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def rms_backward_persistent(
    dy, x, w, rstd, dx, dw_parts, rows, N, rows_per_program: tl.constexpr, BLOCK: tl.constexpr
):
    pid = tl.program_id(0)
    first = pid * rows_per_program
    last = min(first + rows_per_program, rows)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    weight = tl.load(w + cols, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    dy += first * N
    x += first * N
    dx += first * N
    for row in range(first, last):
        g = tl.load(dy + cols, mask=mask, other=0.0).to(tl.float32)
        v = tl.load(x + cols, mask=mask, other=0.0).to(tl.float32)
        r = tl.load(rstd + row)
        m = g * weight
        out = r * m
        out += r * (-(1 / N) * r * r * tl.sum(m * v, axis=0) * v)
        dw += g * (v * r).to(x.dtype.element_ty)
        tl.store(dx + cols, out.to(dx.dtype.element_ty), mask=mask)
        dy += N
        x += N
        dx += N
    tl.store(dw_parts + pid * N + cols, dw, mask=mask)


@case
def rms_norm_backward(a: Arrays) -> Launch:
    dy, x, w = a.random("bf16", 7, 200), a.random("bf16", 7, 200), a.random("bf16", 200)
    g, v, m = values(dy), values(x), values(dy) * values(w)
    r = 1 / np.sqrt((v**2).mean(1, keepdims=True) + 1e-6)
    dx = r * m - r**3 / 200 * (m * v).sum(1, keepdims=True) * v
    dw = np.stack([(g * v * r)[i : i + 3].sum(0) for i in range(0, 7, 3)])
    rstd = stored(r[:, 0], "f32")
    args = [dy, x, w, rstd, a.output("bf16", 7, 200), a.output("f32", 3, 200), 7, 200]
    constants = {"rows_per_program": 3, "BLOCK": 256}
    return Launch(rms_backward_persistent, (3,), args, {4: dx, 5: dw}, constants, 1e-2)


@tawa.jit
def sum_parts(parts, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, M, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        total += tl.load(parts + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
    tl.store(out + cols, tl.sum(total, axis=0), mask=cols < N)


@case
def sum_of_partial_buffers(a: Arrays) -> Launch:
    parts = a.random("f32", 45, 100)
    args = [parts, a.output("f16", 100), 45, 100]
    constants = {"BM": 32, "BN": 64}
    return Launch(sum_parts, (2,), args, {1: values(parts).sum(0)}, constants)


@tawa.jit
def layer_norm_backward_atomic(
    DX, DY, X, W, Mean, Rstd, DW, DB, stride, M, N: tl.constexpr, BLOCK: tl.constexpr
):
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    dw = tl.zeros([BLOCK], dtype=tl.float32)
    db = tl.zeros([BLOCK], dtype=tl.float32)
    w = tl.load(W + cols, mask=mask)
    for row in range(tl.program_id(0), M, tl.num_programs(0)):
        x = tl.load(X + row * stride + cols, mask=mask, other=0).to(tl.float32)
        dy = tl.load(DY + row * stride + cols, mask=mask, other=0).to(tl.float32)
        mean = tl.load(Mean + row)
        rstd = tl.load(Rstd + row)
        xhat = (x - mean) * rstd
        wdy = w * dy
        xhat = tl.where(mask, xhat, 0.0)
        wdy = tl.where(mask, wdy, 0.0)
        c1 = tl.sum(xhat * wdy, axis=0) / N
        c2 = tl.sum(wdy, axis=0) / N
        dx = (wdy - (xhat * c1 + c2)) * rstd
        tl.store(DX + row * stride + cols, dx, mask=mask)
        dw += dy * xhat
        db += dy
    tl.atomic_add(DW + cols, dw, mask=mask)
    tl.atomic_add(DB + cols, db, mask=mask)


@case
def layer_norm_backward_with_atomics(a: Arrays) -> Launch:
    x, dy, w = a.random("f16", 9, 120), a.random("f16", 9, 120), a.random("f32", 120)
    v, d, weight = values(x), values(dy), values(w)
    mu, r = v.mean(1), 1 / np.sqrt(v.var(1) + 1e-5)
    xhat, wdy = (v - mu[:, None]) * r[:, None], weight * d
    c1, c2 = (xhat * wdy).mean(1)[:, None], wdy.mean(1)[:, None]
    dx = (wdy - (xhat * c1 + c2)) * r[:, None]
    zeros = np.zeros(120)
    args = [a.output("f16", 9, 120), dy, x, w, stored(mu, "f32"), stored(r, "f32"),
            stored(zeros, "f32"), stored(zeros, "f32"), 120, 9]  # fmt: skip
    expected = {0: dx, 6: (d * xhat).sum(0), 7: d.sum(0)}
    constants = {"N": 120, "BLOCK": 128, "num_warps": 2}
    return Launch(layer_norm_backward_atomic, (4,), args, expected, constants)


@tawa.jit
def fused_add_rms(x, residual, w, eps, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    total = 0.0
    for start in tl.static_range(0, D, BLOCK):
        cols = start + offs
        mask = cols < D
        v = tl.load(x + row * D + cols, mask=mask, other=0.0)
        r = tl.load(residual + row * D + cols, mask=mask, other=0.0)
        v += r
        tl.store(residual + row * D + cols, v, mask=mask)
        v32 = v.to(tl.float32)
        total += tl.sum(v32 * v32)
    scale = tl.rsqrt(total / D + eps)
    for start in tl.static_range(0, D, BLOCK):
        cols = start + offs
        mask = cols < D
        v = tl.load(residual + row * D + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(w + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(x + row * D + cols, v * scale * weight, mask=mask)


@case
def add_and_rms_norm_in_place(a: Arrays) -> Launch:
    x, res, w = a.random("bf16", 4, 300), a.random("bf16", 4, 300), a.random("bf16", 300)
    s = values(x) + values(res)
    y = s / np.sqrt((s**2).mean(1, keepdims=True) + 1e-6) * values(w)
    args = [x, res, w, 1e-6]
    constants = {"D": 300, "BLOCK": 128}
    return Launch(fused_add_rms, (4,), args, {0: y, 1: s}, constants, 1e-2)


@tawa.jit
def silu(x):
    return x * tl.sigmoid(x)


@tawa.jit
def swiglu_grad(dc, a, b, stride, n_cols: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    dc += pid * stride
    a += pid * stride
    b += pid * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    g = tl.load(dc + cols, mask=mask, other=0)
    x = tl.load(a + cols, mask=mask, other=0).to(tl.float32)
    y = tl.load(b + cols, mask=mask, other=0)
    s = tl.sigmoid(x)
    db = g * silu(x)
    da = g * (silu(x) * (1 - s) + s) * y
    tl.store(a + cols, da, mask=mask)
    tl.store(b + cols, db, mask=mask)


@case
def swiglu_backward(a: Arrays) -> Launch:
    dc, x, y = (a.random("bf16", 5, 130) for _ in range(3))
    g, u, v = values(dc), values(x), values(y)
    s = 1 / (1 + np.exp(-u))
    expected = {1: g * (u * s * (1 - s) + s) * v, 2: g * u * s}
    constants = {"n_cols": 130, "BLOCK": 256, "num_warps": 8}
    return Launch(swiglu_grad, (5,), [dc, x, y, 130], expected, constants, 1e-2)


@tawa.jit
def tanh_gelu(gate, up, out, stride, n: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    a = tl.load(gate + row * stride + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(up + row * stride + cols, mask=mask, other=0)
    sqrt_2_over_pi = 0.7978845608028654
    cube = a * a * a
    t = tl.extra.libdevice.tanh(sqrt_2_over_pi * (a + 0.044715 * cube))
    c = (0.5 * a * (1 + t)).cast(b.dtype) * b
    tl.store(out + row * stride + cols, c, mask=mask)


@case
def geglu_forward(a: Arrays) -> Launch:
    x, y = a.random("f16", 3, 500), a.random("f16", 3, 500)
    u = values(x)
    t = np.tanh(np.sqrt(2 / np.pi) * (u + 0.044715 * u**3))
    args = [x, y, a.output("f16", 3, 500), 500]
    expected = {2: 0.5 * u * (1 + t) * values(y)}
    return Launch(tanh_gelu, (3,), args, expected, {"n": 500, "BLOCK": 512}, 2e-3)


@tawa.jit
def rope_both(
    q, q_row_stride, k, k_row_stride, cos, sin, cos_row_stride, sl,
    n_qh: tl.constexpr, n_kh: tl.constexpr, hd: tl.constexpr,
    pad_qh: tl.constexpr, pad_kh: tl.constexpr, pad_hd: tl.constexpr,
    BACKWARD: tl.constexpr = False,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    q = q + pid * q_row_stride
    k = k + pid * k_row_stride
    at = pid % sl
    cos = cos + at * cos_row_stride
    sin = sin + at * cos_row_stride
    half = tl.arange(0, pad_hd // 2)
    c = tl.load(cos + half, mask=half < hd // 2, other=0)
    s = tl.load(sin + half, mask=half < hd // 2, other=0)
    first_q = tl.arange(0, pad_qh)[:, None] * hd + half[None, :]
    first_k = tl.arange(0, pad_kh)[:, None] * hd + half[None, :]
    mask_q = (tl.arange(0, pad_qh)[:, None] < n_qh) & (half[None, :] < hd // 2)
    mask_k = (tl.arange(0, pad_kh)[:, None] < n_kh) & (half[None, :] < hd // 2)
    q1 = tl.load(q + first_q, mask=mask_q, other=0).to(s.dtype)
    k1 = tl.load(k + first_k, mask=mask_k, other=0).to(s.dtype)
    q2 = tl.load(q + first_q + hd // 2, mask=mask_q, other=0).to(s.dtype)
    k2 = tl.load(k + first_k + hd // 2, mask=mask_k, other=0).to(s.dtype)
    if not BACKWARD:
        tl.store(q + first_q, q1 * c - q2 * s, mask=mask_q)
        tl.store(q + first_q + (hd // 2), q2 * c + q1 * s, mask=mask_q)
        tl.store(k + first_k, k1 * c - k2 * s, mask=mask_k)
        tl.store(k + first_k + (hd // 2), k2 * c + k1 * s, mask=mask_k)
    else:
        tl.store(q + first_q, q1 * c + q2 * s, mask=mask_q)
        tl.store(q + first_q + (hd // 2), q2 * c - q1 * s, mask=mask_q)
        tl.store(k + first_k, k1 * c + k2 * s, mask=mask_k)
        tl.store(k + first_k + (hd // 2), k2 * c - k1 * s, mask=mask_k)


@case
def rotary_of_queries_and_keys_backward(a: Arrays) -> Launch:
    q, k = a.random("f16", 6, 3, 48), a.random("f16", 6, 2, 48)
    angle = a.random("f32", 3, 24)
    cos, sin = stored(np.cos(values(angle)), "f32"), stored(np.sin(values(angle)), "f32")
    c, s = (np.tile(values(x), (2, 1))[:, None, :] for x in (cos, sin))

    def turn(x: np.ndarray) -> np.ndarray:
        low, high = x[..., :24], x[..., 24:]
        return np.concatenate([low * c + high * s, high * c - low * s], -1)

    args = [q, 144, k, 96, cos, sin, 24, 3]
    constants = {"n_qh": 3, "n_kh": 2, "hd": 48, "pad_qh": 4, "pad_kh": 2, "pad_hd": 64}
    expected = {0: turn(values(q)), 2: turn(values(k))}
    return Launch(rope_both, (6,), args, expected, {**constants, "BACKWARD": True})


@tawa.jit
def linear_cross_entropy_rows(
    x, w, target, loss, lse_out, M, V, D: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr,
    BD: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    y = tl.load(target + rows, mask=rows < M, other=-1)
    m = tl.full((BM,), float("-inf"), dtype=tl.float32)
    s = tl.zeros((BM,), dtype=tl.float32)
    picked = tl.zeros((BM,), dtype=tl.float32)
    for v in range(0, V, BV):
        vocab = v + tl.arange(0, BV)
        logits = tl.zeros((BM, BV), dtype=tl.float32)
        for d in range(0, D, BD):
            cols = d + tl.arange(0, BD)
            xt = tl.load(x + rows[:, None] * D + cols[None, :], mask=rows[:, None] < M, other=0.0)
            wt = tl.load(w + vocab[:, None] * D + cols[None, :], mask=vocab[:, None] < V, other=0.0)
            logits = tl.dot(xt, wt.T, logits)
        logits = tl.where(vocab[None, :] < V, logits, float("-inf"))
        new = tl.maximum(m, tl.max(logits, axis=1))
        s = s * tl.exp(m - new) + tl.sum(tl.exp(logits - new[:, None]), axis=1)
        m = new
        picked += tl.sum(tl.where(vocab[None, :] == y[:, None], logits, 0.0), axis=1)
    lse = m + tl.log(s)
    tl.store(lse_out + rows, lse, mask=rows < M)
    tl.store(loss + rows, lse - picked, mask=rows < M)


@case
def fused_linear_cross_entropy(a: Arrays) -> Launch:
    x, w = a.random("bf16", 70, 64), a.random("bf16", 150, 64)
    y = np.random.default_rng(2).integers(0, 150, 70)
    z = values(x) @ values(w).T
    lse = np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) + z.max(1)
    args = [x, w, stored(y, "i64"), a.output("f32", 70), a.output("f32", 70), 70, 150]
    expected = {3: lse - z[np.arange(70), y], 4: lse}
    constants = {"D": 64, "BM": 64, "BV": 64, "BD": 32}
    return Launch(linear_cross_entropy_rows, (2,), args, expected, constants)


@tawa.jit
def cut_entropy_online(
    logits, target, loss, dlogits, V, BLOCK: tl.constexpr, softcap: tl.constexpr
):
    row = tl.program_id(0)
    base = logits + row * V
    label = tl.load(target + row).to(tl.int32)
    m = float("-inf")
    d = 0.0
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(base + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        if softcap is not None:
            x = softcap * tl.extra.libdevice.tanh(x / softcap)
            x = tl.where(cols < V, x, float("-inf"))
        block_max = tl.max(x)
        new = tl.maximum(m, block_max)
        d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new))
        m = new
    lse = m + tl.log(d)
    picked = tl.load(base + label).to(tl.float32)
    if softcap is not None:
        picked = softcap * tl.extra.libdevice.tanh(picked / softcap)
    tl.store(loss + row, lse - picked)
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(base + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        slope = tl.full((BLOCK,), 1.0, tl.float32)
        if softcap is not None:
            t = tl.extra.libdevice.tanh(x / softcap)
            x = softcap * t
            slope = 1 - t * t
        p = tl.exp(x - lse) - tl.where(cols == label, 1.0, 0.0)
        tl.store(dlogits + row * V + cols, p * slope, mask=cols < V)


@case
def cross_entropy_with_soft_cap(a: Arrays) -> Launch:
    x = a.random("bf16", 4, 300)
    y = np.array([0, 299, 130, 7])
    t = np.tanh(values(x) / 3)
    z = 3 * t
    lse = np.log(np.exp(z).sum(1))
    p = np.exp(z - lse[:, None])
    p[np.arange(4), y] -= 1
    args = [x, stored(y, "i64"), a.output("f32", 4), a.output("f32", 4, 300), 300]
    expected = {2: lse - z[np.arange(4), y], 3: p * (1 - t * t)}
    constants = {"BLOCK": 128, "softcap": 3.0}
    return Launch(cut_entropy_online, (4,), args, expected, constants)


@tawa.jit
def dropout_add(x, residual, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    keep = tl.rand(seed, at) > p
    v = tl.load(x + at, mask=mask)
    r = tl.load(residual + at, mask=mask)
    tl.store(out + at, tl.where(keep, v / (1 - p), 0.0) + r, mask=mask)


def philox(seed: int, counter: np.ndarray) -> np.ndarray:
    c = [counter.astype(np.uint64), *(np.zeros_like(counter, np.uint64) for _ in range(3))]
    k0, k1, low = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        b, a = c[2] * np.uint64(0xCD9E8D57), c[0] * np.uint64(0xD2511F53)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), b & low,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), a & low]  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    signed = c[0].astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(signed < 0, -signed - 1, signed) * 4.6566127342e-10


@case
def dropout_and_residual(a: Arrays) -> Launch:
    x, r = a.random("f16", 1000), a.random("f16", 1000)
    keep = philox(1234567890123, np.arange(1000)) > 0.25
    args = [x, r, a.output("f16", 1000), 1000, 0.25, 1234567890123]
    expected = {2: np.where(keep, values(x) / 0.75, 0) + values(r)}
    return Launch(dropout_add, (4,), args, expected, {"BLOCK": 256})
