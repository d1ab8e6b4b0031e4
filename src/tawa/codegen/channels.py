"""Lowering of arefs: rings and mbarriers, cursors as slot and phase, copies into slots."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.analysis.windows import group_pitch, row_pitches
from tawa.aref.dialect import ops as aref
from tawa.codegen.boxes import boxes
from tawa.codegen.fragments import fragment, natural, team_sync
from tawa.codegen.group_lowering import GROUP_WARPS, Cursor, GroupLowering, RowWindow, View
from tawa.codegen.matrix import along_rows, read_by_warps, write
from tawa.hopper.dialect.copies import CopyArrive, CopyAsync
from tawa.hopper.dialect.fragment import Relabel
from tawa.hopper.dialect.memory import Slot, Subtile, TmaLoad
from tawa.hopper.dialect.structure import ANEW, ClusterRank
from tawa.hopper.dialect.sync import (
    FenceProxyAsync,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
)
from tawa.hopper.dialect.transpose import TransposeTile
from tawa.hopper.dialect.types import TileType
from tawa.ir.boxes import REGULAR, Box
from tawa.ir.walking import all_of

EVERY_CTA = 0b11
"""Mask of the CTAs of a cluster of two."""


def lower_start(g: GroupLowering, op: aref.Start) -> None:
    """The first slot, phase 0."""
    g.bind(op.cursor, [g.constant(0), g.constant(0)])


def lower_advance(g: GroupLowering, op: aref.Advance) -> None:
    """The slot after `count` more; the phase flips with each time round the ring."""
    assert op.cursor is not None and isinstance(op.ref.type, aref.RefType)
    cursor, depth = g.cursors[op.cursor], op.ref.type.depth.data
    count = op.count.owner
    one = getattr(getattr(count, "value", None), "value", None)
    if one is not None and one.data == 1:
        new = _step(g, cursor, depth)
    else:
        reached = g.map("addi", cursor.slot, g.scalar(op.count))
        size = g.constant(depth)
        reuses = g.map("divsi", reached, size)
        flip = g.map("andi", reuses, g.constant(1))
        new = Cursor(g.map("remsi", reached, size), g.map("xori", cursor.phase, flip))
    g.cursors[op.result] = new
    stem = op.result.name_hint or "ring"
    new.slot.name_hint, new.phase.name_hint = f"{stem}_slot", f"{stem}_phase"


def _step(g: GroupLowering, cursor: Cursor, depth: int) -> Cursor:
    one = g.constant(1)
    if depth == 1:
        return Cursor(cursor.slot, g.map("xori", cursor.phase, one))
    following = g.map("addi", cursor.slot, one)
    wraps = g.map("cmpi_eq", following, g.constant(depth))
    slot = g.map("select", wraps, g.constant(0), following)
    flip = g.map("extui", wraps, type_=i32)
    return Cursor(slot, g.map("xori", cursor.phase, flip))


def _views(g: GroupLowering, op: aref.PutEnter | aref.OpensSlot, slot: SSAValue) -> None:
    create = op.ref.owner
    order = isinstance(create, aref.Create) and create.interleaved is not None
    for ring, view in zip(g.kernel.rings[op.ref].tiles, op.views, strict=True):
        tile = g.add(Slot(ring, slot), view.name_hint)
        assert isinstance(view.type, aref.ViewType)
        g.views[view] = View(tile, tuple(view.type.tile.get_shape()), interleaved=order)


def lower_put_enter(g: GroupLowering, op: aref.PutEnter) -> None:
    """Remember the slot; the whole critical region is written where it ends."""
    assert op.cursor is not None
    g.bind(op.token, [g.cursors[op.cursor].slot])
    g.pending_puts[op.token] = [op]


def lower_fill(
    g: GroupLowering, op: aref.LoadInto | aref.CopyInto | aref.TransposeInto | aref.StoreInto
) -> None:
    """Remember the copy."""
    g.pending_puts[op.token].append(op)


def lower_put_exit(g: GroupLowering, op: aref.PutExit) -> None:
    """Wait for empty, announce the bytes, copy: one thread does all of it."""
    enter, *loads = g.pending_puts.pop(op.token)
    assert isinstance(enter, aref.PutEnter) and enter.cursor is not None
    cursor, ring = g.cursors[enter.cursor], g.kernel.rings[op.ref]
    if any(isinstance(load, aref.TransposeInto | aref.StoreInto) for load in loads):
        _write_tiles(g, enter, loads)
        return
    if any(isinstance(load, aref.CopyInto) for load in loads):
        _copy_tiles(g, enter, loads)
        return

    def body() -> None:
        parity = g.map("xori", cursor.phase, g.constant(1))
        g.do(MbarrierWait(ring.empty, cursor.slot, parity))
        g.do(MbarrierExpect(ring.full, cursor.slot, ring.bytes))
        _views(g, enter, cursor.slot)
        for load in loads:
            assert isinstance(load, aref.LoadInto)
            with g.made_for(load):
                _copy(g, load, ring.full, cursor.slot)

    if g.single:
        body()
    else:
        g.one_thread("team", body)


def _copy_tiles(g: GroupLowering, enter: aref.PutEnter, fills: list[Operation]) -> None:
    """Wait for empty, start all copies, arrive once they have landed.

    Addresses and masks come after the wait: before it, they would all be held at once.
    """
    assert enter.cursor is not None
    cursor, ring = g.cursors[enter.cursor], g.kernel.rings[enter.ref]
    copies = [op for op in fills if isinstance(op, aref.CopyInto)]
    parity = g.map("xori", cursor.phase, g.constant(1))
    g.do(MbarrierWait(ring.empty, cursor.slot, parity))
    _views(g, enter, cursor.slot)
    loads = [op for op in fills if isinstance(op, aref.LoadInto)]

    def load() -> None:
        size = sum(_tile_of(g, op.view).filled for op in loads)
        g.do(MbarrierExpect(ring.full, cursor.slot, size))
        for op in loads:
            with g.made_for(op):
                _copy(g, op, ring.full, cursor.slot)

    if loads:
        g.one_thread("team", load)
    boxed = [op for op in copies if enter.views.index(op.view) in ring.boxed]
    for op in copies:
        if op not in boxed:
            _copy_by_threads(g, op)
    if boxed:
        _copy_boxes(g, boxed, ring.full, cursor.slot)
    g.do(CopyArrive(ring.full, cursor.slot))


def _copy_by_threads(g: GroupLowering, op: aref.CopyInto) -> None:
    """Each thread starts its copies of a tile."""
    pointers, mask, count = _addresses(g, op)
    with g.made_for(op):
        g.do(CopyAsync(pointers, mask, g.views[op.view].tile, count))


def _copy_boxes(
    g: GroupLowering, fills: Sequence[aref.CopyInto], full: SSAValue, slot: SSAValue
) -> None:
    """One thread hands the tiles that are boxes to the TMA engine; else it arrives, and all copy.

    Mostly all of a slot's tiles are boxes, which is one test: tests one after the other would hold
    each copy up until the one before has been started.
    """
    boxed = [(op, op.box) for op in fills if op.box is not None]

    def one_by_one() -> None:
        for op, box in boxed:
            _copy_box(g, op, box, full, slot)

    for op in fills:
        if op.box is None:  # another load that fills the slot has one
            _arrive_and_copy(g, op, full, slot)
    if len(boxed) > 1:
        holds = [g.scalar(box.holds) for _, box in boxed]
        every = reduce(lambda a, b: g.map("andi", a, b), holds)
        together = partial(_copy_by_engine, g, boxed, full, slot)
        _if_else(g, every, boxed[0][0].parent, together, one_by_one)
    else:
        one_by_one()


def _copy_box(
    g: GroupLowering, op: aref.CopyInto, box: Box, full: SSAValue, slot: SSAValue
) -> None:
    """The same for one tile: no registers are kept for what is seldom copied by threads."""
    regular = REGULAR in op.attributes

    def by_threads() -> None:
        g.anew = regular
        _arrive_and_copy(g, op, full, slot)
        g.anew = False

    by_engine = partial(_copy_by_engine, g, [(op, box)], full, slot)
    branch = _if_else(g, g.scalar(box.holds), op.parent, by_engine, by_threads)
    if regular:
        branch.attributes[ANEW] = UnitAttr()


def _copy_by_engine(
    g: GroupLowering,
    boxed: Sequence[tuple[aref.CopyInto, Box]],
    full: SSAValue,
    slot: SSAValue,
) -> None:
    def load() -> None:
        for op, box in boxed:
            g.do(MbarrierExpect(full, slot, _tile_of(g, op.view).filled))
            with g.made_for(op):
                _Copies(g, op.view, box.desc, box.coordinates, full, slot).all(None)

    g.one_thread("team", load)


def _arrive_and_copy(g: GroupLowering, op: aref.CopyInto, full: SSAValue, slot: SSAValue) -> None:
    g.one_thread("team", lambda: g.do(MbarrierExpect(full, slot, 0)))
    _copy_by_threads(g, op)


def _if_else(
    g: GroupLowering,
    holds: SSAValue,
    home: Block | None,
    one: Callable[[], None],
    other: Callable[[], None],
) -> scf.IfOp:
    """A branch; each side computes for itself what only it needs of `home`'s values."""
    before, g.conditional = g.conditional, home
    sides = Block(), Block()
    for block, body in zip(sides, (one, other), strict=True):
        g.inside(block, body)
        block.add_op(scf.YieldOp())
    branch = scf.IfOp(holds, [], Region(sides[0]), Region(sides[1]))
    g.do(branch)
    g.conditional = before
    return branch


