"""C = A @ B^T with the kernel's own loop over tiles, and descriptors made in the kernel.

The descriptors are computed from the arguments alone, so the host makes them, once a launch.
"""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def persistent_gemm(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """Programs take every `num_programs`-th tile."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    num_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * num_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        off_m = tile // num_n * BLOCK_M
        off_n = tile % num_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([off_m, k * BLOCK_K])
            b = b_desc.load([off_n, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([off_m, off_n], acc.to(c_ptr.dtype.element_ty))


def launch(a, b, c, block=(128, 128, 64), programs=132, **options):
    """C = A @ B^T for contiguous arrays of any library."""
    (M, K), N = a.shape, b.shape[0]
    block_m, block_n, block_k = block
    grid = (min(programs, tawa.cdiv(M, block_m) * tawa.cdiv(N, block_n)),)
    return persistent_gemm[grid](
        *(a, b, c, M, N, K),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        **options,
    )


def reference(a, b):
    """The product, by NumPy."""
    return a @ b.T


def example_persistent_gemm():
    """Two programs share nine tiles."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 136)).astype(np.float16) for rows in (300, 328))
    c = np.full((300, 328), np.nan, np.float16)
    launch(a, b, c, programs=2)
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64)))}
