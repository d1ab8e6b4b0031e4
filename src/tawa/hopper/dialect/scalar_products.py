"""How threads read what they multiply one by one: as vectors, along K or across it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tawa.base.layout import Layout
from tawa.base.types import byte_size
from tawa.hopper.dialect.types import TileType
from tawa.machine.chips import DEFAULT

HELD = 64
"""Registers of both operands' elements for some steps along K, at most: beside an accumulator of
128 elements there is room for as many."""

Key = tuple[int, ...]
"""What a register adds to an element's batch (if any) and to its row of A or column of B."""


@dataclass(frozen=True)
class ScalarOperand:
    """The elements of an operand that a thread multiplies for each step along K."""

    needed: tuple[Key, ...]
    along_k: bool
    """Whether one access takes neighbours along K; else across it."""
    width: int
    """Elements of one access."""

    def accesses(self, step: int) -> list[tuple[Key, int, list[int]]]:
        """For some steps along K: what each access begins at, and its elements' places.

        Places are counted by element, and for each by step.
        """
        if self.along_k:
            steps = range(0, step, self.width)
            return [
                (key, k, [i * step + k + j for j in range(self.width)])
                for i, key in enumerate(self.needed)
                for k in steps
            ]
        return [
            (self.needed[i], k, [(i + j) * step + k for j in range(self.width)])
            for k in range(step)
            for i in range(0, len(self.needed), self.width)
        ]


def scalar_operands(
    layout: Layout, inner: int, tiles: tuple[TileType, TileType], turned: tuple[bool, bool]
) -> tuple[list[ScalarOperand], int]:
    """How A and B are read for an accumulator's layout, and for how many steps along K at once."""
    places = [tuple(p) for p in layout.offsets(layout.reg).tolist()]
    needed = [
        tuple(dict.fromkeys((*place[:-2], place[-2 + side]) for place in places)) for side in (0, 1)
    ]
    most = max(1, HELD // sum(map(len, needed)))
    operands: list[ScalarOperand] = []
    for side, tile in enumerate(tiles):
        along_k = turned[side] == bool(side)  # rows of A are contiguous, and columns of turned B
        row = layout.vector(len(layout.shape) - 2 + side)
        room = 1 << min(most, inner).bit_length() - 1
        width = math.gcd(math.gcd(inner, room) if along_k else row, _widest(tile))
        operands.append(ScalarOperand(needed[side], along_k, width))
    return operands, max(o.width if o.along_k else 1 for o in operands)


def _widest(tile: TileType) -> int:
    """Neighbours in a tile that one access takes at most: those of a unit that swizzling keeps."""
    size = byte_size(tile.element_type)
    return max(1, math.gcd(DEFAULT.copy_unit, tile.panel_bytes) // size)
