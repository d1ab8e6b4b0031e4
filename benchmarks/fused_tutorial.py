"""Triton's tutorials, extended to the kernels of `fused.py`: what one starts with in Triton.

The kernels of GEMM form follow the tutorial on matrix multiplication: tiles of pointers, masked
loads, one program a tile, programs in groups of rows for the L2 cache. Configurations are that
tutorial's eight for 16-bit types on NVIDIA's devices; where a tile has to hold whole rows (layer
norm), only its width changes. The kernels of chained products load in the same way and take the
configurations of the tutorial on fused attention, by its own rule for Hopper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import triton
import triton.language as tl

Named = Iterator[tuple[str, Any]]


@triton.jit
def _tile_of(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * num_n
    first_m = pid // in_group * GROUP_M
    rows = min(num_m - first_m, GROUP_M)
    return first_m + pid % in_group % rows, pid % in_group // rows


@triton.jit
def _store_tile(c_ptr, c, rows, columns, M, N, stride_m, stride_n):
    places = c_ptr + rows[:, None] * stride_m + columns[None, :] * stride_n
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(places, c.to(c_ptr.dtype.element_ty), mask=inside)


@triton.jit
def dual_gemm(
    a_ptr, b1_ptr, b2_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bn, stride_bk, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = _tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rows = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    ks = tl.arange(0, BLOCK_K)
    a_at = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_at = ks[:, None] * stride_bk + columns[None, :] * stride_bn
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_at, mask=ks[None, :] < left, other=0.0)
        b1 = tl.load(b1_ptr + b_at, mask=ks[:, None] < left, other=0.0)
        b2 = tl.load(b2_ptr + b_at, mask=ks[:, None] < left, other=0.0)
        gate = tl.dot(a, b1, gate)
        up = tl.dot(a, b2, up)
        a_at += BLOCK_K * stride_ak
        b_at += BLOCK_K * stride_bk
    c = gate * tl.sigmoid(gate) * up
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    _store_tile(c_ptr, c, rows, columns, M, N, stride_cm, stride_cn)


@triton.jit
def gemm_reduction(
    a_ptr, b_ptr, c_ptr, sums_ptr, M, N, K,
    stride_am, stride_ak, stride_bn, stride_bk, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, pid_n = _tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rows = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    ks = tl.arange(0, BLOCK_K)
    a_at = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak
    b_at = b_ptr + ks[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    sums = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_at, mask=ks[None, :] < left, other=0.0)
        b = tl.load(b_at, mask=ks[:, None] < left, other=0.0)
        acc = tl.dot(a, b, acc)
        sums += tl.sum(a.to(tl.float32), axis=1)
        a_at += BLOCK_K * stride_ak
        b_at += BLOCK_K * stride_bk
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    _store_tile(c_ptr, acc, rows, columns, M, N, stride_cm, stride_cn)
    tl.store(sums_ptr + rows, sums, mask=(rows < M) & (pid_n == 0))


@triton.jit
def gemm_layernorm(
    x_ptr, w_ptr, bias_ptr, weight_ptr, shift_ptr, y_ptr, M, N, K, eps,
    stride_xm, stride_xk, stride_wn, stride_wk, stride_ym, stride_yn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m, _ = _tile_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    rows = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    x_at = x_ptr + rows[:, None] * stride_xm + ks[None, :] * stride_xk
    w_at = w_ptr + ks[:, None] * stride_wk + (columns % N)[None, :] * stride_wn
    z = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        x = tl.load(x_at, mask=ks[None, :] < left, other=0.0)
        w = tl.load(w_at, mask=ks[:, None] < left, other=0.0)
        z = tl.dot(x, w, z)
        x_at += BLOCK_K * stride_xk
        w_at += BLOCK_K * stride_wk
    inside = columns < N
    z += tl.load(bias_ptr + columns, mask=inside, other=0.0)[None, :]
    mean = tl.sum(tl.where(inside[None, :], z, 0.0), axis=1) / N
    centered = tl.where(inside[None, :], z - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centered * centered, axis=1) / N + eps)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0)
    shift = tl.load(shift_ptr + columns, mask=inside, other=0.0)
    y = centered * scale[:, None] * weight[None, :] + shift[None, :]
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    _store_tile(y_ptr, y, rows, columns, M, N, stride_ym, stride_yn)


@triton.jit
def linear_attention(
    q_ptr, k_ptr, v_ptr, o_ptr, N, stride_h, stride_n, stride_d,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(1).to(tl.int64) * stride_h
    chunk, ds = tl.arange(0, BLOCK_M), tl.arange(0, D)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    qk_at = first + chunk[:, None] * stride_n + ds[None, :] * stride_d
    vo_at = first + chunk[:, None] * stride_n + columns[None, :] * stride_d
    state = tl.zeros((D, BLOCK_N), dtype=tl.float32)
    for start in range(0, N, BLOCK_M):
        inside = (start + chunk < N)[:, None]
        q = tl.load(q_ptr + qk_at, mask=inside, other=0.0)
        k = tl.load(k_ptr + qk_at, mask=inside, other=0.0)
        v = tl.load(v_ptr + vo_at, mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k))
        scores = tl.where(chunk[:, None] >= chunk[None, :], scores, 0.0)
        o = tl.dot(q, state.to(v.dtype))
        o = tl.dot(scores.to(v.dtype), v, o)
        state = tl.dot(tl.trans(k), v, state)
        tl.store(o_ptr + vo_at, o.to(o_ptr.dtype.element_ty), mask=inside)
        qk_at += BLOCK_M * stride_n
        vo_at += BLOCK_M * stride_n


@triton.jit
def fused_mlp(
    x_ptr, w1_ptr, w2_ptr, y_ptr, M, H,
    stride_xm, stride_xd, stride_1h, stride_1d, stride_2o, stride_2h, stride_ym, stride_yo,
    D: tl.constexpr, OUT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    ds, outs, hs = tl.arange(0, D), tl.arange(0, OUT), tl.arange(0, BLOCK_N)
    x_at = x_ptr + rows[:, None] * stride_xm + ds[None, :] * stride_xd
    x = tl.load(x_at, mask=rows[:, None] < M, other=0.0)
    w1_at = w1_ptr + ds[:, None] * stride_1d + hs[None, :] * stride_1h
    w2_at = w2_ptr + hs[:, None] * stride_2h + outs[None, :] * stride_2o
    y = tl.zeros((BLOCK_M, OUT), dtype=tl.float32)
    for start in range(0, H, BLOCK_N):
        w1 = tl.load(w1_at, mask=(start + hs < H)[None, :], other=0.0)
        h = tl.dot(x, w1)
        h = h * tl.sigmoid(h * (1.5957691216057308 + 0.07135481282739 * h * h))
        w2 = tl.load(w2_at, mask=(start + hs < H)[:, None], other=0.0)
        y = tl.dot(h.to(x.dtype), w2, y)
        w1_at += BLOCK_N * stride_1h
        w2_at += BLOCK_N * stride_2h
    _store_tile(y_ptr, y, rows, outs, M, OUT, stride_ym, stride_yo)


MATMUL = (
    (128, 256, 64, 3, 8), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4),
    (64, 128, 32, 4, 4), (128, 32, 32, 4, 4), (64, 32, 32, 5, 2), (32, 64, 32, 5, 2),
)  # fmt: skip
"""Tile, stages and warps of the tutorial on matrix multiplication; groups are of 8 rows."""

ATTENTION = tuple(
    (m, n, stages, warps)
    for m, n, stages, warps in product((64, 128), (32, 64, 128), (2, 3, 4), (4, 8))
    if warps == 4 or m * n >= 128 * 128
)
"""Block of rows, block of what passes by, stages and warps of the tutorial on attention."""


def _gemms(kernel: Any, m: int, n: int, args: tuple[Any, ...], row: int | None = None) -> Named:
    """A kernel of GEMM form with each of the tutorial's configurations (`row`: tiles' width)."""
    tiles = dict.fromkeys((bm, row or bn, bk, s, w) for bm, bn, bk, s, w in MATMUL)
    for bm, bn, bk, stages, warps in tiles:
        constants = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 8}
        grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
        name = f"{bm}x{bn}x{bk} warps={warps} stages={stages}"
        yield name, partial(kernel[grid], *args, **constants, num_warps=warps, num_stages=stages)


def _chains(
    kernel: Any, grid: Callable[[int, int], tuple[int, ...]], args: tuple[Any, ...], **sizes: int
) -> Named:
    """A kernel of chained products with each configuration; `grid(bm, bn)` counts programs."""
    for bm, bn, stages, warps in ATTENTION:
        constants = {"BLOCK_M": bm, "BLOCK_N": bn, **sizes}
        options: dict[str, Any] = {"num_warps": warps, "num_stages": stages}
        name = f"{bm}x{bn} warps={warps} stages={stages}"
        yield name, partial(kernel[grid(bm, bn)], *args, **constants, **options)


def _strides(*arrays: Any) -> tuple[int, ...]:
    return tuple(stride for array in arrays for stride in array.stride())


def dual_gemm_works(a: Any, b1: Any, b2: Any, c: Any) -> Named:
    """Every configuration of the dual GEMM."""
    (m, k), n = a.shape, b1.shape[0]
    return _gemms(dual_gemm, m, n, (a, b1, b2, c, m, n, k, *_strides(a, b1, c)))


def gemm_reduction_works(a: Any, b: Any, c: Any, sums: Any) -> Named:
    """Every configuration of the GEMM with row sums."""
    (m, k), n = a.shape, b.shape[0]
    return _gemms(gemm_reduction, m, n, (a, b, c, sums, m, n, k, *_strides(a, b, c)))


def gemm_layernorm_works(x: Any, w: Any, bias: Any, weight: Any, shift: Any, y: Any) -> Named:
    """Every configuration of the GEMM with a layer norm, with tiles that hold whole rows."""
    (m, k), n = x.shape, w.shape[0]
    args = (x, w, bias, weight, shift, y, m, n, k, 1e-5, *_strides(x, w, y))
    return _gemms(gemm_layernorm, m, n, args, triton.next_power_of_2(n))


def linear_attention_works(q: Any, k: Any, v: Any, o: Any) -> Named:
    """Every configuration of linear attention: chunks of rows, blocks of value columns."""
    heads, rows, d = q.shape
    args = (q, k, v, o, rows, *_strides(q))
    return _chains(linear_attention, lambda bm, bn: (triton.cdiv(d, bn), heads), args, D=d)


def fused_mlp_works(x: Any, w1: Any, w2: Any, y: Any) -> Named:
    """Every configuration of the fused MLP: blocks of rows, blocks of hidden units."""
    (m, d), h, out = x.shape, w1.shape[0], w2.shape[0]
    args = (x, w1, w2, y, m, h, *_strides(x, w1, w2, y))
    return _chains(fused_mlp, lambda bm, bn: (triton.cdiv(m, bm),), args, D=d, OUT=out)
