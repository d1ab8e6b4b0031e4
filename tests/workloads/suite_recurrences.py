"""Recurrences over sequences: delta rules, selective scans, chunks; and latent attention."""

from __future__ import annotations

import itertools

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def delta_rule_step(
    q, k, v, beta, h0, o, ht, T, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr
):
    """The gated delta rule, one token after the other; the state in registers."""
    i_v, i_h = tl.program_id(0), tl.program_id(1)
    kk, vv = tl.arange(0, K), i_v * BV + tl.arange(0, BV)
    h = tl.load(h0 + i_h * K * V + kk[:, None] * V + vv[None, :]).to(tl.float32)
    p_q = q + i_h * T * K + kk
    p_k = k + i_h * T * K + kk
    p_v = v + i_h * T * V + vv
    p_b = beta + i_h * T
    p_o = o + i_h * T * V + vv
    for _ in range(0, T):
        b_q = tl.load(p_q).to(tl.float32)
        b_k = tl.load(p_k).to(tl.float32)
        b_v = tl.load(p_v).to(tl.float32)
        b_k /= tl.sqrt(tl.sum(b_k * b_k) + 1e-6)
        b_v -= tl.sum(h * b_k[:, None], 0)
        b_v *= tl.load(p_b)
        h += b_k[:, None] * b_v[None, :]
        tl.store(p_o, tl.sum(h * b_q[:, None], 0).to(p_o.dtype.element_ty))
        p_q += K
        p_k += K
        p_v += V
        p_b += 1
        p_o += V
    tl.store(ht + i_h * K * V + kk[:, None] * V + vv[None, :], h)


@case
def gated_delta_rule(a: Arrays) -> Launch:
    H, T, K, V = 2, 12, 32, 32
    q, k, v = a.random("bf16", H, T, K), a.random("bf16", H, T, K), a.random("bf16", H, T, V)
    b, h0 = a.random("f32", H, T), a.random("f32", H, K, V)
    b[...] = np.abs(b) / 4
    h, o = values(h0).copy(), np.zeros((H, T, V))
    for t in range(T):
        kt = values(k)[:, t]
        kt = kt / np.sqrt((kt**2).sum(-1, keepdims=True) + 1e-6)
        d = values(b)[:, t, None] * (values(v)[:, t] - np.einsum("hkv,hk->hv", h, kt))
        h += kt[:, :, None] * d[:, None, :]
        o[:, t] = np.einsum("hkv,hk->hv", h, values(q)[:, t])
    args = [q, k, v, b, h0, a.output("bf16", H, T, V), a.output("f32", H, K, V), T]
    return Launch(
        delta_rule_step,
        (2, H),
        args,
        {5: o, 6: h},
        {"K": K, "V": V, "BV": 16, "num_warps": 1},
        5e-3,
    )


@tawa.jit
def solve_lower(A, Ai, T, BT: tl.constexpr):
    """The inverse of I + A for strictly lower A, row by row (of WY forms)."""
    i = tl.program_id(0)
    o = tl.arange(0, BT)
    base = i * BT * BT
    b = -tl.load(A + base + o[:, None] * BT + o[None, :])
    b = tl.where(o[:, None] > o[None, :], b, 0.0)
    for r in range(1, BT):
        row = tl.sum(tl.where((o == r)[:, None], b, 0.0), 0)
        row = row + tl.sum(row[:, None] * b, 0) * (o < r)
        b = tl.where((o == r)[:, None], row, b)
    b += o[:, None] == o[None, :]
    tl.store(Ai + base + o[:, None] * BT + o[None, :], b)


@case
def inverse_of_unit_lower(a: Arrays) -> Launch:
    x = a.random("f32", 3, 16, 16)
    x[...] = x / 4
    inv = np.linalg.inv(np.eye(16) + np.tril(values(x), -1))
    return Launch(
        solve_lower, (3,), [x, a.output("f32", 3, 16, 16), 16], {1: inv}, {"BT": 16, "num_warps": 1}
    )


