"""A 2-D stencil over several GPUs: strips of rows, whose edges travel while the inside is computed.

Each step computes what is inside of a strip first. Meanwhile a row of the neighbour's edge, which
the last step computed at its end, is copied; then the strip's own edges are computed.
"""

import numpy as np
from devices_tasks import gathered, on_devices, shards
from stencil_tasks import move, reference

from tawa.tasks import (
    READ,
    READ_WRITE,
    WRITE,
    launch,
    partition_by_blocks,
    prange,
    task,
    tunable,
)


@task(y=READ_WRITE, x=READ, other=READ_WRITE)
def diffuse_strips(y, x, other, steps, rate):
    """`steps` times: each element moves towards its neighbours; `other` is y's like, for steps."""


@task(y=WRITE, x=READ)
def band(y, x, rate):
    """One step of some rows; x has a row more on either side."""


@diffuse_strips.inner
def diffuse_strips_node(y, x, other, steps, rate):
    """A strip for each device and step: what is between its edges, and then these."""
    devices, edge = tunable("devices", 2), tunable("edge", 32)
    strip, columns = int(x.shape[0]) // devices, x.shape[1]
    for n in range(int(steps)):
        to = y if (steps - n) % 2 else other
        for d in prange(devices):
            first, last = d * strip, x.shape[0] if d == devices - 1 else (d + 1) * strip
            ends = first + edge, last - edge
            for start, end in (ends, (first, ends[0]), (ends[1], last)):
                rows = partition_by_blocks(to, (end - start, columns), offset=(start, 0))
                around = partition_by_blocks(
                    x, (end - start + 2, columns), offset=(start - 1, 0)
                )  # fmt: skip
                launch(band, rows[0, 0], around[0, 0], rate)
        x = to


@band.inner
def band_grid(y, x, rate):
    """A block for each iteration; block (i, j) of y lies a row further in x."""
    block = tunable("rows", 32), tunable("columns", 64)
    of_y = partition_by_blocks(y, block)
    places = (1, 0), (0, 0), (2, 0), (1, -1), (1, 1)
    boxes = [partition_by_blocks(x, block, offset=place) for place in places]
    for i, j in prange(*of_y.shape):
        launch(move, of_y[i, j], *(box[i, j] for box in boxes), rate)


def example_diffuse_strips():
    """Three steps on two devices."""
    x = np.random.default_rng(0).standard_normal((150, 130)).astype(np.float32)
    y, other = (shards(np.full_like(x, np.nan), 2) for _ in range(2))
    mapping = on_devices("diffuse_strips_node", 2, edge=8)
    diffuse_strips(y, shards(x, 2), other, 3, 0.125, mapping=mapping)
    return {"y": (gathered(y), reference(x.astype(np.float64), 3, 0.125))}
