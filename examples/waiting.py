"""Programs that wait for each other: look-back scan, sum under a lock, stream-K product.

Each program waits only for programs that began before it: a ticket, drawn when a program begins,
says which those are. So a grid may be larger than what runs on the device at once.
"""

import numpy as np

import tawa
import tawa.language as tl

NOTHING, TOTAL, PREFIX = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""What a block has said of itself: nothing yet, its own sum, or the sum of all up to its end."""


@tawa.jit
def scan(x, y, ticket, states, totals, prefixes, n, BLOCK: tl.constexpr):
    """Running sums of n numbers in one pass (decoupled look-back, Merrill and Garland 2016)."""
    block = tl.atomic_add(ticket, 1)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < n, other=0)
    total = tl.sum(values, axis=0)
    tl.store(totals + block, total)
    tl.atomic_xchg(states + block, TOTAL, sem="release")
    before = total - total
    other = block - 1
    while other >= 0:
        state = tl.atomic_add(states + other, 0, sem="acquire")
        if state == PREFIX:
            before += tl.load(prefixes + other)
            other = -1
        elif state == TOTAL:
            before += tl.load(totals + other)
            other -= 1
    tl.store(prefixes + block, before + total)
    tl.atomic_xchg(states + block, PREFIX, sem="release")
    tl.store(y + offsets, before + tl.cumsum(values, axis=0), mask=offsets < n)


@tawa.jit
def locked_sum(x, sums, lock, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums of columns: each program adds those of its rows to the result while it has the lock."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    tile = tl.load(x + row[:, None] * columns + column[None, :], mask=mask, other=0)
    part = tl.sum(tile, axis=0)
    while tl.atomic_cas(lock, 0, 1, sem="acquire") != 0:
        pass
    held = tl.load(sums + column, mask=column < columns)
    tl.store(sums + column, held + part, mask=column < columns)
    tl.atomic_xchg(lock, 0, sem="release")


@tawa.jit
def stream_k(
    a, b, c, ticket, flags, parts, tiles_n, steps, total, share,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """C = A B^T, with all steps along K of all tiles shared out evenly, `share` a program.

    Who takes a tile's last step stores it. Others leave their part of it in `parts` and raise a
    flag (Osama et al. 2023).
    """
    program = tl.atomic_add(ticket, 1)
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    part = rows[:, None] * N + columns[None, :]
    step = program * share
    last = tl.minimum(step + share, total)
    while step < last:
        tile = step // steps
        begin = step % steps
        end = tl.minimum(steps, begin + last - step)
        m, n = tile // tiles_n * M, tile % tiles_n * N
        acc = tl.zeros((M, N), tl.float32)
        for k in range(begin, end):
            acc = tl.dot(a.load([m, k * K]), b.load([n, k * K]).T, acc)
        if end < steps:
            tl.store(parts + program * M * N + part, acc)
            tl.atomic_xchg(flags + program, 1, sem="release")
        else:
            other = program - 1
            known = begin
            while known > 0:
                while tl.atomic_add(flags + other, 0, sem="acquire") == 0:
                    pass
                acc += tl.load(parts + other * M * N + part)
                known -= share
                other -= 1
            c.store([m, n], acc.to(c.dtype))
        step += end - begin


def launch_scan(x, y, work, block=256, **options):
    """Running sums of int32 numbers x in y; `work` makes arrays of zeros, by length and type."""
    (n,) = x.shape
    blocks = tawa.cdiv(n, block)
    states = work(1, "int32"), *(work(blocks, "int32") for _ in range(3))
    return scan[(blocks,)](x, y, *states, n, BLOCK=block, **options)


def launch_locked_sum(x, sums, work, rows=16, **options):
    """Sums of the columns of x, added to `sums`."""
    block = tawa.next_power_of_2(x.shape[1])
    return locked_sum[(tawa.cdiv(x.shape[0], rows),)](
        x, sums, work(1, "int32"), *x.shape, ROWS=rows, COLUMNS=block, **options
    )


def launch_stream_k(a, b, c, work, programs=3, tile=(64, 64, 32), **options):
    """C = A B^T by so many programs, whatever the number of tiles."""
    (m, k), n = a.shape, b.shape[0]
    tiles_n = tawa.cdiv(n, tile[1])
    steps = tawa.cdiv(k, tile[2])
    total = tawa.cdiv(m, tile[0]) * tiles_n * steps
    share = tawa.cdiv(total, programs)
    of = tawa.TensorDescriptor.from_tensor
    arrays = (
        of(a, [tile[0], tile[2]]),
        of(b, [tile[1], tile[2]]),
        of(c, [tile[0], tile[1]]),
        work(1, "int32"),
        work(programs, "int32"),
        work(programs * tile[0] * tile[1], "float32"),
    )
    sizes = tiles_n, steps, total, share
    return stream_k[(programs,)](*arrays, *sizes, M=tile[0], N=tile[1], K=tile[2], **options)


def example_scan():
    """A length that ends inside a block."""
    x = np.random.default_rng(0).integers(-9, 9, 2000, dtype=np.int32)
    y = np.full_like(x, -77)
    launch_scan(x, y, np.zeros)
    return {"y": (y, np.cumsum(x))}


def example_locked_sum():
    """Whole numbers: their sums do not depend on who comes first."""
    x = np.random.default_rng(0).integers(-9, 9, (100, 200)).astype(np.float32)
    sums = np.zeros(200, np.float32)
    launch_locked_sum(x, sums, np.zeros)
    return {"sums": (sums, x.sum(axis=0))}


def example_stream_k():
    """Six tiles of seven steps each for four programs."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((128, 200)).astype(np.float16)
    b = rng.standard_normal((192, 200)).astype(np.float16)
    c = np.full((128, 192), np.nan, np.float16)
    launch_stream_k(a, b, c, np.zeros, programs=4)
    return {"c": (c, a.astype(np.float64) @ b.astype(np.float64).T)}
