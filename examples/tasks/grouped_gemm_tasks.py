"""Products of groups of rows: each group of A, of any size, with a matrix of its own."""

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
    partition_by_offsets,
    prange,
    srange,
    task,
    tunable,
)


@task(c=WRITE, a=READ, b=READ, offsets=READ)
def grouped_gemm(c, a, b, offsets):
    """C = A B[g] for the rows of each group g, from offsets[g] to offsets[g + 1]."""


@task(c=WRITE, a=READ, b=READ)
def gemm(c, a, b):
    """C = A B."""


@grouped_gemm.inner
def grouped_gemm_groups(c, a, b, offsets):
    """A product for each group. How many rows it has is known only when the program runs."""
    of_c, of_a = partition_by_offsets(c, offsets), partition_by_offsets(a, offsets)
    of_b = partition_by_blocks(b, (None, b.shape[1], b.shape[2]))
    for g in prange(*of_a.shape):
        launch(gemm, of_c[g], of_a[g], of_b[g, 0, 0])


@gemm.inner
def gemm_grid(c, a, b):
    """A block of C for each iteration."""
    U, V = tunable("U", 128), tunable("V", 128)
    blocks = partition_by_blocks(c, (U, V))
    rows = partition_by_blocks(a, (U, a.shape[1]))
    columns = partition_by_blocks(b, (b.shape[0], V))
    for i, j in prange(*blocks.shape):
        launch(gemm, blocks[i, j], rows[i, 0], columns[0, j])


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


def reference(a, b, offsets):
    """The products, by NumPy."""
    groups = zip(offsets[:-1], offsets[1:], b, strict=True)
    return np.concatenate([a[low:high] @ matrix for low, high, matrix in groups])


def example_grouped_gemm():
    """Four groups, one of them empty, none of a multiple of the blocks' rows."""
    rng = np.random.default_rng(0)
    offsets = np.array([0, 130, 130, 137, 300], np.int32)
    a = rng.standard_normal((300, 72)).astype(np.float16)
    b = rng.standard_normal((4, 72, 136)).astype(np.float16)
    c = np.full((300, 136), np.nan, np.float16)
    grouped_gemm(c, a, b, offsets)
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64), offsets))}
