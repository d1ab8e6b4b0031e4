"""Lowering of picks and counts by computed positions: by lanes where they are known, or memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue

from tawa.base.layout import LANES, Layout, Mode, Modes
from tawa.base.numerics import Array, constant_attribute, value_dtype
from tawa.base.types import byte_size, element_of, i32, is_float, shape_of
from tawa.codegen.fragments import convert, exchange, fragment, natural, scratch, team_sync
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.fragment import (
    Coordinate,
    Fill,
    Rearrange,
    ReduceRegisters,
    Relabel,
    ShuffleXor,
    layout_of,
)
from tawa.hopper.dialect.gather import SharedGather, SharedHistogram
from tawa.hopper.dialect.lanes import LANE_BITS, ShuffleFrom
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.types import FragType, TileType
from tawa.ir.elementwise import Map
from tawa.tile.analysis.singled_out import SingledOut, singled_out
from tawa.tile.dialect.ops import (
    Arange,
    Broadcast,
    ExpandDims,
    ExtractSlice,
    Gather,
    Histogram,
    Reduce,
    Splat,
)


def lower_gather(g: GroupLowering, op: Gather) -> None:
    """The source in row-major order in scratch space, then a load for each element."""
    source = natural(g, op.value)
    assert isinstance(source.type, FragType)
    shape = source.type.layout.shape
    layout = g.layouts.of.get(op.indices) or g.layouts.of.get(op.result)
    layout = layout or g.layouts.default(op.result)
    known = constant_tile(op.indices)
    if known is not None and layout == source.type.layout:
        steps = exchange_of_lanes(layout, known, op.axis.value.data)
        if steps is not None:
            g.fragments[op.result] = _exchanged(g, source, *steps)
            return
    place = scratch(g, TileType.of(1, math.prod(shape), source.type.element_type, 0))
    exchange(g, g.add(Relabel(source, source.type.layout.linear())), place)
    axis = op.axis.value.data
    at = _places(g, (fragment(g, op.indices, layout), axis), shape, layout)
    found = g.add(SharedGather(place, at), op.result.name_hint)
    g.fragments[op.result] = convert(g, found, g.layouts.of.get(op.result, layout))


def lower_extract_slice(g: GroupLowering, op: ExtractSlice) -> None:
    """The source in row-major order in scratch space, then a load for each element."""
    source = natural(g, op.value)
    assert isinstance(source.type, FragType)
    shape = source.type.layout.shape
    layout = g.layouts.of.get(op.result) or g.layouts.default(op.result)
    place = scratch(g, TileType.of(1, math.prod(shape), source.type.element_type, 0))
    exchange(g, g.add(Relabel(source, source.type.layout.linear())), place)
    first: SSAValue | None = None
    for d, offset in enumerate(op.offsets):
        step = math.prod(shape[d + 1 :])
        part = g.map("muli", g.scalar(offset), g.constant(step))
        first = part if first is None else g.map("addi", first, part)
    assert first is not None
    start = g.add(Fill(first, FragType.of(i32, layout)))
    at = g.add(Map("addi", [_places(g, None, shape, layout), start]))
    g.fragments[op.result] = g.add(SharedGather(place, at), op.result.name_hint)


def constant_tile(value: SSAValue) -> Array | None:
    """The elements of a tile of which all is known when the kernel is compiled."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return np.asarray(op.value.value.data).astype(value_dtype(op.result.type))
    if not isinstance(op, Arange | Splat | Broadcast | ExpandDims | Map):
        return None
    operands = [constant_tile(v) for v in op.operands]
    found = [v for v in operands if v is not None]
    if len(found) < len(operands):
        return None
    return op.evaluate(*found)


def exchange_of_lanes(layout: Layout, indices: Array, axis: int) -> tuple[list[int], int] | None:
    """A pick as registers in another order and lanes whose numbers differ in a mask.

    None if a thread would need elements of another warp, or of several lanes.
    """
    have = layout.coordinates
    want = have.copy()
    want[..., axis] = indices[tuple(np.moveaxis(have, -1, 0))]
    scale = np.array([math.prod(layout.shape[d + 1 :]) for d in range(len(layout.shape))])
    held, needed = have @ scale, want @ scale
    threads = np.arange(layout.threads)
    for mask in np.flatnonzero((held[:LANES] == needed[0, 0]).any(axis=1)):
        of_lane = held[threads ^ mask]
        order = [int(np.argmax(of_lane[0] == key)) for key in needed[0]]
        if (of_lane[:, order] == needed).all():
            return order, int(mask)
    return None


def _exchanged(g: GroupLowering, source: SSAValue, order: list[int], mask: int) -> SSAValue:
    assert isinstance(source.type, FragType)
    if order != list(range(len(order))):
        source = g.add(Rearrange(source, order, source.type.layout))
    return g.add(ShuffleXor(source, mask)) if mask else source


def _places(
    g: GroupLowering,
    picked: tuple[SSAValue, int] | None,
    shape: tuple[int, ...],
    layout: Layout,
) -> SSAValue:
    """Row-major positions in a tile of `shape`: indices along the picked axis, else coordinates."""
    total: SSAValue | None = None
    for d in range(len(shape)):
        step = math.prod(shape[d + 1 :])
        indices = picked[0] if picked is not None and picked[1] == d else None
        own = g.add(Coordinate(d, 0, layout)) if indices is None else indices
        part = own if step == 1 else g.add(Map("muli", [own, _number(g, step, layout)]))
        total = part if total is None else g.add(Map("addi", [total, part]))
    assert total is not None
    return total


