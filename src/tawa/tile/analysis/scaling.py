"""Tiles that are another tile times a number."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Splat


def scaled(value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
    """The tile x and the scalar c of a product c * x."""
    op = value.owner
    if not isinstance(op, Map) or op.function.data != "mulf":
        return None
    for tile, factor in (op.arguments, reversed(op.arguments)):
        if isinstance(factor.owner, Splat) and not isinstance(tile.owner, Splat):
            return tile, factor.owner.value
    return None
