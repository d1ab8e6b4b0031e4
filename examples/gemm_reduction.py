"""C = A @ B^T and the row sums of A in the same loop: ordinary code beside a product in flight."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def gemm_reduction(
    a_desc,
    b_desc,
    c_desc,
    sums_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One program computes one tile of C; the first of a row of tiles writes the sums."""
    pid = tl.program_id(0)
    num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    tile_m, tile_n = tl.swizzle2d(pid // num_n, pid % num_n, num_m, num_n, GROUP_M)
    off_m, off_n = tile_m * BLOCK_M, tile_n * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    sums = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([off_m, k * BLOCK_K])
        b = b_desc.load([off_n, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
        sums += tl.sum(a.to(tl.float32), axis=1)
    c_desc.store([off_m, off_n], acc.to(c_desc.dtype))
    rows = off_m + tl.arange(0, BLOCK_M)
    tl.store(sums_ptr + rows, sums, mask=(rows < M) & (off_n == 0))


def launch(a, b, c, sums, block=(128, 256, 64), group=8, **options):
    """C = A @ B^T and sums = A.sum(1), for arrays of any library."""
    (M, K), N = a.shape, b.shape[0]
    block_m, block_n, block_k = block
    describe = tawa.TensorDescriptor.from_tensor
    return gemm_reduction[(tawa.cdiv(M, block_m) * tawa.cdiv(N, block_n),)](
        describe(a, [block_m, block_k]),
        describe(b, [block_n, block_k]),
        describe(c, [block_m, block_n]),
        sums,
        *(M, N, K),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP_M=group,
        **options,
    )


def reference(a, b):
    """The product and the row sums, by NumPy."""
    return a @ b.T, a.sum(1)


def example_gemm_reduction():
    """Sizes that are no multiples of the tile's."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, 136)).astype(np.float16) for rows in (200, 264))
    c, sums = np.full((200, 264), np.nan, np.float16), np.full(200, np.nan, np.float32)
    launch(a, b, c, sums)
    expected, total = reference(a.astype(np.float64), b.astype(np.float64))
    return {"c": (c, expected), "sums": (sums, total)}
