"""Kernels that pack, count, select and reorder: bits, scans, sorts, transposes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case
from suite_serving import rounded

import tawa
import tawa.language as tl


@tawa.jit
def unpack_int4(q, scales, zeros, y, K, N, GROUP: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr):
    """Eight 4-bit values a word along K, with scales and zero points of groups: to f16."""
    k8 = tl.program_id(0) * (BK // 8) + tl.arange(0, BK // 8)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    words = tl.load(q + k8[:, None] * N + n[None, :], mask=(n < N)[None, :], other=0)
    shift = tl.arange(0, 8) * 4
    nibbles = (words[:, None, :] >> shift[None, :, None]) & 15
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    group = tl.program_id(0) * BK // GROUP
    s = tl.load(scales + group * N + n, mask=n < N, other=0.0)
    z = tl.load(zeros + group * N + n, mask=n < N, other=0.0)
    values_ = tl.reshape(nibbles, (BK, BN)).to(tl.float16)
    out = (values_ - z[None, :]) * s[None, :]
    tl.store(y + k[:, None] * N + n[None, :], out, mask=(n < N)[None, :])


@case
def unpacked_int4(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    v = rng.integers(0, 16, (64, 40))
    words = (
        (
            v.reshape(8, 8, 40).astype(np.uint32)
            << (4 * np.arange(8, dtype=np.uint32))[None, :, None]
        )
        .sum(1)
        .astype(np.uint32)
    )
    s, z = a.random("f16", 2, 40), stored(rng.integers(0, 16, (2, 40)), "f16")
    y = (v - np.repeat(values(z), 32, 0)) * np.repeat(values(s), 32, 0)
    args = [stored(words.view(np.int32), "i32"), s, z, a.output("f16", 64, 40), 64, 40]
    return Launch(unpack_int4, (2, 1), args, {3: y}, {"GROUP": 32, "BK": 32, "BN": 64}, 2e-3)


@tawa.jit
def rotate_pairs(x, cos, sin, y, HEADS, D: tl.constexpr, BH: tl.constexpr):
    """Neighbours of a head are the two coordinates that turn."""
    token = tl.program_id(0)
    heads = tl.program_id(1) * BH + tl.arange(0, BH)
    d = tl.arange(0, D)
    half = tl.arange(0, D // 2)
    at = (token * HEADS + heads)[:, None] * D + d[None, :]
    mask = (heads < HEADS)[:, None]
    v = tl.load(x + at, mask=mask).to(tl.float32)
    c, s = tl.load(cos + token * (D // 2) + half), tl.load(sin + token * (D // 2) + half)
    even, odd = tl.split(tl.reshape(v, (BH, D // 2, 2)))
    a = even * c[None, :] - odd * s[None, :]
    b = odd * c[None, :] + even * s[None, :]
    tl.store(y + at, tl.reshape(tl.join(a, b), (BH, D)), mask=mask)


@case
def rotary_of_neighbours(a: Arrays) -> Launch:
    x, angle = a.random("bf16", 5, 6, 32), values(a.random("f32", 5, 16))
    c, s = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    v = values(x)
    y = np.stack([v[..., ::2] * c - v[..., 1::2] * s, v[..., 1::2] * c + v[..., ::2] * s], -1)
    args = [
        x,
        stored(np.cos(angle), "f32"),
        stored(np.sin(angle), "f32"),
        a.output("bf16", 5, 6, 32),
        6,
    ]
    return Launch(rotate_pairs, (5, 2), args, {3: y.reshape(5, 6, 32)}, {"D": 32, "BH": 4}, 1e-2)


@tawa.jit
def running_sums_of_columns(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    before = tl.zeros((BN,), tl.float32)
    for i in range(0, M, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows < M)[:, None] & (cols < N)[None, :]
        at = rows[:, None] * N + cols[None, :]
        v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + at, tl.cumsum(v, axis=0) + before[None, :], mask=mask)
        before += tl.sum(v, axis=0)


@case
def cumulative_sum_of_columns(a: Arrays) -> Launch:
    x = a.random("f16", 70, 45)
    args = [x, a.output("f32", 70, 45), 70, 45]
    constants = {"BM": 32, "BN": 32}
    return Launch(running_sums_of_columns, (2,), args, {1: values(x).cumsum(0)}, constants)


@tawa.jit
def count_in_blocks(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr, TURNS: tl.constexpr):
    total = tl.zeros((BINS,), tl.int32)
    for t in range(TURNS):
        at = (tl.program_id(0) * TURNS + t) * BLOCK + tl.arange(0, BLOCK)
        mask = at < n
        v = tl.load(x + at, mask=mask, other=0).to(tl.int32)
        total += tl.histogram(v, BINS, mask=mask)
    b = tl.arange(0, BINS)
    tl.atomic_add(bins + b, total, mask=total > 0, sem="relaxed")


@case
def histogram_of_blocks(a: Arrays) -> Launch:
    v = np.random.default_rng(0).integers(0, 32, 1500)
    args = [stored(v, "i32"), stored(np.zeros(32), "i32"), 1500]
    constants = {"BLOCK": 256, "BINS": 32, "TURNS": 3}
    return Launch(count_in_blocks, (2,), args, {1: np.bincount(v, minlength=32)}, constants)


@tawa.jit
def largest_with_places(x, out, where, N, BLOCK: tl.constexpr, K: tl.constexpr):
    """The K largest of a row by sorting values and places together as words of 64 bits."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    bits = v.to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)
    keys = (ordered << 32) | (0x7FFFFFFF - cols).to(tl.int64)
    best = tl.topk(keys, K)
    high = (best >> 32).to(tl.int32)
    bits = tl.where(high < 0, high ^ 0x7FFFFFFF, high)
    k = tl.arange(0, K)
    tl.store(out + row * K + k, bits.to(tl.float32, bitcast=True))
    tl.store(where + row * K + k, 0x7FFFFFFF - (best & 0x7FFFFFFF).to(tl.int32))


