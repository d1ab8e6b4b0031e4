"""Kernels of serving: quantisation, sampling, caches, routing, gathers and scatters."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl
from tawa.base.numerics import round_to
from tawa.base.types import NAMES


def rounded(x: np.ndarray, element: str) -> np.ndarray:
    """Values of an element type."""
    return np.asarray(round_to(np.asarray(x, np.float32), NAMES[element]), np.float64)


@tawa.jit
def quantise_rows_int8(x, q, scales, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    v = tl.load(x + row * n + cols, mask=mask, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(v)), 1e-10)
    scale = largest / 127
    scaled = v * (127 / largest)
    rounded = tl.extra.libdevice.round(scaled).to(tl.int8)
    tl.store(q + row * n + cols, rounded, mask=mask)
    tl.store(scales + row, scale)


@case
def int8_of_rows(a: Arrays) -> Launch:
    x = a.random("bf16", 5, 300)
    v = values(x)
    largest = np.abs(v).max(1, keepdims=True)
    args = [x, a.output("i8", 5, 300), a.output("f32", 5), 300]
    z = v.astype(np.float32) * (np.float32(127) / largest.astype(np.float32))
    expected = {1: np.trunc(z + np.copysign(0.5, z)), 2: largest[:, 0] / 127}
    return Launch(quantise_rows_int8, (5,), args, expected, {"BLOCK": 512})


@tawa.jit
def quantise_groups_fp8(
    x,
    q,
    s,
    cols_n,
    stride,
    eps,
    fp8_min,
    fp8_max,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
    UE8M0: tl.constexpr,
):
    row = tl.program_id(0)
    first = tl.program_id(1) * GROUPS
    group = first + tl.arange(0, GROUPS)
    at = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    mask = at < cols_n
    v = tl.load(x + row * stride + at, mask=mask, other=0.0).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(v), axis=1), eps)
    scale = largest / fp8_max
    if UE8M0:
        scale = tl.exp2(tl.ceil(tl.log2(scale)))
    out = tl.clamp(v / scale[:, None], fp8_min, fp8_max).to(q.dtype.element_ty)
    tl.store(q + row * cols_n + at, out, mask=mask)
    tl.store(s + row * tl.cdiv(cols_n, GROUP) + group, scale, mask=group * GROUP < cols_n)


@case
def fp8_of_groups(a: Arrays) -> Launch:
    x = a.random("bf16", 3, 384)
    v = values(x).reshape(3, 6, 64)
    scale = 2 ** np.ceil(np.log2(np.abs(v).max(-1) / 448))
    args = [x, a.output("e4m3", 3, 384), a.output("f32", 3, 6), 384, 384, 1e-10, -448.0, 448.0]
    q = rounded(v / scale[..., None], "e4m3").reshape(3, 384)
    constants = {"GROUP": 64, "GROUPS": 4, "UE8M0": True}
    return Launch(quantise_groups_fp8, (3, 2), args, {1: q, 2: scale}, constants)


@tawa.jit
def dequantise_e5m2(q, s, y, M, N, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(s + tl.program_id(0) * tl.cdiv(N, BLOCK) + tl.program_id(1))
    at = m[:, None] * N + n[None, :]
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(y + at, tl.load(q + at, mask=mask).to(tl.float32) * scale, mask=mask)


@case
def dequantised_blocks(a: Arrays) -> Launch:
    q, s = a.random("e5m2", 50, 70), a.random("f32", 2, 3)
    wide = np.repeat(np.repeat(values(s), 32, 0), 32, 1)[:50, :70]
    args = [q, s, a.output("bf16", 50, 70), 50, 70]
    return Launch(dequantise_e5m2, (2, 3), args, {2: values(q) * wide}, {"BLOCK": 32}, 1e-2)


@tawa.jit
def reshape_and_cache(
    key,
    value,
    k_cache,
    v_cache,
    slots,
    k_scale,
    key_stride,
    block_size: tl.constexpr,
    heads: tl.constexpr,
    dim: tl.constexpr,
    FP8: tl.constexpr,
    TILE: tl.constexpr,
):
    token = tl.program_id(0)
    part = tl.program_id(1)
    offs = tl.arange(0, TILE)
    pos = part * TILE + offs
    slot = tl.load(slots + token).to(tl.int64)
    if slot < 0:
        return
    block = slot // block_size
    inside = slot % block_size
    mask = pos < heads * dim
    target = block * (block_size * heads * dim) + inside * (heads * dim) + pos
    k = tl.load(key + token * key_stride + pos, mask=mask)
    v = tl.load(value + token * key_stride + pos, mask=mask)
    if FP8:
        scale = tl.load(k_scale)
        k = (k / scale).to(k_cache.dtype.element_ty)
        v = (v / scale).to(k_cache.dtype.element_ty)
    tl.store(k_cache + target, k, mask=mask)
    tl.store(v_cache + target, v, mask=mask)


@case
def paged_cache_write(a: Arrays) -> Launch:
    k, v = a.random("bf16", 5, 2, 40), a.random("bf16", 5, 2, 40)
    slots = np.array([3, -1, 17, 0, 9])
    kc, vc = np.zeros((5, 4, 80)), np.zeros((5, 4, 80))
    for t, s in enumerate(slots):
        if s >= 0:
            kc[s // 4, s % 4], vc[s // 4, s % 4] = (
                rounded(values(k)[t].ravel() / 2, "e4m3"),
                rounded(values(v)[t].ravel() / 2, "e4m3"),
            )
    args = [
        k,
        v,
        stored(np.zeros((5, 4, 80)), "e4m3"),
        stored(np.zeros((5, 4, 80)), "e4m3"),
        stored(slots, "i64"),
        stored(np.array([2.0]), "f32"),
        80,
    ]
    constants = {"block_size": 4, "heads": 2, "dim": 40, "FP8": True, "TILE": 64}
    return Launch(reshape_and_cache, (5, 2), args, {2: kc, 3: vc}, constants)


@tawa.jit
def top_k_gating(
    logits, weights, ids, E, K: tl.constexpr, BLOCK: tl.constexpr, RENORM: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    v = tl.load(logits + row * E + cols, mask=cols < E, other=-float("inf")).to(tl.float32)
    v = v - tl.max(v, 0)
    e = tl.exp(v)
    p = e / tl.sum(e, 0)
    total = 0.0
    left = p
    for k in tl.static_range(K):
        best = tl.max(left, axis=0)
        at = tl.argmax(left, axis=0)
        total += best
        tl.store(weights + row * K + k, best)
        tl.store(ids + row * K + k, at)
        left = tl.where(cols == at, -1.0, left)
    if RENORM:
        tl.debug_barrier()
        ks = tl.arange(0, K)
        tl.store(weights + row * K + ks, tl.load(weights + row * K + ks) / total)


@case
def expert_selection(a: Arrays) -> Launch:
    order = np.argsort(np.random.default_rng(5).random((6, 50)), 1)
    v = order / 16.0
    x = stored(v, "bf16")
    p = np.exp(v - v.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    ids = np.argsort(-p, 1)[:, :4]
    w = np.take_along_axis(p, ids, 1)
    args = [x, a.output("f32", 6, 4), a.output("i32", 6, 4), 50]
    expected = {1: w / w.sum(1, keepdims=True), 2: ids}
    return Launch(top_k_gating, (6,), args, expected, {"K": 4, "BLOCK": 64, "RENORM": True})


@tawa.jit
def blockwise_argmax(x, vals, idx, N, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    cols = part * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + row * N + cols, mask=cols < N, other=float("-inf"))
    best, at = tl.max(v, axis=0, return_indices=True)
    tl.store(vals + row * tl.num_programs(1) + part, best)
    tl.store(idx + row * tl.num_programs(1) + part, at + part * BLOCK)


@case
def argmax_by_blocks(a: Arrays) -> Launch:
    x = a.random("f16", 3, 500)
    v = values(x)
    parts = [v[:, i : i + 128] for i in range(0, 500, 128)]
    args = [x, a.output("f32", 3, 4), a.output("i32", 3, 4), 500]
    expected = {
        1: np.stack([p.max(1) for p in parts], 1),
        2: np.stack([p.argmax(1) + 128 * i for i, p in enumerate(parts)], 1),
    }
    return Launch(blockwise_argmax, (3, 4), args, expected, {"BLOCK": 128, "num_warps": 2})


@tawa.jit
def top_p_mask(probs, out, N: tl.constexpr, p):
    row = tl.program_id(0)
    at = tl.arange(0, N)
    v = tl.load(probs + row * N + at)
    ordered = tl.sort(v, descending=True)
    total = tl.cumsum(ordered, axis=0)
    kept = tl.sum(((total - ordered) < p).to(tl.int32), axis=0)
    limit = tl.min(tl.where(tl.arange(0, N) < kept, ordered, 2.0), axis=0)
    chosen = tl.where(v >= limit, v, 0.0)
    tl.store(out + row * N + at, chosen / tl.sum(chosen))


@case
def nucleus(a: Arrays) -> Launch:
    x = a.random("f32", 3, 64)
    v = np.exp(values(x))
    v /= v.sum(1, keepdims=True)
    s = np.sort(v, 1)[:, ::-1]
    kept = ((s.cumsum(1) - s) < 0.7).sum(1)
    limit = np.take_along_axis(s, kept[:, None] - 1, 1)
    out = np.where(v >= limit - 1e-9, v, 0)
    args = [stored(v, "f32"), a.output("f32", 3, 64)]
    return Launch(
        top_p_mask, (3,), [*args], {1: out / out.sum(1, keepdims=True)}, {"N": 64, "p": 0.7}
    )


@tawa.jit
def gumbel_sample(logits, out, seeds, N, temperature, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    seed = tl.load(seeds + row)
    best = float("-inf")
    where = 0
    for i in range(0, N, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        v = tl.load(logits + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        u = tl.rand(seed, cols)
        noise = -tl.log(-tl.log(tl.maximum(u, 1e-20)) + 1e-20)
        v = v / temperature + noise
        top, at = tl.max(v, axis=0, return_indices=True)
        where = tl.where(top > best, at + i, where)
        best = tl.maximum(best, top)
    tl.store(out + row, where)


@case
def sampling(a: Arrays) -> Launch:
    from suite_training import philox

    x = a.random("f32", 4, 300)
    seeds = np.array([11, 2**40 + 5, 3, 99])
    u = np.stack([philox(int(s), np.arange(300)) for s in seeds])
    g = values(x) / 0.8 - np.log(-np.log(np.maximum(u, 1e-20)) + 1e-20)
    args = [x, a.output("i64", 4), stored(seeds, "i64"), 300, 0.8]
    return Launch(gumbel_sample, (4,), args, {1: g.argmax(1)}, {"BLOCK": 128})
