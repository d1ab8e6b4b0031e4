"""Lowering of descriptor stores: through staging buffers and the TMA engine, under the next work.

A consumer writes 64 rows and one panel of columns to a staging buffer, and one thread hands it to
the TMA engine; the buffer is waited for only when its iteration comes round again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from tawa.aref.analysis.layouts import unit_reshape
from tawa.aref.analysis.slots import swizzle_for
from tawa.aref.dialect.ops import DotIssue
from tawa.base.layout import accumulator
from tawa.base.types import byte_size, element_of, shape_of
from tawa.codegen.boxes import boxes
from tawa.codegen.epilogue_subtiles import window
from tawa.codegen.fragments import natural, team_sync
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.shared_memory import tile_for
from tawa.hopper.dialect.fragment import Relabel
from tawa.hopper.dialect.memory import (
    BulkCommit,
    BulkWait,
    BulkWaitRead,
    SharedStore,
    Slot,
    Stmatrix,
    Subtile,
    TmaStore,
)
from tawa.hopper.dialect.sync import FenceProxyAsync, NamedBarrierSync
from tawa.hopper.dialect.types import FragType, TileType
from tawa.machine.chips import SM_90A
from tawa.tile.analysis.alias import STORED_BEFORE
from tawa.tile.dialect.ops import DescStore

GROUP_THREADS = SM_90A.group_threads


@dataclass(frozen=True)
class Chunk:
    """64 rows and one panel of columns of each warp group's share."""

    row: int
    column: int
    register: int


