"""Operands of warps' products that stay in registers, where what makes them leaves them.

A tile that is computed need not go through shared memory if each thread can compute what the matrix
instruction takes from it: of slots it reads just those elements, and what an earlier product left
it holds already. Each operand has one owner then: warps that share its rows or columns would all
compute it.
"""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tawa.aref.analysis.layouts import HANDS_ON, layout_before
from tawa.aref.dialect.ops import ViewRead, WarpDot
from tawa.base.layout import REPLICA, Layout, register_map
from tawa.base.types import element_of, shape_of
from tawa.base.warp_matrix import COLUMNS, Product
from tawa.ir.elementwise import Map
from tawa.ir.traits import is_constant, made_anew
from tawa.machine.chips import SM_90A
from tawa.tile.dialect.ops import Dot

MOST_WORDS = SM_90A.room_registers
"""Registers of a thread that one operand may take."""


def held_operands(dot: Dot, warps: int) -> tuple[bool, bool, int]:
    """Which operands of a product of warps stay in registers, and their run along K.

    A tile of a slot is read into registers, too, where that lets both have long runs.
    """
    a, b = (shape_of(v.type) for v in (dot.a, dot.b))
    precision = dot.precision.data if dot.precision else None
    product = Product.of(a, b, element_of(dot.a.type), precision)
    if product.way != "matrix" or product.multiplied != product.element:
        return False, False, 0
    held = [_is_held(dot, side, product, warps, 0) for side in (0, 1)]
    if not any(held) or not product.run:
        return held[0], held[1], 0
    either = [
        _is_held(dot, side, product, warps, product.run)
        or (isinstance(v.owner, ViewRead) and _words(product, side, warps) <= MOST_WORDS // 2)
        for side, v in enumerate((dot.a, dot.b))
    ]
    return (True, True, product.run) if all(either) else (held[0], held[1], 0)


def _words(product: Product, side: int, warps: int) -> int:
    """Registers of an operand in each thread."""
    return product.operand(warps, side).registers // product.packed


def _is_held(dot: Dot, side: int, product: Product, warps: int, run: int) -> bool:
    """Whether threads compute their elements of an operand where the instruction takes them."""
    value = (dot.a, dot.b)[side]
    layout = product.operand(warps, side, run)
    if not isinstance(value.owner, Map) or _words(product, side, warps) > MOST_WORDS:
        return False
    if any(m.dim == REPLICA for m in layout.warp):
        return False
    return _follows(value, layout, warps)


def _follows(value: SSAValue, layout: Layout, warps: int) -> bool:
    """Whether all tiles that a tile is made of may be had in its layout, or what stands for it."""
    work, seen, whole = [(value, layout)], set[SSAValue](), math.prod(layout.shape)
    while work:
        tile, wanted = work.pop()
        op, shape = tile.owner, shape_of(tile.type)
        if tile in seen or not shape or isinstance(op, ViewRead):
            continue
        seen.add(tile)
        if isinstance(op, WarpDot):
            held = op.product.accumulator(warps)
            if register_map(held, wanted, tuple(range(len(shape)))) is None:
                return False
        elif not _is_small(op, tile, whole):
            if not isinstance(op, HANDS_ON) or (before := layout_before(op, wanted)) is None:
                return False
            work += [(v, before) for v in op.operands if shape_of(v.type)]
    return True


def _is_small(op: object, tile: SSAValue, whole: int) -> bool:
    """Whether a tile is made anew in any layout, or is a row or a column of another."""
    few = math.prod(shape_of(tile.type)) * COLUMNS <= whole
    return few or made_anew(op) or is_constant(op)
