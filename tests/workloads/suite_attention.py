"""Attention and chunked recurrences through pointers and descriptors."""

from __future__ import annotations

from typing import Any

import numpy as np
from simulation import Arrays, block, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def attention_block(
    q_ptr, k_ptr, v_ptr, o_ptr, bias_ptr, sink_ptr, slopes, scale, Q, S,
    D: tl.constexpr, DV: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr = False, BIAS: tl.constexpr = False, SINK: tl.constexpr = False,
    ALIBI: tl.constexpr = False, SIGMOID: tl.constexpr = False,
):  # fmt: skip
    start, head = tl.program_id(0), tl.program_id(1)
    rows = start * BM + tl.arange(0, BM)
    d, dv = tl.arange(0, D), tl.arange(0, DV)
    at = (head * Q + rows[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + at, mask=rows[:, None] < Q, other=0.0)
    m = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    if SINK:
        m += tl.load(sink_ptr + head)
        m = tl.zeros([BM], tl.float32) + tl.load(sink_ptr + head)
        total += 1.0
    acc = tl.zeros([BM, DV], tl.float32)
    end = tl.minimum((start + 1) * BM, S) if CAUSAL else S
    for n in range(0, end, BN):
        cols = n + tl.arange(0, BN)
        inside = cols < S
        k = tl.load(
            k_ptr + (head * S + cols[None, :]) * D + d[:, None], mask=inside[None, :], other=0.0
        )
        s = tl.dot(q, k) * scale
        if BIAS:
            where = (rows[:, None] < Q) & inside[None, :]
            s += tl.load(bias_ptr + rows[:, None] * S + cols[None, :], mask=where, other=0.0)
        if ALIBI:
            s += tl.load(slopes + head) * (cols[None, :] - rows[:, None])
        keep = inside[None, :]
        if CAUSAL:
            keep = keep & (rows[:, None] >= cols[None, :])
        v = tl.load(
            v_ptr + (head * S + cols[:, None]) * DV + dv[None, :], mask=inside[:, None], other=0.0
        )
        if SIGMOID:
            p = tl.where(keep, tl.sigmoid(s), 0.0)
            acc = tl.dot(p.to(v.dtype), v, acc)
        else:
            s = tl.where(keep, s, float("-inf"))
            new = tl.maximum(m, tl.max(s, 1))
            p = tl.exp(s - new[:, None])
            alpha = tl.exp(m - new)
            total = total * alpha + tl.sum(p, 1)
            acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
            m = new
    if not SIGMOID:
        acc = acc / total[:, None]
    out = o_ptr + (head * Q + rows[:, None]) * DV + dv[None, :]
    tl.store(out, acc.to(o_ptr.dtype.element_ty), mask=rows[:, None] < Q)


def attend(
    a: Arrays,
    q: int,
    s: int,
    d: int,
    dv: int,
    tile: tuple[int, int],
    element: str = "f16",
    **on: Any,
) -> Launch:
    """Two heads with the features that `on` names."""
    Q, K, V = a.random(element, 2, q, d), a.random(element, 2, s, d), a.random(element, 2, s, dv)
    bias, sink, slopes = a.random("f32", q, s), a.random("f32", 2), a.random("f32", 2)
    slopes[...] = np.abs(slopes) / 20
    scores = values(Q) @ values(K).transpose(0, 2, 1) / np.sqrt(d)
    i, j = np.arange(q)[:, None], np.arange(s)
    if on.get("BIAS"):
        scores += values(bias)
    if on.get("ALIBI"):
        scores += values(slopes)[:, None, None] * (j - i)
    keep = (i >= j) if on.get("CAUSAL") else np.ones((q, s), bool)
    if on.get("SIGMOID"):
        p = np.where(keep, 1 / (1 + np.exp(-scores)), 0)
    else:
        e = np.where(keep, np.exp(scores), 0)
        rest = np.exp(values(sink))[:, None, None] if on.get("SINK") else 0
        p = e / (e.sum(-1, keepdims=True) + rest)
    args = [Q, K, V, a.output(element, 2, q, dv), bias, sink, slopes, d**-0.5, q, s]
    constants = {"D": d, "DV": dv, "BM": tile[0], "BN": tile[1], **on}
    grid = (tawa.cdiv(q, tile[0]), 2)
    return Launch(attention_block, grid, args, {3: p @ values(V)}, constants, 5e-3)


@case
def attention_with_bias(a: Arrays) -> Launch:
    return attend(a, 100, 150, 64, 64, (64, 64), BIAS=True)


@case
def attention_with_sinks(a: Arrays) -> Launch:
    return attend(a, 130, 130, 64, 64, (64, 32), CAUSAL=True, SINK=True)


@case
def sigmoid_attention(a: Arrays) -> Launch:
    return attend(a, 70, 70, 32, 32, (64, 64), SIGMOID=True, CAUSAL=True)


@case
def alibi_attention_rows_16(a: Arrays) -> Launch:
    return attend(a, 20, 90, 64, 64, (16, 32), ALIBI=True)


@case
def attention_of_wide_values(a: Arrays) -> Launch:
    return attend(a, 65, 70, 32, 128, (64, 32))


@case
def cross_attention_f32(a: Arrays) -> Launch:
    return attend(a, 30, 50, 32, 16, (32, 16), "f32")


@tawa.jit
def packed_qkv(qkv, o, S, scale, H: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    head = tl.program_id(1)
    row = tl.program_id(0) * BM
    q = qkv.load([row, head * D])
    m = tl.zeros([BM], tl.float32) - float("inf")
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for n in range(0, S, BN):
        k = qkv.load([n, (H + head) * D])
        s = tl.dot(q, k.T) * scale
        s = tl.where((n + tl.arange(0, BN))[None, :] < S, s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        alpha = tl.math.exp2(m - new)
        v = qkv.load([n, (2 * H + head) * D])
        total = total * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = new
    o.store([row, head * D], (acc / total[:, None]).to(o.dtype))


@case
def attention_of_packed_tensors(a: Arrays) -> Launch:
    x, out = a.random("f16", 100, 3 * 2 * 64), a.output("f16", 100, 128)
    q, k, v = values(x).reshape(100, 3, 2, 64).transpose(1, 2, 0, 3)
    e = np.exp(q @ k.transpose(0, 2, 1) / 8)
    o = (e / e.sum(-1, keepdims=True)) @ v
    args = [block(x, 64, 64), block(out, 64, 64), 100, 1.44269504 / 8]
    constants = {"H": 2, "D": 64, "BM": 64, "BN": 64}
    return Launch(
        packed_qkv, (2, 2), args, {1: o.transpose(1, 0, 2).reshape(100, 128)}, constants, 5e-3
    )


@tawa.jit
def retention_chunks(q, k, v, o, decay, T, D: tl.constexpr, DV: tl.constexpr, BT: tl.constexpr):
    head = tl.program_id(0)
    b = tl.math.log2(1 - tl.load(decay + head))
    t = tl.arange(0, BT)
    inner = tl.where(t[:, None] >= t[None, :], tl.math.exp2((t[:, None] - t[None, :]) * b), 0.0)
    carry = tl.math.exp2(BT * b)
    into = tl.math.exp2((t + 1) * b)
    out_of = tl.math.exp2((BT - t - 1) * b)
    state = tl.zeros([D, DV], tl.float32)
    for start in range(0, tl.cdiv(T, BT)):
        at = start * BT
        pq = tl.make_block_ptr(q + head * T * D, (T, D), (D, 1), (at, 0), (BT, D), (1, 0))
        pk = tl.make_block_ptr(k + head * T * D, (D, T), (1, D), (0, at), (D, BT), (0, 1))
        pv = tl.make_block_ptr(v + head * T * DV, (T, DV), (DV, 1), (at, 0), (BT, DV), (1, 0))
        po = tl.make_block_ptr(o + head * T * DV, (T, DV), (DV, 1), (at, 0), (BT, DV), (1, 0))
        bq = tl.load(pq, boundary_check=(0, 1))
        bk = tl.load(pk, boundary_check=(0, 1))
        bv = tl.load(pv, boundary_check=(0, 1))
        s = tl.dot(bq, bk) * inner
        y = tl.dot(s.to(bq.dtype), bv)
        y += tl.dot(bq, state.to(bq.dtype)) * into[:, None]
        state = carry * state + tl.dot(bk, (bv * out_of[:, None]).to(bk.dtype))
        tl.store(po, y.to(po.dtype.element_ty), boundary_check=(0, 1))


@case
def retention(a: Arrays) -> Launch:
    q, k, v = a.random("f16", 2, 130, 64), a.random("f16", 2, 130, 64), a.random("f16", 2, 130, 64)
    q[...], k[...] = q * 0.2, k * 0.2
    decay = a.random("f32", 2)
    decay[...] = [0.05, 0.2]
    expected = np.zeros((2, 130, 64))
    for h in range(2):
        state = np.zeros((64, 64))
        for t in range(130):
            state = (1 - values(decay)[h]) * state + np.outer(values(k)[h, t], values(v)[h, t])
            expected[h, t] = values(q)[h, t] @ state
    args = [q, k, v, a.output("f16", 2, 130, 64), decay, 130]
    return Launch(retention_chunks, (2,), args, {3: expected}, {"D": 64, "DV": 64, "BT": 64}, 5e-3)


@tawa.jit
def gated_state(k, v, g, h, T, D: tl.constexpr, BT: tl.constexpr):
    """States before each chunk: h = exp(g_last) h + k^T (v exp(g_last - g))."""
    d, t = tl.arange(0, D), tl.arange(0, BT)
    state = tl.zeros((D, D), tl.float32)
    for i in range(tl.cdiv(T, BT)):
        tl.store(h + i * D * D + d[:, None] * D + d[None, :], state)
        rows = i * BT + t
        inside = rows < T
        gate = tl.load(g + rows, mask=inside, other=0.0)
        sums = tl.cumsum(gate, axis=0)
        last = tl.sum(gate, axis=0)
        bk = tl.load(k + rows[None, :] * D + d[:, None], mask=inside[None, :], other=0.0)
        bv = tl.load(v + rows[:, None] * D + d[None, :], mask=inside[:, None], other=0.0)
        bv = (bv * tl.exp(last - sums)[:, None]).to(bk.dtype)
        state = state * tl.exp(last) + tl.dot(bk, bv)


@case
def gated_chunk_states(a: Arrays) -> Launch:
    k, v, g = a.random("f16", 100, 64), a.random("f16", 100, 64), a.random("f32", 100)
    g[...] = -np.abs(g) / 10
    kv, vv, gv = values(k), values(v), values(g)
    state, found = np.zeros((64, 64)), []
    for t in range(128):
        if t % 32 == 0:
            found.append(state)
        if t < 100:
            state = np.exp(gv[t]) * state + np.outer(kv[t], vv[t])
    args = [k, v, g, a.output("f32", 4, 64, 64), 100]
    return Launch(gated_state, (1,), args, {3: np.stack(found)}, {"D": 64, "BT": 32}, 3e-3)


@tawa.jit
def ssd_chunk_scan(x, dt, A, B, C, y, T, N: tl.constexpr, P: tl.constexpr, BT: tl.constexpr):
    chunk = tl.program_id(0) * BT
    t, n, p = tl.arange(0, BT), tl.arange(0, N), tl.arange(0, P)
    rows = chunk + t
    mask = rows < T
    step = tl.load(dt + rows, mask=mask, other=0.0)
    log = tl.cumsum(step * tl.load(A), axis=0)
    b = tl.load(B + rows[None, :] * N + n[:, None], mask=mask[None, :], other=0.0)
    c = tl.load(C + rows[:, None] * N + n[None, :], mask=mask[:, None], other=0.0)
    cb = tl.dot(c, b)
    cb *= tl.exp(log[:, None] - log[None, :]) * step[None, :]
    cb = tl.where(t[:, None] >= t[None, :], cb, 0.0)
    v = tl.load(x + rows[:, None] * P + p[None, :], mask=mask[:, None], other=0.0)
    tl.store(y + rows[:, None] * P + p[None, :], tl.dot(cb.to(v.dtype), v), mask=mask[:, None])


@case
def state_space_chunk(a: Arrays) -> Launch:
    x, B, C = a.random("bf16", 90, 32), a.random("bf16", 90, 16), a.random("bf16", 90, 16)
    dt, A = a.random("f32", 90), a.random("f32", 1)
    dt[...], A[...] = np.abs(dt) / 4, -0.5
    expected = np.zeros((90, 32))
    for start in range(0, 90, 64):
        state = np.zeros((16, 32))
        for t in range(start, min(90, start + 64)):
            d = values(dt)[t]
            state = np.exp(-0.5 * d) * state + d * np.outer(values(B)[t], values(x)[t])
            expected[t] = values(C)[t] @ state
    args = [x, dt, A, B, C, a.output("f32", 90, 32), 90]
    return Launch(ssd_chunk_scan, (2,), args, {5: expected}, {"N": 16, "P": 32, "BT": 64}, 1e-2)


@tawa.jit
def decode_split(q, k, v, o, lse, S, scale, SPLITS: tl.constexpr, G: tl.constexpr, D: tl.constexpr, BN: tl.constexpr):  # fmt: skip
    """Flash decoding: a group of query heads of one key head, a part of the keys a program."""
    part = tl.program_id(0)
    per = tl.cdiv(tl.cdiv(S, SPLITS), BN) * BN
    g, d = tl.arange(0, G), tl.arange(0, D)
    query = tl.load(q + g[:, None] * D + d[None, :])
    m = tl.full([G], float("-inf"), tl.float32)
    total = tl.zeros([G], tl.float32)
    acc = tl.zeros([G, D], tl.float32)
    for n in range(part * per, min((part + 1) * per, S), BN):
        cols = n + tl.arange(0, BN)
        keys = tl.load(k + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0)
        s = tl.dot(query, tl.trans(keys)) * scale
        s = tl.where(cols[None, :] < S, s, float("-inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        alpha = tl.exp(m - new)
        total = total * alpha + tl.sum(p, 1)
        vals = tl.load(v + cols[:, None] * D + d[None, :], mask=cols[:, None] < S, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(vals.dtype), vals)
        m = new
    tl.store(o + (part * G + g[:, None]) * D + d[None, :], acc / total[:, None])
    tl.store(lse + part * G + g, m + tl.log(total))


@case
def decoding_in_parts(a: Arrays) -> Launch:
    q, k, v = a.random("bf16", 16, 64), a.random("bf16", 150, 64), a.random("bf16", 150, 64)
    out, lse = [], []
    for part in range(2):
        rows = slice(part * 96, min(150, (part + 1) * 96))
        e = np.exp(values(q) @ values(k)[rows].T / 8)
        out.append(e @ values(v)[rows] / e.sum(1, keepdims=True))
        lse.append(np.log(e.sum(1)))
    args = [q, k, v, a.output("f32", 2, 16, 64), a.output("f32", 2, 16), 150, 0.125]
    constants = {"SPLITS": 2, "G": 16, "D": 64, "BN": 32}
    return Launch(decode_split, (2,), args, {3: np.stack(out), 4: np.stack(lse)}, constants, 1e-2)
