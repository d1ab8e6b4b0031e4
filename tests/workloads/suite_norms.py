"""Kernels that reduce and normalise: rows, columns, channels; losses and optimisers."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def softmax_of_columns(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Softmax along the first dimension, a running maximum and sum for each place of a block."""
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.full((BM, BN), float("-inf"), tl.float32)
    s = tl.zeros((BM, BN), tl.float32)
    for i in range(0, M, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows < M)[:, None] & (cols < N)[None, :]
        v = tl.load(x + rows[:, None] * N + cols[None, :], mask=mask, other=-1e30).to(tl.float32)
        new = tl.maximum(m, v)
        s = s * tl.exp(m - new) + tl.exp(v - new)
        m = new
    top = tl.max(m, axis=0)
    total = tl.sum(s * tl.exp(m - top[None, :]), axis=0)
    for i in range(0, M, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows < M)[:, None] & (cols < N)[None, :]
        v = tl.load(x + rows[:, None] * N + cols[None, :], mask=mask, other=-1e30).to(tl.float32)
        tl.store(y + rows[:, None] * N + cols[None, :], tl.exp(v - top) / total, mask=mask)


@case
def softmax_along_the_first_dimension(a: Arrays) -> Launch:
    x = a.random("bf16", 50, 70)
    e = np.exp(values(x) - values(x).max(0))
    args = [x, a.output("f32", 50, 70), 50, 70]
    return Launch(softmax_of_columns, (2,), args, {1: e / e.sum(0)}, {"BM": 16, "BN": 64})


