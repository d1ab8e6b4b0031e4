"""C = A B as tasks: a grid of blocks, a loop over K, and leaves on tiles."""

import numpy as np

import tawa.language as tl
from tawa.tasks import (
    READ,
    WRITE,
    clear,
    copy,
    launch,
    make_tensor,
    multiply,
    partition_by_blocks,
    prange,
    srange,
    task,
    tunable,
)


@task(c=WRITE, a=READ, b=READ)
def gemm(c, a, b):
    """C = A B."""


@gemm.inner
def gemm_grid(c, a, b):
    """A block of C for each iteration, of rows of A and columns of B."""
    U, V = tunable("U", 128), tunable("V", 128)
    blocks = partition_by_blocks(c, (U, V))
    rows = partition_by_blocks(a, (U, a.shape[1]))
    columns = partition_by_blocks(b, (b.shape[0], V))
    for i, j in prange(*blocks.shape):
        launch(gemm, blocks[i, j], rows[i, 0], columns[0, j])


@gemm.inner
def gemm_block(c, a, b):
    """One block of C: products of W columns of A and as many rows of B, added up."""
    W = tunable("W", 64)
    of_a = partition_by_blocks(a, (a.shape[0], W))
    of_b = partition_by_blocks(b, (W, b.shape[1]))
    acc = make_tensor(c.shape, tl.float32)
    launch(clear, acc)
    for k in srange(of_a.shape[1]):
        launch(multiply, acc, of_a[0, k], of_b[k, 0])
    launch(copy, c, acc)


def reference(a, b):
    """A B, by NumPy."""
    return a @ b


def example_gemm():
    """Sizes that are no multiples of the blocks'."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((300, 200)).astype(np.float16)
    b = rng.standard_normal((200, 264)).astype(np.float16)
    c = np.full((300, 264), np.nan, np.float16)
    gemm(c, a, b)
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64)))}
