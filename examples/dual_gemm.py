"""C = silu(A @ B1^T) * (A @ B2^T), SwiGLU's two products in one kernel that loads A once."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def dual_gemm(
    a_desc,
    b1_desc,
    b2_desc,
    c_desc,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One program computes the same tile of both products, and their gated product."""
    pid = tl.program_id(0)
    num_m, num_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    tile_m, tile_n = tl.swizzle2d(pid // num_n, pid % num_n, num_m, num_n, GROUP_M)
    off_m, off_n = tile_m * BLOCK_M, tile_n * BLOCK_N
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([off_m, k * BLOCK_K])
        b1 = b1_desc.load([off_n, k * BLOCK_K])
        b2 = b2_desc.load([off_n, k * BLOCK_K])
        gate = tl.dot(a, b1.T, gate)
        up = tl.dot(a, b2.T, up)
    c_desc.store([off_m, off_n], (gate * tl.sigmoid(gate) * up).to(c_desc.dtype))


def launch(a, b1, b2, c, block=(128, 128, 64), group=8, **options):
    """Both products and the gate, for arrays of any library."""
    (M, K), N = a.shape, b1.shape[0]
    block_m, block_n, block_k = block
    describe = tawa.TensorDescriptor.from_tensor
    return dual_gemm[(tawa.cdiv(M, block_m) * tawa.cdiv(N, block_n),)](
        describe(a, [block_m, block_k]),
        *(describe(b, [block_n, block_k]) for b in (b1, b2)),
        describe(c, [block_m, block_n]),
        *(M, N, K),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP_M=group,
        **options,
    )


def reference(a, b1, b2):
    """silu(A @ B1^T) * (A @ B2^T), by NumPy."""
    gate = a @ b1.T
    return gate / (1 + np.exp(-gate)) * (a @ b2.T)


def example_dual_gemm():
    """Sizes that are no multiples of the tile's."""
    rng = np.random.default_rng(0)
    a, b1, b2 = (rng.standard_normal((rows, 136)).astype(np.float16) for rows in (200, 264, 264))
    c = np.full((200, 264), np.nan, np.float16)
    launch(a, b1, b2, c)
    return {"c": (c, reference(*(x.astype(np.float64) for x in (a, b1, b2))))}
