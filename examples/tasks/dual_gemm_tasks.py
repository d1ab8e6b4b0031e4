"""C = A B1 + A B2: both products add to one accumulator, and share the tiles of A."""

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


@task(c=WRITE, a=READ, b1=READ, b2=READ)
def dual_gemm(c, a, b1, b2):
    """C = A B1 + A B2."""


@dual_gemm.inner
def dual_gemm_grid(c, a, b1, b2):
    """A block of C for each iteration."""
    U, V = tunable("U", 128), tunable("V", 128)
    blocks = partition_by_blocks(c, (U, V))
    rows = partition_by_blocks(a, (U, a.shape[1]))
    first = partition_by_blocks(b1, (b1.shape[0], V))
    second = partition_by_blocks(b2, (b2.shape[0], V))
    for i, j in prange(*blocks.shape):
        launch(dual_gemm, blocks[i, j], rows[i, 0], first[0, j], second[0, j])


@dual_gemm.inner
def dual_gemm_block(c, a, b1, b2):
    """One block of C. The two launches of an iteration name the same tile of A."""
    W = tunable("W", 64)
    of_a = partition_by_blocks(a, (a.shape[0], W))
    of_b1 = partition_by_blocks(b1, (W, b1.shape[1]))
    of_b2 = partition_by_blocks(b2, (W, b2.shape[1]))
    acc = make_tensor(c.shape, tl.float32)
    launch(clear, acc)
    for k in srange(of_a.shape[1]):
        launch(multiply, acc, of_a[0, k], of_b1[k, 0])
        launch(multiply, acc, of_a[0, k], of_b2[k, 0])
    launch(copy, c, acc)


def reference(a, b1, b2):
    """A B1 + A B2, by NumPy."""
    return a @ b1 + a @ b2


def example_dual_gemm():
    """Sizes that are no multiples of the blocks'."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((200, 136)).astype(np.float16)
    b1, b2 = rng.standard_normal((2, 136, 264)).astype(np.float16)
    c = np.full((200, 264), np.nan, np.float16)
    dual_gemm(c, a, b1, b2)
    return {"c": (c, reference(*(x.astype(np.float64) for x in (a, b1, b2))))}
