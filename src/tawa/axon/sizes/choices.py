"""Dimensions that depend on which of several is chosen: the largest, or the one that isn't 1."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import filterfalse
from operator import attrgetter
from typing import ClassVar

from tawa.axon.sizes.dims import ONE, Dim, Floor
from tawa.axon.sizes.interned import once
from tawa.axon.sizes.monomials import Atom, Replace, united
from tawa.axon.sizes.polynomials import MOST_GROWING, Samples
from tawa.functional.terms import Variable

SORTED_BY = attrgetter("key")
"""What puts options in order."""

IS_VARIABLE = attrgetter("is_variable")
"""Whether an option is a variable alone: of two different ones, either can be the larger."""

IS_MINIMUM = attrgetter("is_minimum")
"""Whether an option is the smallest of several."""

IS_POSITIVE = attrgetter("is_positive")
"""Whether an option is provably at least 1."""


@dataclass(frozen=True, eq=False, init=False)
class Largest(Atom):
    """The largest of several dimensions, of which no two can be compared."""

    options: tuple[Dim, ...]
    chooses: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]

    @once
    def key(self) -> tuple[object, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Orders factors."""
        return (3, *(option.key for option in self.options))

    def parts(self) -> tuple[Dim, ...]:
        """The options."""
        return self.options

    def substitute(self, replace: Replace) -> Dim:
        """The largest of the substituted options."""
        options = [option.substitute(replace) for option in self.options]
        if all(new is old for new, old in zip(options, self.options, strict=True)):
            return Dim.of(self)
        return largest(options)

    @once
    def opposites(self) -> tuple[Dim, ...]:
        """The options of the minimum that its negative is."""
        return tuple([-option for option in self.options])

    @once
    def composed(self) -> dict[Dim, None]:
        """The options that are no variables: a set that is not to be changed."""
        return dict.fromkeys(filterfalse(IS_VARIABLE, self.options))

    @once
    def samples(self) -> Samples | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The largest of the options' values."""
        found = [option.samples for option in self.options]
        known = [samples for samples in found if samples is not None]
        if len(known) < len(found):
            return None
        small, medium, large = map(max, zip(*known, strict=True))
        return small, medium, large

    @once
    def growing(self) -> dict[Variable, None]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of any option."""
        return united([option.growing for option in self.options[:MOST_GROWING]])

    def least(self) -> int | None:
        """The best bound of an option."""
        bounds = [b for b in (option.least() for option in self.options) if b is not None]
        return max(bounds, default=None)

    def most(self) -> int | None:
        """The weakest bound of an option."""
        return _weakest(option.most() for option in self.options)

    def divided(self, sign: int, more: int, divisor: int) -> Dim | None:
        """The largest or the smallest quotient, if one of two options is cut to a number."""
        if len(self.options) > 2 or not any(map(_is_cut_to_number, self.options)):
            return None
        quotients = [(option * sign + more) // divisor for option in self.options]
        return largest(quotients) if sign > 0 else smallest(quotients)

    def choices(self) -> tuple[Dim, ...]:
        """The options."""
        return self.options


def largest(options: Iterable[Dim]) -> Dim:
    """The largest of several dimensions; those that provably aren't are left out."""
    options = list(dict.fromkeys(options))
    if len(options) == 1:
        return options[0]
    numbers = [option.constant for option in options]
    if None not in numbers:
        return Dim.of(max(number for number in numbers if number is not None))
    first = options[0].sole_factor
    start = first if isinstance(first, Largest) else None
    flat = [_flattened(option) for option in options]
    if sum(map(len, flat)) > len(options):
        parts = dict.fromkeys(part for inner in flat for part in inner)
        for option, inner in zip(options, flat, strict=True):
            if len(inner) == len(parts):
                return option
        options = list(parts)
    kept = _undominated(options, start)
    if len(kept) == 1:
        return kept[0]
    return Dim.of(Largest(_in_order(kept, start.options if start else ())))


def incomparable(options: Iterable[Dim]) -> Dim:
    """The largest of dimensions of which it is known that no two can be compared."""
    return Dim.of(Largest(tuple(sorted(options, key=SORTED_BY))))


