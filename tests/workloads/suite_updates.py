"""Steps of optimisers, gradients of embeddings and norms: what training updates."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def adam_step(
    p, g, m, v, n, lr, beta1, beta2, eps, decay, step, found_inf,
    BLOCK: tl.constexpr, MAXIMIZE: tl.constexpr
):  # fmt: skip
    if tl.load(found_inf) != 0:
        return
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    grad = tl.load(g + at, mask=mask).to(tl.float32)
    if MAXIMIZE:
        grad = -grad
    param = tl.load(p + at, mask=mask)
    m1 = tl.load(m + at, mask=mask)
    m2 = tl.load(v + at, mask=mask)
    m1 = beta1 * m1 + (1 - beta1) * grad
    m2 = beta2 * m2 + (1 - beta2) * grad * grad
    t = tl.load(step).to(tl.float32)
    c1 = 1 - tl.exp2(t * tl.log2(beta1))
    c2 = 1 - tl.exp2(t * tl.log2(beta2))
    update = (m1 / c1) / (tl.sqrt(m2 / c2) + eps)
    param = param * (1 - lr * decay) - lr * update
    tl.store(p + at, param, mask=mask)
    tl.store(m + at, m1, mask=mask)
    tl.store(v + at, m2, mask=mask)


@case
def adam_with_found_inf(a: Arrays) -> Launch:
    p, g, m, v = (
        a.random("f32", 700),
        a.random("bf16", 700),
        a.random("f32", 700),
        a.random("f32", 700),
    )
    v[...] = np.abs(v)
    m1 = 0.9 * values(m) + 0.1 * values(g)
    m2 = 0.99 * values(v) + 0.01 * values(g) ** 2
    update = m1 / (1 - 0.9**3) / (np.sqrt(m2 / (1 - 0.99**3)) + 1e-8)
    expected = {0: values(p) * (1 - 0.01 * 0.1) - 0.01 * update, 2: m1, 3: m2}
    args = [p, g, m, v, 700, 0.01, 0.9, 0.99, 1e-8, 0.1, stored(np.array([3]), "i32"),
            stored(np.zeros(1), "f32")]  # fmt: skip
    return Launch(adam_step, (2,), args, expected, {"BLOCK": 512, "MAXIMIZE": False})


@tawa.jit
def embedding_grad(
    dout, ids, dw, n, D: tl.constexpr, PAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    token = tl.load(ids + rows, mask=rows < n, other=PAD)
    mask = (token != PAD)[:, None] & (cols < D)[None, :]
    g = tl.load(dout + rows[:, None] * D + cols[None, :], mask=mask, other=0.0)
    tl.atomic_add(dw + token[:, None] * D + cols[None, :], g, mask=mask)


@case
def embedding_backward(a: Arrays) -> Launch:
    g = a.random("f32", 40, 50)
    ids = np.random.default_rng(3).integers(0, 11, 40)
    ids[5] = -1
    dw = np.zeros((11, 50))
    np.add.at(dw, ids[ids >= 0], values(g)[ids >= 0])
    args = [g, stored(ids, "i64"), stored(np.zeros((11, 50)), "f32"), 40]
    constants = {"D": 50, "PAD": -1, "BM": 16, "BN": 32}
    return Launch(embedding_grad, (3, 2), args, {2: dw}, constants)


@tawa.jit
def softmax_grad(dy, y, dx, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    dy += row * n
    y += row * n
    acc = tl.zeros([BLOCK], tl.float32)
    i = 0
    while i < n:
        cols = i + tl.arange(0, BLOCK)
        mask = cols < n
        acc += tl.load(dy + cols, mask, 0.0).to(tl.float32) * tl.load(y + cols, mask, 0.0)
        i += BLOCK
    total = tl.sum(acc, 0)
    for i in tl.range(0, n, BLOCK, num_stages=3):
        cols = i + tl.arange(0, BLOCK)
        mask = cols < n
        g, p = (
            tl.load(dy + cols, mask, 0.0).to(tl.float32),
            tl.load(y + cols, mask, 0.0).to(tl.float32),
        )
        tl.store(dx + row * n + cols, p * (g - total), mask)


@case
def softmax_backward_of_long_rows(a: Arrays) -> Launch:
    dy, y = a.random("bf16", 3, 1000), a.random("bf16", 3, 1000)
    g, p = values(dy), values(y)
    args = [dy, y, a.output("f32", 3, 1000), 1000]
    expected = {2: p * (g - (g * p).sum(1, keepdims=True))}
    return Launch(softmax_grad, (3,), args, expected, {"BLOCK": 256, "num_warps": 16})


@tawa.jit
def ema_and_clip(p, ema, norm, n, decay, max_norm, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    scale = max_norm / (tl.sqrt(tl.load(norm)) + 1e-6)
    scale = min(scale, 1.0)
    v = tl.load(p + at, mask=mask) * scale
    e = tl.load(ema + at, mask=mask)
    tl.store(p + at, v, mask=mask)
    tl.store(ema + at, e * decay + v * (1.0 - decay), mask=mask)


@tawa.jit
def squared_norm(x, out, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
        total += tl.sum(v * v)
    tl.atomic_add(out, total)


@case
def gradient_norm(a: Arrays) -> Launch:
    x = a.random("f16", 3000)
    args = [x, stored(np.zeros(1), "f32"), 3000]
    return Launch(squared_norm, (2,), args, {1: (values(x) ** 2).sum()[None]}, {"BLOCK": 512})


@case
def clipped_update_of_an_average(a: Arrays) -> Launch:
    p, e = a.random("f32", 333), a.random("f32", 333)
    args = [p, e, stored(np.array([16.0]), "f32"), 333, 0.9, 1.0]
    clipped = values(p) / (4 + 1e-6)
    expected = {0: clipped, 1: values(e) * 0.9 + clipped * 0.1}
    return Launch(ema_and_clip, (2,), args, expected, {"BLOCK": 256, "num_warps": 1})


@tawa.jit
def group_norm_backward_rows(
    dy, x, w, mean, rstd, dx, dwp, dbp, C, HW, G: tl.constexpr, CPG: tl.constexpr, BS: tl.constexpr
):
    """One program a (batch, group); partial sums of dw and db a batch."""
    n, g = tl.program_id(0), tl.program_id(1)
    c = tl.arange(0, CPG)
    channel = g * CPG + c
    weight = tl.load(w + channel)
    mu, r = tl.load(mean + n * G + g), tl.load(rstd + n * G + g)
    dw = tl.zeros((CPG,), tl.float32)
    db = tl.zeros((CPG,), tl.float32)
    s1, s2 = 0.0, 0.0
    for s in range(0, HW, BS):
        at = s + tl.arange(0, BS)
        mask = (at < HW)[None, :]
        offset = (n * C + channel)[:, None] * HW + at[None, :]
        d = tl.load(dy + offset, mask=mask, other=0.0)
        xhat = tl.where(mask, (tl.load(x + offset, mask=mask, other=0.0) - mu) * r, 0.0)
        dw += tl.sum(d * xhat, axis=1)
        db += tl.sum(d, axis=1)
        s1 += tl.sum(d * xhat * weight[:, None])
        s2 += tl.sum(d * weight[:, None])
    count = CPG * HW
    for s in range(0, HW, BS):
        at = s + tl.arange(0, BS)
        mask = (at < HW)[None, :]
        offset = (n * C + channel)[:, None] * HW + at[None, :]
        d = tl.load(dy + offset, mask=mask, other=0.0)
        xhat = (tl.load(x + offset, mask=mask, other=0.0) - mu) * r
        tl.store(dx + offset, r * (d * weight[:, None] - (xhat * s1 + s2) / count), mask=mask)
    tl.store(dwp + n * C + channel, dw)
    tl.store(dbp + n * C + channel, db)


@case
def group_norm_backward(a: Arrays) -> Launch:
    dy, x, w = a.random("f32", 2, 8, 45), a.random("f32", 2, 8, 45), a.random("f32", 8)
    d, v, weight = values(dy), values(x), values(w)[:, None]
    groups = v.reshape(2, 2, -1)
    mu, r = groups.mean(-1), 1 / np.sqrt(groups.var(-1) + 1e-5)
    m, s = (np.repeat(t, 4, 1)[:, :, None] for t in (mu, r))
    xhat = (v - m) * s
    s1 = np.repeat((d * xhat * weight).reshape(2, 2, -1).sum(-1), 4, 1)[:, :, None]
    s2 = np.repeat((d * weight).reshape(2, 2, -1).sum(-1), 4, 1)[:, :, None]
    dx = s * (d * weight - (xhat * s1 + s2) / (4 * 45))
    args = [dy, x, w, stored(mu, "f32"), stored(r, "f32"), a.output("f32", 2, 8, 45),
            a.output("f32", 2, 8), a.output("f32", 2, 8), 8, 45]  # fmt: skip
    expected = {5: dx, 6: (d * xhat).sum(-1), 7: d.sum(-1)}
    return Launch(group_norm_backward_rows, (2, 2), args, expected, {"G": 2, "CPG": 4, "BS": 32})
