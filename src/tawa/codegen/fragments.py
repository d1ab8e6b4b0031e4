"""Fragments: tile values in registers, made or converted where a layout is asked for.

A value that is cheap to make (see `layouts`) is made in the layout of each use. Others have one
layout; another one is reached inside each thread if it can be, else through shared memory.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

from xdsl.dialects.builtin import IndexType, UnitAttr, i32
from xdsl.ir import Attribute, SSAValue

from tawa.aref.analysis.anchors import known_from
from tawa.aref.dialect import ops as aref
from tawa.base.layout import LANES, REPLICA, Layout, Mode, Modes, blocked, register_map
from tawa.base.types import PtrType, byte_size, element_of, is_float, shape_of
from tawa.codegen.exchanges import layouts_of_exchange
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.lane_swaps import LANE_BITS, Moves, lane_moves, lane_swaps
from tawa.hopper.dialect.atomic import MemoryFence
from tawa.hopper.dialect.fragment import (
    Anchored,
    Coordinate,
    Copy,
    Fill,
    Rearrange,
    Relabel,
    Undefined,
)
from tawa.hopper.dialect.lanes import ShuffleFrom, SwapBits
from tawa.hopper.dialect.memory import SharedLoad, SharedStore, Slot
from tawa.hopper.dialect.sync import ORDERS_MEMORY
from tawa.hopper.dialect.types import FragType, TileType
from tawa.ir.elementwise import Map
from tawa.machine.chips import SM_90A
from tawa.tile.dialect.ops import Arange, Broadcast, ExpandDims, Splat, Trans

SMALL = SM_90A.group_access
"""Bytes of a tile that has two areas of shared memory in turn."""
WORD = 4
"""Bytes of a register."""
KEPT = 16
"""Registers that a tile in another layout may take all through a loop: half of a small tile's."""


def fragment(g: GroupLowering, value: SSAValue, layout: Layout) -> SSAValue:
    """The value as a fragment in a layout; lazy values are made, others converted.

    What is held as words of an operand stays so: only products and what carries it ask for it.
    """
    if value in g.layouts.packed:
        return g.fragments[value]
    if g.layouts.lazy(value):
        for made in g.made[-1:] if g.anew else reversed(g.made):
            if (value, layout) in made:
                return made[value, layout]
        outside = g.group.copies is not None or g.layouts.work(value) >= g.kernel.target.remade_work
        with g.where_defined(value) if outside else nullcontext():
            new = _make(g, value, layout)
            new.name_hint = new.name_hint or value.name_hint
            g.made[-1][value, layout] = new
        return new
    return _converted(g, value, layout)


def _converted(g: GroupLowering, value: SSAValue, layout: Layout) -> SSAValue:
    """A value that has a layout in another one: before a loop, if it is not made in the loop.

    That takes registers all through the loop, so tiles that take many are converted each time.
    """
    source = g.fragments[value]
    assert isinstance(source.type, FragType)
    words = layout.registers * byte_size(source.type.element_type) / WORD
    dims = tuple(d if e != 1 else None for d, e in enumerate(layout.shape))
    at_hand = register_map(source.type.layout, layout, dims) is not None
    if at_hand or words > KEPT or not g.inside_loop(value):
        return convert(g, source, layout)
    for made in reversed(g.made):
        if (value, layout) in made:
            return made[value, layout]
    with g.where_defined(value):
        new = g.made[-1][value, layout] = convert(g, source, layout)
    g.last_exchange = None, g.last_exchange[1]  # the loop may have exchanged before, in the text
    return new


def natural(g: GroupLowering, value: SSAValue) -> SSAValue:
    """The value as a fragment in its own layout (a default one for lazy values)."""
    layout = g.layouts.of.get(value) or g.layouts.default(value)
    return fragment(g, value, layout)


def made_for(g: GroupLowering, value: SSAValue, wanted: Layout | None) -> SSAValue:
    """The value as a fragment: a lazy one as it is wanted, if there is such a layout."""
    if wanted is not None and g.layouts.lazy(value):
        return fragment(g, value, wanted)
    return natural(g, value)


def reducible(g: GroupLowering, value: SSAValue, axis: int) -> SSAValue:
    """The value as a fragment to be reduced along an axis, in its own layout if it has one.

    One that is made in any layout is made with the axis inside of warps, where what warps found
    would be too much for shared memory.
    """
    layout = g.layouts.of.get(value) or g.layouts.default(value)
    parts = math.prod(m.extent for m in layout.warp if m.dim == axis)
    size = parts * byte_size(element_of(value.type)) * math.prod(layout.without(axis).shape)
    if value not in g.layouts.of and size > g.kernel.target.shared_bytes // 2:
        others = [d for d in reversed(range(len(layout.shape))) if d != axis]
        layout = blocked(layout.shape, g.warps, layout.vector(others[0]), (*others, axis))
    return fragment(g, value, layout)


