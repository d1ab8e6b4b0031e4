"""How many bytes of shared memory a tile takes, a slot of a ring, and what stores stage."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue

from tawa.aref.dialect.ops import GetEnter, WarpGroup
from tawa.aref.dialect.types import RefType
from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.walking import all_of, every, has
from tawa.machine.chips import SM_90A
from tawa.tile.dialect.ops import DescStore

ALIGNMENT = SM_90A.swizzle_alignment
"""Bytes; what the widest swizzle needs."""


def swizzle_for(columns: int, element: Attribute) -> int:
    """Bytes of the widest swizzle that rows of so many columns allow; 0 for none."""
    row, widest = columns * byte_size(element), SM_90A.swizzles[0]
    if row >= widest:
        return widest if row % SM_90A.copy_unit == 0 else 0
    return row if row in SM_90A.swizzles else 0


def extents_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a block in shared memory: all dimensions but the last are rows."""
    return math.prod(shape[:-1]), shape[-1]


def panel_rows(rows: int, swizzle: int) -> int:
    """Rows of a panel: of swizzled ones, so many that the next panel begins with the pattern."""
    pattern = ALIGNMENT // SM_90A.swizzles[0] if swizzle else 1
    return -(-rows // pattern) * pattern


def tile_bytes(shape: tuple[int, ...], element: Attribute) -> int:
    """Bytes of a block: panels as wide as its swizzle, or whole rows where it has none."""
    rows, columns = extents_of(shape)
    row = columns * byte_size(element)
    swizzle = swizzle_for(columns, element) if shape[1:] else 0
    panel = swizzle or row
    return -(-row // panel) * panel * panel_rows(rows, swizzle)


def slot_bytes(ref: SSAValue) -> int:
    """Bytes of one slot of a ring of arefs, each tile at an aligned offset."""
    assert isinstance(ref.type, RefType)
    sizes = (tile_bytes(tuple(t.get_shape()), t.element_type) for t in ref.type.tiles)
    return sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)


def staging_bytes(module: ModuleOp, teams: int = 1, buffers: int = 2) -> int:
    """Bytes that descriptor stores will stage their tiles in, at least."""
    total = 0
    for group in all_of(module, WarpGroup):
        storing = 1 if group.sliced is not None else group.teams.value.data
        groups = max(1, group.warps.value.data // SM_90A.group_warps) * storing
        by_group = buffers * groups * 64 * 128
        whole = {
            math.prod(shape_of(op.value.type)) * byte_size(element_of(op.value.type))
            for op in every(group)
            if isinstance(op, DescStore)
        }
        has_loop = has(group, GetEnter)
        for size in whole:
            total = max(total, min(by_group, size * teams) if has_loop else size)
    return total
