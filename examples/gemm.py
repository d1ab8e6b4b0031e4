"""C = A @ B^T through tensor descriptors: a plain sequential tile kernel, as written for Triton.

Nothing here says which warps load, where barriers stand or how deep the pipeline is; the launch
options (`persistent`, `num_stages`, `consumers`, ...) may pin any of it.

`tawa run examples/gemm.py:gemm` runs the example below in the simulator, and
`tawa compile examples/gemm.py:gemm` compiles for what it launches.
"""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def gemm(
    a_desc,
    b_desc,
    c_desc,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """One program computes one BLOCK_M x BLOCK_N tile of C; programs walk along M in groups."""
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    width = GROUP_M * num_n
    group = pid // width
    first_m = group * GROUP_M
    group_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + (pid % width) % group_m
    pid_n = (pid % width) // group_m
    off_m = pid_m * BLOCK_M
    off_n = pid_n * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = a_desc.load([off_m, k * BLOCK_K])
        b = b_desc.load([off_n, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
    c_desc.store([off_m, off_n], acc.to(c_desc.dtype))


def launch(a, b, c, block=(128, 256, 64), **options):
    """C = A @ B^T for arrays of any library: NumPy's run in the simulator, others on their GPU."""
    (M, K), N = a.shape, b.shape[0]
    block_m, block_n, block_k = block
    return gemm[(tawa.cdiv(M, block_m) * tawa.cdiv(N, block_n),)](
        tawa.TensorDescriptor.from_tensor(a, [block_m, block_k]),
        tawa.TensorDescriptor.from_tensor(b, [block_n, block_k]),
        tawa.TensorDescriptor.from_tensor(c, [block_m, block_n]),
        *(M, N, K),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP_M=8,
        **options,
    )


def reference(a, b):
    """A @ B^T, by NumPy."""
    return a @ b.T


def example_gemm():
    """A product whose sizes are no multiples of the tile's."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, 200)).astype(np.float16) for size in (300, 520))
    c = np.full((300, 520), np.nan, np.float16)
    launch(a, b, c, persistent=True)
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64)))}
