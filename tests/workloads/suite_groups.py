"""Matrix products of many sizes, parts and epilogues in one launch."""

from __future__ import annotations

import numpy as np
from simulation import Arrays, stored, values
from suite import Launch, case

import tawa
import tawa.language as tl


@tawa.jit
def grouped_by_offsets(
    x,
    w,
    out,
    offsets,
    N,
    K,
    G: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    """Rows of groups follow each other (MoE after a sort): a persistent program a tile."""
    tile = tl.program_id(0)
    seen = 0
    end = 0
    for g in range(G):
        start = end
        end = tl.load(offsets + g)
        rows = end - start
        if rows > 0:
            tiles_m = tl.cdiv(rows, BM)
            tiles_n = tl.cdiv(N, BN)
            total = tiles_m * tiles_n
            while tile < seen + total:
                local = tile - seen
                m = start + (local % tiles_m) * BM + tl.arange(0, BM)
                n = (local // tiles_m) * BN + tl.arange(0, BN)
                k = tl.arange(0, BK)
                acc = tl.zeros((BM, BN), tl.float32)
                for kk in range(0, K, BK):
                    mask_k = kk + k < K
                    xt = tl.load(
                        x + m[:, None] * K + (kk + k)[None, :],
                        mask=(m[:, None] < end) & mask_k[None, :],
                        other=0.0,
                    )
                    wt = tl.load(
                        w + (g * N + n)[:, None] * K + (kk + k)[None, :],
                        mask=(n[:, None] < N) & mask_k[None, :],
                        other=0.0,
                    )
                    acc = tl.dot(xt, wt.T, acc)
                tl.store(
                    out + m[:, None] * N + n[None, :],
                    acc.to(out.dtype.element_ty),
                    mask=(m[:, None] < end) & (n[None, :] < N),
                )
                tile += PROGRAMS
            seen += total


@case
def grouped_products_by_offsets(a: Arrays) -> Launch:
    x, w = a.random("bf16", 150, 72), a.random("bf16", 4, 80, 72)
    ends = np.array([70, 70, 75, 150])
    e, start = np.zeros((150, 80)), 0
    for g, end in enumerate(ends):
        e[start:end] = values(x)[start:end] @ values(w)[g].T
        start = end
    args = [x, w, a.output("bf16", 150, 80), stored(ends, "i32"), 80, 72]
    constants = {"G": 4, "BM": 64, "BN": 64, "BK": 32, "PROGRAMS": 3}
    return Launch(grouped_by_offsets, (3,), args, {2: e}, constants, 5e-3)


@tawa.jit
def moe_gather(
    a_ptr, b_ptr, c_ptr, topk_weights_ptr, sorted_ids_ptr, expert_ids_ptr, padded_ptr,
    N, K, valid, stride_am, stride_ak, stride_be, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    MUL: tl.constexpr, top_k: tl.constexpr, compute_type: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    padded = tl.load(padded_ptr)
    num_m = tl.cdiv(padded, BM)
    num_n = tl.cdiv(N, BN)
    in_group = GROUP * num_n
    group = pid // in_group
    first_m = group * GROUP
    size_m = min(num_m - first_m, GROUP)
    pid_m = first_m + ((pid % in_group) % size_m)
    pid_n = (pid % in_group) // size_m
    if pid_m * BM >= padded:
        return
    offs_id = pid_m * BM + tl.arange(0, BM).to(tl.int64)
    token = tl.load(sorted_ids_ptr + offs_id)
    token_mask = token < valid
    expert = tl.load(expert_ids_ptr + pid_m).to(tl.int64)
    offs_n = (pid_n * BN + tl.arange(0, BN).to(tl.int64)) % N
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + (token[:, None] // top_k * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = (
        b_ptr + expert * stride_be + (offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn)
    )
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(a_ptrs, mask=token_mask[:, None] & (offs_k[None, :] < K - k * BK), other=0.0)
        y = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        acc += tl.dot(x, y)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    if MUL:
        weight = tl.load(topk_weights_ptr + token, mask=token_mask, other=0)
        acc = acc * weight[:, None]
    acc = acc.to(compute_type)
    cn = pid_n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * token[:, None] + stride_cn * cn[None, :]
    tl.store(c_ptrs, acc, mask=token_mask[:, None] & (cn[None, :] < N))


@case
def experts_of_gathered_tokens(a: Arrays) -> Launch:
    x, w = a.random("bf16", 20, 96), a.random("bf16", 3, 80, 96)
    rng = np.random.default_rng(0)
    pick = rng.integers(0, 3, 40)
    ids, experts = [], []
    for e in range(3):
        mine = np.flatnonzero(pick == e).tolist()
        mine += [40] * (-len(mine) % 16)
        ids += mine
        experts += [e] * (len(mine) // 16)
    tw = rng.random(40).astype(np.float32).astype(float)
    e = np.stack([tw[t] * (values(w)[pick[t]] @ values(x)[t // 2]) for t in range(40)])
    args = [x, w, a.output("bf16", 40, 80), stored(tw, "f32"), stored(np.array(ids), "i32"),
            stored(np.array(experts), "i32"), stored(np.array([len(ids)]), "i32"), 80, 96, 40,
            96, 1, 80 * 96, 1, 96, 80, 1]  # fmt: skip
    constants = {
        "BM": 16,
        "BN": 64,
        "BK": 64,
        "GROUP": 2,
        "MUL": True,
        "top_k": 2,
        "compute_type": tl.bfloat16,
    }
    return Launch(moe_gather, (len(ids) // 16 * 2,), args, {2: e}, constants, 5e-3)


@tawa.jit
def split_k_lock(
    a,
    b,
    c,
    locks,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """Parts of K add up in C in order, under a lock that counts."""
    pid, part = tl.program_id(0), tl.program_id(1)
    grid_n = tl.cdiv(N, BN)
    m = (pid // grid_n) * BM + tl.arange(0, BM)
    n = (pid % grid_n) * BN + tl.arange(0, BN)
    k = part * BK + tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, tl.cdiv(K, BK * SPLIT)):
        x = tl.load(
            a + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0
        )
        y = tl.load(
            b + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0
        )
        acc = tl.dot(x, y, acc)
        k += BK * SPLIT
    mask = (m < M)[:, None] & (n < N)[None, :]
    at = c + m[:, None] * N + n[None, :]
    while tl.atomic_add(locks + pid, 0) != part:
        pass
    if part > 0:
        acc += tl.load(at, mask=mask, other=0.0, volatile=True)
    tl.store(at, acc, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(locks + pid, (part + 1) % SPLIT)


@case
def split_k_with_a_lock(a: Arrays) -> Launch:
    x, y = a.random("f16", 70, 200), a.random("f16", 200, 72)
    args = [x, y, a.output("f32", 70, 72), stored(np.zeros(4), "i32"), 70, 72, 200]
    constants = {"BM": 64, "BN": 64, "BK": 32, "SPLIT": 3}
    return Launch(split_k_lock, (4, 3), args, {2: values(x) @ values(y)}, constants)


@tawa.jit
def mac_loop(
    A,
    B,
    C,
    M,
    N,
    K,
    locks,
    sk_m,
    sk_n,
    sk_k,
    cm,
    cn,
    iters_per_tile,
    start,
    end,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile = start // iters_per_tile
    pid_m = tile // tl.cdiv(N, BN)
    pid_n = tile % tl.cdiv(N, BN)
    rm = (pid_m * BM + tl.arange(0, BM)) % M
    rn = (pid_n * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    at = A + rm[:, None] * K + rk[None, :] + BK * (start % iters_per_tile)
    bt = B + rk[:, None] * N + rn[None, :] + BK * N * (start % iters_per_tile)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(start, end):
        acc += tl.dot(tl.load(at), tl.load(bt))
        at += BK
        bt += BK * N
    rm = pid_m * BM + tl.arange(0, BM)
    rn = pid_n * BN + tl.arange(0, BN)
    out = C + rm[:, None] * N + rn[None, :]
    mask = (rm < M)[:, None] & (rn < N)[None, :]
    if end % iters_per_tile == 0:
        tl.store(out, acc, mask=mask)
        if start % iters_per_tile != 0:
            tl.atomic_xchg(locks + tile, 1)
    else:
        while tl.atomic_cas(locks + tile, 1, 1) != 1:
            pass
        tl.atomic_add(out, acc, mask=mask)


@tawa.jit
def stream_k(
    A,
    B,
    C,
    M,
    N,
    K,
    locks,
    full,
    remaining,
    iters_per_tile,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pid = tl.program_id(0)
    start = pid * full + tl.minimum(pid, remaining)
    last = (pid + 1) * full + tl.minimum(pid + 1, remaining)
    while start < last:
        end = start + (iters_per_tile - start % iters_per_tile)
        end = tl.minimum(end, last)
        mac_loop(A, B, C, M, N, K, locks, 0, 0, 0, 0, 0, iters_per_tile, start, end, BM, BN, BK)
        start = end


@case
def stream_of_k(a: Arrays) -> Launch:
    x, y = a.random("f16", 128, 160), a.random("f16", 160, 128)
    iters, tiles, programs = 5, 4, 3
    total = iters * tiles
    args = [
        x,
        y,
        a.output("f32", 128, 128),
        128,
        128,
        160,
        stored(np.zeros(4), "i32"),
        total // programs,
        total % programs,
        iters,
    ]
    constants = {"BM": 64, "BN": 64, "BK": 32}
    return Launch(stream_k, (programs,), args, {2: values(x) @ values(y)}, constants)
