"""C = op(A) @ op(B) with either operand transposed in memory, for any element type.

A block is loaded as it lies in memory and turned by `.T`, which moves no data.
"""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def gemm_layouts(
    a_desc,
    b_desc,
    c_desc,
    K,
    TRANSPOSE_A: tl.constexpr,
    TRANSPOSE_B: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
):
    """One program computes one tile. A lies as [M, K] or [K, M], B as [K, N] or [N, K]."""
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACCUMULATOR)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([k, off_m]).T if TRANSPOSE_A else a_desc.load([off_m, k])
        b = b_desc.load([off_n, k]).T if TRANSPOSE_B else b_desc.load([k, off_n])
        acc = tl.dot(a, b, acc)
    c_desc.store([off_m, off_n], acc.to(c_desc.dtype))


def launch(a, b, c, form="NN", block=(128, 128, 64), accumulator=tl.float32, **options):
    """C = op(A) @ op(B); `form` says for A and B whether they lie transposed (T) or not (N)."""
    transpose_a, transpose_b = (letter == "T" for letter in form)
    M, N = c.shape
    K = a.shape[0 if transpose_a else 1]
    block_m, block_n, block_k = block
    block_a = [block_k, block_m] if transpose_a else [block_m, block_k]
    block_b = [block_n, block_k] if transpose_b else [block_k, block_n]
    return gemm_layouts[(tawa.cdiv(M, block_m), tawa.cdiv(N, block_n))](
        tawa.TensorDescriptor.from_tensor(a, block_a),
        tawa.TensorDescriptor.from_tensor(b, block_b),
        tawa.TensorDescriptor.from_tensor(c, [block_m, block_n]),
        K,
        TRANSPOSE_A=transpose_a,
        TRANSPOSE_B=transpose_b,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        ACCUMULATOR=accumulator,
        **options,
    )


def reference(a, b, form="NN"):
    """The product, by NumPy."""
    return (a.T if form[0] == "T" else a) @ (b.T if form[1] == "T" else b)


def example_gemm_layouts():
    """Both operands transposed in memory."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((136, 200), (264, 136)))
    c = np.full((200, 264), np.nan, np.float16)
    launch(a, b, c, "TT")
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64), "TT"))}
