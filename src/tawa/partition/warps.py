"""How many warps hold the tiles of ordinary code, where those asked for have no room for one."""

from __future__ import annotations

import math

from xdsl.ir import Attribute, Region

from tawa.base.types import byte_size, element_of, shape_of
from tawa.machine.chips import SM_90A
from tawa.tile.dialect.ops import Dot, Load, Reduce, Scan, Store

TOO_MANY = SM_90A.max_registers + 1
"""Registers of a thread for one tile that no thread has."""
ENOUGH = SM_90A.thresholds.room_registers
"""Registers of a thread for one tile beside which others have room."""


def warps_with_room(body: Region, asked: int) -> int:
    """The warps that were asked for, or more if a tile would take all of a thread's registers.

    Then every tile would lie in memory, at a register's price for each element and use, and the
    assembler takes minutes. Products have their own rules.
    """
    ops = list(body.walk())
    if any(isinstance(op, Dot) for op in ops):
        return asked
    moved = [
        op.operands[1] if isinstance(op, Store) else op.results[0] if isinstance(op, Load)
        else op.operands[0]
        for op in ops if isinstance(op, Load | Store | Reduce | Scan)
    ]  # fmt: skip
    sizes = (math.prod(shape_of(v.type)) * _registers(element_of(v.type)) for v in moved)
    largest = max(sizes, default=0)
    warps = asked
    if largest >= TOO_MANY * SM_90A.lanes * warps:
        while warps < SM_90A.cta_warps and largest > ENOUGH * SM_90A.lanes * warps:
            warps *= 2
    return warps


def _registers(element: Attribute) -> int:
    """Registers of an element: small ones have one each while they are computed with."""
    return max(1, byte_size(element) // SM_90A.word)
