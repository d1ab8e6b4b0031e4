"""The sum of a vector as a tree: blocks make partial sums, until one block is left."""

import numpy as np

import tawa.language as tl
from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    cdiv,
    clear,
    copy,
    launch,
    make_tensor,
    partition_by_blocks,
    prange,
    srange,
    task,
    tunable,
)


@task(total=WRITE, x=READ)
def tree_sum(total, x):
    """total [1] = the sum of x."""


@task(totals=WRITE, x=READ)
def sums(totals, x, width):
    """Each element of `totals` is the sum of `width` elements of x."""


@task(total=WRITE, x=READ)
def block_sum(total, x):
    """One sum, by one block."""


@task(total=READ_WRITE, x=READ)
def add(total, x):
    """total += the sum of x."""


@tree_sum.inner
def tree_sum_levels(total, x):
    """Levels of the tree: how many follows from the size, which the program is compiled for."""
    width = tunable("width", 4096)
    left = x.shape[0]
    while left > width:
        left = cdiv(left, width)
        partial = make_tensor((left,), tl.float32)
        launch(sums, partial, x, width)
        x = partial
    launch(sums, total, x, width)


@sums.inner
def sums_grid(totals, x, width):
    """A partial sum for each iteration; how wide they are is said once, where levels are made."""
    parts, to = partition_by_blocks(x, (width,)), partition_by_blocks(totals, (1,))
    for i in prange(*to.shape):
        launch(block_sum, to[i], parts[i])


@block_sum.inner
def block_sum_loop(total, x):
    """Tiles one after the other."""
    tiles = partition_by_blocks(x, (tunable("tile", 1024),))
    acc = make_tensor((1,), tl.float32)
    launch(clear, acc)
    for i in srange(*tiles.shape):
        launch(add, acc, tiles[i])
    launch(copy, total, acc)


@add.leaf
def add_tile(total, x):
    """The sum of a tile, added."""
    return total + tl.sum(x.to(tl.float32), axis=0)


def reference(x):
    """The sum, by NumPy."""
    return x.sum(keepdims=True)


def example_tree_sum():
    """A size that is no multiple of the tiles'."""
    x = np.random.default_rng(0).standard_normal(10_001).astype(np.float32)
    total = np.full(1, np.nan, np.float32)
    tree_sum(total, x)
    return {"total": (total, reference(x.astype(np.float64)))}