def _tile_of(g: GroupLowering, view: SSAValue) -> TileType:
    tile = g.views[view].tile.type
    assert isinstance(tile, TileType)
    return tile


def _addresses(g: GroupLowering, op: aref.CopyInto) -> tuple[SSAValue, SSAValue | None, int]:
    """Pointers and mask of a copy, as its slot's tile lies, and elements copied at a time."""
    with g.made_for(op):
        layout, count = g.layouts.copied(op)
        parts = [fragment(g, v, layout) if v else None for v in (op.pointers, op.mask)]
        if op.turned is not None:
            parts = [g.add(Relabel(v, layout.permuted((1, 0)))) if v else None for v in parts]
        pointers, mask = parts
        assert pointers is not None
        return pointers, mask, count


def _write_tiles(g: GroupLowering, enter: aref.PutEnter, fills: list[Operation]) -> None:
    """Wait for empty, write with all warps, make it visible to the tensor core, publish."""
    assert enter.cursor is not None
    cursor, ring = g.cursors[enter.cursor], g.kernel.rings[enter.ref]
    create = enter.ref.owner
    assert isinstance(create, aref.Create)
    parity = g.map("xori", cursor.phase, g.constant(1))
    g.do(MbarrierWait(ring.empty, cursor.slot, parity))
    _views(g, enter, cursor.slot)
    order = create.interleaved is not None
    for op in fills:
        assert isinstance(op, aref.TransposeInto | aref.StoreInto)
        with g.made_for(op):
            if isinstance(op, aref.StoreInto):
                write(g, along_rows(g, natural(g, op.value)), g.views[op.view].tile)
                continue
            source, target = g.views[op.source].tile, g.views[op.view].tile
            g.do(TransposeTile(source, target, g.warps, g.kernel.in_flight, interleaved=order))
    g.do(FenceProxyAsync())
    team_sync(g)
    g.one_thread("team", lambda: g.do(MbarrierArrive(ring.full, cursor.slot)))


