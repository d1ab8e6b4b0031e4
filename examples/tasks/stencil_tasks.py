"""Steps of a 2-D stencil: each block reads its own box and its neighbours' edges (a halo)."""

import numpy as np

from tawa.tasks import (
    READ,
    WRITE,
    launch,
    make_tensor,
    partition_by_blocks,
    prange,
    task,
    tunable,
)


@task(y=WRITE, x=READ)
def diffuse(y, x, steps, rate):
    """`steps` times: each element moves towards its four neighbours. Outside are zeros."""


@task(y=WRITE, x=READ)
def step(y, x, rate):
    """One step."""


@task(y=WRITE, x=READ, up=READ, down=READ, left=READ, right=READ)
def move(y, x, up, down, left, right, rate):
    """One step of a block, whose neighbours are the same box moved by one."""


@diffuse.inner
def diffuse_steps(y, x, steps, rate):
    """One step after the other; Python's `range` unrolls, so that tensors may take turns."""
    for n in range(int(steps)):
        to = y if n == steps - 1 else make_tensor(x.shape, x.dtype)
        launch(step, to, x, rate)
        x = to


@step.inner
def step_grid(y, x, rate):
    """A block for each iteration."""
    block = tunable("rows", 32), tunable("columns", 64)
    of_y = partition_by_blocks(y, block)
    places = (0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)
    boxes = [partition_by_blocks(x, block, offset=place) for place in places]
    for i, j in prange(*of_y.shape):
        launch(move, of_y[i, j], *(box[i, j] for box in boxes), rate)


@move.leaf
def move_tile(y, x, up, down, left, right, rate):
    """The step on tiles."""
    return x + rate * (up + down + left + right - 4.0 * x)


def reference(x, steps, rate):
    """The steps, by NumPy."""
    for _ in range(steps):
        p = np.pad(x, 1)
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        x = x + rate * (around - 4 * x)
    return x


def example_diffuse():
    """Three steps on sizes that are no multiples of the blocks'."""
    x = np.random.default_rng(0).standard_normal((75, 130)).astype(np.float32)
    y = np.full_like(x, np.nan)
    diffuse(y, x, 3, 0.125)
    return {"y": (y, reference(x.astype(np.float64), 3, 0.125))}