def _make(g: GroupLowering, value: SSAValue, layout: Layout) -> SSAValue:
    """Make a lazy value in a layout."""
    op = value.owner
    if isinstance(op, Splat):
        scalar = g.scalar(op.value)
        return g.add(Fill(scalar, FragType.of(scalar.type, layout)))
    if isinstance(op, aref.Unset):
        return g.add(Undefined(FragType.of(element_of(value.type), layout)))
    if isinstance(op, Arange):
        return g.add(Coordinate(0, op.start.value.data, layout))
    if isinstance(op, ExpandDims):
        axis = op.axis.value.data
        inner = fragment(g, op.value, layout.without(axis))
        dims = tuple(d for d in range(len(layout.shape)) if d != axis)
        return rearrange(g, inner, layout, dims)
    if isinstance(op, Broadcast):
        source = layout
        for d, extent in enumerate(shape_of(op.value.type)):
            if extent == 1 and layout.shape[d] != 1:
                source = source.flattened(d)
        inner = fragment(g, op.value, source)
        kept = tuple(None if e == 1 else d for d, e in enumerate(shape_of(op.value.type)))
        return rearrange(g, inner, layout, kept)
    if isinstance(op, Trans):
        back = tuple(op.permutation.index(d) for d in range(len(layout.shape)))
        return g.add(Relabel(fragment(g, op.value, layout.permuted(back)), layout))
    assert isinstance(op, Map)
    operands = [fragment(g, v, layout) for v in op.arguments]
    return mapped(g, op, operands, layout)


def mapped(g: GroupLowering, op: Map, operands: list[SSAValue], layout: Layout) -> SSAValue:
    """The elements that a map computes, from as few of the thread's registers as facts allow.

    Numbers that grow may begin again at the end of their type, which addresses do not reach.
    """
    value = g.add(Map(op.function.data, operands, element_of(op.result.type)))
    element = element_of(op.result.type)
    if layout.registers == 1 or is_float(element) or isinstance(element, IndexType):
        return value
    info = g.layouts.axes.of(op.result)
    if not isinstance(element, PtrType):
        info = replace(info, contiguous=(1,) * len(layout.shape))
    anchors, distances = known_from(info, layout)
    if len(set(anchors)) == layout.registers:
        return value
    assert isinstance(value.type, FragType)
    return g.add(Anchored(value, anchors, distances))


def rearrange(
    g: GroupLowering, source: SSAValue, layout: Layout, dims: tuple[int | None, ...]
) -> SSAValue:
    """Registers of `source` in the order of `layout`, whose threads hold them already."""
    assert isinstance(source.type, FragType)
    found = register_map(source.type.layout, layout, dims)
    assert found is not None, "a derived layout keeps its elements in their threads"
    return g.add(Rearrange(source, found, layout))


def convert(g: GroupLowering, source: SSAValue, layout: Layout) -> SSAValue:
    """The same tile in another layout: inside each thread if possible, else by shared memory."""
    assert isinstance(source.type, FragType)
    if source.type.layout == layout:
        return source
    dims = tuple(d if e != 1 else None for d, e in enumerate(layout.shape))
    found = register_map(source.type.layout, layout, dims)
    if found is not None:
        return g.add(Rearrange(source, found, layout))
    size = byte_size(source.type.element_type)
    swaps = lane_swaps(source.type.layout, layout, size)
    if swaps is not None:
        for lanes, registers in swaps.bits:
            source = g.add(SwapBits(source, lanes, registers, layout))
        return g.add(Rearrange(source, swaps.registers, layout))
    moves = lane_moves(source.type.layout, layout, size)
    if moves is not None:
        return _moved(g, source, moves, layout)
    order, write, read = layouts_of_exchange(source.type.layout, layout, size)
    given = rearranged(g, _relabeled(g, source, source.type.layout.permuted(order)), write)
    place = exchanged(g, given, scratch_tile(read.shape, source.type.element_type))
    found = g.add(SharedLoad(place, source.type.with_layout(read)))
    return _relabeled(g, rearranged(g, found, layout.permuted(order)), layout)


def _moved(g: GroupLowering, source: SSAValue, moves: Moves, layout: Layout) -> SSAValue:
    """A fragment in another layout, by these moves."""
    for register, thread in moves.kept:
        source = _kept_half(g, source, register, thread)
    if moves.stays:
        return g.add(Rearrange(source, moves.registers, layout))
    source = g.add(Rearrange(source, moves.registers, layout))
    return g.add(ShuffleFrom(source, moves.threads, moves.lanes, layout))