def chunks(own_rows: int, own_columns: int, width: int) -> list[Chunk]:
    """The chunks of a share; a last one that does not fit overlaps the one before."""
    starts = [min(c, own_columns - width) for c in range(0, own_columns, width)]
    return [
        Chunk(64 * block, start, (block * own_columns + start) // 2)
        for block in range(own_rows // 64)
        for start in starts
    ]


def lower_desc_store(g: GroupLowering, op: DescStore) -> None:
    """Store a tile through its descriptor, once what it writes over is complete."""
    if STORED_BEFORE in op.attributes:
        g.do(BulkWait(0))
        team_sync(g, orders_memory=True)
    value = natural(g, op.value)
    shape = shape_of(op.value.type)
    axes = matrix_axes(shape)
    if axes is not None:
        matrix = (shape[axes[0]], shape[axes[1]])
        value = _relabelled(g, value, matrix)
        columns = matrix[1] // (g.groups if g.layouts.columns else 1)
        size = byte_size(element_of(value.type))
        width = min(columns, 128 // size)
        whole = op.reduce is None or columns % width == 0  # else chunks overlap
        if width * size in (32, 64, 128) and whole and _is_accumulator(g, value, matrix):
            _staged_by_group(g, op, (matrix[0], columns, width))
            return
    _staged_by_team(g, op, value)


def matrix_axes(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The axes of a tile's rows and columns, the other extents being 1; None if it is no matrix.

    Columns are the last axis, along which memory is contiguous.
    """
    plain = [d for d, e in enumerate(shape) if e != 1] if len(shape) > 2 else range(len(shape))
    last = len(shape) - 1
    return (plain[0], plain[1]) if len(plain) == 2 and plain[1] == last else None


def _relabelled(g: GroupLowering, value: SSAValue, matrix: tuple[int, int]) -> SSAValue:
    """The fragment without the extents of 1."""
    assert isinstance(value.type, FragType)
    layout = value.type.layout
    if layout.shape == matrix:
        return value
    narrow = unit_reshape(layout, matrix)
    assert narrow is not None
    return g.add(Relabel(value, narrow))


def _is_accumulator(g: GroupLowering, value: SSAValue, matrix: tuple[int, int]) -> bool:
    """Whether a fragment has the layout that matrix products leave a tile in."""
    assert isinstance(value.type, FragType)
    if matrix[0] % SM_90A.mma_m or g.warps % SM_90A.group_warps:
        return False
    if not g.layouts.columns and matrix[0] % (16 * g.warps):
        return False
    return value.type.layout == accumulator(matrix, g.warps, g.layouts.columns)


def _staged_by_group(g: GroupLowering, op: DescStore, sizes: tuple[int, int, int]) -> None:
    """Every warp group stages and stores its own rows, chunk by chunk."""
    rows, own_columns, width = sizes
    own_rows = rows if g.layouts.columns else rows // g.groups
    element = element_of(op.value.type)
    pieces = chunks(own_rows, own_columns, width)
    tile = TileType.of(64 * g.groups, width, element, swizzle_for(width, element))
    slots = min(g.kernel.staging, len(pieces))
    most = max(slots, *(_slots_of(g, other, tile) for other in g.kernel.stores))
    ring, alike = g.kernel.staging_ring(tile, most * g.storing, by_group=True)
    alike = alike and most == slots
    shape = shape_of(op.value.type)
    axes = matrix_axes(shape)
    assert axes is not None
    row_axis, column_axis = axes
    box = tuple({row_axis: 64, column_axis: width}.get(d, 1) for d in range(len(shape)))
    map_ = g.kernel.tensor_map(op.desc, box, tile.swizzle.data, stored=True)
    at = [g.scalar(c) for c in op.coordinates]
    group = g.group_index() if g.groups > 1 else None
    if group is not None:
        axis, share = (column_axis, own_columns) if g.layouts.columns else (row_axis, own_rows)
        at[axis] = g.map("addi", at[axis], g.map("muli", group, g.constant(share)))
    first_slot = g.map("muli", g.team_index(), g.constant(slots)) if g.storing > 1 else None
    barrier = g.group_barrier()

    def stage(i: int) -> SSAValue:
        """Write a chunk to its buffer; gives the group's part of it."""
        slot = g.constant(i % slots)
        slot = slot if first_slot is None else g.map("addi", first_slot, slot)
        place = g.add(Slot(ring, slot))
        row = g.map("muli", group, g.constant(64)) if group is not None else g.constant(0)
        own = g.add(Subtile(place, row, 0, 64, width))
        _write(g, op, pieces[i], (place, own))
        return own

    def send(parts: dict[int, SSAValue]) -> None:
        """Hand chunks to the TMA engine."""
        for i, own in parts.items():
            where = list(at)
            where[row_axis] = g.plus(at[row_axis], pieces[i].row)
            where[column_axis] = g.plus(at[column_axis], pieces[i].column)
            g.do(TmaStore(map_, where, own, g.kernel.options.stream_stores, op.reduce))
        g.do(BulkCommit())

    together = slots == len(pieces) and _between_products(op)
    every = len(pieces) if together else 1
    # Which chunks are still being read is known from a store's place if all are handed over alike.
    alike = alike and len(set(map(_between_products, g.kernel.stores))) == 1
    for first in range(0, len(pieces), every):
        pending = _pending(first // every, slots // every, len(pieces) // every, alike)
        g.one_thread("group", lambda pending=pending: g.do(BulkWaitRead(pending)))
        g.do(NamedBarrierSync(barrier, GROUP_THREADS))
        parts = {i: stage(i) for i in range(first, first + every)}
        g.do(FenceProxyAsync())
        g.do(NamedBarrierSync(barrier, GROUP_THREADS))
        g.one_thread("group", lambda parts=parts: send(parts))


def _slots_of(g: GroupLowering, op: DescStore, tile: TileType) -> int:
    """Buffers that a store may take of those of `tile`; 0 if it stages in others."""
    shape, element = shape_of(op.value.type), element_of(op.value.type)
    axes = matrix_axes(shape)
    if axes is None or element != tile.element_type:
        return 0
    split = (1, g.groups) if g.layouts.columns else (g.groups, 1)
    rows, columns = (shape[axis] // parts for axis, parts in zip(axes, split, strict=True))
    width = tile.columns.data
    if width != min(columns, 128 // byte_size(element)):
        return 0
    return min(g.kernel.staging, len(chunks(rows, columns, width)))


def _between_products(op: DescStore) -> bool:
    """Whether a loop issues products before and after a store: it meets for all chunks at once."""
    loop = op.parent_op()
    return isinstance(loop, scf.ForOp) and any(isinstance(o, DotIssue) for o in loop.body.block.ops)


def _pending(index: int, slots: int, total: int, alike: bool) -> int:
    """Stores that may still be reading when chunk `index` reuses its buffer.

    Those issued after the buffer's last use: in this tile, or in an `alike` tile before.
    """
    if index >= slots:
        return slots - 1
    if not alike:
        return index
    last = max(j for j in range(total) if j % slots == index)
    return total - 1 - last + index


def _write(
    g: GroupLowering, op: DescStore, chunk: Chunk, places: tuple[SSAValue, SSAValue]
) -> None:
    """Registers of one chunk to the staging buffer: stmatrix where it can, else plain stores."""
    value, (place, own) = op.value, places
    tile = place.type
    assert isinstance(tile, TileType)
    width = tile.columns.data
    whole = g.layouts.of[value]
    own_layout = accumulator((tile.rows.data, width), g.warps)
    at = (chunk.column, chunk.register)
    part = window(g, value, at, (own_layout, whole), op)
    if byte_size(element_of(value.type)) == 2 and width % 16 == 0:
        g.do(Stmatrix(part, 0, own))
    else:
        g.do(SharedStore(part, place))


def _staged_by_team(g: GroupLowering, op: DescStore, value: SSAValue) -> None:
    """The whole tile is staged at once, in any layout, and one thread stores it."""
    shape = shape_of(op.value.type)
    tile = tile_for(shape, element_of(op.value.type))
    if tile.columns.data % tile.panel_columns:
        # A panel that is partly unused would be written to memory as well.
        tile = TileType.of(tile.rows.data, tile.columns.data, tile.element_type, 0)
    ring, _ = g.kernel.staging_ring(tile, g.storing)
    place = g.add(Slot(ring, g.team_index() if g.storing > 1 else g.constant(0)))
    g.one_thread("team", lambda: g.do(BulkWaitRead(0)))
    team_sync(g)
    g.do(SharedStore(value, place))
    g.do(FenceProxyAsync())
    team_sync(g)
    cut = boxes(shape, tile, g.kernel.target)
    map_ = g.kernel.tensor_map(op.desc, cut.shape, tile.swizzle.data, stored=True)
    at = [g.scalar(c) for c in op.coordinates]

    def send() -> None:
        places = itertools.product(range(cut.panels), cut.slabs(), range(cut.bands))
        for panel, (outer, slab), band in places:
            first, start = band * cut.height, panel * cut.width
            row = g.constant(slab + first)
            part = g.add(Subtile(place, row, start, cut.rows, cut.width))
            where = [*at[:-1], g.plus(at[-1], start)]
            for axis, index in enumerate(outer):
                where[axis] = g.plus(at[axis], index)
            if band:
                where[-2] = g.plus(at[-2], first)
            g.do(TmaStore(map_, where, part, g.kernel.options.stream_stores, op.reduce))
        g.do(BulkCommit())

    g.one_thread("team", send)


STORES: dict[type[Operation], Callable[..., None]] = {DescStore: lower_desc_store}
"""Lowering of descriptor stores."""
