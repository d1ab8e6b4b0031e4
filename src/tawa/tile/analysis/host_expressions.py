"""Integers that the host can compute before a launch: expressions over a kernel's arguments."""

from __future__ import annotations

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, SSAValue

from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import DescSize, MakeDesc

HOST = {
    "addi": "add",
    "subi": "sub",
    "muli": "mul",
    "divsi": "floordiv",
    "divui": "floordiv",
    "minsi": "min",
    "maxsi": "max",
}
"""Scalar functions that the host can compute, and the name of each in a kernel spec."""

Expression = int | tuple["str | int | Expression", ...]


def host_expression(value: SSAValue) -> Expression | None:
    """The value as an expression over the kernel's arguments (see `runtime.spec`), or None."""
    if isinstance(value, BlockArgument):
        return ("arg", value.index) if isinstance(value.owner.parent_op(), func.FuncOp) else None
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    if isinstance(owner, DescSize):
        return size_expression(owner)
    if not isinstance(owner, Map):
        return None
    operands = [host_expression(v) for v in owner.arguments]
    if any(o is None for o in operands):
        return None
    name = owner.function.data
    if name in ("extsi", "extui", "trunci"):
        return operands[0]
    if name in HOST:
        a, b = (o for o in operands if o is not None)
        return (HOST[name], a, b)
    return None


def host_base(value: SSAValue) -> tuple[int, Expression] | None:
    """The argument that a pointer starts from, and the offset in elements, if the host knows."""
    if isinstance(value, BlockArgument):
        return (value.index, 0) if isinstance(value.owner.parent_op(), func.FuncOp) else None
    owner = value.owner
    if isinstance(owner, Map) and owner.function.data == "addptr":
        start, offset = host_base(owner.arguments[0]), host_expression(owner.arguments[1])
        if start is not None and offset is not None:
            return start[0], ("add", start[1], offset) if start[1] else offset
    return None


def size_expression(op: DescSize) -> Expression | None:
    """A size or stride of a descriptor that the launch passes, or of one made in the kernel."""
    desc, axis = op.desc, op.axis.value.data
    if isinstance(desc, BlockArgument) and isinstance(desc.owner.parent_op(), func.FuncOp):
        return ("dim" if op.stride is None else "stride", desc.index, axis)
    if isinstance(desc.owner, MakeDesc):
        made = desc.owner.shape if op.stride is None else desc.owner.strides
        return host_expression(made[axis])
    return None
