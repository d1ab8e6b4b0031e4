"""Sums of tiles that are zero but at one coordinate: what stands there, from its lane."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute, SSAValue

from tawa.base.layout import Layout, Modes
from tawa.base.numerics import constant_attribute
from tawa.base.types import byte_size, element_of, is_float
from tawa.codegen.fragments import fragment
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.fragment import Fill, Rearrange, Relabel, layout_of
from tawa.hopper.dialect.lane_moves import LANE_BITS, ShuffleFrom
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map
from tawa.tile.analysis.singled_out import SingledOut, singled_out
from tawa.tile.dialect.ops import Reduce


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
    return g.add(ConstantOp(constant_attribute(np.asarray(value), type_)))


def _of_registers(g: GroupLowering, source: SSAValue, place: SSAValue, axis: int) -> SSAValue:
    """Of each thread's registers along the axis those whose bits are the place's."""
    layout = layout_of(source)
    flat = layout.flattened(axis)
    own: dict[int, list[int]] = {}
    for register, coordinates in enumerate(layout.offsets(layout.reg).tolist()):
        own.setdefault(coordinates[axis], []).append(register)
    values = {at: g.add(Rearrange(source, registers, flat)) for at, registers in own.items()}
    for step, _ in _bits(layout.reg, axis):
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
    for step, bit in _bits(layout.lane, axis):
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


def _bits(modes: Modes, axis: int) -> Iterator[tuple[int, int]]:
    """The step along the axis of each bit of a number that has one, and that bit."""
    below = 1
    for mode in modes:
        for k in range(mode.extent.bit_length() - 1 if mode.dim == axis else 0):
            yield mode.stride << k, below << k
        below *= mode.extent
