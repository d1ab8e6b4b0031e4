"""C[i] = A[i] @ B[i]^T for a batch of matrices: descriptors of rank 3, any batch stride."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def batched_gemm(
    a_desc,
    b_desc,
    c_desc,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One program computes one tile of one product of the batch."""
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    batch = tl.program_id(2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = a_desc.load([batch, off_m, k]).reshape(BLOCK_M, BLOCK_K)
        b = b_desc.load([batch, off_n, k]).reshape(BLOCK_N, BLOCK_K)
        acc = tl.dot(a, b.T, acc)
    c = acc.to(c_desc.dtype).reshape(1, BLOCK_M, BLOCK_N)
    c_desc.store([batch, off_m, off_n], c)


def launch(a, b, c, block=(128, 128, 64), **options):
    """All products of a batch, for arrays of any library (slices with strides too)."""
    batch, M, K = a.shape
    N = b.shape[1]
    block_m, block_n, block_k = block
    return batched_gemm[(tawa.cdiv(M, block_m), tawa.cdiv(N, block_n), batch)](
        tawa.TensorDescriptor.from_tensor(a, [1, block_m, block_k]),
        tawa.TensorDescriptor.from_tensor(b, [1, block_n, block_k]),
        tawa.TensorDescriptor.from_tensor(c, [1, block_m, block_n]),
        K,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        **options,
    )


def reference(a, b):
    """The products, by NumPy."""
    return a @ b.swapaxes(1, 2)


def example_batched_gemm():
    """Every second matrix of a larger batch."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((6, 136, 72)).astype(np.float16)[::2]
    b = rng.standard_normal((3, 200, 72)).astype(np.float16)
    c = np.full((3, 136, 200), np.nan, np.float16)
    launch(a, b, c)
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64)))}
