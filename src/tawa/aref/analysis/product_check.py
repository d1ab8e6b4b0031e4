"""What every matrix product must keep to, checked before anything is laid out."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tawa.aref.analysis.products import EITHER_WAY
from tawa.aref.analysis.slots import swizzle_for
from tawa.base.types import byte_size, element_of, f32, shape_of
from tawa.machine.chips import Chip
from tawa.tile.dialect.ops import (
    Dot,
    ViewLike,
)


def product_obstacle(dot: Dot, warps: int, target: Chip, *, by_columns: bool = False) -> str | None:
    """Why no warp-group instruction does this product with so many warps; None if one does.

    Warp groups share its rows, or with `by_columns` its columns.
    """
    element, shape = element_of(dot.a.type), shape_of(dot.result.type)
    if len(shape) != 2:
        return "it is a batch of products"
    if str(element) not in target.mma_elements or element_of(dot.b.type) != element:
        return f"there is no warp-group instruction for {element}"
    precision = dot.precision.data if dot.precision else "tf32"
    if element == f32 and precision != "tf32":
        return f"precision {precision}"
    (rows, columns), inner = shape, shape_of(dot.a.type)[1]
    if warps % target.group_warps:
        return f"{warps} warps are no whole warp groups"
    groups = warps // target.group_warps
    share = target.mma_m * (1 if by_columns else groups)
    width = target.mma_n_step * (groups if by_columns else 1)
    step = target.mma_k_bytes // byte_size(element)
    for what, size, unit in (("rows", rows, share), ("columns", columns, width),
                             ("elements of K", inner, step)):  # fmt: skip
        if size % unit:
            return f"{size} {what} are no multiple of {unit}"
    for value, outer in ((dot.a, rows), (dot.b, columns)):
        wide = inner if byte_size(element) != EITHER_WAY else _last(value, outer)
        if not swizzle_for(wide, element):
            return f"rows of {wide * byte_size(element)} bytes have no swizzle"
    return None


def _last(value: SSAValue, outer: int) -> int:
    """The contiguous extent of an operand as it lies in shared memory."""
    while isinstance(value.owner, ViewLike):
        value = value.owner.value
    return shape_of(value.type)[-1] if shape_of(value.type) else outer


__all__ = ["product_obstacle"]