def _number(g: GroupLowering, value: int, layout: Layout) -> SSAValue:
    return g.add(Fill(g.constant(value), FragType.of(i32, layout)))


def lower_histogram(g: GroupLowering, op: Histogram) -> None:
    """Each warp counts what it holds; then every thread adds the warps' counts of its bins."""
    values = natural(g, op.value)
    (bins,) = shape_of(op.result.type)
    place = scratch(g, TileType.of(g.warps, bins, i32, 0))
    team_sync(g)
    g.do(SharedHistogram(values, place))
    team_sync(g)
    layout = g.layouts.of[op.result]
    rows = layout.expanded(0)
    every = replace(rows, shape=(g.warps, bins), reg=(*rows.reg, Mode(g.warps, 0, 1)))
    parts = g.add(SharedLoad(place, FragType.of(i32, every)))
    total = g.add(ReduceRegisters(parts, 0, "addi"), op.result.name_hint)
    g.fragments[op.result] = g.add(Relabel(total, layout))


def picked(g: GroupLowering, op: Reduce) -> SSAValue | None:
    """The sum along the axis as a pick within each warp; None if that is not its meaning."""
    axis = op.axis.value.data
    if op.kind.data not in ("addf", "addi") or byte_size(element_of(op.value.type)) > 4:
        return None
    found, layout = singled_out(op.value, axis), g.layouts.of.get(op.value)
    if found is None or layout is None:
        return None
    if any(m.dim == axis for m in layout.warp) or not all(
        m.extent & (m.extent - 1) == 0 for m in (*layout.reg, *layout.lane)
    ):
        return None
    return _at(g, fragment(g, found.source, layout), found, axis)


def _at(g: GroupLowering, source: SSAValue, found: SingledOut, axis: int) -> SSAValue:
    """What stands at a coordinate along the axis, zero if it lies outside; the axis is gone."""
    layout = layout_of(source)
    extent = layout.shape[axis]
    place = g.scalar(found.position)
    if found.start:
        place = g.map("subi", place, _constant(g, found.start, place.type))
    inside = g.map("cmpi_ult", place, _constant(g, extent, place.type))
    narrow = place if place.type == i32 else g.map("trunci", place, type_=i32)
    value = _from_lane(g, _of_registers(g, source, narrow, axis), narrow, layout, axis)
    assert isinstance(value.type, FragType)
    element = value.type.element_type
    zero = g.add(Fill(_constant(g, 0, element), value.type))
    within = g.add(Fill(inside, value.type.with_element_type(i1)))
    chosen = g.add(Map("select", [within, value, zero]))
    if is_float(element) and extent > 1:
        chosen = g.add(Map("addf", [chosen, zero]))  # a sum with zeros is 0, not -0
    return g.add(Relabel(chosen, layout.without(axis)))


def _constant(g: GroupLowering, value: int, type_: Attribute) -> SSAValue:
    return g.add(arith.ConstantOp(constant_attribute(np.asarray(value), type_)))


def _of_registers(g: GroupLowering, source: SSAValue, place: SSAValue, axis: int) -> SSAValue:
    """Of each thread's registers along the axis those whose bits are the place's."""
    layout = layout_of(source)
    flat = layout.flattened(axis)
    own: dict[int, list[int]] = {}
    for register, coordinates in enumerate(layout.offsets(layout.reg).tolist()):
        own.setdefault(coordinates[axis], []).append(register)
    values = {at: g.add(Rearrange(source, registers, flat)) for at, registers in own.items()}
    for step, _ in _bits_along(layout.reg, axis):
        there = g.map("cmpi_ne", g.map("andi", place, g.constant(step)), g.constant(0))
        upper = g.add(Fill(there, FragType.of(i1, flat)))
        low = [at for at in values if not at & step]
        values = {at: g.add(Map("select", [upper, values[at | step], values[at]])) for at in low}
    return values[0]


def _from_lane(
    g: GroupLowering, source: SSAValue, place: SSAValue, layout: Layout, axis: int
) -> SSAValue:
    """The registers of the lane that has this place along the axis and all else of its own."""
    threads, masks = [1 << bit for bit in range(LANE_BITS)], dict[int, int]()
    for step, bit in _bits_along(layout.lane, axis):
        threads[bit.bit_length() - 1] = 0
        shift = bit.bit_length() - step.bit_length()
        masks[shift] = masks.get(shift, 0) | step
    lane: SSAValue | None = None
    for shift, mask in masks.items():
        own = g.map("andi", place, g.constant(mask))
        moved = g.map("shli" if shift > 0 else "shrui", own, g.constant(abs(shift)))
        lane = moved if lane is None else g.map("ori", lane, moved)
    if lane is None:
        return source
    flat = layout_of(source)
    return g.add(ShuffleFrom(source, threads, [0] * flat.registers, flat, lane))


def _bits_along(modes: Modes, axis: int) -> Iterator[tuple[int, int]]:
    """The step along the axis of each bit of a number that has one, and that bit."""
    below = 1
    for mode in modes:
        for k in range(mode.extent.bit_length() - 1 if mode.dim == axis else 0):
            yield mode.stride << k, below << k
        below *= mode.extent


GATHERS: dict[type[Operation], Callable[..., None]] = {
    Gather: lower_gather,
    ExtractSlice: lower_extract_slice,
    Histogram: lower_histogram,
}
"""Lowering of picks by computed positions."""
