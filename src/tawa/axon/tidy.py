"""Leaving out conditions that follow from others, so that schemes are short."""

from __future__ import annotations

from collections.abc import Iterable

from tawa.axon.constraints import AtLeast, Broadcast, Compatible, Divides, Equal, SameShape
from tawa.axon.dims import Dim, content
from tawa.functional.terms import Among, Constraint


def tidied(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints without repetitions, weaker bounds, and classes that others imply."""
    kept: dict[object, Constraint] = {}
    for constraint in constraints:
        if isinstance(constraint, AtLeast):
            constraint = _reduced(constraint)
        key = _key(constraint)
        other = kept.get(key)
        if other is None or _stronger(constraint, other):
            kept[key] = constraint
    return tuple(kept.values())


def _reduced(constraint: AtLeast) -> AtLeast:
    """The bound with common factors taken out and no constant on the left."""
    bound = constraint.bound - constraint.dim.offset
    symbols = constraint.dim - constraint.dim.offset
    shared = content(symbols) or 1
    reduced = Dim(tuple((monomial, c // shared) for monomial, c in symbols.terms))
    return AtLeast(reduced, -(-bound // shared), constraint.origin)


def _key(constraint: Constraint) -> object:
    match constraint:
        case Among(term):
            return ("among", term)
        case AtLeast(dim):
            return ("least", dim)
        case Compatible(left, right):
            return ("compatible", frozenset((left, right)))
        case Equal(left, right) | SameShape(left, right):
            return ("equal", left, right)
        case Divides(divisor, dividend):
            return ("divides", divisor, dividend)
        case Broadcast(left, right, result):
            return ("broadcast", left, right, result)
        case _:
            return id(constraint)


def _stronger(one: Constraint, other: Constraint) -> bool:
    if isinstance(one, Among) and isinstance(other, Among):
        return set(one.names) < set(other.names)
    if isinstance(one, AtLeast) and isinstance(other, AtLeast):
        return one.bound > other.bound
    return False
