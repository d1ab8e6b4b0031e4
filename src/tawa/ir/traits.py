"""What ops are, besides what they read and write (`ir.effects`)."""

from __future__ import annotations

from typing import TypeGuard

from xdsl.ir import Operation
from xdsl.traits import ConstantLike, OpTrait


class Lazy(OpTrait):
    """Each element of the result is known from its place, and from scalars or a smaller tile.

    It costs next to nothing and holds no registers: who uses it makes it, in any layout.
    """


def made_anew(op: object) -> TypeGuard[Operation]:
    """Whether every user of an op's result may make its own."""
    return isinstance(op, Operation) and op.has_trait(Lazy)


def is_constant(op: object) -> TypeGuard[Operation]:
    """Whether an op's result is a number of the program's text."""
    return isinstance(op, Operation) and op.has_trait(ConstantLike)


class Elementwise(OpTrait):
    """An element of the result, or of memory, needs that element of the operands alone.

    So an op on fragments may be done register by register.
    """


def is_elementwise(op: object) -> TypeGuard[Operation]:
    """Whether an op may be done for some elements before others."""
    return isinstance(op, Operation) and op.has_trait(Elementwise)


class Free(OpTrait):
    """It becomes no instruction: registers get another name."""


def is_free(op: object) -> TypeGuard[Operation]:
    """Whether an op becomes no instruction."""
    return isinstance(op, Operation) and op.has_trait(Free)
