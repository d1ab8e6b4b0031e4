"""Row-wise running maximum over tiles of K: what each row's largest element was after every tile.

Loads through descriptors and no product: the same roles and rings as a GEMM, other work.
"""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def running_max(x_desc, y_ptr, rows, tiles, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    """One program follows BLOCK_M rows; `y[row, tile]` is the maximum of the tiles up to `tile`."""
    first = tl.program_id(0) * BLOCK_M
    row = first + tl.arange(0, BLOCK_M)
    best = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    for k in range(0, tiles):
        x = x_desc.load([first, k * BLOCK_K])
        best = tl.maximum(best, tl.max(x.to(tl.float32), axis=1))
        tl.store(y_ptr + row * tiles + k, best, mask=row < rows)


def launch(x, y, block=(64, 64), **options):
    """`y[:, t] = max(x[:, : (t + 1) * block_k], axis=1)` for arrays of any library."""
    rows = x.shape[0]
    block_m, block_k = block
    tiles = tawa.cdiv(x.shape[1], block_k)
    return running_max[(tawa.cdiv(rows, block_m),)](
        tawa.TensorDescriptor.from_tensor(x, [block_m, block_k]),
        *(y, rows, tiles),
        BLOCK_M=block_m,
        BLOCK_K=block_k,
        **options,
    )


def reference(x, block_k=64):
    """The running maxima, by NumPy. Columns beyond the last are zeros, as descriptors read them."""
    padded = np.pad(x, ((0, 0), (0, -x.shape[1] % block_k)))
    tiles = padded.reshape(len(x), -1, block_k).max(axis=2)
    return np.maximum.accumulate(tiles, axis=1)


def example_running_max():
    """Rows that are no multiple of the block."""
    x = np.random.default_rng(0).standard_normal((100, 320)).astype(np.float16)
    y = np.full((100, 5), np.nan, np.float32)
    launch(x, y)
    return {"y": (y, reference(x.astype(np.float64)))}
