"""Kernels over rows: normalisations, softmax, losses, scans, sorting, counting."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def softmax_two_pass(x, y, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    m = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x + cols, mask=cols < n, other=-float("inf"))
        new = tl.maximum(m, tl.max(v, axis=0))
        total = total * tl.exp(m - new) + tl.sum(tl.exp(v - new), axis=0)
        m = new
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x + cols, mask=cols < n, other=-float("inf"))
        tl.store(y + cols, tl.exp(v - m) / total, mask=cols < n)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@case
def online_softmax(a: Arrays) -> Launch:
    x = a.random("f32", 4, 700)
    args = [x, a.output("f32", 4, 700), 700, 700]
    return Launch(softmax_two_pass, (4,), args, {1: _softmax(values(x))}, {"BLOCK": 256})


@tawa.jit
def softmax_rows(out, x, rows, cols, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        at = tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + at, mask=at < cols, other=-float("inf"))
        tl.store(out + row * cols + at, tl.softmax(v), mask=at < cols)


@case
def persistent_softmax(a: Arrays) -> Launch:
    x = a.random("f32", 7, 100)
    args = [a.output("f32", 7, 100), x, 7, 100]
    return Launch(softmax_rows, (3,), args, {0: _softmax(values(x))}, {"BLOCK": 128})


@tawa.jit
def layer_norm_forward(x, y, w, b, mean, rstd, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    y += row * stride
    x += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        total += tl.load(x + cols, mask=cols < N, other=0.0).to(tl.float32)
    mu = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        v = tl.load(x + cols, mask=cols < N, other=0.0).to(tl.float32)
        v = tl.where(cols < N, v - mu, 0.0)
        squares += v * v
    r = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(mean + row, mu)
    tl.store(rstd + row, r)
    for off in range(0, N, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        mask = cols < N
        weight = tl.load(w + cols, mask=mask)
        v = tl.load(x + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + cols, (v - mu) * r * weight + tl.load(b + cols, mask=mask), mask=mask)


@case
def layer_norm(a: Arrays) -> Launch:
    x, w, b = a.random("f16", 5, 300), a.random("f32", 300), a.random("f32", 300)
    v = values(x)
    mu, r = v.mean(1), 1 / np.sqrt(v.var(1) + 1e-5)
    y = (v - mu[:, None]) * r[:, None] * values(w) + values(b)
    outputs = [a.output("f16", 5, 300), w, b, a.output("f32", 5), a.output("f32", 5)]
    args = [x, *outputs, 300, 300, 1e-5]
    return Launch(layer_norm_forward, (5,), args, {1: y, 4: mu, 5: r}, {"BLOCK": 128})


@tawa.jit
def layer_norm_dx(
    dx, dy, dw, db, x, w, mean, rstd, lock, stride, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x += row * stride
    dy += row * stride
    group = row % GROUPS
    lock += group
    count = lock + GROUPS
    dw = dw + group * N + cols
    db = db + group * N + cols
    v = tl.load(x + cols, mask=mask, other=0).to(tl.float32)
    d = tl.load(dy + cols, mask=mask, other=0).to(tl.float32)
    weight = tl.load(w + cols, mask=mask).to(tl.float32)
    r = tl.load(rstd + row)
    xhat = tl.where(mask, (v - tl.load(mean + row)) * r, 0.0)
    wdy = tl.where(mask, weight * d, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    tl.store(dx + row * stride + cols, (wdy - (xhat * c1 + c2)) * r, mask=mask)
    partial_dw = (d * xhat).to(weight.dtype)
    partial_db = d.to(weight.dtype)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        partial_dw += tl.load(dw, mask=mask)
        partial_db += tl.load(db, mask=mask)
    tl.store(dw, partial_dw, mask=mask)
    tl.store(db, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@case
def layer_norm_backward_with_locks(a: Arrays) -> Launch:
    x, dy, w = a.random("f32", 6, 100), a.random("f32", 6, 100), a.random("f32", 100)
    v, d, weight = values(x), values(dy), values(w)
    mu, r = v.mean(1), 1 / np.sqrt(v.var(1) + 1e-5)
    xhat, wdy = (v - mu[:, None]) * r[:, None], weight * d
    c1, c2 = ((xhat * wdy).mean(1)[:, None], wdy.mean(1)[:, None])
    dx = (wdy - (xhat * c1 + c2)) * r[:, None]
    dw = np.stack([(d * xhat)[g::2].sum(0) for g in range(2)])
    db = np.stack([d[g::2].sum(0) for g in range(2)])
    args = [a.output("f32", 6, 100), dy, a.output("f32", 2, 100), a.output("f32", 2, 100), x, w,
            stored(mu, "f32"), stored(r, "f32"), stored(np.zeros(4), "i32"), 100, 100]  # fmt: skip
    expected = {0: dx, 2: dw, 3: db}
    return Launch(layer_norm_dx, (6,), args, expected, {"GROUPS": 2, "BLOCK": 128})


@tawa.jit
def rms_norm_rows(x, w, y, rstd, N, eps, OFFSET: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    v = tl.load(x + row * N + cols, mask=mask, other=0).to(tl.float32)
    r = tl.math.rsqrt(tl.sum(v * v, axis=0) / N + eps)
    tl.store(rstd + row, r)
    weight = tl.load(w + cols, mask=mask, other=0)
    tl.store(y + row * N + cols, (v * r).to(y.dtype.element_ty) * (OFFSET + weight), mask=mask)


@case
def rms_norm(a: Arrays) -> Launch:
    x, w = a.random("bf16", 4, 200), a.random("bf16", 200)
    r = 1 / np.sqrt((values(x) ** 2).mean(1) + 1e-6)
    expected = values(x) * r[:, None] * (1 + values(w))
    args = [x, w, a.output("bf16", 4, 200), a.output("f32", 4), 200, 1e-6]
    constants = {"OFFSET": 1.0, "BLOCK": 256}
    return Launch(rms_norm_rows, (4,), args, {2: expected, 3: r}, constants, 1e-2)


@tawa.jit
def group_norm_kernel(
    x, y, w, b, C, S, GROUPS: tl.constexpr, eps, BC: tl.constexpr, BS: tl.constexpr
):
    batch, group = tl.program_id(0), tl.program_id(1)
    per = C // GROUPS
    c = tl.arange(0, BC)
    s = tl.arange(0, BS)
    mask = (c[:, None] < per) & (s[None, :] < S)
    at = (batch * C + group * per + c[:, None]) * S + s[None, :]
    v = tl.load(x + at, mask=mask, other=0.0)
    count = per * S
    mean = tl.sum(v) / count
    centred = tl.where(mask, v - mean, 0.0)
    var = tl.sum(centred * centred) / count
    channel = group * per + c
    inside = c < per
    weight = tl.load(w + channel, mask=inside, other=0.0)[:, None]
    bias = tl.load(b + channel, mask=inside, other=0.0)[:, None]
    tl.store(y + at, centred * tl.rsqrt(var + eps) * weight + bias, mask=mask)


@case
def group_norm(a: Arrays) -> Launch:
    x, w, b = a.random("f32", 2, 12, 50), a.random("f32", 12), a.random("f32", 12)
    g = values(x).reshape(2, 4, -1)
    n = (g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)
    expected = n.reshape(2, 12, 50) * values(w)[:, None] + values(b)[:, None]
    args = [x, a.output("f32", 2, 12, 50), w, b, 12, 50, 4, 1e-5]
    return Launch(group_norm_kernel, (2, 4), args, {1: expected}, {"BC": 4, "BS": 64})


@tawa.jit
def cross_entropy_rows(x, target, loss, stride, V, ignore, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    y = tl.load(target + row)
    x += row * stride
    if y == ignore:
        for i in range(0, V, BLOCK):
            cols = i + tl.arange(0, BLOCK)
            tl.store(x + cols, 0.0, mask=cols < V)
        tl.store(loss + row, 0.0)
        return
    m = float("-inf")
    d = 0.0
    chosen = tl.load(x + y).cast(tl.float32)
    scaled = 0.0
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        v = tl.load(x + cols, mask=cols < V, other=float("-inf")).cast(tl.float32)
        scaled += tl.sum(tl.where(cols < V, -smoothing / V * v, 0.0))
        new = tl.maximum(m, tl.max(v))
        d = d * tl.exp(m - new) + tl.sum(tl.exp(v - new))
        m = new
    lse = m + tl.log(d)
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        v = tl.load(x + cols, mask=cols < V, other=float("-inf")).cast(tl.float32)
        p = tl.exp(v - m) / d - smoothing / V
        p = tl.where(cols != y, p, p - (1 - smoothing))
        tl.store(x + cols, p, mask=cols < V)
    tl.debug_barrier()
    tl.store(loss + row, (lse - chosen) * (1 - smoothing) + scaled + smoothing * lse)


@case
def cross_entropy(a: Arrays) -> Launch:
    x = a.random("f32", 5, 200)
    y = np.array([3, 199, -100, 0, 77])
    v = values(x)
    lse = np.log(np.exp(v).sum(1))
    chosen = v[np.arange(5), y]
    loss = (lse - chosen) * 0.9 - 0.1 / 200 * v.sum(1) + 0.1 * lse
    grad = _softmax(v) - 0.1 / 200
    grad[np.arange(5), y] -= 0.9
    loss[2], grad[2] = 0, 0
    args = [x, stored(y, "i64"), a.output("f32", 5), 200, 200, -100, 0.1]
    return Launch(cross_entropy_rows, (5,), args, {0: grad, 2: loss}, {"BLOCK": 128})


@tawa.jit
def cumulate(x, y, n, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    v = tl.load(x + at, mask=inside, other=0.0)
    tl.store(y + at, tl.cumsum(v, 0, reverse=REVERSE), mask=inside)


@case
def cumulative_sum(a: Arrays) -> Launch:
    x = a.random("f32", 3, 500)
    args = [x, a.output("f32", 3, 500), 500]
    constants = {"BLOCK": 512, "REVERSE": False}
    return Launch(cumulate, (3,), args, {1: values(x).cumsum(1)}, constants)


@case
def cumulative_sum_from_the_end(a: Arrays) -> Launch:
    x = a.random("f32", 2, 100)
    args = [x, a.output("f32", 2, 100), 100]
    expected = values(x)[:, ::-1].cumsum(1)[:, ::-1]
    return Launch(cumulate, (2,), args, {1: expected}, {"BLOCK": 128, "REVERSE": True})


@tawa.jit
def chunk_cumsum(s, o, T, H: tl.constexpr, BT: tl.constexpr, S: tl.constexpr):
    block = tl.make_block_ptr(s, (T, S), (S, 1), (tl.program_id(0) * BT, 0), (BT, S), (1, 0))
    out = tl.make_block_ptr(o, (T, S), (S, 1), (tl.program_id(0) * BT, 0), (BT, S), (1, 0))
    v = tl.load(block, boundary_check=(0, 1)).to(tl.float32)
    tl.store(out, tl.cumsum(v, axis=0).to(out.dtype.element_ty), boundary_check=(0, 1))


@case
def chunked_cumulative_sum(a: Arrays) -> Launch:
    x = a.random("f32", 70, 16)
    v = values(x)
    expected = np.concatenate([v[i : i + 32].cumsum(0) for i in range(0, 70, 32)])
    args = [x, a.output("f32", 70, 16), 70]
    return Launch(chunk_cumsum, (3,), args, {1: expected}, {"H": 1, "BT": 32, "S": 16})


@tawa.jit
def combine_linear(a1, b1, a2, b2):
    return a1 * a2, a2 * b1 + b2


@tawa.jit
def linear_recurrence(a, b, h, T: tl.constexpr, D: tl.constexpr):
    at = tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    decay, value = tl.load(a + at), tl.load(b + at)
    _, state = tl.associative_scan((decay, value), 0, combine_linear)
    tl.store(h + at, state)


@case
def scan_of_a_recurrence(a: Arrays) -> Launch:
    decay, value = a.random("f32", 64, 16), a.random("f32", 64, 16)
    decay[...] = 1 / (1 + np.exp(-decay))
    dv, bv, state, rows = values(decay), values(value), np.zeros(16), []
    for t in range(64):
        state = dv[t] * state + bv[t]
        rows.append(state)
    args = [decay, value, a.output("f32", 64, 16)]
    return Launch(linear_recurrence, (1,), args, {2: np.stack(rows)}, {"T": 64, "D": 16})


@tawa.jit
def top_1(x, value, index, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + cols, mask=cols < n, other=-float("inf"))
    best, at = tl.max(v, axis=0, return_indices=True)
    tl.store(value + row, best)
    tl.store(index + row, at)


@case
def row_maximum_with_index(a: Arrays) -> Launch:
    x = a.random("f32", 5, 300)
    v = values(x)
    args = [x, a.output("f32", 5), a.output("i32", 5), 300]
    return Launch(top_1, (5,), args, {1: v.max(1), 2: v.argmax(1)}, {"BLOCK": 512})


@tawa.jit
def arg_columns(x, low, high, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(low + tl.arange(0, N), tl.argmin(v, axis=0))
    tl.store(high + tl.arange(0, M), tl.argmax(v, axis=1))


@case
def arguments_of_extremes(a: Arrays) -> Launch:
    x = a.random("i32", 32, 48)
    v = values(x)
    args = [x, a.output("i32", 48), a.output("i32", 32)]
    return Launch(arg_columns, (1,), args, {1: v.argmin(0), 2: v.argmax(1)}, {"M": 32, "N": 48})


@tawa.jit
def count_bins(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    found = tl.histogram(v, BINS, mask=at < n)
    tl.atomic_add(out + tl.arange(0, BINS), found, sem="relaxed")


@case
def histogram(a: Arrays) -> Launch:
    x = np.random.default_rng(4).integers(0, 16, 300)
    args = [stored(x, "i32"), stored(np.zeros(16), "i32"), 300]
    expected = np.bincount(x, minlength=16)
    return Launch(count_bins, (3,), args, {1: expected}, {"BINS": 16, "BLOCK": 128})


@tawa.jit
def sort_rows(x, y, N: tl.constexpr, DOWN: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + at, tl.sort(tl.load(x + at), descending=DOWN))


@case
def sorted_rows(a: Arrays) -> Launch:
    x = a.random("f32", 3, 64)
    args = [x, a.output("f32", 3, 64)]
    expected = -np.sort(-values(x), axis=1)
    return Launch(sort_rows, (3,), args, {1: expected}, {"N": 64, "DOWN": True})


@tawa.jit
def interleave_pairs(x, y, z, N: tl.constexpr):
    at = tl.arange(0, N)
    both = tl.interleave(tl.load(x + at), tl.load(y + at))
    even, odd = tl.split(tl.reshape(both * 2, (N, 2)))
    tl.store(z + tl.arange(0, 2 * N), both)
    tl.store(x + at, odd)
    tl.store(y + at, even)


@case
def interleaved(a: Arrays) -> Launch:
    x, y = a.random("f16", 128), a.random("f16", 128)
    xv, yv = values(x), values(y)
    expected = {0: 2 * yv, 1: 2 * xv, 2: np.stack([xv, yv], 1).reshape(-1)}
    return Launch(interleave_pairs, (1,), [x, y, a.output("f16", 256)], expected, {"N": 128})


@tawa.jit
def kl_rows(p, q, loss, stride, V, BLOCK: tl.constexpr, MEAN: tl.constexpr = True):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, V, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        mask = cols < V
        y = tl.load(p + row * stride + cols, mask=mask, other=0.0)
        x = tl.load(q + row * stride + cols, mask=mask, other=0.0)
        total += tl.where(y > 0, y * (tl.log(y) - x), 0.0)
    result = tl.sum(total, axis=0)
    if MEAN:
        result = result / V
    tl.store(loss + row, result)


@case
def divergence(a: Arrays) -> Launch:
    p, q = a.random("f32", 3, 150), a.random("f32", 3, 150)
    p[...] = _softmax(p)
    p[:, :9] = 0
    pv, qv = values(p), values(q)
    expected = np.where(pv > 0, pv * (np.log(np.where(pv > 0, pv, 1)) - qv), 0).sum(1) / 150
    return Launch(kl_rows, (3,), [p, q, a.output("f32", 3), 150, 150], {2: expected}, {"BLOCK": 64})


@tawa.jit
def welford_combine(m1, s1, w1, m2, s2, w2):
    delta = m2 - m1
    w = w1 + w2
    ratio = tl.where(w == 0.0, 0.0, w2 / w)
    return m1 + delta * ratio, s1 + s2 + delta * delta * w1 * ratio, w


@tawa.jit
def welford_rows(x, mean, var, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    v = tl.load(x + row * n + cols, mask=mask, other=0.0)
    weight = tl.where(mask, 1.0, 0.0)
    m, s, w = tl.reduce((v, tl.zeros_like(v), weight), 0, welford_combine)
    tl.store(mean + row, m)
    tl.store(var + row, s / w)


@case
def welford(a: Arrays) -> Launch:
    x = a.random("f32", 4, 200)
    v = values(x)
    args = [x, a.output("f32", 4), a.output("f32", 4), 200]
    return Launch(welford_rows, (4,), args, {1: v.mean(1), 2: v.var(1)}, {"BLOCK": 256})
