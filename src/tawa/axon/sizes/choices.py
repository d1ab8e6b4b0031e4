"""Dimensions that depend on which of several is chosen: the largest, or the one that isn't 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tawa.axon.sizes.dims import ONE, Dim
from tawa.axon.sizes.monomials import Atom, Replace


@dataclass(frozen=True)
class Largest(Atom):
    """The largest of several dimensions, of which no two can be compared."""

    options: tuple[Dim, ...]
    chooses: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]

    @cached_property
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

    def least(self) -> int | None:
        """The best bound of an option."""
        bounds = [b for b in (option.least() for option in self.options) if b is not None]
        return max(bounds, default=None)

    def most(self) -> int | None:
        """The weakest bound of an option."""
        return _weakest(option.most() for option in self.options)

    def choices(self) -> tuple[Dim, ...]:
        """The options."""
        return self.options


def largest(options: Iterable[Dim]) -> Dim:
    """The largest of several dimensions; those that provably aren't are left out."""
    options = list(options)
    numbers = [option.constant for option in options]
    if None not in numbers:
        return Dim.of(max(number for number in numbers if number is not None))
    whole = _undominated(options)
    parts = [part for option in whole for part in _flattened(option)]
    kept = whole if len(parts) == len(whole) else _undominated(parts)
    if len(kept) == 1:
        return kept[0]
    return incomparable(kept)


def incomparable(options: Iterable[Dim]) -> Dim:
    """The largest of dimensions of which it is known that no two can be compared."""
    return Dim.of(Largest(tuple(sorted(options, key=lambda dim: dim.key))))


def _flattened(option: Dim) -> tuple[Dim, ...]:
    """The options of a maximum, or of one with a number added; else the dimension itself."""
    options = largest_options(option)
    if not options and option.offset:
        options = tuple(part + option.offset for part in largest_options(option - option.offset))
    return options or (option,)


def _undominated(options: Iterable[Dim]) -> list[Dim]:
    """Those of which no other is provably not below them."""
    kept: dict[Dim, None] = {}
    composed: dict[Dim, None] = {}  # of two different variables, either can be the larger
    for option in options:
        is_plain = option.sole_variable is not None
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


def _weakest(bounds: Iterable[int | None]) -> int | None:
    """The largest of upper bounds, None if one is missing."""
    found = list(bounds)
    return None if None in found else max(bound for bound in found if bound is not None)


@dataclass(frozen=True)
class Joined(Atom):
    """What dimensions broadcast to of which some may be 0: the one that isn't 1.

    Where none can be 0 that is the largest.
    """

    options: tuple[Dim, ...]
    chooses: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]

    @cached_property
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
    for option in options:
        inner = option.sole_factor
        parts = inner.options if isinstance(inner, Joined) else (option,)
        kept.update(dict.fromkeys(part for part in parts if part != ONE))
        if inner is None or not isinstance(inner, Joined):
            added[option] = None  # of the others it is known that they can be 1
    if len(kept) <= 1:
        return next(iter(kept), ONE)
    for option in kept:
        if option in added and is_not_one(option):
            return option
    lesser = [option for option in kept if option.sole_factor is None and smallest_options(option)]
    cut = {option for option in lesser for other in kept if is_cut(option, other) is not None}
    kept = {option: None for option in kept if option not in cut}
    if len(kept) == 1:
        return next(iter(kept))
    if all((option.least() or 0) >= 1 for option in kept):
        return largest(kept)
    return Dim.of(Joined(tuple(sorted(kept, key=lambda dim: dim.key))))


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


def smallest_options(dim: Dim) -> list[Dim]:
    """The options of a minimum; none for anything else."""
    if len(dim.terms) != 1 or dim.terms[0][1] != -1:
        return []
    return [-option for option in largest_options(-dim)]


def is_not_one(dim: Dim) -> bool:
    """Whether a dimension provably is not 1."""
    if dim.constant is not None:
        return dim.constant != 1
    low = dim.least()
    return low is not None and low > 1


def smallest(options: Iterable[Dim]) -> Dim:
    """The smallest of several dimensions."""
    return -largest([-option for option in options])


def _not_below(left: Dim, right: Dim) -> bool:
    low = (left - right).least()
    return low is not None and low >= 0