@case
def top_k_with_places(a: Arrays) -> Launch:
    x = a.random("f32", 3, 100)
    order = np.argsort(-values(x), 1, kind="stable")[:, :8]
    args = [x, a.output("f32", 3, 8), a.output("i32", 3, 8), 100]
    expected = {1: np.take_along_axis(values(x), order, 1), 2: order}
    return Launch(largest_with_places, (3,), args, expected, {"BLOCK": 128, "K": 8})


@tawa.jit
def sums_of_bags(table, ids, offsets, out, D, PAD, BD: tl.constexpr):
    """Rows of a table, summed over the ids of a bag but for padding."""
    bag = tl.program_id(0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    acc = tl.zeros((BD,), tl.float32)
    for i in range(tl.load(offsets + bag), tl.load(offsets + bag + 1)):
        row = tl.load(ids + i)
        if row != PAD:
            acc += tl.load(table + row * D + d, mask=d < D, other=0.0).to(tl.float32)
    tl.store(out + bag * D + d, acc, mask=d < D)


@case
def embedding_bags(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    table, ids = a.random("f16", 20, 70), rng.integers(0, 20, 30)
    ids[[3, 9]] = 0
    offsets = np.array([0, 7, 7, 20, 30])
    bags = [ids[s:t] for s, t in pairwise(offsets)]
    e = np.stack([values(table)[bag[bag != 0]].sum(0) for bag in bags])
    args = [table, stored(ids, "i64"), stored(offsets, "i32"), a.output("f32", 4, 70), 70, 0]
    return Launch(sums_of_bags, (4, 2), args, {3: e}, {"BD": 64})


@tawa.jit
def transpose_tiles(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=(m < M)[:, None] & (n < N)[None, :])
    tl.store(y + n[:, None] * M + m[None, :], tl.trans(v), mask=(n < N)[:, None] & (m < M)[None, :])


@case
def transposed_halves(a: Arrays) -> Launch:
    x = a.random("f16", 40, 72)
    args = [x, a.output("f16", 72, 40), 40, 72]
    return Launch(transpose_tiles, (2, 3), args, {1: values(x).T}, {"BM": 32, "BN": 32})


@tawa.jit
def compact(x, out, count, n, threshold, BLOCK: tl.constexpr):
    """What is above a threshold, close together; blocks come in any order."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=float("-inf"))
    keep = v > threshold
    place = tl.cumsum(keep.to(tl.int32), 0) - 1
    start = tl.atomic_add(count, tl.sum(keep.to(tl.int32), 0))
    tl.store(out + start + place, v, mask=keep)


@case
def compaction_by_a_mask(a: Arrays) -> Launch:
    x = a.random("f32", 200)
    v = values(x)
    kept = v[v > 0.3]
    out = np.zeros(200)
    out[: len(kept)] = kept
    args = [x, stored(np.zeros(200), "f32"), stored(np.zeros(1), "i32"), 200, 0.3]
    return Launch(compact, (1,), args, {1: out, 2: np.array([len(kept)])}, {"BLOCK": 256})


@tawa.jit
def add_segments(v1, f1, v2, f2):
    return tl.where(f2 != 0, v2, v1 + v2), f1 | f2


@tawa.jit
def sums_of_segments(x, segment, out, n, BLOCK: tl.constexpr):
    """Sorted segments: running sums that begin again, the last of each added to memory."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + at, mask=mask, other=0.0)
    s = tl.load(segment + at, mask=mask, other=-1)
    before = tl.load(segment + at - 1, mask=mask & (at > 0), other=-1)
    after = tl.load(segment + at + 1, mask=at + 1 < n, other=-1)
    inside = tl.arange(0, BLOCK)
    starts = ((s != before) | (inside == 0)).to(tl.int32)
    total, _ = tl.associative_scan((v, starts), 0, add_segments)
    ends = mask & ((s != after) | (inside == BLOCK - 1))
    tl.atomic_add(out + s, total, mask=ends, sem="relaxed")


@case
def segmented_sum(a: Arrays) -> Launch:
    x = a.random("f32", 300)
    ids = np.sort(np.random.default_rng(0).integers(0, 20, 300))
    e = np.zeros(20)
    np.add.at(e, ids, values(x))
    args = [x, stored(ids, "i32"), stored(np.zeros(20), "f32"), 300]
    return Launch(sums_of_segments, (3,), args, {2: e}, {"BLOCK": 128})


@tawa.jit
def quantise_blocks(x, q, scales, M, N, BLOCK: tl.constexpr):
    """Blocks of BLOCK x BLOCK to e4m3, with scales that are powers of two."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (m < M)[:, None] & (n < N)[None, :]
    v = tl.load(x + m[:, None] * N + n[None, :], mask=mask, other=0.0).to(tl.float32)
    top = tl.maximum(tl.max(tl.abs(v)), 1e-4)
    s = tl.exp2(tl.ceil(tl.log2(top / 448.0)))
    tl.store(q + m[:, None] * N + n[None, :], (v / s).to(tl.float8e4nv), mask=mask)
    tl.store(scales + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1), s)


@case
def fp8_of_blocks(a: Arrays) -> Launch:
    x = a.random("bf16", 50, 60)
    v = values(x)
    s = np.ones((2, 2))
    out = np.zeros((50, 60))
    for i in range(2):
        for j in range(2):
            part = v[i * 32 : i * 32 + 32, j * 32 : j * 32 + 32]
            s[i, j] = 2.0 ** np.ceil(np.log2(np.abs(part).max() / 448))
            out[i * 32 : i * 32 + 32, j * 32 : j * 32 + 32] = rounded(part / s[i, j], "e4m3")
    args = [x, a.output("e4m3", 50, 60), a.output("f32", 2, 2), 50, 60]
    return Launch(quantise_blocks, (2, 2), args, {1: out, 2: s}, {"BLOCK": 32})