def _copy(g: GroupLowering, op: aref.LoadInto, full: SSAValue, slot: SSAValue) -> None:
    """The TMA copies of one load; a shared one is split between the CTAs of the cluster."""
    shared = op.shared is not None
    place = g, op.view, op.desc, op.coordinates, full, slot
    copies = _Copies(*place, op.eviction, halved=shared)
    if op.shared is None:
        copies.all(None)
        return
    together, alone = Block(), Block()

    def half() -> None:
        rank = g.add(ClusterRank(), "rank")
        first = g.map("muli", rank, g.constant(copies.boxes.height))
        copies.band(first, g.constant(EVERY_CTA))
        g.do(scf.YieldOp())

    def whole() -> None:
        copies.all(None)
        g.do(scf.YieldOp())

    g.inside(together, half)
    g.inside(alone, whole)
    g.do(scf.IfOp(g.scalar(op.shared), [], Region(together), Region(alone)))


class _Copies:
    """One load as boxes: panels of columns, bands of rows."""

    def __init__(
        self,
        g: GroupLowering,
        view: SSAValue,
        desc: SSAValue,
        coordinates: Sequence[SSAValue],
        full: SSAValue,
        slot: SSAValue,
        eviction: StringAttr | None = None,
        *,
        halved: bool = False,
    ) -> None:
        self.g, self.full, self.slot = g, full, slot
        self.view = g.views[view]
        tile = self.view.tile.type
        assert isinstance(tile, TileType)
        self.tile = tile
        self.boxes = boxes(self.view.shape, tile, g.kernel.target)
        if halved:
            self.boxes = self.boxes.halved()
        self.at = [g.scalar(c) for c in coordinates]
        outer = (1,) * (len(self.at) - len(self.boxes.shape))
        self.map = g.kernel.tensor_map(desc, (*outer, *self.boxes.shape), tile.swizzle.data)
        self.eviction = eviction

    def all(self, ctas: SSAValue | None) -> None:
        """Every box."""
        for band in range(self.boxes.bands):
            self.band(self.g.constant(band * self.boxes.height) if band else None, ctas)

    def band(self, row: SSAValue | None, ctas: SSAValue | None) -> None:
        """The boxes from a row on; with `ctas`, into all of those CTAs."""
        g, cut = self.g, self.boxes
        places = itertools.product(range(cut.panels), cut.slabs())
        for panel, (outer, slab) in places:
            start = panel * cut.width
            first = g.constant(slab) if row is None else g.plus(row, slab)
            part = g.add(Subtile(self.view.tile, first, start, cut.rows, cut.width))
            where = [*self.at[:-1], g.plus(self.at[-1], start)]
            for axis, index in enumerate(outer, len(self.at) - len(cut.shape)):
                where[axis] = g.plus(where[axis], index)
            if row is not None:
                where[-2] = g.map("addi", where[-2], row)
            place = self.map, where, part, self.full, self.slot
            g.do(TmaLoad(*place, ctas, self.eviction))


