"""Lowering of tiles that are joined and split along a dimension: registers under new numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.ir import Operation

from tawa.aref.analysis.layouts import joined
from tawa.base.layout import Mode
from tawa.base.types import element_of, shape_of
from tawa.codegen.fragments import convert, fragment, natural, scratch, scratch_tile, team_sync
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.fragment import Rearrange
from tawa.hopper.dialect.lanes import Assemble
from tawa.hopper.dialect.memory import SharedLoad, SharedStore, Subtile
from tawa.hopper.dialect.types import FragType
from tawa.tile.dialect.ops import Cat, Join, Split


def lower_join(g: GroupLowering, op: Join) -> None:
    """Registers of the two tiles in turns."""
    first = natural(g, op.lhs)
    assert isinstance(first.type, FragType)
    layout = first.type.layout
    second = fragment(g, op.rhs, layout)
    sources = [(side, r) for r in range(layout.registers) for side in (0, 1)]
    both = g.add(Assemble([first, second], sources, joined(layout)), op.result.name_hint)
    g.fragments[op.result] = convert(g, both, g.layouts.of[op.result])


def lower_split(g: GroupLowering, op: Split) -> None:
    """Every second register, once each thread holds both elements of its pairs."""
    value, last = natural(g, op.value), len(shape_of(op.value.type)) - 1
    assert isinstance(value.type, FragType)
    layout = value.type.layout
    if not any(m.dim == last for m in layout.reg):
        half = g.layouts.of.get(op.first) or g.layouts.default(op.first)
        layout = joined(half)
        value = convert(g, value, layout)
    halves = layout.without(last)
    places = layout.offsets(layout.reg)[:, last]
    for side, result in enumerate((op.first, op.second)):
        own = [r for r in range(layout.registers) if places[r] == side]
        part = g.add(Rearrange(value, own, halves), result.name_hint)
        g.fragments[result] = convert(g, part, g.layouts.of.get(result, halves))


def lower_cat(g: GroupLowering, op: Cat) -> None:
    """Registers of one tile after those of the other; tiles of unequal sizes by shared memory."""
    first = natural(g, op.lhs)
    assert isinstance(first.type, FragType)
    layout, shape = first.type.layout, shape_of(op.result.type)
    wanted = g.layouts.of[op.result]
    if op.lhs.type == op.rhs.type:
        second = fragment(g, op.rhs, layout)
        long = replace(layout, shape=shape, reg=(*layout.reg, Mode(2, 0, layout.shape[0])))
        sources = [(side, r) for side in (0, 1) for r in range(layout.registers)]
        whole = g.add(Assemble([first, second], sources, long), op.result.name_hint)
        g.fragments[op.result] = convert(g, whole, wanted)
        return
    place = scratch(g, scratch_tile(shape, element_of(op.result.type)))
    team_sync(g)
    rows = 0
    for part in (first, natural(g, op.rhs)):
        assert isinstance(part.type, FragType)
        tile = scratch_tile(part.type.layout.shape, part.type.element_type)
        height, width = tile.extents
        start = Subtile(place, g.constant(0 if len(shape) == 1 else rows),
                        rows if len(shape) == 1 else 0, height, width)  # fmt: skip
        g.do(SharedStore(part, g.add(start)))
        rows += width if len(shape) == 1 else height
    team_sync(g)
    whole = FragType.of(element_of(op.result.type), wanted)
    g.fragments[op.result] = g.add(SharedLoad(place, whole), op.result.name_hint)


JOINING: dict[type[Operation], Callable[..., None]] = {
    Join: lower_join,
    Split: lower_split,
    Cat: lower_cat,
}
"""Lowering of joins and splits."""