@tawa.jit
def selective_step(
    state,
    x,
    dt,
    dt_bias,
    A,
    B,
    C,
    D,
    z,
    out,
    dim,
    N: tl.constexpr,
    BD: tl.constexpr,
    SOFTPLUS: tl.constexpr,
):
    """One step of mamba's selective scan."""
    batch = tl.program_id(1)
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    n = tl.arange(0, N)
    mask = d < dim
    at = batch * dim * N + d[:, None] * N + n[None, :]
    s = tl.load(state + at, mask=mask[:, None], other=0.0)
    v = tl.load(x + batch * dim + d, mask=mask, other=0.0).to(tl.float32)
    t = tl.load(dt + batch * dim + d, mask=mask, other=0.0).to(tl.float32)
    t += tl.load(dt_bias + d, mask=mask, other=0.0).to(tl.float32)
    if SOFTPLUS:
        t = tl.where(t <= 20.0, tl.math.log(tl.math.exp(t) + 1), t)
    da = tl.exp(
        tl.load(A + d[:, None] * N + n[None, :], mask=mask[:, None], other=0.0) * t[:, None]
    )
    b = tl.load(B + batch * N + n).to(tl.float32)
    c = tl.load(C + batch * N + n).to(tl.float32)
    s = s * da + (b[None, :] * t[:, None]) * v[:, None]
    tl.store(state + at, s, mask=mask[:, None])
    y = tl.sum(s * c[None, :], axis=1) + v * tl.load(D + d, mask=mask, other=0.0)
    g = tl.load(z + batch * dim + d, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + batch * dim + d, y * (g * tl.sigmoid(g)), mask=mask)


@case
def selective_state_update(a: Arrays) -> Launch:
    s, x, dt, bias = (
        a.random("f32", 2, 50, 16),
        a.random("bf16", 2, 50),
        a.random("bf16", 2, 50),
        a.random("f32", 50),
    )
    A, B, C, D, z = (
        a.random("f32", 50, 16),
        a.random("bf16", 2, 16),
        a.random("bf16", 2, 16),
        a.random("f32", 50),
        a.random("bf16", 2, 50),
    )
    A[...] = -np.abs(A)
    t = np.log1p(np.exp(values(dt) + values(bias)))
    new = (
        values(s) * np.exp(values(A) * t[..., None])
        + (values(B)[:, None] * t[..., None]) * values(x)[..., None]
    )
    g = values(z)
    y = ((new * values(C)[:, None]).sum(-1) + values(x) * values(D)) * g / (1 + np.exp(-g))
    args = [s, x, dt, bias, A, B, C, D, z, a.output("f32", 2, 50), 50]
    return Launch(
        selective_step, (4, 2), args, {0: new, 9: y}, {"N": 16, "BD": 16, "SOFTPLUS": True}
    )


@tawa.jit
def first_order(fl, xl, fr, xr):
    return fr * fl, fr * xl + xr


@tawa.jit
def scan_blocks(gates, tokens, out, last, T, C, BT: tl.constexpr, BC: tl.constexpr):
    """A linear recurrence over long rows: blocks of time in a loop, the state carried."""
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    state = tl.zeros((BC,), tl.float32)
    for t0 in range(0, T, BT):
        t = t0 + tl.arange(0, BT)
        at = t[:, None] * C + c[None, :]
        mask = (t < T)[:, None] & (c < C)[None, :]
        g = tl.load(gates + at, mask=mask, other=1.0)
        x = tl.load(tokens + at, mask=mask, other=0.0)
        f, y = tl.associative_scan((g, x), axis=0, combine_fn=first_order)
        y += f * state[None, :]
        tl.store(out + at, y, mask=mask)
        state = tl.sum(tl.where((tl.arange(0, BT) == BT - 1)[:, None], y, 0.0), axis=0)
    tl.store(last + c, state, mask=c < C)


@case
def recurrence_over_blocks(a: Arrays) -> Launch:
    g, x = a.random("f32", 70, 20), a.random("f32", 70, 20)
    g[...] = 1 / (1 + np.exp(-g))
    s, rows = np.zeros(20), []
    for t in range(70):
        s = values(g)[t] * s + values(x)[t]
        rows.append(s)
    args = [g, x, a.output("f32", 70, 20), a.output("f32", 20), 70, 20]
    return Launch(scan_blocks, (2,), args, {2: np.stack(rows), 3: s}, {"BT": 32, "BC": 16})


