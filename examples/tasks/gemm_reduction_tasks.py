"""C = A B and the sums of A's rows: ordinary code beside products, on the same tiles of A."""

import numpy as np

import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
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


@task(c=WRITE, sums=WRITE, a=READ, b=READ)
def gemm_reduction(c, sums, a, b):
    """C = A B, and in each column j of `sums` [M, blocks of N] the sums of A's rows."""


@task(total=READ_WRITE, a=READ)
def add_rows(total, a):
    """total += the sums of A's rows."""


@gemm_reduction.inner
def gemm_reduction_grid(c, sums, a, b):
    """A block of C for each iteration; each sums up the rows that it reads anyway."""
    U, V = tunable("U", 128), tunable("V", 128)
    blocks = partition_by_blocks(c, (U, V))
    rows = partition_by_blocks(a, (U, a.shape[1]))
    columns = partition_by_blocks(b, (b.shape[0], V))
    of_sums = partition_by_blocks(sums, (None, U))
    for i, j in prange(*blocks.shape):
        launch(gemm_reduction, blocks[i, j], of_sums[j, i], rows[i, 0], columns[0, j])


@gemm_reduction.inner
def gemm_reduction_block(c, sums, a, b):
    """One block of C, and its rows' sums."""
    W = tunable("W", 64)
    of_a = partition_by_blocks(a, (a.shape[0], W))
    of_b = partition_by_blocks(b, (W, b.shape[1]))
    acc = make_tensor(c.shape, tl.float32)
    total = make_tensor(sums.shape, tl.float32)
    launch(clear, acc)
    launch(clear, total)
    for k in srange(of_a.shape[1]):
        launch(multiply, acc, of_a[0, k], of_b[k, 0])
        launch(add_rows, total, of_a[0, k])
    launch(copy, c, acc)
    launch(copy, sums, total)


@add_rows.leaf
def add_rows_tile(total, a):
    """Sums along a tile's rows."""
    return total + tl.sum(a.to(tl.float32), axis=1)


def reference(a, b, blocks):
    """The product, and the row sums once for each block of columns, by NumPy."""
    return a @ b, np.tile(a.sum(1), (blocks, 1))


def example_gemm_reduction():
    """Sizes that are no multiples of the blocks'."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((200, 136)).astype(np.float16)
    b = rng.standard_normal((136, 264)).astype(np.float16)
    c, sums = np.full((200, 264), np.nan, np.float16), np.full((3, 200), np.nan, np.float32)
    gemm_reduction(c, sums, a, b)
    expected, total = reference(a.astype(np.float64), b.astype(np.float64), 3)
    return {"c": (c, expected), "sums": (sums, total)}
