"""A quotient of one and a number that is at least one is one instruction.

A division scales its operands where they are so large that a reciprocal would leave the range of
normal numbers, which takes four instructions around that of the special-function unit. Of what is
at least one, as the sum of one and an exponential in a logistic function, only the reciprocals
above 2^126 do: they become zero, as exponentials below 2^-126 do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import Float32Type, ModuleOp
from xdsl.ir import SSAValue

from tawa.base.spans import copy_span
from tawa.base.types import element_of
from tawa.ir.contracts import Contract
from tawa.ir.elementwise import Map
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of
from tawa.tile.analysis.zero import NOT_NEGATIVE, constant_of
from tawa.tile.dialect.ops import spreads

DEPTH = 8
"""Ops that the least value of a result is followed through."""


@dataclass(frozen=True)
class Reciprocals:
    """`1 / x` -> `recip(x)` where `x` is known to be at least one, or NaN."""

    name: ClassVar[str] = "reciprocals"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every such quotient of f32."""
        for op in all_of(module, Map):
            if op.function.data != "divf" or not isinstance(
                element_of(op.result.type), Float32Type
            ):
                continue
            one, divisor = op.arguments
            if constant_of(one) == 1 and least(divisor) >= 1:
                new = Map("recip", [divisor])
                new.result.name_hint = op.result.name_hint
                copy_span(op, [new])
                assert op.parent is not None
                op.parent.insert_op_before(new, op)
                op.result.replace_all_uses_with(new.result)
                op.detach()
                op.erase()


def least(value: SSAValue, depth: int = DEPTH) -> float:
    """A bound below which no element of a value lies (NaN apart)."""
    constant, op = constant_of(value), value.owner
    if constant is not None and constant == constant:
        return constant
    if depth == 0:
        return -math.inf
    if spreads(op):
        return least(op.operands[0], depth - 1)
    if not isinstance(op, Map):
        return -math.inf
    name, (first, *others) = op.function.data, op.arguments
    if name in NOT_NEGATIVE or (name == "mulf" and first is others[0]):
        return 0.0
    if name == "maxnumf":
        # The greater of a number and NaN is the number.
        numbers = [c for c in map(constant_of, op.arguments) if c is not None and c == c]
        return max(numbers) if numbers else min(least(v, depth - 1) for v in op.arguments)
    rule = _RULES.get(name)
    return rule(*(least(v, depth - 1) for v in op.arguments)) if rule else -math.inf


def _least_chosen(_: float, first: float, second: float) -> float:
    return min(first, second)


_RULES: dict[str, Callable[..., float]] = {
    "addf": lambda x, y: x + y,
    "maximumf": max,
    "minnumf": min,
    "minimumf": min,
    "select": _least_chosen,
}
"""The least value of a function of values that are at least these."""
