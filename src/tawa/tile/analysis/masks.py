"""Masks of tiles: choices between two values for each element, row or column."""

from __future__ import annotations

from typing import TypeGuard

from xdsl.ir import Block, Operation, SSAValue

from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Splat, spreads


def is_choice(op: Operation | Block) -> TypeGuard[Map]:
    """Whether an op chooses between two values, element by element."""
    return isinstance(op, Map) and op.function.data == "select"


def spread_from(value: SSAValue) -> SSAValue:
    """The tile that a tile repeats along some dimensions; itself, if it repeats none."""
    while spreads(value.owner) and not isinstance(value.owner, Splat):
        value = value.owner.operands[0]
    return value
