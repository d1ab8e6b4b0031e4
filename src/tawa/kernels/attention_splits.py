"""Few rows against many keys: heads that share a tile, and keys shared out to several programs.

A program computes a tile of rows, 64 at least. Where there are fewer queries than that, heads that
read the same keys fill it (they are *packed*). Where all tiles together do not fill the device,
each is computed by several programs that visit a part of the keys each (*splits*); a second kernel,
`combine_splits`, adds up what they found.
"""

from __future__ import annotations

import math
from typing import Any

from tawa.kernels.attention_arguments import Problem, make_float32
from tawa.kernels.attention_kernel import combine_splits
from tawa.machine.chips import SM_90A

SMALL, LARGE = 64, 128
"""Rows of a tile: of one consumer warp group, and of two."""

WIDE = 128
"""Head dimensions beyond this are not packed, and leave room for small blocks only if they are."""

STARTUP, COMBINING, COMBINING_EACH = 3.0, 5.0, 0.125
"""What a program takes before its first block of keys and after its last, and what a second kernel
takes, whatever it adds up and for each split, in turns of the loop over blocks (about 0.8 us)."""

MOST_SPLITS = 64


def packed_heads(group: int, queries: int, block_m: int) -> int:
    """How many of the `group` heads that share keys fill a tile with all of their queries."""
    most = math.gcd(group, block_m)
    while queries > block_m // most and most > 1:
        most //= 2
    return most


def rows_of_tile(group: int, queries: int, d: int) -> tuple[int, int]:
    """Rows of a tile for few queries, and how many of the `group` heads fill it.

    Wide heads are not packed: what packed heads write is staged as a whole.
    """
    if d > WIDE:
        return (SMALL if queries <= SMALL else LARGE), 1
    block_m = SMALL if queries * math.gcd(group, LARGE) <= SMALL else LARGE
    return block_m, packed_heads(group, queries, block_m)


def keys_of_block(block_n: int, packed: int, d: int, element_bytes: int) -> int:
    """Keys of a block: as for many rows, or what fits beside the tile that packed heads stage."""
    if packed > 1 and d * element_bytes > 3 * WIDE:
        return 32
    return block_n if block_n <= 64 else 128


def best_splits(tiles: int, blocks: int) -> int:
    """How many programs should share a tile's blocks of keys."""
    if tiles >= SM_90A.multiprocessors:
        return 1

    def iterations(splits: int) -> float:
        waves = -(-tiles * splits // SM_90A.multiprocessors)
        combining = COMBINING + COMBINING_EACH * splits if splits > 1 else 0
        return waves * (STARTUP + -(-blocks // splits)) + combining

    return min(range(1, max(1, min(blocks, MOST_SPLITS)) + 1), key=iterations)


class Parts:
    """Outputs and log-sum-exps of all splits, and their sum."""

    def __init__(self, q: Any, problem: Problem, splits: int) -> None:
        entries = (splits * problem.batch, problem.heads, problem.queries)
        self.problem, self.splits = problem, splits
        self.out = make_float32(q, (*entries, problem.dv))
        self.lse = make_float32(q, entries)

    def combine(self, out: Any, lse: Any, strides: tuple[int, ...]) -> None:
        """Write output, whose strides of batch, head and row are given, and log-sum-exp if any."""
        problem = self.problem
        combine_splits[(problem.rows,)](
            *(self.out, self.lse, out, lse, problem.queries, problem.heads),
            *(self.splits, *strides[:3]),
            MOST_SPLITS=1 << (self.splits - 1).bit_length(),
            DV=problem.dv,
            num_warps=1,
        )
