"""Which scalars of a hopper kernel decide what happens when: those of control flow and barriers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import i1
from xdsl.ir import BlockArgument, Operation, OpResult, Region, SSAValue

from tawa.base.types import PtrType, bits, byte_size
from tawa.hopper.dialect.copies import CopyArrive
from tawa.hopper.dialect.global_memory import ScalarLoad
from tawa.hopper.dialect.memory import TmaLoad
from tawa.hopper.dialect.structure import PlanEntry
from tawa.hopper.dialect.sync import (
    MbarrierArrive,
    MbarrierExpect,
    MbarrierInit,
    MbarrierWait,
    NamedBarrierArrive,
    NamedBarrierSync,
)
from tawa.hopper.dialect.types import FragType
from tawa.ir.elementwise import Map
from tawa.ir.loops import passed_out, passed_to

CONTROL = (scf.ForOp, scf.IfOp, scf.ConditionOp)


def needed(kernel: func.FuncOp, communication: bool = True, places: bool = False) -> set[SSAValue]:
    """The scalars that control flow depends on and, with `communication`, barriers.

    With `places`, also those that say what is loaded.
    """
    todo: list[SSAValue] = []
    for op in kernel.walk():
        if communication or isinstance(op, CONTROL):
            todo += _roots(op)
        if places and isinstance(op, TmaLoad):
            todo += op.coordinates
    found: set[SSAValue] = set()
    while todo:
        value = todo.pop()
        if value in found or isinstance(value.type, FragType):
            continue
        found.add(value)
        todo += _sources(value)
    return found


def _roots(op: Operation) -> Sequence[SSAValue]:
    match op:
        case scf.ForOp():
            return op.lb, op.ub, op.step
        case scf.IfOp():
            return (op.cond,)
        case scf.ConditionOp():
            return (op.operands[0],)
        case MbarrierExpect() | CopyArrive():
            return op.barrier, op.slot
        case MbarrierArrive():
            return op.barrier, op.slot, *([op.cta] if op.cta else [])
        case MbarrierWait():
            return op.barrier, op.slot, op.parity
        case MbarrierInit():
            return (op.barrier,)
        case TmaLoad():
            return op.barrier, op.slot, *([op.ctas] if op.ctas else [])
        case NamedBarrierSync() | NamedBarrierArrive():
            return (op.barrier,)
        case _:
            return ()


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """What a scalar is computed from."""
    if isinstance(value, BlockArgument):
        return passed_to(value)
    assert isinstance(value, OpResult)
    match value.op:
        case Map() | PlanEntry() | ScalarLoad():
            return value.op.operands
        case _:
            return passed_out(value)


def last(region: Region) -> Operation:
    """A region's terminator."""
    op = region.block.last_op
    assert op is not None
    return op


EXPRESSIONS: dict[str, str] = {
    "addi": "({} + {})",
    "subi": "({} - {})",
    "muli": "({} * {})",
    "divsi": "_div({}, {})",
    "divui": "({} // {})",
    "remsi": "_rem({}, {})",
    "remui": "({} % {})",
    "quotient": "({} * {} >> 62)",
    "minsi": "min({}, {})",
    "maxsi": "max({}, {})",
    "andi": "({} & {})",
    "ori": "({} | {})",
    "xori": "({} ^ {})",
    "select": "({1} if {0} else {2})",
    "extui": "int({})",
    "cmpi_eq": "({} == {})",
    "cmpi_ne": "({} != {})",
    "cmpi_slt": "({} < {})",
    "cmpi_sle": "({} <= {})",
    "cmpi_sgt": "({} > {})",
    "cmpi_sge": "({} >= {})",
}
"""Python text of the integer functions that index arithmetic consists of, whatever their types."""

OF_BITS: dict[str, str] = {
    "trunci": "(({0} + {half} & {mask}) - {half})",
    "shrsi": "({0} >> min({1} & {mask}, {last}))",
    "cmpi_ult": "({0} & {mask} < {1} & {mask})",
    "cmpi_ule": "({0} & {mask} <= {1} & {mask})",
    "cmpi_ugt": "({0} & {mask} > {1} & {mask})",
    "cmpi_uge": "({0} & {mask} >= {1} & {mask})",
}
"""Python text of those that depend on how many bits there are: of the result, or of operands that
are compared."""


def expression(op: Map) -> str | None:
    """Python text of a function of whole numbers, with a place for each operand; None if unknown.

    Sums and products of it are taken not to overflow.
    """
    name, (operands, result) = op.function.data, op.element_types
    if name == "addptr":
        assert isinstance(result, PtrType)
        return f"({{}} + {byte_size(result.pointee)} * {{}})"
    if name == "extsi" and operands[0] != i1:
        return "{}"
    if name not in OF_BITS:
        return EXPRESSIONS.get(name)
    if name == "trunci" and result == i1:
        return "({} & 1)"
    width = bits(operands[0] if result == i1 else result)
    text = OF_BITS[name].replace("{half}", str(1 << width - 1))
    return text.replace("{mask}", str((1 << width) - 1)).replace("{last}", str(width - 1))


def divide(a: int, b: int) -> int:
    """The quotient, rounded towards zero."""
    whole = abs(a) // abs(b)
    return whole if (a < 0) == (b < 0) else -whole


def remainder(a: int, b: int) -> int:
    """What division leaves, with the sign of `a`."""
    return a - b * divide(a, b)
