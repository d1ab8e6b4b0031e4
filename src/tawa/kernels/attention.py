"""Attention forward: a sequential loop over key blocks with an online softmax, on the public API.

    from tawa.kernels.attention import attention

    o = attention(q, k, v)          # [heads, rows, D] arrays, scaled by 1 / sqrt(D)

Nothing in the kernel says which products overlap which exponentials; the compiler's modulo schedule
does. `configuration` chooses tiles after measurements on an H100.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tawa
import tawa.language as tl

LOG2_E = 1.4426950408889634


@tawa.jit
def attention_forward(
    q_desc: Any,
    k_desc: Any,
    v_desc: Any,
    o_desc: Any,
    scale: Any,
    KEYS: Any,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASK_END: tl.constexpr,
):
    """One program computes BLOCK_M query rows of one head.

    `scale` is positive and includes log2(e); `MASK_END` says that BLOCK_N does not divide KEYS.
    """
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    rows = start_m + tl.arange(0, BLOCK_M)
    q = q_desc.load([head, start_m, 0]).reshape(BLOCK_M, D)
    top = tl.full((BLOCK_M,), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = KEYS
    if CAUSAL:
        end = min(start_m + BLOCK_M, KEYS)
    for start_n in range(0, end, BLOCK_N):
        k = k_desc.load([head, start_n, 0]).reshape(BLOCK_N, D)
        scores = tl.dot(q, k.T)
        columns = start_n + tl.arange(0, BLOCK_N)
        if CAUSAL:
            scores = tl.where(columns[None, :] <= rows[:, None], scores, -1.0e30)
        if MASK_END:
            scores = tl.where(columns[None, :] < KEYS, scores, -1.0e30)
        # The largest raw score is scaled, not every score: one multiply-add an exponential.
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        shift = new_top * scale
        correction = tl.exp2(top * scale - shift)
        p = tl.exp2(scores * scale - shift[:, None])
        total = total * correction + tl.sum(p, axis=1)
        v = v_desc.load([head, start_n, 0]).reshape(BLOCK_N, D)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        top = new_top
    out = (acc / total[:, None]).to(o_desc.dtype)
    o_desc.store([head, start_m, 0], out.reshape(1, BLOCK_M, D))


@dataclass(frozen=True)
class Configuration:
    """Query rows and keys of a tile, and launch options."""

    block_m: int
    block_n: int
    options: dict[str, Any] = field(default_factory=dict[str, Any])


def configuration(d: int) -> Configuration:
    """The configuration for a head dimension (a multiple of 16 up to 256)."""
    if d <= 64:
        return Configuration(192, 128, {"consumers": 3})
    if d <= 128:
        return Configuration(128, 128, {"persistent": True})
    return Configuration(128, 64)


def attention(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    *,
    causal: bool = False,
    scale: float | None = None,
    using: Configuration | None = None,
) -> Any:
    """softmax(scale q k^T) v for [heads, rows, D] arrays of 16-bit floats, written to `out`.

    `k` and `v` have the heads of `q` and any number of rows. `causal` lets row i see keys 0 to i.
    """
    heads, queries, d = q.shape
    keys = k.shape[1]
    chosen = using or configuration(d)
    block_m, block_n = chosen.block_m, chosen.block_n
    describe = tawa.TensorDescriptor.from_tensor
    attention_forward[(tawa.cdiv(queries, block_m), heads)](
        describe(q, [1, block_m, d]),
        describe(k, [1, block_n, d]),
        describe(v, [1, block_n, d]),
        describe(out, [1, block_m, d]),
        (d**-0.5 if scale is None else scale) * LOG2_E,
        keys,
        D=d,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        CAUSAL=causal,
        MASK_END=keys % block_n != 0,
        **chosen.options,
    )
    return out


def reference(q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None) -> Any:
    """The same in float64, by NumPy."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(1, 2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        visible = np.tri(scores.shape[1], scores.shape[2], dtype=np.bool_)
        scores = np.where(visible, scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v
