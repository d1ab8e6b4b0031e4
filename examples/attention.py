"""Attention forward as a sequential loop over key blocks (online softmax), causal or not."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def attention(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    scale,
    N,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One program computes BLOCK_M rows of one head; a head's rows are consecutive in memory."""
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    rows = start_m + tl.arange(0, BLOCK_M)
    q = q_desc.load([head, start_m, 0]).reshape(BLOCK_M, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = min(start_m + BLOCK_M, N) if CAUSAL else N
    for start_n in range(0, end, BLOCK_N):
        k = k_desc.load([head, start_n, 0]).reshape(BLOCK_N, D)
        scores = tl.dot(q, k.T) * (scale * 1.4426950408889634)
        columns = start_n + tl.arange(0, BLOCK_N)
        visible = columns[None, :] < N
        if CAUSAL:
            visible = visible & (columns[None, :] <= rows[:, None])
        scores = tl.where(visible, scores, -float("inf"))
        new_m = tl.maximum(m, tl.max(scores, axis=1))
        correction = tl.exp2(m - new_m)
        p = tl.exp2(scores - new_m[:, None])
        total = total * correction + tl.sum(p, axis=1)
        v = v_desc.load([head, start_n, 0]).reshape(BLOCK_N, D)
        acc = acc * correction[:, None]
        acc = tl.dot(p.to(v.dtype), v, acc)
        m = new_m
    out = (acc / total[:, None]).to(o_desc.dtype).reshape(1, BLOCK_M, D)
    o_desc.store([head, start_m, 0], out)


def launch(q, k, v, o, causal=False, block=(128, 64), **options):
    """Attention of [heads, rows, D] arrays of any library, scaled by 1 / sqrt(D)."""
    heads, N, D = q.shape
    block_m, block_n = block
    return attention[(tawa.cdiv(N, block_m), heads)](
        tawa.TensorDescriptor.from_tensor(q, [1, block_m, D]),
        tawa.TensorDescriptor.from_tensor(k, [1, block_n, D]),
        tawa.TensorDescriptor.from_tensor(v, [1, block_n, D]),
        tawa.TensorDescriptor.from_tensor(o, [1, block_m, D]),
        *(D**-0.5, N),
        D=D,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        CAUSAL=causal,
        **options,
    )


def reference(q, k, v, causal=False):
    """Attention, by NumPy."""
    scores = q @ k.swapaxes(1, 2) * q.shape[-1] ** -0.5
    if causal:
        rows, columns = np.indices(scores.shape[1:])
        scores = np.where(columns <= rows, scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


def example_attention():
    """Rows that are no multiple of the block, causal."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 200, 64)).astype(np.float16)
    o = np.full_like(q, np.nan)
    launch(q, k, v, o, causal=True)
    return {"o": (o, reference(*(x.astype(np.float64) for x in (q, k, v)), causal=True))}
