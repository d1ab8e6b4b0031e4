"""Which tiles are constants, such as zero, or not negative: asked by passes of two levels."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import SSAValue

from tawa.tile.dialect.ops import Splat

NOT_NEGATIVE = ("exp", "exp2", "absf", "sqrt", "sqrt_rn", "sigmoid")
"""Functions whose results are at least zero, or NaN."""


def constant_of(value: SSAValue) -> float | None:
    """The one number that all elements of a tile are, if it is a splat of a constant."""
    owner = value.owner
    return scalar_constant(owner.value) if isinstance(owner, Splat) else None


def scalar_constant(value: SSAValue) -> float | None:
    """The number that a scalar is, if it is a constant."""
    if not isinstance(value.owner, arith.ConstantOp):
        return None
    constant = value.owner.value
    return constant.value.data if isinstance(constant, IntegerAttr | FloatAttr) else None


def is_zero(value: SSAValue) -> bool:
    """Whether a tile is a splat of the constant zero."""
    return constant_of(value) == 0
