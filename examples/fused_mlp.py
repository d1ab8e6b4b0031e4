"""Y = gelu(X @ W1^T) @ W2^T, two chained GEMMs: the hidden layer never leaves the chip."""

import math

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def gelu(x):
    """The form with tanh, which is x times a logistic function: x sigmoid(2 c (x + a x^3))."""
    return x * tl.sigmoid(x * (1.5957691216057308 + 0.07135481282739 * x * x))


@tawa.jit
def fused_mlp(
    x_desc,
    w1_desc,
    w2_desc,
    y_desc,
    H,
    D: tl.constexpr,
    OUT: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_H: tl.constexpr,
):
    """One program computes BLOCK_M rows; the hidden layer passes by in blocks of BLOCK_H."""
    off_m = tl.program_id(0) * BLOCK_M
    x = x_desc.load([off_m, 0])
    y = tl.zeros((BLOCK_M, OUT), dtype=tl.float32)
    for start in range(0, H, BLOCK_H):
        w1 = w1_desc.load([start, 0])
        hidden = gelu(tl.dot(x, w1.T))
        w2 = w2_desc.load([0, start])
        y = tl.dot(hidden.to(x.dtype), w2.T, y)
    y_desc.store([off_m, 0], y.to(y_desc.dtype))


def launch(x, w1, w2, y, block=(128, 64), **options):
    """Y for arrays of any library: W1 is [H, D], W2 [OUT, H]; D and OUT up to 256."""
    (M, D), H, OUT = x.shape, w1.shape[0], w2.shape[0]
    block_m, block_h = block
    describe = tawa.TensorDescriptor.from_tensor
    return fused_mlp[(tawa.cdiv(M, block_m),)](
        describe(x, [block_m, D]),
        describe(w1, [block_h, D]),
        describe(w2, [OUT, block_h]),
        describe(y, [block_m, OUT]),
        H,
        D=D,
        OUT=OUT,
        BLOCK_M=block_m,
        BLOCK_H=block_h,
        **options,
    )


def reference(x, w1, w2):
    """gelu(X @ W1^T) @ W2^T, by NumPy."""
    h = x @ w1.T
    return h / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3))) @ w2.T


def example_fused_mlp():
    """Rows and hidden units that are no multiples of the blocks."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 64)).astype(np.float16)
    w1 = (rng.standard_normal((200, 64)) / 8).astype(np.float16)
    w2 = rng.standard_normal((128, 200)).astype(np.float16)
    y = np.full((200, 128), np.nan, np.float16)
    launch(x, w1, w2, y)
    return {"y": (y, reference(*(v.astype(np.float64) for v in (x, w1, w2))))}
