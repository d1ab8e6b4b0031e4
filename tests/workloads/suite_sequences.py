"""Attention, decoding and state-space kernels as people write them."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def combine_splits(o_parts, lse_parts, o, S, D: tl.constexpr, SPLITS: tl.constexpr):
    """The second kernel of flash decoding."""
    row = tl.program_id(0)
    d = tl.arange(0, D)
    m = -float("inf")
    total = 0.0
    acc = tl.zeros([D], tl.float32)
    for i in range(0, SPLITS):
        lse = tl.load(lse_parts + row * SPLITS + i)
        v = tl.load(o_parts + (row * SPLITS + i) * D + d)
        new = tl.maximum(lse, m)
        old_scale = tl.exp(m - new)
        acc *= old_scale
        e = tl.exp(lse - new)
        acc += e * v
        total = total * old_scale + e
        m = new
    tl.store(o + row * D + d, acc / total)


@case
def combined_parts_of_decoding(a: Arrays) -> Launch:
    o, lse = a.random("f32", 6, 5, 64), a.random("f32", 6, 5)
    w = np.exp(values(lse))
    w /= w.sum(1, keepdims=True)
    args = [o, lse, a.output("bf16", 6, 64), 5]
    return Launch(
        combine_splits,
        (6,),
        args,
        {2: (values(o) * w[..., None]).sum(1)},
        {"D": 64, "SPLITS": 5, "num_warps": 2},
        5e-3,
    )


@tawa.jit
def paged_decode(
    q, k_cache, v_cache, table, lens, o, scale, stride_q, stride_table,
    HEADS_KV: tl.constexpr, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """One token a sequence, pages by a table; a program has a group of query heads."""
    seq, kv = tl.program_id(0), tl.program_id(1)
    g, d, p = tl.arange(0, GP), tl.arange(0, D), tl.arange(0, PAGE)
    heads = kv * G + g
    query = tl.load(
        q + seq * stride_q + heads[:, None] * D + d[None, :], mask=g[:, None] < G, other=0.0
    )
    n = tl.load(lens + seq)
    m = tl.full([GP], -1e30, tl.float32)
    total = tl.zeros([GP], tl.float32)
    acc = tl.zeros([GP, D], tl.float32)
    for j in range(0, tl.cdiv(n, PAGE)):
        page = tl.load(table + seq * stride_table + j).to(tl.int64)
        base = (page * PAGE + p) * HEADS_KV * D + kv * D
        inside = j * PAGE + p < n
        keys = tl.load(k_cache + base[None, :] + d[:, None], mask=inside[None, :], other=0.0)
        s = tl.dot(query, keys) * scale
        s = tl.where(inside[None, :], s, float("-inf"))
        new = tl.maximum(m, tl.max(s, axis=1))
        alpha = tl.exp2((m - new) * 1.44269504)
        e = tl.exp2((s - new[:, None]) * 1.44269504)
        total = total * alpha + tl.sum(e, axis=1)
        vals = tl.load(v_cache + base[:, None] + d[None, :], mask=inside[:, None], other=0.0)
        acc = acc * alpha[:, None]
        acc += tl.dot(e.to(vals.dtype), vals)
        m = new
    out = acc / total[:, None]
    tl.store(
        o + seq * stride_q + heads[:, None] * D + d[None, :],
        out.to(o.dtype.element_ty),
        mask=g[:, None] < G,
    )


@case
def paged_attention(a: Arrays) -> Launch:
    q = a.random("bf16", 3, 6, 64)
    k, v = a.random("bf16", 9, 16, 2, 64), a.random("bf16", 9, 16, 2, 64)
    table = np.array([[3, 1, 7], [0, 8, 2], [5, 4, 6]])
    lens = np.array([40, 16, 5])
    e = np.zeros((3, 6, 64))
    for s in range(3):
        keys = values(k)[table[s]].reshape(-1, 2, 64)[: lens[s]]
        vals = values(v)[table[s]].reshape(-1, 2, 64)[: lens[s]]
        for h in range(6):
            w = np.exp(keys[:, h // 3] @ values(q)[s, h] / 8)
            e[s, h] = w @ vals[:, h // 3] / w.sum()
    args = [
        q,
        k,
        v,
        stored(table, "i32"),
        stored(lens, "i32"),
        a.output("bf16", 3, 6, 64),
        0.125,
        6 * 64,
        3,
    ]
    constants = {"HEADS_KV": 2, "G": 3, "GP": 16, "D": 64, "PAGE": 16}
    return Launch(paged_decode, (3, 2), args, {5: e}, constants, 1e-2)


@tawa.jit
def window_attention(
    Q, K, V, Sink, Out, scale, T, WINDOW: tl.constexpr, HAS_SINK: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, D: tl.constexpr, STAGE: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    base = head.to(tl.int64) * T * D
    m_offs = start_m * BM + tl.arange(0, BM)
    n_offs = tl.arange(0, BN)
    d = tl.arange(0, D)
    q = tl.load(Q + base + m_offs[:, None] * D + d[None, :], mask=m_offs[:, None] < T, other=0.0)
    if HAS_SINK:
        sink = tl.load(Sink + head) * 1.44269504
        m_i = tl.zeros([BM], dtype=tl.float32) + sink
        l_i = tl.full([BM], 1.0, dtype=tl.float32)
    else:
        m_i = tl.zeros([BM], dtype=tl.float32) - float("inf")
        l_i = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    lo = tl.maximum(0, start_m * BM - WINDOW + 1) // BN * BN
    hi = tl.minimum((start_m + 1) * BM, T)
    qk_scale = scale * 1.44269504
    for start_n in range(lo, hi, BN):
        start_n = tl.multiple_of(start_n, BN)
        cols = start_n + n_offs
        k = tl.load(K + base + cols[None, :] * D + d[:, None], mask=cols[None, :] < T, other=0.0)
        qk = tl.dot(q, k) * qk_scale
        mask = (cols[None, :] <= m_offs[:, None]) & (m_offs[:, None] - cols[None, :] < WINDOW)
        qk = tl.where(mask, qk, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V + base + cols[:, None] * D + d[None, :], mask=cols[:, None] < T, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
    acc = acc / l_i[:, None]
    tl.store(
        Out + base + m_offs[:, None] * D + d[None, :],
        acc.to(Out.type.element_ty),
        mask=m_offs[:, None] < T,
    )


@case
def window_attention_with_sinks(a: Arrays) -> Launch:
    q, k, v, sink = (
        a.random("bf16", 2, 150, 64),
        a.random("bf16", 2, 150, 64),
        a.random("bf16", 2, 150, 64),
        a.random("f32", 2),
    )
    s = np.einsum("htd,hsd->hts", values(q), values(k)) / 8
    t = np.arange(150)
    ok = (t[None, :] <= t[:, None]) & (t[:, None] - t[None, :] < 40)
    w = np.where(ok, np.exp(s), 0)
    o = (
        np.einsum("hts,hsd->htd", w, values(v))
        / (w.sum(-1) + np.exp(values(sink))[:, None])[..., None]
    )
    args = [q, k, v, sink, a.output("bf16", 2, 150, 64), 0.125, 150]
    constants = {"WINDOW": 40, "HAS_SINK": True, "BM": 64, "BN": 32, "D": 64, "STAGE": 1}
    return Launch(window_attention, (3, 2), args, {4: o}, constants, 1e-2)


@tawa.jit
def attention_dkdv(
    Q, K, V, DO, LSE, Delta, DK, DV, scale, T, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    """The backward pass for keys and values of a block."""
    head = tl.program_id(1)
    base = head * T * D
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    d = tl.arange(0, D)
    k = tl.load(K + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
    v = tl.load(V + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    for start in range(tl.program_id(0) * BN // BM * BM, T, BM):
        m = start + tl.arange(0, BM)
        rows = m < T
        q = tl.load(Q + base + m[:, None] * D + d[None, :], mask=rows[:, None], other=0.0)
        do = tl.load(DO + base + m[:, None] * D + d[None, :], mask=rows[:, None], other=0.0)
        lse = tl.load(LSE + head * T + m, mask=rows, other=0.0)
        delta = tl.load(Delta + head * T + m, mask=rows, other=0.0)
        st = tl.dot(k, tl.trans(q)) * scale
        pt = tl.exp(st - lse[None, :])
        pt = tl.where((m[None, :] >= n[:, None]) & rows[None, :], pt, 0.0)
        dv += tl.dot(pt.to(do.dtype), do)
        dpt = tl.dot(v, tl.trans(do))
        dst = pt * (dpt - delta[None, :])
        dk += tl.dot(dst.to(q.dtype), q)
    tl.store(DV + base + n[:, None] * D + d[None, :], dv, mask=n[:, None] < T)
    tl.store(DK + base + n[:, None] * D + d[None, :], dk * scale, mask=n[:, None] < T)


@tawa.jit
def attention_dq(
    Q, K, V, DO, LSE, Delta, DQ, scale, T, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr
):
    head = tl.program_id(1)
    base = head * T * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    rows = m < T
    q = tl.load(Q + base + m[:, None] * D + d[None, :], mask=rows[:, None], other=0.0)
    do = tl.load(DO + base + m[:, None] * D + d[None, :], mask=rows[:, None], other=0.0)
    lse = tl.load(LSE + head * T + m, mask=rows, other=0.0)
    delta = tl.load(Delta + head * T + m, mask=rows, other=0.0)
    dq = tl.zeros([BM, D], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        n = start + tl.arange(0, BN)
        kt = tl.load(K + base + n[None, :] * D + d[:, None], mask=n[None, :] < T, other=0.0)
        vt = tl.load(V + base + n[None, :] * D + d[:, None], mask=n[None, :] < T, other=0.0)
        s = tl.dot(q, kt) * scale
        p = tl.where(m[:, None] >= n[None, :], tl.exp(s - lse[:, None]), 0.0)
        ds = p * (tl.dot(do, vt) - delta[:, None])
        dq += tl.dot(ds.to(kt.dtype), tl.trans(kt))
    tl.store(DQ + base + m[:, None] * D + d[None, :], dq * scale, mask=rows[:, None])


def _backward(a: Arrays):
    q, k, v, do = (a.random("f16", 2, 100, 64) for _ in range(4))
    Q, K, V, G = map(values, (q, k, v, do))
    s = np.einsum("htd,hsd->hts", Q, K) / 8
    s = np.where(np.tril(np.ones((100, 100), bool)), s, -np.inf)
    lse = np.log(np.exp(s).sum(-1))
    p = np.exp(s - lse[..., None])
    o = p @ V
    delta = (o * G).sum(-1)
    ds = p * (G @ V.transpose(0, 2, 1) - delta[..., None])
    return (q, k, v, do, stored(lse, "f32"), stored(delta, "f32")), (
        ds @ K / 8,
        ds.transpose(0, 2, 1) @ Q / 8,
        p.transpose(0, 2, 1) @ G,
    )


@case
def attention_backward_of_keys(a: Arrays) -> Launch:
    args, (_, dk, dv) = _backward(a)
    arrays = [*args, a.output("f32", 2, 100, 64), a.output("f32", 2, 100, 64), 0.125, 100]
    return Launch(
        attention_dkdv, (2, 2), arrays, {6: dk, 7: dv}, {"BM": 32, "BN": 64, "D": 64}, 3e-3
    )


@case
def attention_backward_of_queries(a: Arrays) -> Launch:
    args, (dq, _, _) = _backward(a)
    arrays = [*args, a.output("f32", 2, 100, 64), 0.125, 100]
    return Launch(
        attention_dq, (2, 2), arrays, {6: dq}, {"BM": 64, "BN": 32, "D": 64, "num_warps": 8}, 3e-3
    )


@tawa.jit
def attention_delta(OUT, DO, Delta, T, D: tl.constexpr, BM: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1)
    d = tl.arange(0, D)
    at = head * D * T + m[:, None] * D + d[None, :]
    o = tl.load(OUT + at, mask=m[:, None] < T, other=0.0)
    do = tl.load(DO + at, mask=m[:, None] < T, other=0.0).to(tl.float32)
    tl.store(Delta + head * T + m, tl.sum(o * do, axis=1), mask=m < T)


@case
def attention_backward_sums(a: Arrays) -> Launch:
    o, g = a.random("f16", 2, 90, 64), a.random("f16", 2, 90, 64)
    return Launch(
        attention_delta,
        (3, 2),
        [o, g, a.output("f32", 2, 90), 90],
        {2: (values(o) * values(g)).sum(-1)},
        {"D": 64, "BM": 32},
    )