def lower_get_enter(g: GroupLowering, op: aref.GetEnter) -> None:
    """Wait for full."""
    assert op.cursor is not None
    cursor, ring = g.cursors[op.cursor], g.kernel.rings[op.ref]
    g.do(MbarrierWait(ring.full, cursor.slot, cursor.phase))
    if _engine_reads_copies(g, op):
        g.do(FenceProxyAsync())
    g.bind(op.token, [cursor.slot])
    _views(g, op, cursor.slot)


def _engine_reads_copies(g: GroupLowering, op: aref.GetEnter) -> bool:
    """Whether matrix instructions read a tile that threads copied, through the generic proxy."""
    if _fenced_later(op):
        return False
    entered = [op, *(u.operation for u in op.token.uses if isinstance(u.operation, aref.Views))]
    carried = any(not isinstance(u.operation, aref.Consumed | aref.Views) for u in op.token.uses)
    for index in g.kernel.rings[op.ref].copied:
        views = [e.views[index] for e in entered]
        if carried or not all(map(_read_by_threads, views)):
            return True
    return False


def _read_by_threads(view: SSAValue) -> bool:
    """Whether threads alone read a view: tiles into registers, or operands of warps' products."""
    users = [use.operation for use in view.uses]
    return all(
        isinstance(u, aref.ViewRead | aref.WarpDot)
        or (isinstance(u, aref.ViewChange) and _read_by_threads(u.result))
        for u in users
    )