def _in_order(options: Collection[Dim], start: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Dimensions by their keys: those that they may start with are so already."""
    found = list(options)
    if len(found) == len(start) + 1 and tuple(found[:-1]) == start:
        last = found.pop()
        insort(found, last, key=SORTED_BY)
    else:
        found.sort(key=SORTED_BY)
    return tuple(found)


def _flattened(option: Dim) -> tuple[Dim, ...]:
    """The options of a maximum, or of one with a number added; else the dimension itself."""
    factor = option.counted_factor
    if not isinstance(factor, Largest):
        return (option,)
    offset = option.offset
    return tuple([part + offset for part in factor.options]) if offset else factor.options


def _undominated(options: list[Dim], start: Largest | None = None) -> list[Dim]:
    """Those of which no other is provably not below them. They may start with a maximum's."""
    if len(options) == 2:
        return _undominated_pair(*options)
    kept: dict[Dim, None] = {}
    composed: dict[Dim, None] = {}  # of two different variables, either can be the larger
    if start is not None:
        kept, composed = dict.fromkeys(start.options), dict(start.composed)
        options = options[len(kept) :]
    for option in options:
        is_plain = option.is_variable
        rivals = composed if is_plain else kept
        if option in kept or (rivals and any(_not_below(other, option) for other in rivals)):
            continue
        for other in [other for other in rivals if _not_below(option, other)] if rivals else ():
            kept.pop(other)
            composed.pop(other, None)
        kept[option] = None
        if not is_plain:
            composed[option] = None
    return list(kept)


def _undominated_pair(one: Dim, other: Dim) -> list[Dim]:
    """Of two different dimensions, those that the other is not provably as large as."""
    if one.is_variable and other.is_variable:
        return [one, other]
    first = _larger(one, other)
    return [one, other] if first is None else [first]


def _weakest(bounds: Iterable[int | None]) -> int | None:
    """The largest of upper bounds, None if one is missing."""
    found = list(bounds)
    return None if None in found else max(bound for bound in found if bound is not None)


@dataclass(frozen=True, eq=False, init=False)
class Joined(Atom):
    """What dimensions broadcast to of which some may be 0: the one that isn't 1.

    Where none can be 0 that is the largest.
    """

    options: tuple[Dim, ...]
    chooses: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]

    @once
    def key(self) -> tuple[object, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Orders factors."""
        return (4, *(option.key for option in self.options))

    def parts(self) -> tuple[Dim, ...]:
        """The options."""
        return self.options

    def substitute(self, replace: Replace) -> Dim:
        """What the substituted options broadcast to."""
        options = [option.substitute(replace) for option in self.options]
        if all(new is old for new, old in zip(options, self.options, strict=True)):
            return Dim.of(self)
        return joined(options)

    def least(self) -> int | None:
        """The weakest bound of an option."""
        bounds = [option.least() for option in self.options]
        known = [bound for bound in bounds if bound is not None]
        return min(known) if len(known) == len(bounds) else None

    def most(self) -> int | None:
        """The weakest bound of an option."""
        return _weakest(option.most() for option in self.options)


def joined(options: Iterable[Dim]) -> Dim:
    """What compatible dimensions broadcast to."""
    kept: dict[Dim, None] = {}
    added: dict[Dim, None] = {}
    start: tuple[Dim, ...] = ()
    for option in options:
        inner = option.sole_factor
        if isinstance(inner, Joined):
            start = start or inner.options
            kept.update(dict.fromkeys(inner.options))
        else:
            kept[option] = added[option] = None  # of the others it is known that they can be 1
    kept.pop(ONE, None)
    if len(kept) <= 1:
        return next(iter(kept), ONE)
    known = {option for option in added if option in kept and is_not_one(option)}
    if known:
        return next(option for option in kept if option in known)
    if any(map(IS_MINIMUM, kept)):
        lesser = [option for option in kept if option.is_minimum]
        cut = {option for option in lesser for other in kept if is_cut(option, other) is not None}
        kept = {option: None for option in kept if option not in cut}
        if len(kept) == 1:
            return next(iter(kept))
    if all(map(IS_POSITIVE, kept)):
        return largest(kept)
    return Dim.of(Joined(_in_order(kept, start)))


def is_cut(dim: Dim, other: Dim) -> list[Dim] | None:
    """What `dim` cuts `other` to, if it is the smallest of that and of dimensions other than 1.

    Then the two are compatible only if they are equal: one is 1 where the other is.
    """
    options = smallest_options(dim)
    bounds = [option for option in options if option != other]
    cuts = len(bounds) + 1 == len(options) and all((b.least() or 0) >= 2 for b in bounds)
    return bounds if bounds and cuts else None


def largest_options(dim: Dim) -> tuple[Dim, ...]:
    """The options of a maximum; none for anything else."""
    factor = dim.sole_factor
    return factor.options if isinstance(factor, Largest) else ()


def smallest_options(dim: Dim) -> tuple[Dim, ...]:
    """The options of a minimum; none for anything else."""
    atom, sign = dim.signed_atom
    if sign > 0 or dim.offset or not isinstance(atom, Largest):
        return ()
    return atom.opposites


def is_not_one(dim: Dim) -> bool:
    """Whether a dimension provably is not 1."""
    if dim.constant is not None:
        return dim.constant != 1
    low = dim.least()
    return low is not None and low > 1


def smallest(options: Iterable[Dim]) -> Dim:
    """The smallest of several dimensions."""
    options = list(dict.fromkeys(options))
    if len(options) == 1:
        return options[0]
    if len(options) > 2 or any(map(_is_least, options)):
        return -largest([-option for option in options])
    one, other = options
    found = _cut_option(one, other) or _cut_option(other, one)
    if found is not None:
        return found
    first = _larger(other, one)
    if first is None:
        return -incomparable([-one, -other])
    return one if first is other else other


def _is_cut_to_number(dim: Dim) -> bool:
    """Whether it is a number, or the smallest of that and of dimensions."""
    return dim.constant is not None or any(
        option.constant is not None for option in smallest_options(dim)
    )


def _cut_option(dim: Dim, number: Dim) -> Dim | None:
    """The smaller of a maximum and a number, if it is an option: one cut to this number already.

    So `min(max(x - 1, min(x, 1)), 1)` is `min(x, 1)`.
    """
    options = largest_options(dim) if number.constant is not None else ()
    for cut in options:
        bounds = smallest_options(cut)
        if number in bounds and all(
            bound is number or _not_below(bound, option)
            for bound in bounds
            for option in options
            if option is not cut
        ):
            return cut
    return None


def _is_least(dim: Dim) -> bool:
    """Whether a dimension is the smallest of several plus a number."""
    terms = dim.symbols.terms
    if len(terms) != 1 or terms[0][1] != -1:
        return False
    return isinstance(terms[0][0][0][0], Largest)


def _larger(one: Dim, other: Dim) -> Dim | None:
    """Of two dimensions the one that is provably not below the other, if that is known."""
    if one.constant is not None or other.constant is not None:
        first = _not_below(one, other)
        return one if first else other if _not_below(other, one) else None
    may_be_first, may_be_other = _may_exceed(one, other), _may_exceed(other, one)
    if not (may_be_first or may_be_other):
        return None
    if may_be_first and (_is_part(other, one) or _covers(one, other)):
        return one
    if may_be_other and (_is_part(one, other) or _covers(other, one)):
        return other
    difference = one - other
    if may_be_first and (low := difference.least()) is not None and low >= 0:
        return one
    high = difference.most() if may_be_other else None
    return other if high is not None and high <= 0 else None


def _may_exceed(left: Dim, right: Dim) -> bool:
    """Whether no example shows that one dimension can be below another.

    To look for one takes less than to look for a proof in vain.
    """
    mine, theirs = left.samples, right.samples
    if mine is None or theirs is None:
        return True
    return mine[0] >= theirs[0] and mine[1] >= theirs[1] and mine[2] >= theirs[2]


def _not_below(left: Dim, right: Dim) -> bool:
    """Whether one dimension is provably not below another."""
    if not _may_exceed(left, right):
        return False
    if right.constant is not None:
        low = left.least()
        return low is not None and low >= right.constant
    if left.constant is not None:
        high = right.most()
        return high is not None and high <= left.constant
    if _is_part(right, left) or _covers(left, right):
        return True
    low = (left - right).least()
    return low is not None and low >= 0


def _is_part(dim: Dim, whole: Dim) -> bool:
    """Whether a dimension is a rounded quotient of one that isn't negative: `(x + c) // n` of x.

    It takes less than a proof by what is divided.
    """
    floor = dim.sole_factor
    if not isinstance(floor, Floor) or floor.numerator.symbols is not whole.symbols:
        return False
    divisor, low = floor.denominator.constant or 0, whole.least()
    if divisor < 1 or floor.numerator.offset - whole.offset >= divisor:
        return False
    return low is not None and low >= 0


def _covers(one: Dim, other: Dim) -> bool:
    """Whether each option of one dimension is no number above an option of the other, or a bound.

    So `x` covers `max(0, x - 1)` if it is never negative. It takes less than a proof by cases.
    """
    mine, theirs = one.counted_factor, other.counted_factor
    offsets = {one.symbols: one.offset}
    if isinstance(mine, Largest):
        offsets = {option.symbols: option.offset + one.offset for option in mine.options}
    elif not isinstance(theirs, Largest):
        return False
    shift = other.offset if isinstance(theirs, Largest) else 0
    for option in theirs.options if isinstance(theirs, Largest) else (other,):
        goal = option.offset + shift
        if offsets.get(option.symbols, goal - 1) >= goal:
            continue
        low = None if option.constant is None else one.least()
        if low is None or low < goal:
            return False
    return True
