"""What the warps of a CTA found of a tile: handed to each other to be combined."""

from __future__ import annotations

import math
from dataclasses import replace

from xdsl.ir import SSAValue

from tawa.base.layout import REPLICA, Layout, Mode, Modes
from tawa.codegen.fragments import exchanged, scratch_tile
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.fragment import Relabel
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.types import FragType
from tawa.machine.chips import DEFAULT, SM_90A

PARTS_OF_LANE = SM_90A.words_at_once
"""Parts that a lane takes of many: what one read gives."""
MANY_PARTS = DEFAULT.combined_parts
"""Parts beyond which lanes share them: every warp would read and combine all of them."""


def across_warps(g: GroupLowering, value: SSAValue, layout: Layout, axis: int) -> SSAValue:
    """All warps' parts along a dimension, in each thread or its lanes, as a new first dimension.

    Each warp writes a row of scratch space and reads all rows. `layout` is that of the whole tile;
    `value` lacks the dimension.
    """
    assert isinstance(value.type, FragType)
    result = value.type.layout
    count = 1
    row: dict[int, int] = {}
    for i, mode in enumerate(layout.warp):
        if mode.dim == axis:
            row[i] = count
            count *= mode.extent

    def shifted(modes: Modes) -> Modes:
        return tuple(m if m.dim == REPLICA else replace(m, dim=m.dim + 1) for m in modes)

    inner = result.shape or (1,)
    own = tuple(
        Mode(m.extent, 0, row[i]) if i in row else shifted((m,))[0]
        for i, m in enumerate(result.warp)
    )
    parts = Layout((count, *inner), shifted(result.reg), shifted(result.lane), own)
    lane, each = _shared_out(shifted(result.lane), count)
    own = Mode(each, 0, 1)
    every = Layout(parts.shape, (*shifted(result.reg), own), lane, shifted(result.warp))
    # Parts of one element are neighbours, so that a thread reads several at once.
    last = (*range(1, len(parts.shape)), 0)
    order = last if math.prod(inner) == 1 else tuple(range(len(parts.shape)))
    tile = scratch_tile(parts.permuted(order).shape, value.type.element_type)
    place = exchanged(g, g.add(Relabel(value, parts.permuted(order))), tile)
    found = g.add(SharedLoad(place, value.type.with_layout(every.permuted(order))))
    return found if order != last else g.add(Relabel(found, every))


def _shared_out(lanes: Modes, count: int) -> tuple[Modes, int]:
    """Lanes among which `count` parts are shared out, and how many parts each has.

    Only lanes that held copies take part, and few parts are quicker combined in each thread.
    """
    if count <= MANY_PARTS:
        return lanes, count
    for i, mode in enumerate(lanes):
        taking = math.gcd(count // PARTS_OF_LANE, mode.extent) if mode.dim == REPLICA else 1
        if taking > 1 and taking & (taking - 1) == 0:
            each = count // taking
            rest = (Mode(mode.extent // taking, REPLICA, 0),) if taking < mode.extent else ()
            return (*lanes[:i], Mode(taking, 0, each), *rest, *lanes[i + 1 :]), each
    return lanes, count
