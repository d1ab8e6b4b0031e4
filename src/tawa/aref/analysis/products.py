"""Operands of matrix products: which are views of slots, and what instructions can take."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from tawa.aref.analysis.windows import group_pitch
from tawa.aref.dialect.ops import (
    DotIssue,
    DotWait,
    ViewRead,
    ViewReshape,
    ViewSlice,
    ViewTrans,
    WarpDot,
    WarpGroup,
)
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.loops import passed_to, terminator
from tawa.machine.chips import SM_90A
from tawa.tile.analysis.axis_info import AxisAnalysis, fastest
from tawa.tile.dialect.ops import Dot, ExtractSlice, Load, Reshape, Trans, ViewLike

EITHER_WAY = SM_90A.either_way_bytes
"""Bytes of the elements that may be contiguous along either dimension."""


def view_of(value: SSAValue, before: Operation) -> SSAValue | None:
    """The view that a tile is read from, changed as the value is; None if there is none."""
    owner = value.owner
    if isinstance(owner, ViewRead):
        return owner.view
    block = before.parent
    if block is None or not isinstance(owner, ViewLike) or not _keeps_memory(owner):
        return None
    source = view_of(owner.value, before)
    if source is None:
        return None
    new = _changed(owner, source)
    block.insert_op_before(new, before)
    new.result.name_hint = value.name_hint
    return new.result


def _changed(op: ViewLike, view: SSAValue) -> ViewTrans | ViewReshape | ViewSlice:
    """The op that changes a view as `op` changes the tile."""
    if isinstance(op, Trans):
        return ViewTrans(view)
    if isinstance(op, Reshape):
        return ViewReshape(view, _tile(op.result))
    assert isinstance(op, ExtractSlice)
    return ViewSlice(view, op.offsets, _tile(op.result))


def is_view(value: SSAValue) -> bool:
    """Whether `view_of` finds a view."""
    owner = value.owner
    if isinstance(owner, ViewLike) and _keeps_memory(owner):
        return is_view(owner.value)
    return isinstance(owner, ViewRead)


def _keeps_memory(op: ViewLike) -> bool:
    """Whether what an op makes of a slot's tile can be read where that lies."""
    if isinstance(op, Trans):
        return op.permutation == (1, 0)
    if isinstance(op, Reshape):
        return _keeps_rows(op)
    if not isinstance(op, ExtractSlice) or not is_loaded(op.value):
        return False
    return group_pitch(shape_of(op.value.type), shape_of(op.result.type)) is not None


def _tile(value: SSAValue) -> TensorType[Attribute]:
    return TensorType(element_of(value.type), shape_of(value.type))


def _keeps_rows(op: Reshape) -> bool:
    """Whether only extents of 1 come or go, or outer extents become rows, as a slot has them."""
    old, new = (shape_of(v.type) for v in (op.value, op.result))
    if [e for e in old if e != 1] == [e for e in new if e != 1]:
        return True
    return (
        len(new) == 2
        and old[-1] == new[-1]
        and (is_loaded(op.value) or isinstance(op.value.owner, ExtractSlice))
    )


def is_loaded(value: SSAValue) -> bool:
    """Whether a value is a slot's tile as it was loaded."""
    return isinstance(value.owner, ViewRead)


def is_window(value: SSAValue) -> bool:
    """Whether a value is a window of a slot's tile, perhaps transposed or reshaped."""
    while isinstance(value.owner, Trans | Reshape):
        value = value.owner.value
    return isinstance(value.owner, ExtractSlice)


def from_products(value: SSAValue) -> bool:
    """Whether a computed tile already lies in registers as warp groups' products leave them."""
    seen: set[SSAValue] = set()
    work = [value]
    while work:
        v = work.pop()
        if v in seen or not shape_of(v.type):
            continue
        seen.add(v)
        if isinstance(v, OpResult):
            if isinstance(v.op, Dot | DotIssue | DotWait):
                return True
            if isinstance(v.op, WarpDot | Trans):
                continue  # what is transposed lies the other way round
            if not v.op.regions:
                work += v.op.operands
            elif isinstance(v.op, scf.ForOp):
                work.append(terminator(v.op.body.block).operands[v.index])
            elif isinstance(v.op, scf.IfOp):
                work += [terminator(r.block).operands[v.index] for r in v.op.regions if r.blocks]
            elif isinstance(v.op, scf.WhileOp):
                work.append(terminator(v.op.before_region.block).operands[v.index + 1])
        else:
            assert isinstance(v, BlockArgument)
            work += passed_to(v)
    return False


def from_registers(value: SSAValue) -> bool:
    """Whether a product takes a computed tile as its first operand where products left it.

    Where warp groups share columns, each needs whole rows, of which it has a part.
    """
    group = group_of(value.owner)
    return from_products(value) and (group is None or group.split_columns is None)


def group_of(op: Operation | Block) -> WarpGroup | None:
    """The warp group's region that an op or a block is in."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, WarpGroup):
        parent = parent.parent_op()
    return parent


def needs_transpose(dot: Dot, index: int) -> bool:
    """Whether an operand (0 or 1) is read from a slot in which K is not contiguous, but must be."""
    value = dot.operands[index]
    if byte_size(element_of(value.type)) == EITHER_WAY or not is_view(value):
        return False
    turned = False
    while isinstance(value.owner, ViewLike):
        turned ^= isinstance(value.owner, Trans)
        value = value.owner.value
    return turned == (index == 0)


def viewed(value: SSAValue, dimension: int = 0) -> tuple[SSAValue, int]:
    """What an operand is a view of, and which of its dimensions a dimension of the operand is."""
    while isinstance(value.owner, ViewLike):
        if isinstance(value.owner, Trans):
            dimension = value.owner.order.get_values()[dimension]
        value = value.owner.value
    return value, dimension


def elements_across(dots: Sequence[Dot]) -> int:
    """Elements of loaded operands whose neighbours in memory are not neighbours along K.

    Of 16 bits products take either; others go through registers.
    """
    axes, found = AxisAnalysis(), dict[SSAValue, int]()
    for dot in dots:
        for value, along in ((dot.a, 1), (dot.b, 0)):
            base, dimension = viewed(value, along)
            load = base.owner
            if isinstance(load, Load) and byte_size(element_of(base.type)) != EITHER_WAY:
                across = fastest(axes, load.ptr)[0] != dimension
                found[base] = across * math.prod(shape_of(base.type))
    return sum(found.values())
