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
    "divsi": "quotient",
    "divui": "quotient",
    "minsi": "min",
    "maxsi": "max",
}
"""Scalar functions that the host can compute, and the name of each in a kernel spec."""

Expression = int | tuple["str | int | Expression", ...]


LONGEST = 200
"""Operations of an expression that the host computes at each launch."""


def host_expression(value: SSAValue) -> Expression | None:
    """The value as an expression over the kernel's arguments (see `runtime.spec`), or None.

    None, too, for one of more than `LONGEST` operations, each counted as often as it is written.
    """
    found = _expression(value, {})
    return None if found is None else found[0]


def _expression(
    value: SSAValue, seen: dict[SSAValue, tuple[Expression, int] | None]
) -> tuple[Expression, int] | None:
    """An expression and its operations; what was asked before is looked up."""
    if value not in seen:
        seen[value] = _found(value, seen)
    return seen[value]


def _found(
    value: SSAValue, seen: dict[SSAValue, tuple[Expression, int] | None]
) -> tuple[Expression, int] | None:
    if isinstance(value, BlockArgument):
        ours = isinstance(value.owner.parent_op(), func.FuncOp)
        return (("arg", value.index), 0) if ours else None
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data, 0
    if isinstance(owner, DescSize):
        return _size(owner, seen)
    if not isinstance(owner, Map):
        return None
    operands = [o for o in (_expression(v, seen) for v in owner.arguments) if o is not None]
    if len(operands) != len(owner.arguments):
        return None
    name = owner.function.data
    if name in ("extsi", "extui", "trunci"):
        return operands[0]
    if name not in HOST:
        return None
    (a, first), (b, second) = operands
    count = 1 + first + second
    return ((HOST[name], a, b), count) if count <= LONGEST else None


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
    found = _size(op, {})
    return None if found is None else found[0]


def _size(
    op: DescSize, seen: dict[SSAValue, tuple[Expression, int] | None]
) -> tuple[Expression, int] | None:
    desc, axis = op.desc, op.axis.value.data
    if isinstance(desc, BlockArgument) and isinstance(desc.owner.parent_op(), func.FuncOp):
        return ("dim" if op.stride is None else "stride", desc.index, axis), 0
    if isinstance(desc.owner, MakeDesc):
        made = desc.owner.shape if op.stride is None else desc.owner.strides
        return _expression(made[axis], seen)
    return None
