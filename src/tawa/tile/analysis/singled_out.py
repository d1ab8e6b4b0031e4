"""Tiles that are zero but at one coordinate along an axis: their sum along it is what stands there.

Programs that pick a row write so: `sum(where(arange(0, N)[:, None] == i, x, 0), axis=0)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from tawa.base.types import shape_of
from tawa.ir.elementwise import Map
from tawa.tile.analysis.zero import is_zero
from tawa.tile.dialect.ops import Arange, Broadcast, ExpandDims, Splat


@dataclass(frozen=True)
class SingledOut:
    """The elements of `source` whose coordinate along the axis is `position - start`, if any."""

    source: SSAValue
    position: SSAValue
    start: int


@dataclass(frozen=True)
class _Equal:
    """A condition that holds only where the coordinate plus `start` is a number of the program."""

    position: SSAValue
    start: int
    alone: bool
    """Whether it holds wherever that is so."""


def singled_out(value: SSAValue, axis: int) -> SingledOut | None:
    """What a tile has at its one coordinate along the axis that is not zero, if known to be so."""
    op = value.owner
    if not isinstance(op, Map) or op.function.data != "select" or not is_zero(op.arguments[2]):
        return None
    found = _equal(op.arguments[0], axis)
    if found is None:
        return None
    return SingledOut(op.arguments[1] if found.alone else value, found.position, found.start)


def _equal(condition: SSAValue, axis: int) -> _Equal | None:
    inner = _inner(condition, axis)
    if inner is not None:
        return _equal(*inner)
    op = condition.owner
    if not isinstance(op, Map):
        return None
    if op.function.data == "andi":
        for side in op.arguments:
            found = _equal(side, axis)
            if found is not None:
                return _Equal(found.position, found.start, False)
    if op.function.data != "cmpi_eq":
        return None
    for numbers, other in (op.arguments, op.arguments[::-1]):
        start, position = _coordinates(numbers, axis), _number(other)
        if start is not None and position is not None:
            return _Equal(position, start, True)
    return None


def _inner(value: SSAValue, axis: int) -> tuple[SSAValue, int] | None:
    """The tile of which another one has copies along other dimensions, and its own axis."""
    op = value.owner
    if isinstance(op, ExpandDims) and op.axis.value.data != axis:
        return op.value, axis - (op.axis.value.data < axis)
    if isinstance(op, Broadcast) and shape_of(op.value.type)[axis] != 1:
        return op.value, axis
    return None


def _coordinates(value: SSAValue, axis: int) -> int | None:
    """The first number of a tile that counts along the axis."""
    inner = _inner(value, axis)
    if inner is not None:
        return _coordinates(*inner)
    op = value.owner
    if isinstance(op, Map) and op.function.data == "extsi":
        return _coordinates(op.arguments[0], axis)
    return op.start.value.data if isinstance(op, Arange) else None


def _number(value: SSAValue) -> SSAValue | None:
    """The scalar that all elements of a tile are."""
    op = value.owner
    if isinstance(op, ExpandDims | Broadcast):
        return _number(op.value)
    return op.value if isinstance(op, Splat) else None
