"""Lowering of picks and counts by computed positions: by lanes where they are known, or memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tawa.base.layout import LANES, Layout, Mode
from tawa.base.numerics import Array, value_dtype
from tawa.base.types import i32, shape_of
from tawa.codegen.fragments import convert, exchange, fragment, natural, scratch, team_sync
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.tensors import linear
from tawa.hopper.dialect.fragment import (
    Coordinate,
    Fill,
    Rearrange,
    ReduceRegisters,
    Relabel,
    ShuffleXor,
)
from tawa.hopper.dialect.gather import SharedGather, SharedHistogram
from tawa.hopper.dialect.memory import SharedLoad
from tawa.hopper.dialect.types import FragType, TileType
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import (
    Arange,
    Broadcast,
    ExpandDims,
    ExtractSlice,
    Gather,
    Histogram,
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
    exchange(g, g.add(Relabel(source, linear(source.type.layout))), place)
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
    exchange(g, g.add(Relabel(source, linear(source.type.layout))), place)
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


GATHERS: dict[type[Operation], Callable[..., None]] = {
    Gather: lower_gather,
    ExtractSlice: lower_extract_slice,
    Histogram: lower_histogram,
}
"""Lowering of picks by computed positions."""
