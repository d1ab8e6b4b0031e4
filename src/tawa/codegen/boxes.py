"""Blocks of tensors as boxes: what one instruction of the TMA engine copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tawa.hopper.dialect.types import TileType
from tawa.machine.chips import Chip


@dataclass(frozen=True)
class Boxes:
    """A block cut into equal boxes: `bands` of rows times `panels` of columns."""

    shape: tuple[int, ...]
    """Of one box, as many dimensions as the block has."""
    bands: int
    panels: int

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
        *outer, height, width = self.shape
        return replace(self, shape=(*outer, height // 2, width), bands=2 * self.bands)


def boxes(shape: Sequence[int], tile: TileType, target: Chip) -> Boxes:
    """The fewest equal boxes of a block that lies in shared memory as `tile` says."""
    limit = target.box_limit
    *outer, columns = shape
    rows = outer[-1] if outer else 1
    height = next(h for h in range(min(rows, limit), 0, -1) if rows % h == 0)
    width = min(tile.panel_columns, limit)
    box = (*outer[:-1], height, width) if outer else (width,)
    return Boxes(box, rows // height, -(-columns // width))
