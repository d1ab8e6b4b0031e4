"""Triton's side of `fused.py`: the same algorithms, in the form and configurations that suit it.

Tiles are loaded through tensor descriptors; the kernels of GEMM form loop over tiles, so that a
grid of all tiles and a persistent one are the same kernel. Sizes are multiples of the tiles'.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tawa.machine.chips import H100

MULTIPROCESSORS = H100.multiprocessors

Named = Iterator[tuple[str, Any]]


@triton.jit
def _place(tile, num_m, num_n, GROUP_M: tl.constexpr):
    width = GROUP_M * num_n
    first = tile // width * GROUP_M
    height = min(num_m - first, GROUP_M)
    return first + tile % width % height, tile % width // height


@triton.jit
def dual_gemm(
    a_desc, b1_desc, b2_desc, c_desc, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), num_m * num_n, tl.num_programs(0), flatten=FLATTEN):
        m, n = _place(tile, num_m, num_n, 8)
        gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([m * BLOCK_M, k * BLOCK_K])
            b1 = b1_desc.load([n * BLOCK_N, k * BLOCK_K])
            b2 = b2_desc.load([n * BLOCK_N, k * BLOCK_K])
            gate = tl.dot(a, b1.T, gate)
            up = tl.dot(a, b2.T, up)
        c = gate * tl.sigmoid(gate) * up
        c_desc.store([m * BLOCK_M, n * BLOCK_N], c.to(c_desc.dtype))


@triton.jit
def gemm_reduction(
    a_desc, b_desc, c_desc, sums_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), num_m * num_n, tl.num_programs(0), flatten=FLATTEN):
        m, n = _place(tile, num_m, num_n, 8)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        sums = tl.zeros((BLOCK_M,), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([m * BLOCK_M, k * BLOCK_K])
            b = b_desc.load([n * BLOCK_N, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
            sums += tl.sum(a.to(tl.float32), axis=1)
        c_desc.store([m * BLOCK_M, n * BLOCK_N], acc.to(c_desc.dtype))
        rows = m * BLOCK_M + tl.arange(0, BLOCK_M)
        tl.store(sums_ptr + rows, sums, mask=(rows < M) & (n == 0))


@triton.jit
def gemm_layernorm(
    x_desc, w_desc, y_desc, bias_ptr, weight_ptr, shift_ptr, M, K, eps, N: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    for m in tl.range(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.num_programs(0), flatten=FLATTEN):
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            x = x_desc.load([m * BLOCK_M, k * BLOCK_K])
            w = w_desc.load([0, k * BLOCK_K])
            acc = tl.dot(x, w.T, acc)
        columns = tl.arange(0, BLOCK_N)
        inside = columns < N
        acc += tl.load(bias_ptr + columns, mask=inside, other=0.0)[None, :]
        mean = tl.sum(acc, axis=1) / N
        centered = tl.where(inside[None, :], acc - mean[:, None], 0.0)
        scale = tl.rsqrt(tl.sum(centered * centered, axis=1) / N + eps)
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0)
        shift = tl.load(shift_ptr + columns, mask=inside, other=0.0)
        y = centered * scale[:, None] * weight[None, :] + shift[None, :]
        y_desc.store([m * BLOCK_M, 0], y.to(y_desc.dtype))


@triton.jit
def linear_attention(
    q_desc, k_desc, v_desc, o_desc, N,
    D: tl.constexpr, DV: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * DV
    first = tl.program_id(1) * N
    state = tl.zeros((D, DV), tl.float32)
    places = tl.arange(0, CHUNK)
    for start in range(0, N, CHUNK):
        q = q_desc.load([first + start, 0])
        k = k_desc.load([first + start, 0])
        v = v_desc.load([first + start, column])
        scores = tl.dot(q, k.T)
        scores = tl.where(places[:, None] >= places[None, :], scores, 0.0)
        o = tl.dot(q, state.to(v.dtype))
        o = tl.dot(scores.to(v.dtype), v, o)
        state = tl.dot(k.T, v, state)
        o_desc.store([first + start, column], o.to(o_desc.dtype))


@triton.jit
def fused_mlp(
    x_desc, w1_desc, w2_desc, y_desc, H,
    OUT: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    off_m = tl.program_id(0) * BLOCK_M
    x = x_desc.load([off_m, 0])
    y = tl.zeros((BLOCK_M, OUT), dtype=tl.float32)
    for start in range(0, H, BLOCK_H):
        w1 = w1_desc.load([start, 0])
        h = tl.dot(x, w1.T)
        h = h * tl.sigmoid(h * (1.5957691216057308 + 0.07135481282739 * h * h))
        w2 = w2_desc.load([0, start])
        y = tl.dot(h.to(x.dtype), w2.T, y)
    y_desc.store([off_m, 0], y.to(y_desc.dtype))


TILES = (
    (128, 128, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 4, 3),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (128, 256, 64, 8, 3),
    (128, 256, 64, 8, 2),
)
"""Tile, warps and stages of the kernels of GEMM form; `DUAL_TILES` have two accumulators."""

DUAL_TILES = (
    (128, 128, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 8, 2),
    (128, 64, 64, 4, 4),
    (128, 64, 64, 8, 4),
    (64, 128, 64, 4, 4),
)
PERSISTENT = 2
"""The first so many tiles are also tried with one program a multiprocessor."""


def _gemms(kernel: Any, tiles: Any, count: Any, args: Any) -> Named:
    """A kernel of GEMM form with each tile; `args(bm, bn, bk)` are its arguments."""
    plain = [(t, False) for t in tiles]
    for (bm, bn, bk, warps, stages), persistent in plain + [(t, True) for t in tiles[:PERSISTENT]]:
        programs = count(bm, bn)
        grid = (min(MULTIPROCESSORS, programs) if persistent else programs,)
        name = f"{bm}x{bn}x{bk} warps={warps} stages={stages} persistent={persistent}"
        options: dict[str, Any] = {"num_warps": warps, "num_stages": stages}
        constants = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "FLATTEN": persistent}
        yield name, partial(kernel[grid], *args(bm, bn, bk), **constants, **options)


def _describe(array: Any, *block: int) -> Any:
    return TensorDescriptor.from_tensor(array, list(block))


def dual_gemm_works(a: Any, b1: Any, b2: Any, c: Any) -> Named:
    """Every configuration of the dual GEMM."""
    (m, k), n = a.shape, b1.shape[0]
    return _gemms(
        dual_gemm,
        DUAL_TILES,
        lambda bm, bn: triton.cdiv(m, bm) * triton.cdiv(n, bn),
        lambda bm, bn, bk: (
            _describe(a, bm, bk),
            *(_describe(b, bn, bk) for b in (b1, b2)),
            _describe(c, bm, bn),
            *(m, n, k),
        ),
    )


def gemm_reduction_works(a: Any, b: Any, c: Any, sums: Any) -> Named:
    """Every configuration of the GEMM with row sums."""
    (m, k), n = a.shape, b.shape[0]
    return _gemms(
        gemm_reduction,
        TILES,
        lambda bm, bn: triton.cdiv(m, bm) * triton.cdiv(n, bn),
        lambda bm, bn, bk: (
            *(_describe(a, bm, bk), _describe(b, bn, bk), _describe(c, bm, bn)),
            *(sums, m, n, k),
        ),
    )


def gemm_layernorm_works(x: Any, w: Any, bias: Any, weight: Any, shift: Any, y: Any) -> Named:
    """Every configuration of the GEMM with a layer norm."""
    (m, k), n = x.shape, w.shape[0]
    tiles = [
        (128, n, 64, 8, 3), (64, n, 64, 4, 3), (64, n, 64, 4, 4), (128, n, 64, 8, 2),
        (64, n, 64, 8, 3), (128, n, 32, 8, 4), (64, n, 128, 4, 2),
    ]  # fmt: skip
    return _gemms(
        gemm_layernorm,
        tiles,
        lambda bm, bn: triton.cdiv(m, bm),
        lambda bm, bn, bk: (
            *(_describe(x, bm, bk), _describe(w, bn, bk), _describe(y, bm, bn)),
            *(bias, weight, shift, m, k, 1e-5, n),
        ),
    )


def linear_attention_works(q: Any, k: Any, v: Any, o: Any) -> Named:
    """Every configuration of linear attention."""
    heads, rows, d = q.shape
    q, k, v, o = (x.view(heads * rows, d) for x in (q, k, v, o))
    for chunk, dv, warps, stages in (
        (64, 128, 4, 2), (64, 128, 8, 2), (64, 64, 4, 3), (128, 128, 8, 1),
        (128, 64, 8, 2), (128, 64, 4, 2), (64, 128, 4, 3), (64, 64, 4, 2),
        (64, 32, 4, 3), (64, 32, 4, 4), (64, 64, 4, 4),
    ):  # fmt: skip
        args = (
            *(_describe(x, chunk, d) for x in (q, k)),
            *(_describe(x, chunk, dv) for x in (v, o)),
            rows,
        )
        name = f"chunk={chunk} columns={dv} warps={warps} stages={stages}"
        constants = {"D": d, "DV": dv, "CHUNK": chunk, "num_warps": warps, "num_stages": stages}
        yield name, partial(linear_attention[(d // dv, heads)], *args, **constants)


def fused_mlp_works(x: Any, w1: Any, w2: Any, y: Any) -> Named:
    """Every configuration of the fused MLP."""
    (m, d), h, out = x.shape, w1.shape[0], w2.shape[0]
    for bm, bh, warps, stages in (
        (128, 64, 8, 2), (64, 32, 4, 4), (128, 32, 8, 3), (128, 32, 4, 3),
        (64, 64, 4, 2), (64, 32, 4, 3), (64, 64, 4, 3), (128, 32, 8, 4),
    ):  # fmt: skip
        args = (_describe(x, bm, d), _describe(w1, bh, d), _describe(w2, out, bh))
        constants = {"OUT": out, "BLOCK_M": bm, "BLOCK_H": bh}
        options: dict[str, Any] = {"num_warps": warps, "num_stages": stages}
        name = f"{bm}x{bh} warps={warps} stages={stages}"
        work = fused_mlp[(triton.cdiv(m, bm),)]
        yield name, partial(work, *args, _describe(y, bm, out), h, **constants, **options)
