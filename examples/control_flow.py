"""Loops that end when the data says so, and stores that only some programs do."""

import numpy as np

import tawa
import tawa.language as tl


@tawa.jit
def newton_root(x_ptr, y_ptr, count_ptr, n, BLOCK: tl.constexpr):
    """Square roots of a block by Newton's method, until no element moves by much."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1.0)
    y = tl.maximum(x, 1.0)
    change = 1.0
    rounds = 0
    while change > 1e-6:
        following = 0.5 * (y + x / y)
        change = tl.max(tl.abs(following - y) / y, axis=0)
        y = following
        rounds += 1
    tl.store(y_ptr + at, y, mask=at < n)
    if tl.program_id(0) % 2 == 0:
        tl.store(count_ptr + tl.program_id(0), rounds)
    else:
        tl.store(count_ptr + tl.program_id(0), -1)


def launch(x, y, count, block=128, **options):
    """Y = sqrt(x); `count` gets the rounds that every second program took, and -1 else."""
    (n,) = x.shape
    return newton_root[(tawa.cdiv(n, block),)](x, y, count, n, BLOCK=block, **options)


def reference(x, block=128):
    """The roots, and the rounds of each block, by NumPy."""
    rounds = np.full(tawa.cdiv(len(x), block), -1)
    for program in range(0, len(rounds), 2):
        part = x[program * block :][:block].astype(np.float32)
        y, change, rounds[program] = np.maximum(part, np.float32(1)), 1, 0
        while change > 1e-6:
            following = np.float32(0.5) * (y + part / y)
            change = (np.abs(following - y) / y).max()
            y = following
            rounds[program] += 1
    return np.sqrt(x), rounds


def example_newton_root():
    """A length that is no multiple of the block."""
    x = np.random.default_rng(0).uniform(0.1, 50, 300).astype(np.float32)
    y = np.full_like(x, np.nan)
    count = np.full(3, -9, np.int32)
    launch(x, y, count)
    roots, rounds = reference(x.astype(np.float64))
    return {"y": (y, roots), "count": (count, rounds)}
