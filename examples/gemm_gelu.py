"""C = gelu(A @ B^T) + R: a GEMM whose epilogue reads a second tile through a descriptor."""

import math

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def gelu(x):
    """The exact form: x / 2 (1 + erf(x / sqrt 2))."""
    return 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))


@tawa.jit
def gemm_gelu(
    a_desc,
    b_desc,
    r_desc,
    c_desc,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One program computes one BLOCK_M x BLOCK_N tile of C."""
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([off_m, k * BLOCK_K])
        b = b_desc.load([off_n, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
    residual = r_desc.load([off_m, off_n]).to(tl.float32)
    c_desc.store([off_m, off_n], (gelu(acc) + residual).to(c_desc.dtype))


def launch(a, b, r, c, block=(128, 128, 64), **options):
    """C = gelu(A @ B^T) + R for arrays of any library."""
    (M, K), N = a.shape, b.shape[0]
    block_m, block_n, block_k = block
    return gemm_gelu[(tawa.cdiv(M, block_m), tawa.cdiv(N, block_n))](
        tawa.TensorDescriptor.from_tensor(a, [block_m, block_k]),
        tawa.TensorDescriptor.from_tensor(b, [block_n, block_k]),
        tawa.TensorDescriptor.from_tensor(r, [block_m, block_n]),
        tawa.TensorDescriptor.from_tensor(c, [block_m, block_n]),
        K,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        **options,
    )


def reference(a, b, r):
    """gelu(A @ B^T) + R, by NumPy."""
    x = a @ b.T
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) + r


def example_gemm_gelu():
    """Sizes that are no multiples of the tile's."""
    rng = np.random.default_rng(0)
    a, b, r = (
        rng.standard_normal(s).astype(np.float16) for s in ((200, 136), (264, 136), (200, 264))
    )
    c = np.full((200, 264), np.nan, np.float16)
    launch(a, b, r, c)
    return {"c": (c, reference(*(x.astype(np.float64) for x in (a, b, r))))}
