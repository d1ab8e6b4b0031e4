"""What lanes combine and nobody needs in all of them: each lane keeps a share of it.

Lanes that hold several elements of a reduced tile, each a part of every element, exchange halves:
of two elements a lane keeps one and gives its part of the other away. After each exchange a thread
has half of the elements, so that the next one takes half of the shuffles. Where all lanes get all,
every exchange takes a shuffle an element.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.aref.dialect.ops import LanePartials
from tawa.base.layout import REPLICA, Layout, Mode, accumulator
from tawa.base.types import shape_of


@dataclass(frozen=True)
class Halving:
    """An exchange with the lane across a bit: which registers a lower and an upper lane keeps."""

    lanes: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    dim: int
    step: int
    """An upper lane's elements are this far along a dimension."""
    layout: Layout
    """The layout after it."""


def halvings(layout: Layout, axis: int) -> list[Halving]:
    """The exchanges that share out a tile's elements once the registers of its axis are combined.

    Registers that run along a dimension most slowly go to lanes first. None where several warps
    share the axis, or extents are no powers of two.
    """
    rest = layout.without(axis)
    if any(m.dim == axis for m in layout.warp) or any(not _is_power(m) for m in rest.reg):
        return []
    registers = [Mode(2, m.dim, m.stride << k) for m in rest.reg for k in range(_bits(m))]
    lanes: list[Mode] = []
    shared: list[int] = []
    for old, new in zip(layout.lane, rest.lane, strict=True):
        if old.dim == axis and _is_power(old):
            shared += range(len(lanes), len(lanes) + _bits(old))
            lanes += [Mode(2, REPLICA, 0)] * _bits(old)
        else:
            lanes.append(new)
    found: list[Halving] = []
    for place in shared:
        if not registers or registers[-1].stride & (registers[-1].stride - 1):
            break
        moved = registers.pop()
        lanes[place] = moved
        count, below = 1 << len(registers), 1
        for mode in lanes[:place]:
            below *= mode.extent
        after = Layout(rest.shape, tuple(registers), tuple(lanes), rest.warp)
        low = tuple(range(count))
        high = tuple(range(count, 2 * count))
        found.append(Halving(below, low, high, moved.dim, moved.stride, after))
    return found


def _is_power(mode: Mode) -> bool:
    return mode.extent & (mode.extent - 1) == 0


def _bits(mode: Mode) -> int:
    return mode.extent.bit_length() - 1


def lane_parts(layout: Layout) -> Layout:
    """Of an accumulator's layout: the rows' parts that the four lanes of a row hold."""
    rows = tuple(m for m in layout.reg if m.dim == 0)
    lanes = tuple(Mode(m.extent, 1, 1) if m.dim == 1 else m for m in layout.lane)
    return Layout((layout.shape[0], LanePartials.LANES), rows, lanes, layout.warp)


def summed(op: LanePartials, known: Layout | None, warps: int) -> Layout:
    """The layout in which an op's operand is added up: its own, if its rows lie as a product's.

    Those of a tile that any layout may have, as one without products, lie as the op wants them.
    """
    if known is not None:
        lanes = [m.extent for m in known.lane if m.dim == 1]
        if lanes == [LanePartials.LANES] and all(m.dim != 1 for m in known.warp):
            return known
    rows, columns = shape_of(op.value.type)
    return accumulator((rows, columns), warps)
