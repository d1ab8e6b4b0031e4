"""Attention's backward as two sequential loops: dK and dV over query blocks, dQ over key blocks.

Both recompute the probabilities from the forward's log-sum-exp, so nothing is added atomically.
"""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def attention_dk_dv(
    q_desc,
    k_desc,
    v_desc,
    do_desc,
    dk_desc,
    dv_desc,
    lse_ptr,
    delta_ptr,
    scale,
    N,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One program computes BLOCK_N rows of dK and dV of one head. Scores are transposed: S^T."""
    start_n = tl.program_id(0) * BLOCK_N
    head = tl.program_id(1)
    keys = start_n + tl.arange(0, BLOCK_N)
    k = k_desc.load([head, start_n, 0]).reshape(BLOCK_N, D)
    v = v_desc.load([head, start_n, 0]).reshape(BLOCK_N, D)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    first = start_n // BLOCK_M * BLOCK_M if CAUSAL else 0
    for start_m in range(first, N, BLOCK_M):
        q = q_desc.load([head, start_m, 0]).reshape(BLOCK_M, D)
        queries = start_m + tl.arange(0, BLOCK_M)
        inside = queries < N
        # Rows past the end get probability zero: their log-sum-exp is infinite.
        lse = tl.load(lse_ptr + head * N + queries, mask=inside, other=float("inf"))
        delta = tl.load(delta_ptr + head * N + queries, mask=inside, other=0.0)
        scores = tl.dot(k, q.T)
        p = tl.exp2(scores * (scale * 1.4426950408889634) - (lse * 1.4426950408889634)[None, :])
        if CAUSAL:
            p = tl.where(keys[:, None] <= queries[None, :], p, 0.0)
        do = do_desc.load([head, start_m, 0]).reshape(BLOCK_M, D)
        dv = tl.dot(p.to(do.dtype), do, dv)
        dp = tl.dot(v, do.T)
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    dk_desc.store([head, start_n, 0], (dk * scale).to(dk_desc.dtype).reshape(1, BLOCK_N, D))
    dv_desc.store([head, start_n, 0], dv.to(dv_desc.dtype).reshape(1, BLOCK_N, D))


@tawa.jit
def attention_dq(
    q_desc,
    k_desc,
    v_desc,
    do_desc,
    dq_desc,
    lse_ptr,
    delta_ptr,
    scale,
    N,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One program computes BLOCK_M rows of dQ of one head."""
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    queries = start_m + tl.arange(0, BLOCK_M)
    q = q_desc.load([head, start_m, 0]).reshape(BLOCK_M, D)
    do = do_desc.load([head, start_m, 0]).reshape(BLOCK_M, D)
    lse = tl.load(lse_ptr + head * N + queries, mask=queries < N, other=0.0) * 1.4426950408889634
    delta = tl.load(delta_ptr + head * N + queries, mask=queries < N, other=0.0)
    dq = tl.zeros((BLOCK_M, D), tl.float32)
    end = min(start_m + BLOCK_M, N) if CAUSAL else N
    for start_n in range(0, end, BLOCK_N):
        k = k_desc.load([head, start_n, 0]).reshape(BLOCK_N, D)
        v = v_desc.load([head, start_n, 0]).reshape(BLOCK_N, D)
        scores = tl.dot(q, k.T)
        p = tl.exp2(scores * (scale * 1.4426950408889634) - lse[:, None])
        keys = start_n + tl.arange(0, BLOCK_N)
        visible = keys[None, :] < N
        if CAUSAL:
            visible = visible & (keys[None, :] <= queries[:, None])
        dp = tl.dot(do, v.T)
        ds = tl.where(visible, p * (dp - delta[:, None]), 0.0)
        dq = tl.dot(ds.to(k.dtype), k, dq)
    dq_desc.store([head, start_m, 0], (dq * scale).to(dq_desc.dtype).reshape(1, BLOCK_M, D))


def _describe(blocks, *arrays):
    describe = tawa.TensorDescriptor.from_tensor
    return [describe(a, [1, b, a.shape[2]]) for a, b in zip(arrays, blocks, strict=True)]


def launch_dk_dv(q, k, v, do, lse, delta, dk, dv, causal=False, block=(64, 128), **options):
    """dK and dV of [heads, N, D] arrays of any library; `lse` and `delta` are [heads, N], f32."""
    heads, N, D = q.shape
    m, n = block
    return attention_dk_dv[(tawa.cdiv(N, n), heads)](
        *_describe((m, n, n, m, n, n), q, k, v, do, dk, dv),
        *(lse, delta, D**-0.5, N),
        D=D,
        BLOCK_M=m,
        BLOCK_N=n,
        CAUSAL=causal,
        **options,
    )


def launch_dq(q, k, v, do, lse, delta, dq, causal=False, block=(128, 64), **options):
    """dQ of [heads, N, D] arrays of any library."""
    heads, N, D = q.shape
    m, n = block
    return attention_dq[(tawa.cdiv(N, m), heads)](
        *_describe((m, n, n, m, m), q, k, v, do, dq),
        *(lse, delta, D**-0.5, N),
        D=D,
        BLOCK_M=m,
        BLOCK_N=n,
        CAUSAL=causal,
        **options,
    )


def forward(q, k, v, causal=False):
    """Attention's output, and the log-sum-exp of each row's scores, by NumPy."""
    scores = q @ k.swapaxes(1, 2) * q.shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    lse = np.logaddexp.reduce(scores, axis=2)
    return np.exp(scores - lse[:, :, None]) @ v, lse


def reference(q, k, v, do, lse, delta, causal=False, wanted=("dq", "dk", "dv")):
    """The gradients, by NumPy; `delta` is the row sums of do * o."""
    scale = q.shape[-1] ** -0.5
    p = np.exp(q @ k.swapaxes(1, 2) * scale - lse[:, :, None])
    if causal:
        p = np.tril(p)
    ds = p * (do @ v.swapaxes(1, 2) - delta[:, :, None]) * scale
    found = {"dq": ds @ k, "dk": ds.swapaxes(1, 2) @ q, "dv": p.swapaxes(1, 2) @ do}
    return tuple(found[name] for name in wanted)


def _inputs(causal):
    rng = np.random.default_rng(0)
    q, k, v, do = rng.standard_normal((4, 1, 200, 64)).astype(np.float16)
    o, lse = forward(*(x.astype(np.float64) for x in (q, k, v)), causal)
    return q, k, v, do, lse.astype(np.float32), (o * do).sum(2).astype(np.float32)


def example_attention_dk_dv():
    """Rows that are no multiple of the blocks, causal."""
    inputs = _inputs(True)
    dk, dv = np.full((2, 1, 200, 64), np.nan, np.float16)
    launch_dk_dv(*inputs, dk, dv, causal=True)
    expected = reference(*(x.astype(np.float64) for x in inputs), True, ("dk", "dv"))
    return {"dk": (dk, expected[0]), "dv": (dv, expected[1])}


def example_attention_dq():
    """Rows that are no multiple of the blocks."""
    inputs = _inputs(False)
    dq = np.full((1, 200, 64), np.nan, np.float16)
    launch_dq(*inputs, dq)
    return {"dq": (dq, *reference(*(x.astype(np.float64) for x in inputs), wanted=("dq",)))}
