"""C = A @ B through pointers, as a Triton tutorial would write it: masked loads feed `tl.dot`."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def leaky_relu(x):
    """x, or a hundredth of it below zero."""
    return tl.where(x >= 0, x, 0.01 * x)


@tawa.jit
def matmul_pointers(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    """One program computes one tile; pointers advance along K."""
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < left) & (offs_n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    c = acc.to(c_ptr.dtype.element_ty)
    c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn
    tl.store(c_ptrs, c, mask=(offs_m[:, None] < M) & (offs_n[None, :] < N))


def launch(a, b, c, block=(64, 64, 32), activation="", **options):
    """C = A @ B for contiguous arrays of any library."""
    (M, K), N = a.shape, b.shape[1]
    block_m, block_n, block_k = block
    return matmul_pointers[(tawa.cdiv(M, block_m), tawa.cdiv(N, block_n))](
        *(a, b, c, M, N, K, K, 1, N, 1, N, 1),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        ACTIVATION=activation,
        **options,
    )


def reference(a, b, activation=""):
    """A @ B, by NumPy."""
    c = a @ b
    return np.where(c >= 0, c, 0.01 * c) if activation else c


def example_matmul_pointers():
    """Sizes that are no multiples of anything."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((100, 75), (75, 130)))
    c = np.full((100, 130), np.nan, np.float16)
    launch(a, b, c, activation="leaky_relu")
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64), "leaky_relu"))}