def _kept_half(g: GroupLowering, source: SSAValue, register: int, thread: int) -> SSAValue:
    """The registers whose number's bit is a bit of the thread's number."""
    assert isinstance(source.type, FragType)
    layout = source.type.layout
    count = layout.registers
    half = Layout((count // 2,), (Mode(count // 2, 0, 1),), (Mode(LANES, REPLICA, 0),),
                  (Mode(layout.warps, REPLICA, 0),))  # fmt: skip
    low = [r for r in range(count) if not r & register]
    sides = [g.add(Rearrange(source, [r | bit for r in low], half)) for bit in (0, register)]
    upper = g.add(Rearrange(_bit_of_thread(g, thread, layout.warps), [0] * len(low), half))
    return g.add(Map("select", [upper, sides[1], sides[0]]))


def _bit_of_thread(g: GroupLowering, bit: int, warps: int) -> SSAValue:
    """Whether a bit of each thread's number is set: one register."""

    def only(bits: int, bit: int) -> Modes:
        if not 0 <= bit < bits:
            return (Mode(1 << bits, REPLICA, 0),)
        sides = (Mode(1 << bit, REPLICA, 0), Mode(1 << bits - 1 - bit, REPLICA, 0))
        return (sides[0], Mode(2, 0, 1), sides[1])

    lane, warp = only(LANE_BITS, bit), only(warps.bit_length() - 1, bit - LANE_BITS)
    layout = Layout((2,), (), lane, warp)
    number = g.add(Coordinate(0, 0, layout))
    zero = g.add(Fill(g.constant(0), FragType.of(i32, layout)))
    return g.add(Map("cmpi_ne", [number, zero]))


def _relabeled(g: GroupLowering, value: SSAValue, layout: Layout) -> SSAValue:
    assert isinstance(value.type, FragType)
    return value if value.type.layout == layout else g.add(Relabel(value, layout))


def rearranged(g: GroupLowering, value: SSAValue, layout: Layout) -> SSAValue:
    """The same registers in the order of another layout of the same threads."""
    assert isinstance(value.type, FragType)
    if value.type.layout == layout:
        return value
    return rearrange(g, value, layout, tuple(range(len(layout.shape))))


def scratch_tile(shape: tuple[int, ...], element: Attribute) -> TileType:
    """A tile of scratch space for a shape of any rank."""
    *outer, columns = shape or (1,)
    return TileType.of(max(1, math.prod(outer)), columns, element, 0)


def scratch(g: GroupLowering, tile: TileType) -> SSAValue:
    """This team's part of the scratch area."""
    owner = g.group.role.data if g.group.copies is not None else ""
    ring = g.add(g.kernel.memory.scratch(tile, g.teams, owner))
    index = g.team_index() if g.teams > 1 else g.constant(0)
    return g.add(Slot(ring, index))


def team_sync(g: GroupLowering, *, orders_memory: bool = False) -> None:
    """All warps of the team meet; for the sake of global memory, where nothing else says so."""
    meeting = g.meet()
    if orders_memory:
        meeting.attributes[ORDERS_MEMORY] = UnitAttr()


def exchange(g: GroupLowering, source: SSAValue, place: SSAValue) -> None:
    """Write a fragment to scratch space between barriers: readers are done, writers visible."""
    team_sync(g)
    g.do(SharedStore(source, place))
    team_sync(g)


def exchanged(g: GroupLowering, source: SSAValue, tile: TileType) -> SSAValue:
    """The place in shared memory of a fragment that all threads may read.

    Small tiles have two areas in turn. Threads come to the second exchange of a block when they
    have read what was in its area before: the first one's meetings lie between.
    """
    alone = g.kernel.only_group or g.multiplies_by_warps
    if tile.bytes > SMALL or g.teams > 1 or not alone:
        place = scratch(g, tile)
        exchange(g, source, place)
        return place
    before, area = g.last_exchange
    place = g.add(Slot(g.add(g.kernel.memory.scratch(tile, 1, f"area {1 - area}")), g.constant(0)))
    if before is not g.block:
        team_sync(g)
    g.do(SharedStore(source, place))
    team_sync(g)
    g.last_exchange = g.block, 1 - area
    return place


def copied(g: GroupLowering, value: SSAValue, old: SSAValue) -> SSAValue:
    """Registers that may be changed in place: a copy if anything else may use them."""
    if isinstance(old.owner, aref.Unset):
        return value
    shared = g.layouts.lazy(old) or not old.has_one_use()
    return g.add(Copy(value)) if shared else value


def agreed(g: GroupLowering, value: SSAValue, scope: str | None) -> SSAValue:
    """What the first holder of each element has read, in all threads that hold it.

    Threads read at different times, so that copies may differ; a program has one value. With a
    scope, what others in it released before is acquired for all threads.
    """
    assert isinstance(value.type, FragType)
    layout = value.type.layout
    if scope is not None:
        g.do(MemoryFence(scope))
        if not _copies(layout):
            team_sync(g, orders_memory=True)
    if not _copies(layout):
        return value
    place = scratch(g, scratch_tile(layout.shape, value.type.element_type))
    exchange(g, value, place)
    return g.add(SharedLoad(place, value.type))


def _copies(layout: Layout) -> bool:
    """Whether several threads hold the same element."""
    return any(m.dim == REPLICA and m.extent > 1 for m in (*layout.lane, *layout.warp))
