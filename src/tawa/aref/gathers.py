"""Lowering of picks by computed positions: through shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from tawa.aref.fragments import convert, exchange, fragment, natural, scratch
from tawa.aref.group_lowering import GroupLowering
from tawa.aref.tensors import linear
from tawa.base.elementwise import Map
from tawa.base.layout import Layout
from tawa.base.types import i32
from tawa.hopper.ops.fragment import Coordinate, Fill, Relabel
from tawa.hopper.ops.gather import SharedGather
from tawa.hopper.types import FragType, TileType
from tawa.tile.ops import Gather


def lower_gather(g: GroupLowering, op: Gather) -> None:
    """The source in row-major order in scratch space, then a load for each element."""
    source = natural(g, op.value)
    assert isinstance(source.type, FragType)
    shape = source.type.layout.shape
    layout = g.layouts.of.get(op.indices) or g.layouts.default(op.result)
    place = scratch(g, TileType.of(1, math.prod(shape), source.type.element_type, 0))
    exchange(g, g.add(Relabel(source, linear(source.type.layout))), place)
    at = _places(g, fragment(g, op.indices, layout), shape, op.axis.value.data)
    found = g.add(SharedGather(place, at), op.result.name_hint)
    g.fragments[op.result] = convert(g, found, g.layouts.of.get(op.result, layout))


def _places(g: GroupLowering, indices: SSAValue, shape: tuple[int, ...], axis: int) -> SSAValue:
    """Row-major positions of a tile of `shape`: indices along the axis, coordinates elsewhere."""
    assert isinstance(indices.type, FragType)
    layout = indices.type.layout
    total: SSAValue | None = None
    for d in range(len(shape)):
        step = math.prod(shape[d + 1 :])
        own = indices if d == axis else g.add(Coordinate(d, 0, layout))
        part = own if step == 1 else g.add(Map("muli", [own, _number(g, step, layout)]))
        total = part if total is None else g.add(Map("addi", [total, part]))
    assert total is not None
    return total


def _number(g: GroupLowering, value: int, layout: Layout) -> SSAValue:
    return g.add(Fill(g.constant(value), FragType.of(i32, layout)))


GATHERS: dict[type[Operation], Callable[..., None]] = {Gather: lower_gather}
"""Lowering of picks by computed positions."""
