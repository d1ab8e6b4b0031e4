"""C = A @ B^T + bias: the bias row is loaded through a pointer, C is stored in float32."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def gemm_bias(
    a_desc,
    b_desc,
    bias_ptr,
    c_desc,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One program computes one tile."""
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([off_m, k * BLOCK_K])
        b = b_desc.load([off_n, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
    columns = off_n + tl.arange(0, BLOCK_N)
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0)
    acc += bias[None, :].to(tl.float32)
    c_desc.store([off_m, off_n], acc.to(c_desc.dtype))


def launch(a, b, bias, c, block=(128, 128, 64), **options):
    """C = A @ B^T + bias for arrays of any library."""
    (M, K), N = a.shape, b.shape[0]
    block_m, block_n, block_k = block
    return gemm_bias[(tawa.cdiv(M, block_m), tawa.cdiv(N, block_n))](
        tawa.TensorDescriptor.from_tensor(a, [block_m, block_k]),
        tawa.TensorDescriptor.from_tensor(b, [block_n, block_k]),
        bias,
        tawa.TensorDescriptor.from_tensor(c, [block_m, block_n]),
        *(N, K),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        **options,
    )


def reference(a, b, bias):
    """A @ B^T + bias, by NumPy."""
    return a @ b.T + bias


def example_gemm_bias():
    """Sizes that are no multiples of the tile's."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 136)).astype(np.float16) for rows in (200, 264))
    bias = rng.standard_normal(264).astype(np.float32)
    c = np.full((200, 264), np.nan, np.float32)
    launch(a, b, bias, c)
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64), bias))}