def _fenced_later(op: aref.GetEnter) -> bool:
    """Whether an operand is copied, and so fenced, before the first product after a get."""
    following = op.next_op
    while following is not None and not following.regions:
        if isinstance(following, aref.Stage):
            return not read_by_warps(following.view)
        if isinstance(following, aref.DotIssue):
            return False
        following = following.next_op
    return False


def lower_views(g: GroupLowering, op: aref.Views) -> None:
    """The same tiles of the same slot."""
    _views(g, op, g.scalar(op.token))


def lower_consumed(g: GroupLowering, op: aref.Consumed) -> None:
    """One arrival a warp group at the slot's empty barrier; none for no slot.

    Loads by threads may still be in flight at a barrier. The TMA engine, which fills the slot
    again, does not wait for them: a proxy fence does.
    """
    ring, slot = g.kernel.rings[op.ref], g.scalar(op.token)
    products_alone = op.completion.data != "none" and not _read_beside_products(g, op)
    if not products_alone and not _has_met(g, op):
        threads = 32 * min(g.warps, 4)
        if _filled_by_engine(g, op):
            g.do(FenceProxyAsync())
        g.do(NamedBarrierSync(g.group_barrier(), threads))

    def arrive_once() -> None:
        g.do(MbarrierArrive(ring.empty, slot))
        if ring.multicast:
            g.do(MbarrierArrive(ring.empty, slot, _other(g, op.shared)))

    def arrive() -> None:
        g.one_thread("group", arrive_once)

    if isinstance(op.token.owner, aref.GetEnter):
        arrive()
        return
    block = Block()

    def body() -> None:
        arrive()
        g.do(scf.YieldOp())

    g.inside(block, body)
    holds = g.map("cmpi_sge", slot, g.constant(0))
    g.do(scf.IfOp(holds, [], Region(block)))


def _has_met(g: GroupLowering, op: aref.Consumed) -> bool:
    """Whether the threads fenced their loads and met right before.

    A role that moves or converts tiles did when it published what it made of this one, one that
    computes when it had copied it for a product of warp groups, and any when it gave back another
    slot.
    """
    before = op.prev_op
    if isinstance(before, aref.Consumed) and before.completion.data == op.completion.data == "none":
        return _filled_by_engine(g, before) or not _filled_by_engine(g, op)
    if isinstance(before, aref.Stage):
        return not read_by_warps(before.view)
    passes_on = g.group.moves is not None or g.group.converts is not None
    return passes_on and isinstance(before, aref.PutExit)


def _read_beside_products(g: GroupLowering, op: aref.Consumed) -> bool:
    """Whether threads, too, read what the slots hold for products, and did not meet afterwards."""

    def read(view: SSAValue) -> bool:
        users = [use.operation for use in view.uses]
        changed = [user.result for user in users if isinstance(user, aref.ViewChange)]
        alone = [user for user in users if isinstance(user, aref.ViewRead) and user.meets is None]
        return bool(alone) or any(map(read, changed))

    gets = all_of(g.group, aref.OpensSlot)
    return any(read(view) for get in gets if get.ref == op.ref for view in get.views)


def _filled_by_engine(g: GroupLowering, op: aref.Consumed) -> bool:
    """Whether the TMA engine, and not threads alone, fills the slots."""
    ring, kind = g.kernel.rings[op.ref], op.ref.type
    assert isinstance(kind, aref.RefType)
    return bool(ring.boxed) or len(ring.copied) < len(kind.tiles.data)


def _other(g: GroupLowering, shared: SSAValue | None) -> SSAValue:
    """The cluster's other CTA if the slot was shared with it, else this one."""
    rank = g.add(ClusterRank(), "rank")
    if shared is None:
        return rank
    peer = g.map("xori", rank, g.constant(1))
    return g.map("select", g.scalar(shared), peer, rank)


