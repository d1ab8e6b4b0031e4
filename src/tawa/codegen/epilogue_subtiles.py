"""Epilogue subtiling: what is computed for one chunk of a tile, in the registers of a chunk.

Elementwise ops are computed for the chunk alone. So is what is the same in every row (a bias, a
scale of columns): it is loaded for the chunk's columns only, if nothing is written in between.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tawa.base.layout import Layout
from tawa.base.types import element_of, shape_of
from tawa.codegen.fragments import fragment, rearrange
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.tensors import load_fragment
from tawa.hopper.dialect.fragment import Coordinate, Fill, Window
from tawa.hopper.dialect.types import FragType
from tawa.ir.effects import in_order
from tawa.ir.elementwise import Map
from tawa.ir.traits import is_elementwise, made_anew
from tawa.tile.analysis.alias import may_alias
from tawa.tile.dialect.ops import (
    Arange,
    Broadcast,
    DescStore,
    ExpandDims,
    Load,
    Splat,
)


def window(
    g: GroupLowering,
    value: SSAValue,
    place: tuple[int, int],
    layouts: tuple[Layout, Layout],
    store: DescStore,
) -> SSAValue:
    """The part of a value that `store` writes at once.

    `place` is the part's first column and its first register, `layouts` the part's and the whole
    value's.
    """
    op = value.owner
    column, first_register = place
    layout, whole = layouts
    if isinstance(op, Map) and not g.layouts.lazy(value) and value.has_one_use():
        parts = [window(g, v, place, layouts, store) for v in op.arguments]
        return g.add(Map(op.function.data, parts, element_of(value.type)))
    if not g.layouts.columns and _same_in_rows(value) and _from_columns(g, value, store):
        return _columns(g, value, layout, column)
    return g.add(Window(fragment(g, value, whole), first_register, layout))


def _same_in_rows(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, Broadcast) and shape_of(op.value.type)[0] == 1


def _from_columns(g: GroupLowering, value: SSAValue, store: DescStore) -> bool:
    """Whether a value is made from column numbers and scalars, by loads that may be done late."""
    op = value.owner
    if isinstance(op, Load):
        operands = [v for v in (op.ptr, op.mask, op.other) if v is not None]
        movable = bool(shape_of(value.type)) and _nothing_written(op, store)
        return movable and all(_from_columns(g, v, store) for v in operands)
    if isinstance(op, Splat):
        return True
    if made_anew(op) or is_elementwise(op):
        return all(_from_columns(g, v, store) for v in op.operands)
    return False


def _nothing_written(load: Operation, store: DescStore) -> bool:
    """Whether a load may as well be done where the store is, in the same block."""
    op = load.next_op
    while op is not None and op is not store and not in_order(load, op, may_alias):
        op = op.next_op
    return op is store and not in_order(load, store, may_alias)


def _columns(g: GroupLowering, value: SSAValue, layout: Layout, first: int) -> SSAValue:
    """A value made from column numbers, for the columns of a layout that starts at `first`."""
    op = value.owner
    if isinstance(op, Splat):
        scalar = g.scalar(op.value)
        return g.add(Fill(scalar, FragType.of(scalar.type, layout)))
    if isinstance(op, Arange):
        return g.add(Coordinate(0, op.start.value.data + first, layout))
    if isinstance(op, ExpandDims):
        inner = _columns(g, op.value, layout.without(0), first)
        return rearrange(g, inner, layout, (1,))
    if isinstance(op, Broadcast):
        inner = _columns(g, op.value, layout.flattened(0), first)
        return rearrange(g, inner, layout, (None, 1))
    if isinstance(op, Load):
        parts = [None if v is None else _columns(g, v, layout, first) for v in
                 (op.ptr, op.mask, op.other)]  # fmt: skip
        return load_fragment(g, op, parts, layout)
    assert isinstance(op, Map)
    operands = [_columns(g, v, layout, first) for v in op.arguments]
    return g.add(Map(op.function.data, operands, element_of(value.type)))
