"""Monomials: products of powers of variables and of what polynomials can't express."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

from tawa.axon.sizes.interned import Interned, once
from tawa.functional.terms import Term, Variable

if TYPE_CHECKING:
    from tawa.axon.sizes.dims import Dim

MAX_KEPT = 1 << 14
"""Products whose keys are kept; also sums whose bounds, and quotients."""

Replace = Callable[[Variable], Term | None]


Extent = tuple[int, int, int]
"""The symbols and numbers of a size, the atoms that are nested, and the largest number."""


LEAST = {"dim": 1, "count": 0}
"""The least numbers that variables of a kind stand for."""

CHOOSES = attrgetter("chooses")
"""Whether a part depends on which of several dimensions is chosen."""


class Atom(Interned):
    """An indivisible factor that isn't a variable."""

    key: tuple[object, ...]
    chooses = False
    """Whether it is one of several dimensions, by what they are."""
    extent: Extent
    """How much it is to write."""
    has_choice: bool
    """Whether it, or what it is computed from, depends on which dimension is chosen."""
    free: dict[Variable, None]
    """The variables inside in order, each once."""

    def parts(self) -> tuple[Dim, ...]:
        """The dimensions that it is computed from."""
        return ()

    def prepare(self) -> None:
        """Find out at once what depends on all that is inside.

        Asked for late, it would be sought through everything that is nested in it.
        """
        parts = self.parts()
        weight = depth = magnitude = 0
        for part in parts:
            inner, deep, large = part.extent
            weight += inner
            depth = depth if deep < depth else deep
            magnitude = magnitude if large < magnitude else large
        state = self.__dict__
        state["extent"] = (weight or 1, depth + 1, magnitude)
        state["has_choice"] = self.chooses or any(map(CHOOSES, parts))
        state["free"] = (
            united([part.free for part in parts]) if parts else dict.fromkeys(self.variables())
        )

    @once
    def samples(self) -> tuple[int, int, int] | None:
        """What it is for some values of its variables; None if that isn't known."""
        return None

    @once
    def growing(self) -> dict[Variable, None]:
        """Variables with which it surely grows beyond every bound, while all others stay at 1."""
        return {}

    def variables(self) -> Iterator[Variable]:
        """The variables inside in order, each once."""
        return iter(self.free)

    def substitute(self, replace: Replace) -> Dim:
        """The atom's value with variables replaced."""
        raise NotImplementedError

    def least(self) -> int | None:
        """A number that the atom is provably not below, if any."""
        raise NotImplementedError

    def most(self) -> int | None:
        """A number that the atom is provably not above, if any."""
        return None

    def divided(self, sign: int, more: int, divisor: int) -> Dim | None:
        """`(sign * self + more) // divisor` for a positive number, if it is better in parts."""
        return None

    def choices(self) -> tuple[Dim, ...]:
        """The dimensions of which the atom is the largest."""
        return ()


def united(sets: list[dict[Variable, None]]) -> dict[Variable, None]:
    """All variables of some ordered sets: a set that is not to be changed, as it may be theirs."""
    found = [variables for variables in sets if variables]
    if len(found) < 2:
        return found[0] if found else {}
    return dict.fromkeys(chain.from_iterable(found))


def free_of(factor: Factor) -> dict[Variable, None]:
    """The variables of a factor, in order, each once."""
    return factor.free if isinstance(factor, Atom) else {factor: None}


Factor = Variable | Atom
Monomial = tuple[tuple[Factor, int], ...]


def factor_key(factor: Factor) -> tuple[object, ...]:
    """Orders the factors of a monomial."""
    return (0, factor.id) if isinstance(factor, Variable) else factor.key


@lru_cache(MAX_KEPT)
def monomial_key(monomial: Monomial) -> tuple[object, ...]:
    """Orders the monomials of a polynomial: by degree, then lexicographically.

    Division of polynomials needs an order that multiplication keeps. Two keys are compared once to
    find where they differ, and again there: so they are as flat as can be.
    """
    key: list[object] = [-sum(power for _, power in monomial)]
    for factor, power in monomial:
        key += (factor_key(factor), -power)
    return tuple(key)


def join(left: Monomial, right: Monomial) -> Monomial:
    """The product of two monomials."""
    if not left or not right:
        return left or right
    powers = dict(left)
    for factor, power in right:
        powers[factor] = powers.get(factor, 0) + power
    return tuple(sorted(powers.items(), key=lambda item: factor_key(item[0])))


def quotient_monomial(top: Monomial, bottom: Monomial) -> Monomial | None:
    """`top / bottom`, or None if that isn't a monomial."""
    powers = dict(top)
    for factor, power in bottom:
        left = powers.get(factor, 0) - power
        if left < 0:
            return None
        if left:
            powers[factor] = left
        else:
            del powers[factor]
    return tuple(powers.items())


def kind_least(kind: str) -> int | None:
    """The least number that a variable of a kind stands for, if there is one."""
    return LEAST.get(kind)


def factor_least(factor: Factor) -> int | None:
    """A number that the factor is provably not below."""
    return kind_least(factor.kind) if isinstance(factor, Variable) else factor.least()


def factor_most(factor: Factor) -> int | None:
    """A number that the factor is provably not above."""
    return None if isinstance(factor, Variable) else factor.most()


def lone_least(term: tuple[Monomial, int], sign: int) -> int | None:
    """What a multiple of one factor, or with the sign -1 its negative, is not below."""
    factor, c = term[0][0][0], term[1] * sign
    low = factor_least(factor) if c > 0 else factor_most(factor)
    return None if low is None else low * c


def product_least(monomial: Monomial) -> int | None:
    """A number that a product is provably not below: of one factor, or where none is negative."""
    if len(monomial) == 1 and monomial[0][1] == 1:
        return factor_least(monomial[0][0])
    low = 1
    for factor, power in monomial:
        inner = factor_least(factor)
        if inner is None or inner < 0:
            return None
        low *= inner**power
    return low


def product_most(monomial: Monomial) -> int | None:
    """A number that a product is provably not above."""
    if len(monomial) == 1 and monomial[0][1] == 1:
        return factor_most(monomial[0][0])
    high = 1
    for factor, power in monomial:
        inner, low = factor_most(factor), factor_least(factor)
        if inner is None or low is None or low < 0:
            return None
        high *= inner**power
    return high


def as_variable(term: Term) -> Variable:
    """The term, which must be a variable."""
    if not isinstance(term, Variable):
        raise TypeError(f"{term} is no dimension")
    return term