def lower_no_token(g: GroupLowering, op: aref.NoToken) -> None:
    """Slot -1."""
    g.bind(op.token, [g.constant(-1)])


def lower_view_trans(g: GroupLowering, op: aref.ViewTrans) -> None:
    """The same tile, marked."""
    view = g.views[op.view]
    g.views[op.result] = replace(view, shape=view.shape[::-1], transposed=not view.transposed)


def lower_view_reshape(g: GroupLowering, op: aref.ViewReshape) -> None:
    """The same tile under another shape."""
    view = g.views[op.view]
    assert isinstance(op.result.type, aref.ViewType)
    shape = tuple(op.result.type.tile.get_shape())
    g.views[op.result] = replace(view, shape=shape)


def lower_view_slice(g: GroupLowering, op: aref.ViewSlice) -> None:
    """The same tile, from the window's first row on."""
    view = g.views[op.view]
    assert view.window is None and isinstance(op.result.type, aref.ViewType)
    shape = tuple(op.result.type.tile.get_shape())
    pitch = group_pitch(view.shape, shape)
    assert pitch is not None
    start = g.constant(0)
    for offset, rows in zip(op.offsets[:-1], row_pitches(view.shape), strict=True):
        start = g.map("addi", start, g.map("muli", g.scalar(offset), g.constant(rows)))
    g.views[op.result] = replace(view, shape=shape, window=RowWindow(start, pitch))


def lower_turn(g: GroupLowering, op: aref.TurnWait | aref.TurnPass) -> None:
    """The named barrier of the team whose turn it is: it waits, the one before arrives."""
    base, team = g.constant(g.turn_barrier()), g.team_index()
    threads = 2 * 32 * g.warps
    if isinstance(op, aref.TurnWait):
        g.do(NamedBarrierSync(g.map("addi", team, base), threads))
        return
    following = g.map("addi", team, g.constant(1))
    last = g.map("cmpi_eq", following, g.constant(g.teams))
    next_team = g.map("select", last, g.constant(0), following)
    g.do(NamedBarrierArrive(g.map("addi", next_team, base), threads))


def lower_group_turn(g: GroupLowering, op: aref.GroupTurn) -> None:
    """A named barrier for each group: it waits there, the one before arrives."""
    base, group = g.constant(g.group_turn_barrier()), g.group_index()
    threads = 2 * 32 * GROUP_WARPS
    if op.step.data == "wait":
        g.do(NamedBarrierSync(g.map("addi", group, base), threads))
        return
    last = g.map("cmpi_eq", group, g.constant(g.groups - 1))
    if op.step.data == "pass":
        following = g.map("addi", group, g.constant(1))
        next_group = g.map("select", last, g.constant(0), following)
        g.do(NamedBarrierArrive(g.map("addi", next_group, base), threads))
        return
    block = Block()

    def body() -> None:
        g.do(NamedBarrierArrive(base, threads))
        g.do(scf.YieldOp())

    g.inside(block, body)
    g.do(scf.IfOp(last, [], Region(block)))


CHANNELS: dict[type[Operation], Callable[..., None]] = {
    aref.Start: lower_start,
    aref.Advance: lower_advance,
    aref.PutEnter: lower_put_enter,
    aref.LoadInto: lower_fill,
    aref.CopyInto: lower_fill,
    aref.TransposeInto: lower_fill,
    aref.StoreInto: lower_fill,
    aref.PutExit: lower_put_exit,
    aref.GetEnter: lower_get_enter,
    aref.Views: lower_views,
    aref.Consumed: lower_consumed,
    aref.NoToken: lower_no_token,
    aref.ViewTrans: lower_view_trans,
    aref.ViewReshape: lower_view_reshape,
    aref.ViewSlice: lower_view_slice,
    aref.TurnWait: lower_turn,
    aref.TurnPass: lower_turn,
    aref.GroupTurn: lower_group_turn,
}
"""Lowering of arefs."""
