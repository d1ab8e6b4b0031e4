"""Whether anything shows the sign of a zero: if nothing does, adding zero changes nothing.

-0.0 + 0.0 is 0.0, so `x + 0` is not `x` for all values. A softmax that adds 0 or -inf as its mask
does not care: its scores are compared, and exponentials are taken of them.
"""

from __future__ import annotations

import math

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue, Use

from tawa.ir.elementwise import Map
from tawa.tile.analysis.zero import constant_of, scalar_constant
from tawa.tile.dialect.ops import Dot, Reduce, spreads

HIDING = frozenset(("exp", "exp2", "log", "log2", "absf", "cosh", "sigmoid"))
"""Functions that are the same of both zeros (those of comparisons begin with `cmpf`)."""

PASSING = frozenset((
    "addf", "subf", "mulf", "fma", "negf", "maxnumf", "minnumf", "maximumf", "minimumf", "extf",
))  # fmt: skip
"""Functions of which another sign of a zero leaves the result, or turns the sign of a zero."""

NEVER_NEGATIVE_ZERO = frozenset(("exp", "exp2", "log", "log2", "absf"))
"""Functions that give no negative zero: log(1) is the positive one."""

MOST_FOLLOWED = 64
"""Values that are followed: about twice those between scores and their exponentials."""


def sign_of_zero_shows(value: SSAValue) -> bool:
    """Whether another sign of the zeros among its elements might change what the kernel does."""
    work, seen = [value], {value}
    while work:
        for use in work.pop().uses:
            passed = _passed_on(use)
            if passed is None:
                return True
            new = [v for v in passed if v not in seen]
            seen.update(new)
            work += new
        if len(seen) > MOST_FOLLOWED:
            return True
    return False


def _passed_on(use: Use) -> list[SSAValue] | None:
    """The values that a zero's sign may be seen in next; None where the use itself shows it."""
    op = use.operation
    match op:
        case Map():
            return _of_function(op, use.index)
        case Reduce():
            return [op.result] if op.kind.data in PASSING else None
        case Dot():
            # It adds a number to the accumulator, which may be negative zero as well.
            return [op.result] if use.index == 2 else None
        case scf.YieldOp():
            return _yielded(op, use.index)
        case scf.ForOp():
            carried = use.index - 3
            return [op.body.block.args[carried + 1], op.results[carried]] if carried >= 0 else None
        case _:
            return [op.results[0]] if spreads(op) else None


def _of_function(op: Map, index: int) -> list[SSAValue] | None:
    name = op.function.data
    if name in HIDING or name.startswith("cmpf"):
        return []
    if name == "select":
        return [op.result] if index else None
    if name == "divf":
        return [op.result] if index == 0 else None
    if name == "addf" and _is_never_negative_zero(op.arguments[1 - index]):
        return []  # the sum of two zeros is negative only where both are
    return [op.result] if name in PASSING else None


def _is_never_negative_zero(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, Operation) and spreads(op) and constant_of(value) is None:
        return _is_never_negative_zero(op.operands[0])
    if isinstance(op, Map):
        return op.function.data in NEVER_NEGATIVE_ZERO
    constant = constant_of(value)
    number = scalar_constant(value) if constant is None else constant
    return number is not None and (number != 0 or math.copysign(1, number) > 0)


def _yielded(op: scf.YieldOp, index: int) -> list[SSAValue] | None:
    parent = op.parent_op()
    match parent:
        case scf.ForOp():
            return [parent.body.block.args[index + 1], parent.results[index]]
        case scf.IfOp():
            return [parent.results[index]]
        case _:
            return None
