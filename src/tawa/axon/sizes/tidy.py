"""Leaving out conditions that follow from others, so that schemes are short."""

from __future__ import annotations

from collections.abc import Iterable

from tawa.axon.sizes.choices import largest_options
from tawa.axon.sizes.constraints import AtLeast, Broadcast, Compatible, Divides, Equal, SameShape
from tawa.axon.sizes.dims import Dim, Floor, content
from tawa.axon.sizes.monomials import Factor, factor_least
from tawa.functional.terms import Among, Constraint

Bounds = dict[Dim, int]
"""What sums of symbols, without a constant, are at least."""


def tidied(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """The constraints without repetitions, weaker bounds, and what others imply."""
    kept: dict[object, Constraint] = {}
    for constraint in constraints:
        constraint = _plainer(constraint)
        if isinstance(constraint, AtLeast) and _holds(constraint, {}):
            continue
        key = _key(constraint)
        other = kept.get(key)
        if other is None or _stronger(constraint, other):
            kept[key] = constraint
    found = list(kept.values())
    bounds = {c.dim: c.bound for c in found if isinstance(c, AtLeast)}
    pairs = {frozenset((c.left, c.right)) for c in found if isinstance(c, Compatible)}
    return tuple(c for c in found if not _follows(c, bounds, pairs))


def _plainer(constraint: Constraint) -> Constraint:
    """The same demand in fewer or simpler terms."""
    if isinstance(constraint, AtLeast):
        return _reduced(constraint)
    if not isinstance(constraint, Equal):
        return constraint
    for one, other in ((constraint.left, constraint.right), (constraint.right, constraint.left)):
        options = largest_options(one)
        if other in options:  # max(a, b) = b says that b is at least a
            rest = [option for option in options if option != other]
            if len(rest) == 1:
                return _reduced(AtLeast(other - rest[0], 0, constraint.origin))
    difference = constraint.left - constraint.right
    more = Dim(tuple((monomial, c) for monomial, c in difference.terms if c > 0))
    if not more.terms or more == difference:
        return constraint
    return Equal(more, more - difference, constraint.origin)


def _reduced(constraint: AtLeast) -> AtLeast:
    """The bound with common factors taken out and no constant on the left."""
    bound = constraint.bound - constraint.dim.offset
    symbols = constraint.dim.symbols
    shared = content(symbols) or 1
    reduced = Dim(tuple((monomial, c // shared) for monomial, c in symbols.terms))
    return AtLeast(reduced, -(-bound // shared), constraint.origin)


def _follows(constraint: Constraint, bounds: Bounds, pairs: set[frozenset[Dim]]) -> bool:
    """Whether a constraint follows from bounds and from pairs of compatible sizes."""
    if isinstance(constraint, AtLeast):
        others = {dim: low for dim, low in bounds.items() if dim != constraint.dim}
        return _holds(constraint, others)
    if isinstance(constraint, Compatible):  # a ~ b: then max(a, b) ~ a
        for one, other in (
            (constraint.left, constraint.right),
            (constraint.right, constraint.left),
        ):
            options = largest_options(one)
            if len(options) == 2 and other in options:
                return frozenset(options) in pairs
    return False


def _holds(constraint: AtLeast, bounds: Bounds) -> bool:
    """Whether a bound follows from the bounds of the quotients' numerators."""
    low = 0
    for monomial, c in constraint.dim.terms:
        least = 1
        for factor, power in monomial:
            inner = _factor_least(factor, bounds)
            if inner is None or inner < 0:
                return False
            least *= inner**power
        if c < 0 and monomial:
            return False
        low += c * least
    return low >= constraint.bound


def _factor_least(factor: Factor, bounds: Bounds) -> int | None:
    known = factor_least(factor)
    if known is not None or not isinstance(factor, Floor):
        return known
    numerator = factor.numerator
    low = bounds.get(numerator.symbols)
    positive = (factor.denominator.least() or 0) >= 1
    return 0 if positive and low is not None and low + numerator.offset >= 0 else None


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
            return ("broadcast", frozenset((left, right)), result)
        case _:
            return id(constraint)


def _stronger(one: Constraint, other: Constraint) -> bool:
    if isinstance(one, Among) and isinstance(other, Among):
        return set(one.names) < set(other.names)
    if isinstance(one, AtLeast) and isinstance(other, AtLeast):
        return one.bound > other.bound
    return False
