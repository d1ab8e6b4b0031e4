"""Which tiles are zero: asked by passes of the tile and the aref level."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import SSAValue

from tawa.tile.ops import Splat


def is_zero(value: SSAValue) -> bool:
    """Whether a tile is a splat of the constant zero."""
    owner = value.owner
    scalar = owner.value.owner if isinstance(owner, Splat) else None
    if not isinstance(scalar, arith.ConstantOp):
        return False
    constant = scalar.value
    return isinstance(constant, IntegerAttr | FloatAttr) and constant.value.data == 0
