"""Vectors of one number a row, or a column: their value at the first or the last of some rows.

Where a vector is arithmetic that grows with the row number, the same arithmetic on a row's number
gives the vector's value there, and the values at the first and last row are the least and largest.
Row numbers are taken not to overflow.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tawa.base.types import element_of, i32
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.tile.dialect.ops import Arange, Splat


def at_edge(
    value: SSAValue, number: Callable[[], Operation], new: list[Operation]
) -> SSAValue | None:
    """What a vector is at one place, if it does not fall from any place to the next; else None.

    `number` makes the op that gives the place's number. Appends the ops that compute the result to
    `new`.
    """
    op = value.owner
    if isinstance(op, Splat):
        return op.value
    if isinstance(op, Arange):
        place = number()
        start = integer_constant(op.start.value.data, i32)
        new += [place, start]
        return _appended(Map("addi", [place.results[0], start.result]), new)
    if not isinstance(op, Map) or not _grows(op):
        return None
    operands: list[SSAValue] = []
    for operand in op.arguments:
        found = at_edge(operand, number, new)
        if found is None:
            return None
        operands.append(found)
    return _appended(Map(op.function.data, operands, element_of(op.result.type)), new)


def _appended(op: Map, new: list[Operation]) -> SSAValue:
    new.append(op)
    return op.result


def _grows(op: Map) -> bool:
    """Whether a function does not fall when operands grow that differ from place to place."""
    first, *rest = op.arguments
    match op.function.data:
        case "addi" | "minsi" | "maxsi" | "extsi" | "trunci":
            return True
        case "subi" | "shrsi":
            return _is_uniform(rest[0])
        case "muli" | "divsi":
            number = _number(rest[0])
            return number is not None and number > 0
        case _:
            return all(map(_is_uniform, (first, *rest)))


def _is_uniform(value: SSAValue) -> bool:
    """Whether a vector has the same number everywhere."""
    op = value.owner
    return isinstance(op, Splat) or (isinstance(op, Map) and all(map(_is_uniform, op.arguments)))


def _number(value: SSAValue) -> int | None:
    """The constant that a vector repeats, if it does."""
    source = value.owner.value if isinstance(value.owner, Splat) else value
    assert isinstance(source, SSAValue)
    op = source.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None
