"""Causal linear attention in chunks: o_t = q_t (sum over s <= t of k_s^T v_s)."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def linear_attention(
    q_desc,
    k_desc,
    v_desc,
    o_desc,
    N,
    D: tl.constexpr,
    DV: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """One program computes DV columns of one head; the sum stays in registers between chunks."""
    column = tl.program_id(0) * DV
    head = tl.program_id(1)
    state = tl.zeros((D, DV), tl.float32)
    places = tl.arange(0, CHUNK)
    for start in range(0, N, CHUNK):
        q = q_desc.load([head, start, 0]).reshape(CHUNK, D)
        k = k_desc.load([head, start, 0]).reshape(CHUNK, D)
        v = v_desc.load([head, start, column]).reshape(CHUNK, DV)
        scores = tl.dot(q, k.T)
        scores = tl.where(places[:, None] >= places[None, :], scores, 0.0)
        o = tl.dot(q, state.to(v.dtype))
        o = tl.dot(scores.to(v.dtype), v, o)
        state = tl.dot(k.T, v, state)
        o_desc.store([head, start, column], o.to(o_desc.dtype).reshape(1, CHUNK, DV))


def launch(q, k, v, o, chunk=64, columns=None, **options):
    """Linear attention of [heads, rows, D] arrays of any library."""
    heads, N, D = q.shape
    columns = columns or v.shape[2]
    describe = tawa.TensorDescriptor.from_tensor
    return linear_attention[(tawa.cdiv(v.shape[2], columns), heads)](
        describe(q, [1, chunk, D]),
        describe(k, [1, chunk, D]),
        describe(v, [1, chunk, columns]),
        describe(o, [1, chunk, columns]),
        N,
        D=D,
        DV=columns,
        CHUNK=chunk,
        **options,
    )


def reference(q, k, v):
    """Linear attention, by NumPy."""
    return np.tril(q @ k.swapaxes(1, 2)) @ v


def example_linear_attention():
    """Rows that are no multiple of the chunk."""
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 2, 200, 64)).astype(np.float16)
    o = np.full_like(v, np.nan)
    launch(q, k, v, o)
    return {"o": (o, reference(*(x.astype(np.float64) for x in (q, k, v))))}
