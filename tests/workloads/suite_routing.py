"""Routing of tokens, gathers, adapters, counting and packing, as servers do it."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case
from suite_serving import rounded

import tawa
import tawa.language as tl


@tawa.jit
def align_tokens(
    ids,
    sorted_ids,
    experts,
    total,
    counts,
    n,
    E: tl.constexpr,
    BLOCK: tl.constexpr,
    EB: tl.constexpr,
    CAP: tl.constexpr,
):
    """Tokens by expert, each expert's padded to a multiple of BLOCK; one program."""
    e = tl.arange(0, EB)
    for i in range(0, n):
        expert = tl.load(ids + i)
        tl.atomic_add(counts + expert, 1)
    tl.debug_barrier()
    c = tl.load(counts + e, mask=e < E, other=0)
    padded = (c + BLOCK - 1) // BLOCK * BLOCK
    ends = tl.cumsum(padded, 0)
    starts = ends - padded
    tl.store(total, tl.sum(padded, 0))
    tl.store(counts + EB + e, starts, mask=e < E)
    for b in range(0, CAP // BLOCK):
        at = b * BLOCK
        owner = tl.sum(((ends <= at) & (e < E)).to(tl.int32), 0)
        tl.store(experts + b, owner)
    tl.debug_barrier()
    for i in range(0, n):
        expert = tl.load(ids + i)
        at = tl.atomic_add(counts + EB + expert, 1)
        tl.store(sorted_ids + at, i)


@case
def tokens_by_expert(a: Arrays) -> Launch:
    ids = np.random.default_rng(7).integers(0, 5, 23)
    order = np.full(48, 23)
    count = np.bincount(ids, minlength=5)
    padded = -(-count // 4) * 4
    ends = padded.cumsum()
    at = (ends - padded).copy()
    for i, x in enumerate(ids):
        order[at[x]] = i
        at[x] += 1
    experts = [(ends <= b * 4).sum() for b in range(12)]
    args = [
        stored(ids, "i32"),
        stored(np.full(48, 23), "i32"),
        a.output("i32", 12),
        a.output("i32", 1),
        stored(np.zeros(16), "i32"),
        23,
    ]
    expected = {1: order, 2: np.array(experts), 3: padded.sum()[None]}
    constants = {"E": 5, "BLOCK": 4, "EB": 8, "CAP": 48, "num_warps": 1}
    return Launch(align_tokens, (1,), args, expected, constants)


@tawa.jit
def gather_rows(src, index, out, n, D, BM: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    at = tl.load(index + rows, mask=rows < n, other=0).to(tl.int64)
    for d in range(0, D, BD):
        cols = d + tl.arange(0, BD)
        mask = (rows[:, None] < n) & (cols[None, :] < D)
        v = tl.load(src + at[:, None] * D + cols[None, :], mask=mask)
        tl.store(out + rows[:, None] * D + cols[None, :], v, mask=mask)


@case
def gathered_rows(a: Arrays) -> Launch:
    x = a.random("i8", 9, 100)
    ids = np.random.default_rng(1).integers(0, 9, 30)
    args = [x, stored(ids, "i64"), a.output("i8", 30, 100), 30, 100]
    return Launch(gather_rows, (2,), args, {2: values(x)[ids]}, {"BM": 16, "BD": 64})


@tawa.jit
def csr_times_dense(values_p, cols_p, rows_p, b, c, N, BN: tl.constexpr):
    row = tl.program_id(0)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    begin = tl.load(rows_p + row)
    end = tl.load(rows_p + row + 1)
    acc = tl.zeros((BN,), tl.float32)
    for i in range(begin, end):
        acc += tl.load(values_p + i) * tl.load(
            b + tl.load(cols_p + i) * N + n, mask=n < N, other=0.0
        )
    tl.store(c + row * N + n, acc, mask=n < N)


@case
def sparse_csr_product(a: Arrays) -> Launch:
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((20, 30)) * (rng.random((20, 30)) < 0.2)
    dense[4] = 0
    rows = np.concatenate([[0], (dense != 0).sum(1).cumsum()])
    cols = np.concatenate([np.flatnonzero(r) for r in dense])
    vals = dense[dense != 0]
    b = a.random("f32", 30, 45)
    args = [
        stored(vals, "f32"),
        stored(cols, "i32"),
        stored(rows, "i32"),
        b,
        a.output("f32", 20, 45),
        45,
    ]
    return Launch(
        csr_times_dense, (20, 2), args, {4: dense @ values(b)}, {"BN": 32, "num_warps": 1}
    )


@tawa.jit
def lora_expand(
    x,
    w,
    ids,
    out,
    seq_lens,
    starts,
    D,
    K,
    R: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    ADD: tl.constexpr,
):
    n_blocks = tl.cdiv(D, BN)
    pid, batch = tl.program_id(0), tl.program_id(1)
    m_block, n_block = pid // n_blocks, pid % n_blocks
    M = tl.load(seq_lens + batch)
    if m_block * BM > M:
        return
    lora = tl.load(ids + batch)
    if lora == -1:
        return
    start = tl.load(starts + batch)
    m = m_block * BM + tl.arange(0, BM)
    n = n_block * BN + tl.arange(0, BN)
    r = tl.arange(0, R)
    rm = tl.max_contiguous(tl.multiple_of(m % M, BM), BM)
    rn = tl.max_contiguous(tl.multiple_of(n % D, BN), BN)
    at = tl.load(x + (start + rm[:, None]) * R + r[None, :])
    wt = tl.load(w + lora * D * R + rn[None, :] * R + r[:, None])
    acc = tl.dot(at.to(wt.dtype), wt)
    target = out + (start + m[:, None]) * D + n[None, :]
    mask = (m[:, None] < M) & (n[None, :] < D)
    if ADD:
        acc += tl.load(target, mask=mask, other=0.0)
    tl.store(target, acc, mask=mask)


@case
def low_rank_adapters_of_a_batch(a: Arrays) -> Launch:
    x, w = a.random("f32", 30, 16), a.random("bf16", 3, 40, 16)
    lens, ids = np.array([17, 5, 8]), np.array([2, -1, 0])
    starts = np.array([0, 17, 22])
    out = a.random("f32", 30, 40)
    e = values(out).copy()
    xb = rounded(values(x), "bf16")
    for s, n, i in zip(starts, lens, ids, strict=True):
        if i >= 0:
            e[s : s + n] += xb[s : s + n] @ values(w)[i].T
    args = [x, w, stored(ids, "i64"), out, stored(lens, "i64"), stored(starts, "i64"), 40, 16]
    constants = {"R": 16, "BM": 16, "BN": 32, "ADD": True}
    return Launch(lora_expand, (4, 3), args, {3: e}, constants)


@tawa.jit
def count_atomically(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + at, mask=mask, other=0.0)
    b = tl.minimum((v * BINS).to(tl.int32), BINS - 1)
    tl.atomic_add(bins + b, tl.full((BLOCK,), 1, tl.int32), mask=mask, sem="relaxed")


@case
def histogram_with_atomics(a: Arrays) -> Launch:
    x = np.random.default_rng(0).random(700).astype(np.float32).astype(float)
    args = [stored(x, "f32"), stored(np.zeros(10), "i32"), 700]
    e = np.bincount((x * 10).astype(int), minlength=10)
    return Launch(count_atomically, (3,), args, {1: e}, {"BLOCK": 256, "BINS": 10})


@tawa.jit
def pack_int4(x, out, scales, zeros, n, GROUP: tl.constexpr):
    """Rows of GROUP values to unsigned 4-bit with a zero point, two a byte."""
    row = tl.program_id(0)
    pair = tl.arange(0, GROUP // 2)
    v = tl.load(x + row * GROUP + tl.arange(0, GROUP))
    low, high = tl.min(v), tl.max(v)
    scale = tl.maximum(high - low, 1e-6) / 15
    zero = low
    q = tl.extra.libdevice.rint((v - zero) / scale).to(tl.uint8)
    even, odd = tl.split(tl.reshape(q, (GROUP // 2, 2)))
    tl.store(out + row * (GROUP // 2) + pair, (even | (odd << 4)).to(tl.int8, bitcast=True))
    tl.store(scales + row, scale)
    tl.store(zeros + row, zero)


@case
def packed_int4(a: Arrays) -> Launch:
    x = a.random("f32", 4, 64)
    v = values(x).astype(np.float32)
    low, high = v.min(1, keepdims=True), v.max(1, keepdims=True)
    scale = (high - low) / np.float32(15)
    q = np.rint((v - low) / scale).astype(int)
    packed = (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8).view(np.int8)
    args = [x, a.output("i8", 4, 32), a.output("f32", 4), a.output("f32", 4), 4]
    expected = {1: packed, 2: scale[:, 0], 3: low[:, 0]}
    return Launch(pack_int4, (4,), args, expected, {"GROUP": 64})


@tawa.jit
def copy_strided_4d(
    src,
    dst,
    s0,
    s1,
    s2,
    s3,
    d0,
    d1,
    d2,
    d3,
    n2,
    n3,
    B2: tl.constexpr,
    B3: tl.constexpr,
    N1: tl.constexpr,
):
    i0, i1 = tl.program_id(0) // N1, tl.program_id(0) % N1
    i2 = tl.program_id(1) * B2 + tl.arange(0, B2)
    i3 = tl.program_id(2) * B3 + tl.arange(0, B3)
    mask = (i2 < n2)[:, None] & (i3 < n3)[None, :]
    at = (
        i0.to(tl.int64) * s0
        + i1.to(tl.int64) * s1
        + i2[:, None].to(tl.int64) * s2
        + i3[None, :] * s3
    )
    to = (
        i0.to(tl.int64) * d0
        + i1.to(tl.int64) * d1
        + i2[:, None].to(tl.int64) * d2
        + i3[None, :] * d3
    )
    tl.store(dst + to, tl.load(src + at, mask=mask), mask=mask)


@case
def permuted_copy_of_4_dimensions(a: Arrays) -> Launch:
    x = a.random("i64", 2, 3, 20, 36)
    args = [x, a.output("i64", 2, 20, 36, 3), 2160, 720, 36, 1, 2160, 1, 108, 3, 20, 36]
    expected = {1: values(x).transpose(0, 2, 3, 1)}
    return Launch(copy_strided_4d, (6, 2, 2), args, expected, {"B2": 16, "B3": 32, "N1": 3})
