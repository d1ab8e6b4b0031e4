"""Y = relu(X W1) W2: two products in order, the hidden layer a tensor of the device's own."""

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


@task(y=WRITE, x=READ, w1=READ, w2=READ)
def mlp(y, x, w1, w2):
    """Y = relu(X W1) W2."""


@task(c=WRITE, a=READ, b=READ)
def layer(c, a, b, positive):
    """C = A B, or its positive part."""


@task(to=WRITE, of=READ)
def relu(to, of):
    """The positive part."""


@mlp.inner
def mlp_layers(y, x, w1, w2):
    """One layer, and then the other."""
    hidden = make_tensor((x.shape[0], w1.shape[1]), x.dtype)
    launch(layer, hidden, x, w1, True)
    launch(layer, y, hidden, w2, False)


@layer.inner
def layer_grid(c, a, b, positive):
    """A block of C for each iteration."""
    U, V = tunable("U", 128), tunable("V", 128)
    blocks = partition_by_blocks(c, (U, V))
    rows = partition_by_blocks(a, (U, a.shape[1]))
    columns = partition_by_blocks(b, (b.shape[0], V))
    for i, j in prange(*blocks.shape):
        launch(layer, blocks[i, j], rows[i, 0], columns[0, j], positive)


@layer.inner
def layer_block(c, a, b, positive):
    """One block of C."""
    W = tunable("W", 64)
    of_a = partition_by_blocks(a, (a.shape[0], W))
    of_b = partition_by_blocks(b, (W, b.shape[1]))
    acc = make_tensor(c.shape, tl.float32)
    launch(clear, acc)
    for k in srange(of_a.shape[1]):
        launch(multiply, acc, of_a[0, k], of_b[k, 0])
    launch(relu if positive else copy, c, acc)


@relu.leaf
def relu_tile(to, of):
    """The positive part of a tile."""
    return tl.maximum(of, 0.0)


def reference(x, w1, w2):
    """relu(X W1) W2, by NumPy."""
    return np.maximum(x @ w1, 0) @ w2


def example_mlp():
    """Sizes that are no multiples of the blocks'."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 72)).astype(np.float16)
    w1 = (rng.standard_normal((72, 264)) / 8).astype(np.float16)
    w2 = (rng.standard_normal((264, 136)) / 16).astype(np.float16)
    y = np.full((200, 136), np.nan, np.float16)
    mlp(y, x, w1, w2)
    return {"y": (y, reference(*(v.astype(np.float64) for v in (x, w1, w2))))}
