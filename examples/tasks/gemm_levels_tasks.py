"""C = A B with every level of the machine in the program: blocks, warp groups, warps.

How many warp groups share a block's tiles is the extent of a `prange`; `partition_by_mma` names the
instruction. Under a mapping without these levels the same program leaves both to the compiler.
"""

import numpy as np

import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    Instance,
    Mapping,
    clear,
    copy,
    launch,
    make_tensor,
    partition_by_blocks,
    partition_by_mma,
    prange,
    srange,
    task,
    tunable,
)


@task(c=WRITE, a=READ, b=READ)
def gemm(c, a, b):
    """C = A B."""


@task(acc=READ_WRITE, a=READ, b=READ)
def add_product(acc, a, b):
    """acc += A B."""


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
        launch(add_product, acc, of_a[0, k], of_b[k, 0])
    launch(copy, c, acc)


@add_product.inner
def product_block(acc, a, b):
    """The rows of a tile, shared by warp groups."""
    groups = tunable("groups", 1)
    rows = int(acc.shape[0]) // groups
    of_acc = partition_by_blocks(acc, (rows, acc.shape[1]))
    of_a = partition_by_blocks(a, (rows, a.shape[1]))
    for g in prange(groups):
        launch(add_product, of_acc[g, 0], of_a[g, 0], b)


@add_product.inner
def product_group(acc, a, b):
    """A warp group's rows, 64 after 64 as its instruction takes them."""
    mma = (64, int(acc.shape[1]), 16)
    of_acc, of_a = partition_by_mma(acc, mma, "C"), partition_by_mma(a, mma, "A")
    of_b = partition_by_mma(b, mma, "B")
    for i in prange(of_acc.shape[0]):
        launch(add_product, of_acc[i, 0], of_a[i, 0], of_b[0, 0])


@add_product.leaf
def product_tile(acc, a, b):
    """One product of tiles."""
    return tl.dot(a, b, acc)


def on_groups(groups, **block):
    """A mapping of which `groups` warp groups share a block's rows."""
    return Mapping(
        Instance("gemm_grid", tunables={"U": 64 * groups, "V": 256}),
        Instance("gemm_block", **block),
        Instance("product_block", tunables={"groups": groups}),
        Instance("product_group", processor="warp_group"),
    )


def reference(a, b):
    """A B, by NumPy."""
    return a @ b


def example_gemm():
    """Two warp groups, on sizes that are no multiples of the blocks'."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((300, 200)).astype(np.float16)
    b = rng.standard_normal((200, 264)).astype(np.float16)
    c = np.full((300, 264), np.nan, np.float16)
    gemm(c, a, b, mapping=on_groups(2))
    return {"c": (c, reference(a.astype(np.float64), b.astype(np.float64)))}