@tawa.jit
def layer_norm_grad_parts(
    dy,
    x,
    w,
    mean,
    rstd,
    dx,
    dwp,
    dbp,
    M,
    N,
    GROUP: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Rows of a program in blocks; sums of weights' gradients a program."""
    pid = tl.program_id(0)
    cols = tl.arange(0, BN)
    inside = cols < N
    weight = tl.load(w + cols, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros((BN,), tl.float32)
    db = tl.zeros((BN,), tl.float32)
    for i in range(0, GROUP, BM):
        rows = pid * GROUP + i + tl.arange(0, BM)
        mask = (rows < M)[:, None] & inside[None, :]
        at = rows[:, None] * N + cols[None, :]
        g = tl.load(dy + at, mask=mask, other=0.0).to(tl.float32)
        v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        mu = tl.load(mean + rows, mask=rows < M, other=0.0)
        r = tl.load(rstd + rows, mask=rows < M, other=0.0)
        xhat = tl.where(mask, (v - mu[:, None]) * r[:, None], 0.0)
        wdy = g * weight[None, :]
        c1 = tl.sum(xhat * wdy, axis=1) / N
        c2 = tl.sum(wdy, axis=1) / N
        tl.store(dx + at, (wdy - (xhat * c1[:, None] + c2[:, None])) * r[:, None], mask=mask)
        dw += tl.sum(g * xhat, axis=0)
        db += tl.sum(g, axis=0)
    tl.store(dwp + pid * N + cols, dw, mask=inside)
    tl.store(dbp + pid * N + cols, db, mask=inside)


@case
def layer_norm_backward_in_two_stages(a: Arrays) -> Launch:
    x, dy, w = a.random("bf16", 14, 100), a.random("bf16", 14, 100), a.random("bf16", 100)
    v, g = values(x), values(dy)
    mu, r = v.mean(1), 1 / np.sqrt(v.var(1) + 1e-5)
    xhat, wdy = (v - mu[:, None]) * r[:, None], g * values(w)
    dx = (wdy - xhat * (xhat * wdy).mean(1)[:, None] - wdy.mean(1)[:, None]) * r[:, None]
    dw, db = (np.stack([t[:8].sum(0), t[8:].sum(0)]) for t in (g * xhat, g))
    args = [dy, x, w, stored(mu, "f32"), stored(r, "f32"), a.output("bf16", 14, 100),
            a.output("f32", 2, 100), a.output("f32", 2, 100), 14, 100]  # fmt: skip
    expected = {5: dx, 6: dw, 7: db}
    return Launch(
        layer_norm_grad_parts, (2,), args, expected, {"GROUP": 8, "BM": 4, "BN": 128}, 1e-2
    )


@tawa.jit
def group_norm_channels_last(
    x,
    w,
    b,
    y,
    HW,
    C: tl.constexpr,
    CPG: tl.constexpr,
    BS: tl.constexpr,
    eps: tl.constexpr,
    SILU: tl.constexpr,
):
    n, g = tl.program_id(0), tl.program_id(1)
    channel = g * CPG + tl.arange(0, CPG)
    base = n.to(tl.int64) * HW * C
    total = tl.zeros((BS, CPG), tl.float32)
    square = tl.zeros((BS, CPG), tl.float32)
    for s in range(0, HW, BS):
        at = s + tl.arange(0, BS)
        v = tl.load(
            x + base + at[:, None] * C + channel[None, :], mask=(at < HW)[:, None], other=0.0
        ).to(tl.float32)
        total += v
        square += v * v
    mean = tl.sum(total) / (HW * CPG)
    var = tl.sum(square) / (HW * CPG) - mean * mean
    rstd = tl.rsqrt(var + eps)
    weight, bias = tl.load(w + channel), tl.load(b + channel)
    for s in range(0, HW, BS):
        at = s + tl.arange(0, BS)
        mask = (at < HW)[:, None]
        v = tl.load(x + base + at[:, None] * C + channel[None, :], mask=mask, other=0.0).to(
            tl.float32
        )
        o = (v - mean) * rstd * weight[None, :] + bias[None, :]
        if SILU:
            o = o * tl.sigmoid(o)
        tl.store(y + base + at[:, None] * C + channel[None, :], o, mask=mask)


@case
def group_norm_and_silu_of_images(a: Arrays) -> Launch:
    x, w, b = a.random("f16", 2, 45, 32), a.random("f32", 32), a.random("f32", 32)
    v = values(x).reshape(2, 45, 4, 8)
    mu, var = v.mean((1, 3), keepdims=True), v.var((1, 3), keepdims=True)
    o = ((v - mu) / np.sqrt(var + 1e-5)).reshape(2, 45, 32) * values(w) + values(b)
    args = [x, w, b, a.output("f16", 2, 45, 32), 45]
    constants = {"C": 32, "CPG": 8, "BS": 16, "eps": 1e-5, "SILU": True}
    return Launch(
        group_norm_channels_last, (2, 4), args, {3: o / (1 + np.exp(-o))}, constants, 2e-3
    )


@tawa.jit
def channel_sums(x, total, square, R, C, ROWS: tl.constexpr, BR: tl.constexpr, BC: tl.constexpr):
    """Sums of channels over all pixels of a batch, added up by atomics."""
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    s = tl.zeros((BR, BC), tl.float32)
    q = tl.zeros((BR, BC), tl.float32)
    first = tl.program_id(0) * ROWS
    for i in range(first, min(first + ROWS, R), BR):
        rows = i + tl.arange(0, BR)
        mask = ((rows < R) & (rows < first + ROWS))[:, None] & (c < C)[None, :]
        v = tl.load(x + rows[:, None] * C + c[None, :], mask=mask, other=0.0).to(tl.float32)
        s += v
        q += v * v
    tl.atomic_add(total + c, tl.sum(s, axis=0), mask=c < C)
    tl.atomic_add(square + c, tl.sum(q, axis=0), mask=c < C)


@case
def batch_norm_statistics(a: Arrays) -> Launch:
    x = a.random("bf16", 90, 40)
    v = values(x)
    args = [x, stored(np.zeros(40), "f32"), stored(np.zeros(40), "f32"), 90, 40]
    constants = {"ROWS": 32, "BR": 8, "BC": 64}
    return Launch(channel_sums, (3, 1), args, {1: v.sum(0), 2: (v**2).sum(0)}, constants)


@tawa.jit
def cross_entropy_in_place(x, stride, y, loss, n_valid, V, ignore, smoothing, BLOCK: tl.constexpr):
    """The loss of a row and its gradient, which replaces the logits."""
    row = tl.program_id(0).to(tl.int64)
    x += row * stride
    label = tl.load(y + row)
    if label == ignore:
        for i in range(0, V, BLOCK):
            cols = i + tl.arange(0, BLOCK)
            tl.store(x + cols, 0.0, mask=cols < V)
        return
    m = float("-inf")
    d = 0.0
    total = 0.0
    picked = tl.load(x + label).to(tl.float32)
    eps = smoothing / V
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        v = tl.load(x + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        top = tl.max(v)
        total += tl.sum(tl.where(cols < V, -eps * v, 0.0))
        new = tl.maximum(m, top)
        d = d * tl.exp(m - new) + tl.sum(tl.exp(v - new))
        m = new
    lse = m + tl.log(d)
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        v = tl.load(x + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        g = tl.exp(v - m) / d - eps
        g = tl.where(cols != label, g, g - (1 - smoothing)) / n_valid
        tl.store(x + cols, g, mask=cols < V)
    one = lse - picked
    tl.store(loss + row, (one * (1 - smoothing) + total + smoothing * lse) / n_valid)


@case
def cross_entropy_with_smoothing(a: Arrays) -> Launch:
    x, y = a.random("bf16", 4, 300), np.array([0, -100, 299, 130])
    v = values(x)
    p = np.exp(v - v.max(1, keepdims=True))
    lse = np.log(p.sum(1)) + v.max(1)
    p /= p.sum(1, keepdims=True)
    t = np.full((4, 300), 0.1 / 300)
    t[np.arange(4), y] += 0.9
    loss = (lse - (t * v).sum(1)) / 3 * (y >= 0)
    g = (p - t) / 3 * (y >= 0)[:, None]
    args = [x, 300, stored(y, "i64"), stored(np.zeros(4), "f32"), 3, 300, -100, 0.1]
    return Launch(cross_entropy_in_place, (4,), args, {0: g, 3: loss}, {"BLOCK": 128}, 1e-2)


@tawa.jit
def adamw_of_half_weights(p, g, m, v, n, lr, b1, b2, eps, wd, c1, c2, seed, BLOCK: tl.constexpr):
    """Weights are bf16 and are rounded up or down at random."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    w = tl.load(p + at, mask=mask).to(tl.float32)
    d = tl.load(g + at, mask=mask).to(tl.float32)
    m1 = tl.load(m + at, mask=mask).to(tl.float32)
    m2 = tl.load(v + at, mask=mask).to(tl.float32)
    m1 = b1 * m1 + (1 - b1) * d
    m2 = b2 * m2 + (1 - b2) * d * d
    w = w * (1 - lr * wd) - lr * (m1 / c1) / (tl.sqrt(m2 / c2) + eps)
    bits = w.to(tl.int32, bitcast=True)
    noise = tl.randint(seed, at).to(tl.int32, bitcast=True) & 0xFFFF
    rounded = ((bits + noise) & -65536).to(tl.float32, bitcast=True)
    tl.store(p + at, rounded.to(tl.bfloat16), mask=mask)
    tl.store(m + at, m1, mask=mask)
    tl.store(v + at, m2, mask=mask)


@case
def adamw_with_random_rounding(a: Arrays) -> Launch:
    p, g, m = a.random("bf16", 900), a.random("bf16", 900), a.random("f32", 900)
    v = stored(np.abs(values(a.random("f32", 900))), "f32")
    m1 = 0.9 * values(m) + 0.1 * values(g)
    m2 = 0.99 * values(v) + 0.01 * values(g) ** 2
    w = values(p) * 0.99 - 0.1 * (m1 / 0.5) / (np.sqrt(m2 / 0.25) + 1e-6)
    args = [p, g, m, v, 900, 0.1, 0.9, 0.99, 1e-6, 0.1, 0.5, 0.25, 77]
    return Launch(adamw_of_half_weights, (4,), args, {0: w, 2: m1, 3: m2}, {"BLOCK": 256}, 1e-2)


@tawa.jit
def nearest_centres(
    x, centres, best, where, M, K, D: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr
):
    """The first of the nearest centres of each point, by sums of absolute differences."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    low = tl.full((BM,), float("inf"), tl.float32)
    at = tl.zeros((BM,), tl.int32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        distance = tl.zeros((BM, BK), tl.float32)
        for d in range(D):
            v = tl.load(x + rows * D + d, mask=rows < M, other=0.0)
            c = tl.load(centres + ks * D + d, mask=ks < K, other=0.0)
            distance += tl.abs(v[:, None] - c[None, :])
        distance = tl.where((ks < K)[None, :], distance, float("inf"))
        here, arg = tl.min(distance, axis=1, return_indices=True)
        at = tl.where(here < low, k + arg, at)
        low = tl.minimum(low, here)
    tl.store(best + rows, low, mask=rows < M)
    tl.store(where + rows, at, mask=rows < M)


@case
def first_of_nearest(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    x, c = rng.integers(-3, 4, (50, 3)), rng.integers(-3, 4, (40, 3))
    d = np.abs(x[:, None] - c[None]).sum(-1)
    args = [stored(x, "f32"), stored(c, "f32"), a.output("f32", 50), a.output("i32", 50), 50, 40]
    constants = {"D": 3, "BM": 32, "BK": 32}
    return Launch(nearest_centres, (2,), args, {2: d.min(1), 3: d.argmin(1)}, constants)


@tawa.jit
def gated_rms_norm(x, z, w, y, N, eps, GROUP: tl.constexpr, BM: tl.constexpr):
    """Groups of a row times a gate, then over their root mean square."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    at = rows[:, None] * N + cols[None, :]
    gate = tl.load(z + at).to(tl.float32)
    v = tl.load(x + at).to(tl.float32) * gate * tl.sigmoid(gate)
    r = tl.rsqrt(tl.sum(v * v, axis=1) / GROUP + eps)
    weight = tl.load(w + cols).to(tl.float32)
    tl.store(y + at, v * r[:, None] * weight[None, :])


@case
def gated_root_mean_square(a: Arrays) -> Launch:
    x, z, w = a.random("bf16", 8, 128), a.random("bf16", 8, 128), a.random("bf16", 128)
    g = values(z)
    v = (values(x) * g / (1 + np.exp(-g))).reshape(8, 2, 64)
    y = (v / np.sqrt((v**2).mean(2, keepdims=True) + 1e-5)).reshape(8, 128) * values(w)
    args = [x, z, w, a.output("bf16", 8, 128), 128, 1e-5]
    return Launch(gated_rms_norm, (2, 2), args, {3: y}, {"GROUP": 64, "BM": 4}, 1e-2)


@tawa.jit
def max_pool(
    x,
    y,
    H,
    W,
    C,
    OH,
    OW,
    K: tl.constexpr,
    STRIDE: tl.constexpr,
    PAD: tl.constexpr,
    BW: tl.constexpr,
    BC: tl.constexpr,
):
    n, oh = tl.program_id(0) // OH, tl.program_id(0) % OH
    ow = tl.program_id(1) * BW + tl.arange(0, BW)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    best = tl.full((BW, BC), float("-inf"), tl.float32)
    for r in tl.static_range(K):
        for s in tl.static_range(K):
            ih = oh * STRIDE - PAD + r
            iw = ow * STRIDE - PAD + s
            ok = (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
            at = ((n * H + ih) * W + iw)[:, None] * C + c[None, :]
            v = tl.load(x + at, mask=ok[:, None] & (c < C)[None, :], other=float("-inf"))
            best = tl.maximum(best, v.to(tl.float32))
    at = ((n * OH + oh) * OW + ow)[:, None] * C + c[None, :]
    tl.store(y + at, best, mask=(ow < OW)[:, None] & (c < C)[None, :])


@case
def max_pooling_of_images(a: Arrays) -> Launch:
    x = a.random("f16", 2, 9, 11, 20)
    padded = np.pad(values(x), ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=-np.inf)
    y = np.max(
        [padded[:, r : r + 9 : 2, s : s + 11 : 2][:, :5, :6] for r in range(3) for s in range(3)], 0
    )
    args = [x, a.output("f16", 2, 5, 6, 20), 9, 11, 20, 5, 6]
    return Launch(
        max_pool, (10, 1, 1), args, {1: y}, {"K": 3, "STRIDE": 2, "PAD": 1, "BW": 8, "BC": 32}
    )
