"""How warps share the transposition of a tile in shared memory (`ldmatrix`, `stmatrix`)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tawa.base.numerics import Array

BLOCK_K, BLOCK_M = 32, 16
"""Rows and columns of the source that a warp transposes with one `ldmatrix` and one `stmatrix`."""

IN_FLIGHT = 4
"""Blocks that a warp loads before it stores the first of them, at most (a power of two)."""


@dataclass(frozen=True)
class Shares:
    """How the warps of a team share the blocks: groups of 32 rows, then parts of the columns.

    A warp has every `groups`th group, and of each of these the same `block_steps` blocks; the last
    parts may have fewer. It loads `at_once` groups' and columns' blocks before it stores one.
    """

    groups: int
    parts: int
    group_steps: int
    block_steps: int
    blocks: int
    at_once: tuple[int, int]

    @staticmethod
    def of(rows: int, columns: int, warps: int, in_flight: int) -> Shares | None:
        """The shares for a source of so many rows and columns; None where blocks do not fit."""
        if rows % BLOCK_K or columns % BLOCK_M:
            return None
        # A power of two: then the places of blocks at once differ in bits of an address.
        groups = math.gcd(rows // BLOCK_K, warps & -warps)
        parts, steps, blocks = warps // groups, rows // BLOCK_K // groups, columns // BLOCK_M
        rows_at_once = math.gcd(in_flight, steps)
        columns_at_once = math.gcd(in_flight // rows_at_once, blocks)
        each = -(-blocks // (columns_at_once * parts)) * columns_at_once
        return Shares(groups, parts, steps, each, blocks, (rows_at_once, columns_at_once))

    @property
    def rounds(self) -> int:
        """How often a warp with the most blocks loads some and stores them."""
        return self.group_steps * self.block_steps // math.prod(self.at_once)

    def first_and_end(self, warp: Array) -> tuple[Array, Array]:
        """The first of a warp's blocks of columns, and the one after its last."""
        first = np.minimum(warp // self.groups * self.block_steps, self.blocks)
        return first, np.minimum(first + self.block_steps, self.blocks)
