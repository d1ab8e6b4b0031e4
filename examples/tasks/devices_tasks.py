"""Products over several GPUs of one host: who computes what is said by the mapping.

Three programs: rows of A and C and columns of B on each device; A gathered while it is multiplied;
sums over K scattered to where they belong. Under a mapping for one device each is a kernel or two.
"""

import numpy as np

import tawa.language as tl
from tawa.tasks import (
    READ,
    WRITE,
    Instance,
    Mapping,
    Sharded,
    cdiv,
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
def sharded_gemm(c, a, b):
    """C = A B: each device has rows of A and C; panels of B travel."""


@task(c=WRITE, a=READ, b=READ)
def gather_gemm(c, a, b):
    """C = A B: each device has columns of B and C; A's rows are gathered while they are used."""


@task(c=WRITE, a=READ, b=READ)
def gemm_scatter(c, a, b):
    """C = A B: each device has a part of K; sums of their products go to rows of C."""


@task(c=WRITE, a=READ, b=READ)
def gemm(c, a, b):
    """C = A B on one device."""


@task(to=WRITE, parts=READ)
def add_parts(to, parts):
    """`to` [M, N] = the sum of `parts` [parts, M, N]."""


@sharded_gemm.inner
def sharded_gemm_node(c, a, b):
    """Rows of C for each device, panel after panel of B, its own panels first."""
    devices, panels = tunable("devices", 2), tunable("panels", 4)
    rows, columns = cdiv(c.shape[0], devices), cdiv(c.shape[1], panels)
    of_c, of_a = partition_by_blocks(c, (rows, columns)), partition_by_blocks(a, (rows, a.shape[1]))
    of_b = partition_by_blocks(b, (b.shape[0], columns))
    for d in prange(devices):
        for p in srange(panels):
            panel = (p + d * (panels // devices)) % panels
            launch(gemm, of_c[d, panel], of_a[d, 0], of_b[0, panel])


@gather_gemm.inner
def gather_gemm_node(c, a, b):
    """Columns of C for each device, chunk after chunk of A's rows, its own first."""
    devices, chunks = tunable("devices", 2), tunable("chunks", 4)
    rows, columns = cdiv(c.shape[0], chunks), cdiv(c.shape[1], devices)
    of_c, of_a = partition_by_blocks(c, (rows, columns)), partition_by_blocks(a, (rows, a.shape[1]))
    of_b = partition_by_blocks(b, (b.shape[0], columns))
    for d in prange(devices):
        for p in srange(chunks):
            chunk = (p + d * (chunks // devices)) % chunks
            launch(gemm, of_c[chunk, d], of_a[chunk, 0], of_b[0, d])


@gemm_scatter.inner
def gemm_scatter_node(c, a, b):
    """Products of parts of K on each device, other devices' rows first, and then their sums."""
    devices, chunks = tunable("devices", 2), tunable("chunks", 4)
    rows, depth = cdiv(c.shape[0], chunks), cdiv(a.shape[1], devices)
    of_a, of_b = partition_by_blocks(a, (rows, depth)), partition_by_blocks(b, (depth, b.shape[1]))
    parts = make_tensor((devices, c.shape[0], c.shape[1]), c.dtype)
    of_parts = partition_by_blocks(parts, (None, rows, c.shape[1]))
    all_parts = partition_by_blocks(parts, (devices, rows, c.shape[1]))
    of_c = partition_by_blocks(c, (rows, c.shape[1]))
    for d in prange(devices):
        for p in srange(chunks):
            chunk = (p + (d + 1) * (chunks // devices)) % chunks
            launch(gemm, of_parts[d, chunk, 0], of_a[chunk, d], of_b[d, 0])
    for d in prange(devices):
        for p in range(chunks // devices):  # unrolled: each launch has rows of its own
            chunk = d * (chunks // devices) + p
            launch(add_parts, of_c[chunk, 0], all_parts[0, chunk, 0])


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


@add_parts.inner
def add_parts_grid(to, parts):
    """A tile for each iteration."""
    rows, columns = tunable("rows", 32), tunable("columns", 64)
    of_to = partition_by_blocks(to, (rows, columns))
    of_parts = partition_by_blocks(parts, (parts.shape[0], rows, columns))
    for i, j in prange(*of_to.shape):
        launch(add_parts, of_to[i, j], of_parts[0, i, j])


@add_parts.leaf
def add_parts_tile(to, parts):
    """The sum of a tile's parts."""
    return tl.sum(parts.to(tl.float32), axis=0)


def on_devices(name, devices=2, **tunables):
    """A mapping for devices of one host: the outermost instance deals its `prange` to them."""
    node = Instance(name, processor="node", tunables={"devices": devices, **tunables})
    return Mapping(node, devices=devices)


def shards(x, count, dim=0):
    """A tensor in equal parts, each an array of its own."""
    return Sharded([part.copy() for part in np.array_split(x, count, dim)], dim)


def gathered(x):
    """A sharded tensor as one array."""
    return np.concatenate(x.shards, x.dim)


def operands(m, n, k):
    """C of no numbers, A, B, and the product in float64."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    return np.full((m, n), np.nan, np.float16), a, b, a.astype(np.float64) @ b.astype(np.float64)


def example_sharded_gemm():
    """Two devices, with rows of A and C and columns of B."""
    c, a, b, exact = operands(256, 192, 72)
    c = shards(c, 2)
    sharded_gemm(c, shards(a, 2), shards(b, 2, 1), mapping=on_devices("sharded_gemm_node"))
    return {"c": (gathered(c), exact)}


def example_gather_gemm():
    """Two devices, with rows of A and columns of B and C."""
    c, a, b, exact = operands(256, 192, 72)
    c = shards(c, 2, 1)
    gather_gemm(c, shards(a, 2), shards(b, 2, 1), mapping=on_devices("gather_gemm_node"))
    return {"c": (gathered(c), exact)}


def example_gemm_scatter():
    """Two devices, with columns of A, rows of B and rows of C."""
    c, a, b, exact = operands(256, 192, 144)
    c = shards(c, 2)
    gemm_scatter(c, shards(a, 2, 1), shards(b, 2), mapping=on_devices("gemm_scatter_node"))
    return {"c": (gathered(c), exact)}
