"""Two products of one A: C1 = A @ B1^T and C2 = A @ B2^T, A loaded once."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def dual_gemm(
    a_desc,
    b1_desc,
    b2_desc,
    c1_desc,
    c2_desc,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One program computes the same tile of both products."""
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    acc1 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    acc2 = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([off_m, k * BLOCK_K])
        b1 = b1_desc.load([off_n, k * BLOCK_K])
        b2 = b2_desc.load([off_n, k * BLOCK_K])
        acc1 = tl.dot(a, b1.T, acc1)
        acc2 = tl.dot(a, b2.T, acc2)
    c1_desc.store([off_m, off_n], acc1.to(c1_desc.dtype))
    c2_desc.store([off_m, off_n], acc2.to(c2_desc.dtype))


def launch(a, b1, b2, c1, c2, block=(128, 128, 64), **options):
    """Both products, for arrays of any library."""
    (M, K), N = a.shape, b1.shape[0]
    block_m, block_n, block_k = block
    describe = tawa.TensorDescriptor.from_tensor
    return dual_gemm[(tawa.cdiv(M, block_m), tawa.cdiv(N, block_n))](
        describe(a, [block_m, block_k]),
        *(describe(b, [block_n, block_k]) for b in (b1, b2)),
        *(describe(c, [block_m, block_n]) for c in (c1, c2)),
        K,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        **options,
    )


def reference(a, b1, b2):
    """Both products, by NumPy."""
    return a @ b1.T, a @ b2.T


def example_dual_gemm():
    """Sizes that are no multiples of the tile's."""
    rng = np.random.default_rng(0)
    a, b1, b2 = (rng.standard_normal((rows, 136)).astype(np.float16) for rows in (200, 264, 264))
    c1, c2 = np.full((2, 200, 264), np.nan, np.float16)
    launch(a, b1, b2, c1, c2)
    expected = reference(*(x.astype(np.float64) for x in (a, b1, b2)))
    return {"c1": (c1, expected[0]), "c2": (c2, expected[1])}
