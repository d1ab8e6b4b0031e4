"""C[l] = A[l] B[l] for a batch of matrices: one more dimension of the grid."""

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
def batched_gemm(c, a, b):
    """C[l] = A[l] B[l] for each l."""


@task(c=WRITE, a=READ, b=READ)
def gemm(c, a, b):
    """C = A B."""


@batched_gemm.inner
def batched_gemm_grid(c, a, b):
    """A block of one C for each iteration. `None` takes one matrix of a batch."""
    U, V = tunable("U", 128), tunable("V", 128)
    blocks = partition_by_blocks(c, (None, U, V))
    rows = partition_by_blocks(a, (None, U, a.shape[2]))
    columns = partition_by_blocks(b, (None, b.shape[1], V))
    for which, i, j in prange(*blocks.shape):
        launch(gemm, blocks[which, i, j], rows[which, i, 0], columns[which, 0, j])


@gemm.inner
def gemm_block(c, a, b):
    """One block: products of W columns of A and as many rows of B, added up."""
    W = tunable("W", 64)
    of_a = partition_by_blocks(a, (a.shape[0], W))
    of_b = partition_by_blocks(b, (W, b.shape[1]))
    acc = make_tensor(c.shape, tl.float32)
    launch(clear, acc)
    for k in srange(of_a.shape[1]):
        launch(multiply, acc, of_a[0, k], of_b[k, 0])
    launch(copy, c, acc)


def reference(a, b):
    """The products, by NumPy."""
    return a @ b


def example_batched_gemm():
    """Three products of sizes that are no multiples of the blocks'."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 136, 72)).astype(np.float16)
    b = rng.standard_normal((3, 72, 200)).astype(np.float16)
    c = np.full((3, 136, 200), np.nan, np.float16)
    batched_gemm(c, a, b)
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64)))}
