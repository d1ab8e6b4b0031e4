"""Monomials: products of powers of variables and of what polynomials can't express."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from tawa.functional.terms import Term, Variable

if TYPE_CHECKING:
    from tawa.axon.sizes.dims import Dim

Replace = Callable[[Variable], Term | None]


class Atom:
    """An indivisible factor that isn't a variable."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]] = ()
    key: tuple[object, ...]
    chooses = False
    """Whether it is one of several dimensions, by what they are."""

    def __init_subclass__(cls) -> None:
        """Keep the hash of an atom, which is asked for whenever a dimension is made of it."""
        cls.__hash__ = Atom._kept_hash  # the decorator `dataclass` leaves it

    def _kept_hash(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((type(self).__name__, *(getattr(self, name) for name in self.__match_args__)))

    def parts(self) -> tuple[Dim, ...]:
        """The dimensions that it is computed from."""
        return ()

    def variables(self) -> Iterator[Variable]:
        """The variables inside."""
        for part in self.parts():
            yield from part.variables()

    def substitute(self, replace: Replace) -> Dim:
        """The atom's value with variables replaced."""
        raise NotImplementedError

    def least(self) -> int | None:
        """A number that the atom is provably not below, if any."""
        raise NotImplementedError

    def most(self) -> int | None:
        """A number that the atom is provably not above, if any."""
        return None

    def choices(self) -> tuple[Dim, ...]:
        """The dimensions of which the atom is the largest."""
        return ()


Factor = Variable | Atom
Monomial = tuple[tuple[Factor, int], ...]


def factor_key(factor: Factor) -> tuple[object, ...]:
    """Orders the factors of a monomial."""
    return (0, factor.id) if isinstance(factor, Variable) else factor.key


def monomial_key(monomial: Monomial) -> tuple[object, ...]:
    """Orders the monomials of a polynomial: by degree, then lexicographically.

    Division of polynomials needs an order that multiplication keeps.
    """
    degree = sum(power for _, power in monomial)
    return (-degree, *((factor_key(factor), -power) for factor, power in monomial))


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