@tawa.jit
def chunk_linear_attention(
    q,
    k,
    v,
    h,
    o,
    scale,
    T,
    K: tl.constexpr,
    V: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
):
    i_v, i_t, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    NT = tl.cdiv(T, BT)
    o_i = tl.arange(0, BT)
    causal = o_i[:, None] >= o_i[None, :]
    b_o = tl.zeros([BT, BV], dtype=tl.float32)
    b_s = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        p_q = tl.make_block_ptr(
            q + i_bh * T * K, (T, K), (K, 1), (i_t * BT, i_k * BK), (BT, BK), (1, 0)
        )
        p_k = tl.make_block_ptr(
            k + i_bh * T * K, (K, T), (1, K), (i_k * BK, i_t * BT), (BK, BT), (0, 1)
        )
        p_h = tl.make_block_ptr(
            h + (i_bh * NT + i_t) * K * V, (K, V), (V, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0)
        )
        b_q = tl.load(p_q, boundary_check=(0, 1))
        b_q = (b_q * scale).to(b_q.dtype)
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_h = tl.load(p_h, boundary_check=(0, 1))
        b_o += tl.dot(b_q, b_h, allow_tf32=False)
        b_s += tl.dot(b_q, b_k, allow_tf32=False)
    b_s = tl.where(causal, b_s, 0)
    p_v = tl.make_block_ptr(
        v + i_bh * T * V, (T, V), (V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0)
    )
    b_v = tl.load(p_v, boundary_check=(0, 1))
    b_o = b_o + tl.dot(b_s.to(b_v.dtype), b_v, allow_tf32=False)
    p_o = tl.make_block_ptr(
        o + i_bh * T * V, (T, V), (V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0)
    )
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))


@case
def chunks_of_linear_attention(a: Arrays) -> Launch:
    q, k, v, h = (
        a.random("bf16", 2, 90, 64),
        a.random("bf16", 2, 90, 64),
        a.random("bf16", 2, 90, 64),
        a.random("bf16", 2, 3, 64, 64),
    )
    Q = values(q) / 8
    o = np.zeros((2, 90, 64))
    for c in range(3):
        r = slice(c * 32, min(90, c * 32 + 32))
        s = np.tril(np.einsum("htd,hsd->hts", Q[:, r], values(k)[:, r]))
        o[:, r] = Q[:, r] @ values(h)[:, c] + s @ values(v)[:, r]
    args = [q, k, v, h, a.output("bf16", 2, 90, 64), 0.125, 90]
    constants = {"K": 64, "V": 64, "BT": 32, "BK": 32, "BV": 32, "num_warps": 2}
    return Launch(chunk_linear_attention, (2, 3, 2), args, {4: o}, constants, 1e-2)


