"""Blocks of tensors as boxes: what one instruction of the TMA engine copies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tawa.hopper.dialect.types import SWIZZLED_ROWS, TileType
from tawa.machine.chips import Chip


@dataclass(frozen=True)
class Boxes:
    """A block cut into equal boxes: `slabs` of rows, `bands` of a slab, `panels` of columns."""

    shape: tuple[int, ...]
    """Of one box, as many dimensions as the block has."""
    bands: int
    panels: int
    outer: tuple[int, ...] = ()
    """Boxes along each dimension before the rows, where they are cut."""

    @property
    def height(self) -> int:
        """Rows of one box."""
        return self.shape[-2] if len(self.shape) > 1 else 1

    @property
    def width(self) -> int:
        """Columns of one box."""
        return self.shape[-1]

    def halved(self) -> Boxes:
        """The same block in twice as many boxes of half the rows."""
        return replace(self.banded(self.height // 2), bands=2 * self.bands)

    def banded(self, height: int) -> Boxes:
        """Boxes of some rows, each of one slab: what is cut lies together in memory."""
        *outer, _, width = self.shape
        ones = (1,) * len(outer)
        return replace(self, shape=(*ones, height, width), outer=self.outer or tuple(outer))

    @property
    def rows(self) -> int:
        """Rows of shared memory that one box fills."""
        return math.prod(self.shape[:-1])

    def slabs(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """Where boxes begin in the dimensions before the rows, and in rows of shared memory."""
        places = itertools.product(*(range(n) for n in self.outer))
        for number, place in enumerate(places):
            yield place, number * self.bands * self.height


def boxes(shape: Sequence[int], tile: TileType, target: Chip) -> Boxes:
    """The fewest equal boxes of a block that lies in shared memory as `tile` says."""
    limit = target.box_limit
    *outer, columns = shape
    width = min(tile.panel_columns, limit)
    panels = -(-columns // width)
    if not outer:
        return Boxes((width,), 1, panels)
    whole = Boxes((*outer, width), 1, panels)
    if max(outer) <= limit:
        return whole
    rows = outer[-1]
    height = next(h for h in range(min(rows, limit), 0, -1) if rows % h == 0 and _starts(h, rows))
    return replace(whole.banded(height), bands=rows // height)


def _starts(height: int, rows: int) -> bool:
    """Whether boxes that follow each other begin where a swizzle's pattern does."""
    return height == rows or height % SWIZZLED_ROWS == 0
