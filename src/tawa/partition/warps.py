"""How many warps one role gets, where those asked for have no room for a tile or no instruction."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region

from tawa.aref.analysis.product_check import product_obstacle
from tawa.aref.analysis.registers import accumulator_registers
from tawa.base.types import byte_size, element_of, shape_of, words_of
from tawa.ir.walking import all_of, every
from tawa.machine.chips import SM_90A, Chip
from tawa.tile.dialect.ops import Dot, Load, Reduce, Scan, Store, Trans

TOO_MANY = SM_90A.max_registers + 1
"""Registers of a thread for one tile that no thread has."""
ENOUGH = SM_90A.room_registers
"""Registers of a thread for one tile beside which others have room."""


def warps_with_room(body: Region, asked: int) -> int:
    """The warps that were asked for, or more if a tile would take all of a thread's registers.

    Then every tile would lie in memory, at a register's price for each element and use, and the
    assembler takes minutes. Products have their own rules.
    """
    ops = every(body)
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


def warps_with_instructions(body: Region, asked: int, target: Chip) -> int:
    """The warps that were asked for, or fewer, whose warp groups have an instruction for more.

    A tile of 64 rows is one warp group's: two would leave its products to instructions of single
    warps, which take operands through registers at little more than half the rate. What two warp
    groups would hold in registers, one has to.
    """
    dots = all_of(body, Dot)
    if _all_have_instructions(dots, asked, target):
        return asked
    warps = asked
    while (warps := warps // 2) >= target.group_warps:
        sizes = [words_of(dot.result.type) for dot in dots]
        fits = accumulator_registers(sizes, warps) <= target.large_accumulators
        if fits and _all_have_instructions(dots, warps, target):
            return warps
    return asked


def carried(dots: Sequence[Dot]) -> list[int]:
    """32-bit words that each loop's products add up to, together."""
    found: dict[Operation | Block | Region, int] = {}
    for dot in dots:
        if isinstance(dot.acc, BlockArgument) and dot.acc.owner is dot.parent:
            size = words_of(dot.result.type)
            found[dot.acc.owner] = found.get(dot.acc.owner, 0) + size
    return [0, *found.values()]


def has_halves(dot: Dot) -> bool:
    """Whether two warp groups can have half of a product's columns each.

    Where K is not the contiguous dimension of the second operand, whole panels of 128 bytes.
    """
    columns = shape_of(dot.result.type)[-1]
    if isinstance(dot.b.owner, Trans) and dot.b.owner.permutation == (1, 0):
        return columns % 32 == 0
    return columns % (2 * SM_90A.panel_columns) == 0


def _all_have_instructions(dots: Sequence[Dot], warps: int, target: Chip) -> bool:
    """Whether warp groups' instructions do all products with so many warps."""
    return all(product_obstacle(dot, warps, target) is None for dot in dots)


def _registers(element: Attribute) -> int:
    """Registers of an element: small ones have one each while they are computed with."""
    return max(1, byte_size(element) // SM_90A.word)
