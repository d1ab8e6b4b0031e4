"""Y = layernorm(X @ W^T + bias) * weight + shift: a GEMM whose tile holds whole rows."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def gemm_layernorm(
    x_desc,
    w_desc,
    y_desc,
    bias_ptr,
    weight_ptr,
    shift_ptr,
    K,
    eps,
    N: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """One program computes BLOCK_M rows; BLOCK_N is at least N."""
    off_m = tl.program_id(0) * BLOCK_M
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        x = x_desc.load([off_m, k * BLOCK_K])
        w = w_desc.load([0, k * BLOCK_K])
        acc = tl.dot(x, w.T, acc)
    columns = tl.arange(0, BLOCK_N)
    inside = columns < N
    acc += tl.load(bias_ptr + columns, mask=inside, other=0.0)[None, :]
    mean = tl.sum(acc, axis=1) / N
    centered = tl.where(inside[None, :], acc - mean[:, None], 0.0)
    variance = tl.sum(centered * centered, axis=1) / N
    scale = tl.rsqrt(variance + eps)
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0)
    shift = tl.load(shift_ptr + columns, mask=inside, other=0.0)
    y = centered * scale[:, None] * weight[None, :] + shift[None, :]
    y_desc.store([off_m, 0], y.to(y_desc.dtype))


def launch(x, w, bias, weight, shift, y, eps=1e-5, block=(128, 256, 64), **options):
    """Y for arrays of any library; rows of up to 256 columns."""
    (M, K), N = x.shape, w.shape[0]
    block_m, block_n, block_k = block
    describe = tawa.TensorDescriptor.from_tensor
    return gemm_layernorm[(tawa.cdiv(M, block_m),)](
        describe(x, [block_m, block_k]),
        describe(w, [block_n, block_k]),
        describe(y, [block_m, block_n]),
        *(bias, weight, shift, K, eps),
        N=N,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        **options,
    )


def reference(x, w, bias, weight, shift, eps=1e-5):
    """The same, by NumPy."""
    z = x @ w.T + bias
    centered = z - z.mean(1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(1, keepdims=True) + eps) * weight + shift


def example_gemm_layernorm():
    """Rows that are no multiple of the tile's, 200 columns in a tile of 256."""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((rows, 136)).astype(np.float16) for rows in (200, 200))
    bias, weight, shift = rng.standard_normal((3, 200)).astype(np.float32)
    y = np.full((200, 200), np.nan, np.float16)
    launch(x, w, bias, weight, shift, y)
    return {"y": (y, reference(*(v.astype(np.float64) for v in (x, w, bias, weight, shift))))}
