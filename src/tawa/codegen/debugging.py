"""Lowering of assertions and messages."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from tawa.base.layout import point
from tawa.base.types import shape_of
from tawa.codegen.fragments import natural
from tawa.codegen.group_lowering import GroupLowering
from tawa.hopper.dialect.debug import Assert as DeviceAssert
from tawa.hopper.dialect.debug import Print as DevicePrint
from tawa.hopper.dialect.fragment import Fill
from tawa.hopper.dialect.types import FragType
from tawa.tile.dialect.ops import Assert, Print


def _tile(g: GroupLowering, value: SSAValue) -> SSAValue:
    """A tile as a fragment; a scalar as one of rank 0 that every thread holds."""
    if shape_of(value.type):
        return natural(g, value)
    scalar = g.scalar(value)
    return g.add(Fill(scalar, FragType.of(scalar.type, point(g.warps))))


def lower_assert(g: GroupLowering, op: Assert) -> None:
    """Every thread checks the elements that it holds."""
    g.do(DeviceAssert(_tile(g, op.condition), op.message.data))


def lower_print(g: GroupLowering, op: Print) -> None:
    """One op a value; the prefix alone in one thread."""
    for value in op.values:
        g.do(DevicePrint(op.prefix.data, _tile(g, value)))
    if not op.values:
        g.one_thread("team", lambda: g.do(DevicePrint(op.prefix.data, None)))


DEBUGGING: dict[type[Operation], Callable[..., None]] = {Assert: lower_assert, Print: lower_print}
"""Lowering of assertions and messages."""
