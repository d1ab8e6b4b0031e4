"""Floats that have a fraction: sizes divided by numbers, until they are rounded to integers again.

Lengths are computed so: `ceil((n - 7) / 2 + 1)`. Each operation on floats rounds to the nearest of
them, which moves a number `x` by `abs(x) / limit` at most, where floats of the type hold all
integers up to `limit`. Where a few such errors stay below `1 / divisor`, the float lies between the
same integers as the quotient does, and rounds up and down to the same ones. Where the quotient is
an integer, so are all numbers that it is made of, by the operations that are followed here: these
are no numbers with an error.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from onnx import TensorProto

from tawa.axon.onnx.context import Context
from tawa.axon.onnx.provided import EXACT_UP_TO, QUOTIENT, Number, Quotient
from tawa.axon.sizes.choices import largest
from tawa.axon.sizes.dims import ZERO, Dim, ceil_quotient

ROUNDED_ONCE = (TensorProto.FLOAT, TensorProto.DOUBLE)
"""Floats whose operations round once; shorter ones may be computed in longer ones first."""

MAX_ROUNDED = 6
"""Operations that a quotient is followed through."""


def is_quotient(item: Any) -> bool:
    """Whether what a tensor contains is a float that may have a fraction."""
    return isinstance(item, Dim) and any(variable.kind == QUOTIENT for variable in item.free)


def quotient_of(context: Context, item: Any, element: int) -> Quotient | None:
    """A number of a float tensor as a quotient; None if nothing is known of it."""
    limit = EXACT_UP_TO[element] // (1 if element in ROUNDED_ONCE else 2)
    if not isinstance(item, Dim):
        number = float(item)
        top, bottom = number.as_integer_ratio() if isfinite(number) else (limit + 1, 1)
        is_short = max(abs(top), bottom) <= limit
        return Quotient(Dim.of(top), bottom, limit, top >= 0) if is_short else None
    dim = context.solver.dim(item)
    if is_quotient(dim):
        variable = dim.sole_variable
        return None if variable is None else context.provided.quotients.get(variable)
    known, low = context.provided.number(dim), context.least(dim)
    return Quotient(known.dim, 1, limit, low is not None and low >= 0, (), known.sizes)


def _sum(one: Quotient, other: Quotient, sign: int = 1) -> Quotient | None:
    """A sum of which one part is an integer without an error."""
    if not (one.is_integer or other.is_integer):
        return None
    divisor = one.divisor * other.divisor
    top = one.numerator * other.divisor + other.numerator * one.divisor * sign
    natural = one.is_natural and other.is_natural and sign > 0
    kept = (*one.rounded, *other.rounded)
    return Quotient(top, divisor, one.limit, natural, (*kept, top), (*one.sizes, *other.sizes))


def _multiple(one: Quotient, other: Quotient) -> Quotient | None:
    """A product of an integer without an error and a number."""
    if one.numerator.constant is not None:
        one, other = other, one
    if not one.is_integer or other.numerator.constant is None or other.rounded:
        return None
    top, natural = one.numerator * other.numerator, one.is_natural and other.is_natural
    return Quotient(top, other.divisor, one.limit, natural, (top,), one.sizes)


def _part(one: Quotient, other: Quotient) -> Quotient | None:
    """What is left of a quotient that is divided by a number."""
    by = other.numerator.constant
    if not by or other.rounded or (one.rounded and other.divisor > 1):
        return None
    factor = other.divisor if by > 0 else -other.divisor
    top, divisor = one.numerator * factor, one.divisor * abs(by)
    rounded = (*(size * abs(by) for size in one.rounded), top)
    return Quotient(top, divisor, one.limit, one.is_natural and by > 0, rounded, one.sizes)


def _negative(one: Quotient) -> Quotient:
    return one._replace(numerator=-one.numerator, is_natural=False)


def _difference(one: Quotient, other: Quotient) -> Quotient | None:
    return _sum(one, other, -1)


MADE: dict[str, Callable[..., Quotient | None]] = {
    "Neg": _negative,
    "Add": _sum,
    "Sub": _difference,
    "Mul": _multiple,
    "Div": _part,
}
"""What operators make of quotients."""


def made(name: str, operands: list[Quotient]) -> Quotient | None:
    """What an operator makes of numbers; None if that isn't known, or much."""
    of = MADE.get(name)
    found = None if of is None else of(*operands)
    return found if found is not None and len(found.rounded) <= MAX_ROUNDED else None


def to_integer(name: str, of: Quotient) -> Number:
    """What Floor, Ceil, or Cast to integers (towards 0) make of a quotient."""
    top, divisor = of.numerator, of.divisor
    if name == "Ceil":
        whole = ceil_quotient(top, divisor)
    elif name == "Floor" or of.is_natural:
        whole = top // divisor
    else:
        whole = largest([top, ZERO]) // divisor - largest([-top, ZERO]) // divisor
    return Number(whole, (*of.sizes, *of.conditions()))


def in_floats(of: Quotient, element: int) -> Quotient:
    """A quotient in floats of another type."""
    limit = EXACT_UP_TO[element] // (1 if element in ROUNDED_ONCE else 2)
    return of._replace(limit=min(of.limit, limit), rounded=(*of.rounded, of.numerator))
