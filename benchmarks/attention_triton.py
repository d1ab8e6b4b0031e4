"""Triton's side of `attention.py`: the forward pass in the form of Triton's tutorial.

One program computes a block of query rows; a causal one visits the whole blocks first, then those
on the diagonal. Configurations are the tutorial's ranges; lengths are multiples of the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def _visit(
    acc, top, total, q, k_desc, v_desc, base, start_m, rows, first, last, scale,
    BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    for start_n in tl.range(first, last, BLOCK_N):
        k = k_desc.load([base + start_n, 0])
        scores = tl.dot(q, k.T) * scale
        if MASKED:
            columns = start_n + tl.arange(0, BLOCK_N)
            scores = tl.where(rows[:, None] >= columns[None, :], scores, -1.0e6)
        new_top = tl.maximum(top, tl.max(scores, 1))
        p = tl.math.exp2(scores - new_top[:, None])
        correction = tl.math.exp2(top - new_top)
        total = total * correction + tl.sum(p, 1)
        v = v_desc.load([base + start_n, 0])
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        top = new_top
    return acc, top, total


@triton.jit
def attention_forward(
    q_desc, k_desc, v_desc, o_desc, scale, S,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * S
    rows = start_m + tl.arange(0, BLOCK_M)
    top = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    q = q_desc.load([base + start_m, 0])
    whole = start_m if CAUSAL else S
    acc, top, total = _visit(
        acc, top, total, q, k_desc, v_desc, base, start_m, rows, 0, whole, scale, BLOCK_N, False
    )
    if CAUSAL:
        acc, top, total = _visit(
            acc, top, total, q, k_desc, v_desc, base, start_m, rows, start_m, start_m + BLOCK_M,
            scale, BLOCK_N, True,
        )  # fmt: skip
    o_desc.store([base + start_m, 0], (acc / total[:, None]).to(o_desc.dtype))


def contenders(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, *, causal: bool
) -> Iterator[tuple[str, Any]]:
    """The configurations by name, on [heads, rows, D] tensors."""
    heads, rows, d = q.shape
    scale = d**-0.5 * 1.4426950408889634
    for m, n, warps, stages in (
        (128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (128, 128, 8, 3), (64, 64, 4, 3),
        (128, 32, 8, 4),
    ):  # fmt: skip
        if d > 128 and n > 64:
            continue
        flat = [x.view(-1, d) for x in (q, k, v, out)]
        blocks = ([m, d], [n, d], [n, d], [m, d])
        descs = [TensorDescriptor.from_tensor(x, b) for x, b in zip(flat, blocks, strict=True)]
        yield (
            f"{m}x{n} warps={warps},stages={stages}",
            partial(
                attention_forward[(triton.cdiv(rows, m), heads)],
                *descs, scale, rows, D=d, BLOCK_M=m, BLOCK_N=n, CAUSAL=causal,
                num_warps=warps, num_stages=stages,
            ),
        )  # fmt: skip
