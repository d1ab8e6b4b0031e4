"""Elementwise kernels, copies, stencils and random numbers."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(z_ptr + at, tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask), mask=mask)


@case
def vector_add(a: Arrays) -> Launch:
    x, y = a.random("f32", 1000), a.random("f32", 1000)
    args = [x, y, a.output("f32", 1000), 1000]
    return Launch(add, (8,), args, {2: values(x) + values(y)}, {"BLOCK": 128})


@tawa.jit
def silu(x):
    return x * tl.sigmoid(x)


@tawa.jit
def swiglu_rows(gate, up, out, stride, n_cols: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    a = tl.load(gate + row * stride + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(up + row * stride + cols, mask=mask, other=0)
    tl.store(out + row * stride + cols, silu(a).cast(b.dtype) * b, mask=mask)


@case
def swiglu(a: Arrays) -> Launch:
    x, y = a.random("bf16", 5, 300), a.random("bf16", 5, 300)
    g, u = values(x), values(y)
    expected = g / (1 + np.exp(-g)) * u
    args = [x, y, a.output("bf16", 5, 300), 300]
    return Launch(swiglu_rows, (5,), args, {2: expected}, {"n_cols": 300, "BLOCK": 512}, 1e-2)


@tawa.jit
def geglu_backward(dc, a, b, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    d = tl.load(dc + at, mask=mask, other=0).to(tl.float32)
    x = tl.load(a + at, mask=mask, other=0).to(tl.float32)
    y = tl.load(b + at, mask=mask, other=0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    t = tl.extra.libdevice.tanh(inner)
    gelu = 0.5 * x * (1 + t)
    slope = 0.5 * (1 + t)
    slope += 0.5 * x * (1 - t * t) * (0.7978845608028654 * (1.0 + 3.0 * 0.044715 * x * x))
    tl.store(a + at, d * y * slope, mask=mask)
    tl.store(b + at, d * gelu, mask=mask)


@case
def geglu_backward_in_place(a: Arrays) -> Launch:
    d, x, y = (a.random("f32", 777) for _ in range(3))
    dv, xv, yv = values(d), values(x), values(y)
    t = np.tanh(0.7978845608028654 * (xv + 0.044715 * xv**3))
    inner = 0.7978845608028654 * (1 + 3 * 0.044715 * xv * xv)
    slope = 0.5 * (1 + t) + 0.5 * xv * (1 - t * t) * inner
    expected = {1: dv * yv * slope, 2: dv * 0.5 * xv * (1 + t)}
    return Launch(geglu_backward, (4,), [d, x, y, 777], expected, {"BLOCK": 256})


@tawa.jit
def rope_rows(q, cos, sin, seq_len, heads: tl.constexpr, D: tl.constexpr, FORWARD: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    q += pid * heads * D
    row = pid % seq_len
    half: tl.constexpr = D // 2
    c = tl.load(cos + row * D + tl.arange(0, half))
    s = tl.load(sin + row * D + tl.arange(0, half))
    first = tl.arange(0, heads)[:, None] * D + tl.arange(0, half)[None, :]
    second = first + half
    x = tl.load(q + first).to(s.dtype)
    y = tl.load(q + second).to(s.dtype)
    if FORWARD:
        tl.store(q + first, x * c - y * s)
        tl.store(q + second, y * c + x * s)
    else:
        tl.store(q + first, x * c + y * s)
        tl.store(q + second, y * c - x * s)


@case
def rope(a: Arrays) -> Launch:
    q, cos, sin = a.random("f16", 6, 4, 64), a.random("f32", 3, 64), a.random("f32", 3, 64)
    v = values(q)
    c, s = (np.tile(values(t)[:, None, :32], (2, 1, 1)) for t in (cos, sin))
    x, y = v[..., :32], v[..., 32:]
    expected = np.concatenate([x * c - y * s, y * c + x * s], -1)
    constants = {"heads": 4, "D": 64, "FORWARD": True}
    return Launch(rope_rows, (6,), [q, cos, sin, 3], {0: expected}, constants)


@tawa.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    value = tl.load(x + at, mask=mask)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, value / (1 - p), 0.0), mask=mask)


@tawa.jit
def philox_uniform(out, seed, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.rand(seed, at))


def _uniform(seed: int, count: int) -> np.ndarray:
    """Philox 4x32-10 of the offsets, as the paper defines it (Salmon et al., SC 2011)."""
    mask = np.uint64(0xFFFFFFFF)
    c = [np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in range(3))]
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    for _ in range(10):
        a, b = c[2] * np.uint64(0xCD9E8D57), c[0] * np.uint64(0xD2511F53)
        low = np.uint64(32)
        c = [(a >> low) ^ c[1] ^ k0, a & mask, (b >> low) ^ c[3] ^ k1, b & mask]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & mask, (k1 + np.uint64(0xBB67AE85)) & mask
    signed = c[0].astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(signed < 0, -signed - 1, signed) * 4.6566127342e-10


@case
def dropout(a: Arrays) -> Launch:
    x = a.random("f32", 500)
    keep = _uniform(123, 500) > 0.25
    args = [x, a.output("f32", 500), 500, 0.25, 123]
    expected = np.where(keep, values(x) / 0.75, 0)
    return Launch(dropout_kernel, (2,), args, {1: expected}, {"BLOCK": 256})


@tawa.jit
def transpose_tiles(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tile = tl.load(x + rows[:, None] * N + cols[None, :], mask=mask)
    tl.store(y + cols[:, None] * M + rows[None, :], tl.trans(tile), mask=tl.trans(mask))


@case
def transpose(a: Arrays) -> Launch:
    x = a.random("f16", 70, 90)
    args = [x, a.output("f16", 90, 70), 70, 90]
    return Launch(transpose_tiles, (3, 2), args, {1: values(x).T}, {"BM": 32, "BN": 48})


@tawa.jit
def permute_3d(x, y, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, A)[:, None, None]
    j = tl.arange(0, B)[None, :, None]
    k = tl.arange(0, C)[None, None, :]
    tile = tl.load(x + (i * B + j) * C + k)
    turned = tl.permute(tile, (2, 0, 1))
    at = tl.arange(0, C)[:, None, None] * (A * B) + tl.arange(0, A)[None, :, None] * B
    tl.store(y + at + tl.arange(0, B)[None, None, :], turned * 2)


@case
def permuted_3d_tile(a: Arrays) -> Launch:
    x = a.random("f32", 4, 8, 16)
    args = [x, a.output("f32", 16, 4, 8)]
    expected = values(x).transpose(2, 0, 1) * 2
    return Launch(permute_3d, (1,), args, {1: expected}, {"A": 4, "B": 8, "C": 16})


@tawa.jit
def stencil_5(x, y, H, W, BH: tl.constexpr, BW: tl.constexpr):
    i = tl.program_id(0) * BH + tl.arange(0, BH)[:, None]
    j = tl.program_id(1) * BW + tl.arange(0, BW)[None, :]
    inside = (i < H) & (j < W)
    at = x + i * W + j
    total = -4.0 * tl.load(at, mask=inside, other=0.0)
    total += tl.load(at - W, mask=inside & (i > 0), other=0.0)
    total += tl.load(at + W, mask=inside & (i < H - 1), other=0.0)
    total += tl.load(at - 1, mask=inside & (j > 0), other=0.0)
    total += tl.load(at + 1, mask=inside & (j < W - 1), other=0.0)
    tl.store(y + i * W + j, total, mask=inside)


@case
def stencil(a: Arrays) -> Launch:
    x = a.random("f32", 33, 45)
    p = np.pad(values(x), 1)
    expected = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * values(x)
    args = [x, a.output("f32", 33, 45), 33, 45]
    return Launch(stencil_5, (3, 2), args, {1: expected}, {"BH": 16, "BW": 32})


@tawa.jit
def conv1d_causal(x, w, b, y, T, D, KERNEL: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    inside = d < D
    acc = tl.zeros([BT, BD], dtype=tl.float32)
    for k in tl.static_range(-KERNEL + 1, 1):
        rows = t + k
        mask = ((rows >= 0) & (rows < T))[:, None] & inside
        part = tl.load(x + rows[:, None] * D + d, mask=mask, other=0).to(tl.float32)
        weight = tl.load(w + d * KERNEL + (k + KERNEL - 1), mask=inside, other=0)
        acc += part * weight[None, :]
    acc += tl.load(b + d, mask=inside, other=0)[None, :]
    acc = acc * tl.sigmoid(acc)
    tl.store(y + t[:, None] * D + d, acc.to(y.dtype.element_ty), mask=(t < T)[:, None] & inside)


@case
def causal_convolution_1d(a: Arrays) -> Launch:
    x, w, b = a.random("f16", 50, 40), a.random("f32", 40, 4), a.random("f32", 40)
    xv, wv = np.pad(values(x), ((3, 0), (0, 0))), values(w)
    total = sum(xv[k : k + 50] * wv[:, k] for k in range(4)) + values(b)
    args = [x, w, b, a.output("f16", 50, 40), 50, 40]
    constants = {"KERNEL": 4, "BT": 16, "BD": 32}
    return Launch(conv1d_causal, (4, 2), args, {3: total / (1 + np.exp(-total))}, constants)


@tawa.jit
def masked_clip(x, m, out, low, high, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    flags = tl.load(m + at, mask=inside, other=0)
    v = tl.load(x + at, mask=inside, other=0.0)
    odd = (flags & 1) == 1
    clipped = tl.where(v > high, high, tl.where(v < low, low, v))
    v = tl.where(odd & (flags > 2), clipped, tl.where(flags == 0, 0.0, -v))
    v = tl.where(~odd, tl.abs(v), v)
    tl.store(out + at, v, mask=inside & (flags != 5))


@case
def masks_of_where(a: Arrays) -> Launch:
    x = a.random("f32", 300)
    flags = stored(np.arange(300) % 7, "i8")
    f, v = np.arange(300) % 7, values(x)
    odd = f % 2 == 1
    r = np.where(odd & (f > 2), np.clip(v, -0.5, 0.5), np.where(f == 0, 0, -v))
    r = np.where(~odd, np.abs(r), r)
    out = stored(np.full(300, 9.0), "f32")
    args = [x, flags, out, -0.5, 0.5, 300]
    return Launch(masked_clip, (3,), args, {2: np.where(f == 5, 9, r)}, {"BLOCK": 128})


@tawa.jit
def gather_rows(table, index, out, D: tl.constexpr, ROWS: tl.constexpr, n):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < n
    which = tl.load(index + rows, mask=inside, other=0)
    d = tl.arange(0, D)
    tile = tl.load(table + which[:, None] * D + d[None, :], mask=inside[:, None])
    tl.store(out + rows[:, None] * D + d[None, :], tile, mask=inside[:, None])


@case
def embedding(a: Arrays) -> Launch:
    table = a.random("bf16", 50, 96)
    index = np.random.default_rng(5).integers(0, 50, 37)
    args = [table, stored(index, "i64"), a.output("bf16", 37, 96), 96, 8, 37]
    return Launch(gather_rows, (5,), args, {2: values(table)[index]})


@tawa.jit
def adamw_step(p, g, m, v, lr, beta1, beta2, eps, decay, step, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    grad = tl.load(g + at, mask=mask, other=0.0)
    w = tl.load(p + at, mask=mask, other=0.0) * (1 - lr * decay)
    first = beta1 * tl.load(m + at, mask=mask, other=0.0) + (1 - beta1) * grad
    second = beta2 * tl.load(v + at, mask=mask, other=0.0) + (1 - beta2) * grad * grad
    c1 = 1 - tl.exp(step * tl.log(beta1))
    c2 = 1 - tl.exp(step * tl.log(beta2))
    w -= lr * (first / c1) / (tl.sqrt(second / c2) + eps)
    tl.store(p + at, w, mask=mask)
    tl.store(m + at, first, mask=mask)
    tl.store(v + at, second, mask=mask)


@case
def adamw(a: Arrays) -> Launch:
    p, g, m, v = (a.random("f32", 600) for _ in range(4))
    v[...] = np.abs(v)
    pv, gv, mv, vv = (values(t) for t in (p, g, m, v))
    m1, v1 = 0.9 * mv + 0.1 * gv, 0.99 * vv + 0.01 * gv * gv
    w = pv * (1 - 0.01 * 0.1) - 0.01 * (m1 / (1 - 0.9**3)) / (np.sqrt(v1 / (1 - 0.99**3)) + 1e-8)
    args = [p, g, m, v, 0.01, 0.9, 0.99, 1e-8, 0.1, 3.0, 600]
    return Launch(adamw_step, (3,), args, {0: w, 2: m1, 3: v1}, {"BLOCK": 256})