@tawa.jit
def varlen_attention(
    q,
    k,
    v,
    o,
    starts,
    scale,
    HEADS: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """Sequences of several lengths, packed: (total, heads, D)."""
    block, seq_head = tl.program_id(0), tl.program_id(1)
    seq, head = seq_head // HEADS, seq_head % HEADS
    begin = tl.load(starts + seq)
    n = tl.load(starts + seq + 1) - begin
    if block * BM >= n:
        return
    m = block * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    row = (begin + m[:, None]) * HEADS * D + head * D + d[None, :]
    query = tl.load(q + row, mask=m[:, None] < n, other=0.0)
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.full((BM,), 0.0, tl.float32)
    end = tl.minimum(n, (block + 1) * BM) if CAUSAL else n
    for s0 in range(0, end, BN):
        c = s0 + tl.arange(0, BN)
        at = (begin + c) * HEADS * D + head * D
        keys = tl.load(k + at[None, :] + d[:, None], mask=c[None, :] < n, other=0.0)
        s = tl.dot(query, keys) * scale
        ok = c[None, :] < n
        if CAUSAL:
            ok = ok & (c[None, :] <= m[:, None])
        s = tl.where(ok, s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        a = tl.exp(top - new)
        total = total * a + tl.sum(p, 1)
        vals = tl.load(v + at[:, None] + d[None, :], mask=c[:, None] < n, other=0.0)
        acc = acc * a[:, None] + tl.dot(p.to(vals.dtype), vals)
        top = new
    tl.store(o + row, (acc / total[:, None]).to(o.dtype.element_ty), mask=m[:, None] < n)


@case
def attention_of_packed_sequences(a: Arrays) -> Launch:
    starts = np.array([0, 70, 75, 140])
    q, k, v = (a.random("f16", 140, 2, 64) for _ in range(3))
    e = np.zeros((140, 2, 64))
    for s, t in itertools.pairwise(starts):
        x = np.einsum("thd,shd->hts", values(q)[s:t], values(k)[s:t]) / 8
        x = np.where(np.tril(np.ones((t - s, t - s), bool)), np.exp(x), 0)
        e[s:t] = np.einsum("hts,shd->thd", x / x.sum(-1, keepdims=True), values(v)[s:t])
    args = [q, k, v, a.output("f16", 140, 2, 64), stored(starts, "i32"), 0.125]
    constants = {"HEADS": 2, "D": 64, "BM": 64, "BN": 32, "CAUSAL": True}
    return Launch(varlen_attention, (2, 6), args, {3: e}, constants, 3e-3)


@tawa.jit
def mla_decode(
    q, kv, o, n, scale, H: tl.constexpr, DC: tl.constexpr, DR: tl.constexpr, BN: tl.constexpr
):
    """Latent attention: keys are a latent and a rotary part; values are the latent."""
    h, c, r = tl.arange(0, H), tl.arange(0, DC), DC + tl.arange(0, DR)
    W: tl.constexpr = DC + DR
    qc = tl.load(q + h[:, None] * W + c[None, :])
    qr = tl.load(q + h[:, None] * W + r[None, :])
    top = tl.zeros([H], tl.float32) - float("inf")
    total = tl.zeros([H], tl.float32)
    acc = tl.zeros([H, DC], tl.float32)
    for s0 in range(0, n, BN):
        t = s0 + tl.arange(0, BN)
        kc = tl.load(kv + t[None, :] * W + c[:, None], mask=t[None, :] < n, other=0.0)
        kr = tl.load(kv + t[None, :] * W + r[:, None], mask=t[None, :] < n, other=0.0)
        s = tl.dot(qc, kc.to(qc.dtype))
        s += tl.dot(qr, kr.to(qr.dtype))
        s *= scale
        s = tl.where(t[None, :] < n, s, float("-inf"))
        new = tl.maximum(tl.max(s, 1), top)
        re = tl.exp(top - new)
        p = tl.exp(s - new[:, None])
        acc *= re[:, None]
        acc += tl.dot(p.to(kc.dtype), tl.trans(kc))
        total = total * re + tl.sum(p, 1)
        top = new
    tl.store(o + h[:, None] * DC + c[None, :], acc / total[:, None])


@case
def latent_attention(a: Arrays) -> Launch:
    q, kv = a.random("bf16", 16, 160), a.random("bf16", 70, 160)
    s = np.exp(values(q) @ values(kv).T / 12)
    e = s @ values(kv)[:, :128] / s.sum(1, keepdims=True)
    args = [q, kv, a.output("f32", 16, 128), 70, 1 / 12]
    return Launch(mla_decode, (1,), args, {2: e}, {"H": 16, "DC": 128, "DR": 32, "BN": 32}, 1e-2)


@tawa.jit
def inverse_by_rows(a, o, n, S: tl.constexpr):
    """Row after row of `(1 + A)^-1`, A strictly lower triangular; two blocks and the one below."""
    r, at = tl.arange(0, S), a + tl.program_id(0) * 4 * S * S
    places = r[:, None] * 2 * S + r[None, :]
    lower = r[:, None] > r[None, :]
    first = tl.where(lower, -tl.load(at + places), 0.0)
    last = tl.where(lower, -tl.load(at + places + 2 * S * S + S), 0.0)
    for i in range(1, tl.minimum(S, n)):
        row = tl.sum(tl.where((r == i)[:, None], first, 0.0), 0)
        row = row + tl.sum(row[:, None] * first, 0)
        first = tl.where((r == i)[:, None], row, first)
    for i in range(1, tl.minimum(S, n)):
        row = tl.sum(tl.where((r == i)[:, None], last, 0.0), 0)
        row = row + tl.sum(row[:, None] * last, 0)
        last = tl.where((r == i)[:, None], row, last)
    one = r[:, None] == r[None, :]
    first, last = tl.where(one, 1.0, first), tl.where(one, 1.0, last)
    below = tl.load(at + places + 2 * S * S)
    below = tl.dot(last, below, input_precision="ieee")
    below = -tl.dot(below, first, input_precision="ieee")
    out = o + tl.program_id(0) * 4 * S * S + places
    tl.store(out, first)
    tl.store(out + S, tl.zeros([S, S], tl.float32))
    tl.store(out + 2 * S * S, below)
    tl.store(out + 2 * S * S + S, last)


@case
def inverse_of_triangular_blocks(a: Arrays) -> Launch:
    x = a.random("f32", 3, 32, 32)
    x[...] = x / 4
    inverse = np.linalg.inv(np.eye(32) + np.tril(values(x), -1))
    return Launch(
        inverse_by_rows,
        (3,),
        [x, a.output("f32", 3, 32, 32), 16],
        {1: inverse},
        {"S": 16, "num_warps": 1},
        tolerance=1e-5,
    )
