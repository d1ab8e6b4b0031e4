"""Which tiles are constants, such as zero: asked by passes of the tile and the aref level."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import SSAValue

from tawa.tile.ops import Splat


def constant_of(value: SSAValue) -> float | None:
    """The one number that all elements of a tile are, if it is a splat of a constant."""
    owner = value.owner
    scalar = owner.value.owner if isinstance(owner, Splat) else None
    if not isinstance(scalar, arith.ConstantOp):
        return None
    constant = scalar.value
    return constant.value.data if isinstance(constant, IntegerAttr | FloatAttr) else None


def is_zero(value: SSAValue) -> bool:
    """Whether a tile is a splat of the constant zero."""
    return constant_of(value) == 0
