"""Between which powers of two a positive scalar lies: whether it keeps order, and stays finite."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.ir import BlockArgument, SSAValue

from tawa.base.types import f32
from tawa.ir.elementwise import Map
from tawa.ir.kernels import POSITIVE
from tawa.tile.analysis.zero import constant_of, scalar_constant
from tawa.tile.dialect.ops import Splat

Range: TypeAlias = tuple[float, float]
"""The least and the greatest binary logarithm."""

PROMISED: Range = (-64.0, 64.0)
"""Of an argument that a launch has looked at (`runtime.arguments.SMALLEST` and `LARGEST`)."""

NORMAL: Range = (-126.0, 127.0)
"""Of f32's normal numbers, one binade short of the largest."""


def is_ordinary(value: SSAValue) -> bool:
    """Whether a scalar, or what a splat repeats, is positive, normal and finite for sure."""
    found = magnitude(value)
    return found is not None and NORMAL[0] <= found[0] and found[1] <= NORMAL[1]


def magnitude(value: SSAValue) -> Range | None:
    """Bounds of the binary logarithm of a positive f32; None if it may be something else."""
    if isinstance(value.owner, Splat):
        return magnitude(value.owner.value)
    constant = constant_of(value) if value.type != f32 else scalar_constant(value)
    if constant is not None:
        return _exactly(constant)
    if isinstance(value, BlockArgument):
        return PROMISED if _is_promised(value) else None
    op = value.owner
    if not isinstance(op, Map) or op.function.data not in _RULES:
        return None
    operands = [magnitude(v) for v in op.arguments]
    known = [m for m in operands if m is not None]
    return _RULES[op.function.data](*known) if len(known) == len(operands) else None


def _exactly(constant: float) -> Range | None:
    if not 0 < constant < math.inf:
        return None
    return math.log2(constant), math.log2(constant)


def _is_promised(value: BlockArgument) -> bool:
    kernel = value.owner.parent_op()
    if not isinstance(kernel, func.FuncOp) or kernel.arg_attrs is None:
        return False
    return POSITIVE in kernel.arg_attrs.data[value.index].data


def _product(a: Range, b: Range) -> Range:
    return a[0] + b[0], a[1] + b[1]


def _quotient(a: Range, b: Range) -> Range:
    return a[0] - b[1], a[1] - b[0]


def _root(a: Range) -> Range:
    return a[0] / 2, a[1] / 2


def _reciprocal_root(a: Range) -> Range:
    return -a[1] / 2, -a[0] / 2


def _same(a: Range) -> Range:
    return a


_RULES: dict[str, Callable[..., Range]] = {
    "mulf": _product,
    "divf": _quotient,
    "divf_rn": _quotient,
    "sqrt": _root,
    "sqrt_rn": _root,
    "rsqrt": _reciprocal_root,
    "absf": _same,
}
"""What functions of positive numbers give."""
