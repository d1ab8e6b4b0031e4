"""Polynomials with integer coefficients, and what their terms alone say of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import gcd
from typing import Any, Self

from tawa.axon.sizes.interned import Interned, kept_at, once
from tawa.axon.sizes.monomials import Atom, Extent, Factor, Monomial, free_of, monomial_key
from tawa.functional.terms import Term, Variable

FEW = 4
"""Terms that are put into a sum one by one."""

MOST_GROWING = 4
"""How many variables are kept that make a dimension as large as one likes."""

MAX_WEIGHT = 256
"""Symbols and numbers that a size is written with: longer ones are not kept, as they may grow."""

MAX_DEPTH = 96
"""Quotients, maxima and the like in each other, each of which takes some calls to look into."""

MAX_NUMBER = 2**63
"""The largest number that a tensor of integers can contain, of either sign."""

SMALL = {"dim": 1, "count": 0, "integer": -2}
"""A small number that a variable of a kind can be."""

Samples = tuple[int, int, int]
"""Values for small variables, for variables that are 3, and for large and different ones."""

Terms = tuple[tuple[Monomial, int], ...]
"""Products with their coefficients."""


@dataclass(frozen=True, eq=False, init=False, match_args=False)
class Polynomial(Interned, Term):
    """A sum; `terms` are its monomials with coefficients other than 0, in order.

    There is one object for each, so what is known of it is found out once, and two are equal if
    they are the same.
    """

    __match_args__ = ("terms",)
    terms: Terms
    offset: int
    """The constant term."""
    constant: int | None
    """The number that this is, or None."""

    def __new__(cls, terms: Terms) -> Self:
        """The sum of these terms: what its values are found by is their tuple alone."""
        if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
            factor, power = terms[0][0][0]
            if power == 1 and isinstance(factor, Atom):
                return cls.alone(factor)
        key = hash(terms)
        found = cls.known(key, terms)
        if found is not None:
            return found
        made = object.__new__(cls)
        number = terms[-1][1] if terms and not terms[-1][0] else 0
        state = made.__dict__
        state["terms"], state["offset"] = terms, number
        state["constant"] = number if len(terms) == (number != 0) else None
        return cls.kept(key, terms, made)

    @classmethod
    def alone(cls, atom: Atom) -> Self:
        """The sum of one atom, which knows it: most atoms are in such a sum."""
        known = atom.__dict__.get("sum")
        if known is not None and (found := known()) is not None:
            return found
        made = object.__new__(cls)
        state = made.__dict__
        state["terms"], state["offset"], state["constant"] = ((((atom, 1),), 1),), 0, None
        state["counted_factor"] = atom
        weight, depth, magnitude = state["extent"] = atom.extent
        state["is_short"] = weight <= MAX_WEIGHT and depth <= MAX_DEPTH and magnitude <= MAX_NUMBER
        state["free"], state["chooses"] = atom.free, atom.has_choice
        return kept_at(atom, "sum", made)

    def with_terms(self, more: Sequence[tuple[Monomial, int]]) -> Self:
        """The sum with other terms, each of another product."""
        terms = self.terms
        found = type(self)(merged(terms, more))
        state, known = found.__dict__, self.__dict__
        count = len(terms) - bool(self.offset)
        if len(more) == 1 and count > FEW and "extent" in known and "extent" not in state:
            is_last = found.terms[count - 1] is terms[count - 1]
            if is_last and len(found.terms) > len(terms) and more[0][0]:
                _extend(state, known, more)
        return found

    @once
    def key(self) -> tuple[object, ...]:
        """Orders dimensions."""
        return tuple([part for monomial, c in self.terms for part in (monomial_key(monomial), c)])

    @property
    def symbols(self) -> Self:
        """All but the constant term."""
        return self._symbols if self.offset else self

    @once
    def _symbols(self) -> Self:
        return type(self)(self.terms[:-1])

    @once
    def counted_factor(self) -> Factor | None:
        """The variable or the atom that this is plus a number, or None."""
        if self.offset:
            return self.symbols.counted_factor
        if len(self.terms) != 1:
            return None
        monomial, coefficient = self.terms[0]
        if coefficient != 1 or len(monomial) != 1:
            return None
        factor, power = monomial[0]
        return factor if power == 1 else None

    @property
    def signed_atom(self) -> tuple[Atom | None, int]:
        """The atom that this or its negative is plus a number, with its sign, or None."""
        terms = self.terms[:-1] if self.offset else self.terms
        if len(terms) == 1 and terms[0][1] in (1, -1) and len(terms[0][0]) == 1:
            factor, power = terms[0][0][0]
            if power == 1 and isinstance(factor, Atom):
                return factor, terms[0][1]
        return None, 0

    @property
    def sole_factor(self) -> Factor | None:
        """The variable or the atom that this is, or None."""
        return None if self.offset else self.counted_factor

    @property
    def sole_variable(self) -> Variable | None:
        """The variable that this is, or None."""
        factor = self.sole_factor
        return factor if isinstance(factor, Variable) else None

    @once
    def is_variable(self) -> bool:
        """Whether it is a variable alone."""
        return self.sole_variable is not None

    @once
    def factors(self) -> dict[Factor, None]:
        """The factors that occur, not looking inside atoms."""
        if self.offset:
            return self.symbols.factors
        return {factor: None for monomial, _ in self.terms for factor, _ in monomial}

    def atoms(self) -> dict[Atom, None]:
        """The atoms in order, those inside atoms too, each once."""
        found: dict[Atom, None] = {}
        _gather(self, found)
        return found

    @once
    def chooses(self) -> bool:
        """Whether it depends on which of several dimensions is chosen."""
        self._look_inside()
        return self.__dict__["chooses"]

    @once
    def extent(self) -> Extent:
        """How much it is to write."""
        self._look_inside()
        return self.__dict__["extent"]

    @once
    def free(self) -> dict[Variable, None]:
        """The variables in order, each once."""
        self._look_inside()
        return self.__dict__["free"]

    def _look_inside(self) -> None:
        """Find out what every factor has a part in: mostly all of it is asked for."""
        state = self.__dict__
        if self.offset and len(self.terms) > 1:
            symbols = self.symbols
            weight, depth, magnitude = symbols.extent
            state["extent"] = (weight + 1, depth, max(magnitude, abs(self.offset)))
            state["chooses"], state["free"] = symbols.chooses, symbols.free
        else:
            _extend(state, NOTHING, self.terms)

    @once
    def is_long(self) -> bool:
        """Whether it is not kept: for its terms, or for numbers that no size and no tensor can be.

        Nothing is left of a size that is divided by such a number, and a multiple is 0 or too
        large.
        """
        weight, depth, magnitude = self.extent
        return weight > MAX_WEIGHT or depth > MAX_DEPTH or magnitude > MAX_NUMBER

    @once
    def is_short(self) -> bool:
        """Whether it is kept, and no number of more than 64 bits."""
        return not self.is_long and abs(self.constant or 0) < MAX_NUMBER

    @property
    def weight(self) -> int:
        """How many symbols and numbers it is written with."""
        return self.extent[0]

    @once
    def samples(self) -> Samples | None:
        """What it is for some values of its variables; None if that isn't known."""
        offset = self.offset
        if offset:
            found = self.symbols.samples
            return found and (found[0] + offset, found[1] + offset, found[2] + offset)
        small = medium = large = 0
        for monomial, c in self.terms:
            one = other = third = c
            for factor, power in monomial:
                found = _samples_of(factor)
                if found is None:
                    return None
                one *= found[0] ** power
                other *= found[1] ** power
                third *= found[2] ** power
            small, medium, large = small + one, medium + other, large + third
        return small, medium, large

    @once
    def growing(self) -> dict[Variable, None]:
        """Variables with which it grows beyond every bound, while all others stay at 1."""
        return dict.fromkeys(islice(_growing(self.terms, 1), MOST_GROWING))

    def is_free(self, sign: int) -> bool:
        """Whether a variable makes it, or its negative, as large as one likes. It has no number."""
        if len(self.terms) > 1 and len(self.free) == 1:
            return False  # each term has the only variable
        return next(_growing(self.terms, sign), None) is not None

    def variables(self) -> Iterator[Variable]:
        """The variables in order, those inside atoms too, each once."""
        return iter(self.free)

    def plus(self, number: int) -> Self:
        """The sum with a number, which is the last term."""
        if not number:
            return self
        number += self.offset
        symbols = self.symbols
        if not number:
            return symbols
        found = type(self)((*symbols.terms, ((), number)))
        found.__dict__["_symbols"] = symbols
        return found

    def __neg__(self) -> Self:
        found, known = type(self)(tuple([(m, -c) for m, c in self.terms])), self.__dict__
        state = found.__dict__
        if "extent" in known and "extent" not in state:
            for name in SAME_OF_NEGATIVE:
                state[name] = known[name]
        return found

    def __repr__(self) -> str:
        return " + ".join(f"{c}*{m}" for m, c in self.terms) or "0"


SAME_OF_NEGATIVE = ("extent", "chooses", "free")
"""What a sum and its negative have in common."""

NOTHING: dict[str, Any] = {"extent": (0, 0, 0), "chooses": False, "free": {}}
"""What has a part in a sum of no terms."""


def _extend(
    state: dict[str, Any], known: dict[str, Any], more: Sequence[tuple[Monomial, int]]
) -> None:
    """Keep what has a part in a sum: what is known of its first terms, and the others."""
    weight, depth, magnitude = known["extent"]
    chooses, free = known["chooses"], dict[Variable, None](known["free"])
    for monomial, c in more:
        if not -magnitude <= c <= magnitude:
            magnitude = abs(c)
        if not monomial:
            weight += 1
        for factor, power in monomial:
            if isinstance(factor, Atom):
                inner, deep, large = factor.extent
                weight += power * inner
                depth, magnitude = max(depth, deep), max(magnitude, large)
                chooses = chooses or factor.has_choice
                free.update(factor.free)
            else:
                weight += power
                free[factor] = None
    state["extent"], state["chooses"], state["free"] = (weight, depth, magnitude), chooses, free


def merged(terms: Terms, more: Sequence[tuple[Monomial, int]]) -> Terms:
    """The sum of terms in order and of others: a few are put between those."""
    if len(more) > FEW:
        sums = dict(terms)
        for monomial, c in more:
            sums[monomial] = sums.get(monomial, 0) + c
        return ordered([term for term in sums.items() if term[1]])
    found = list(terms)
    for term in more:
        place = bisect_left(found, monomial_key(term[0]), key=_term_key)
        if place == len(found) or found[place][0] != term[0]:
            found.insert(place, term)
        elif c := found[place][1] + term[1]:
            found[place] = (term[0], c)
        else:
            del found[place]
    return tuple(found)


def ordered(terms: list[tuple[Monomial, int]]) -> Terms:
    """Terms in order."""
    if len(terms) > 1:
        terms.sort(key=_term_key)
    return tuple(terms)


def _term_key(term: tuple[Monomial, int]) -> tuple[object, ...]:
    """What orders terms."""
    return monomial_key(term[0])


def _gather(dim: Polynomial, found: dict[Atom, None]) -> None:
    """Add the atoms of a dimension: what stands in it more than once is looked into once."""
    for factor in dim.factors:
        if isinstance(factor, Atom) and factor not in found:
            found[factor] = None
            for part in factor.parts():
                _gather(part, found)


def _samples_of(factor: Factor) -> Samples | None:
    if not isinstance(factor, Variable):
        return factor.samples
    small = SMALL.get(factor.kind)
    return None if small is None else (small, 3, 10**18 + factor.id * 7919 % 99_991)


def _growing(terms: Terms, sign: int) -> Iterator[Variable]:
    """Variables in one term alone, with which a sum, or its negative, grows beyond every bound."""
    for monomial, c in terms:
        if c * sign <= 0 or not monomial:
            continue
        factor = monomial[0][0]
        if len(monomial) == 1:
            own = (factor,) if isinstance(factor, Variable) else factor.growing
        else:
            own = [f for f, _ in monomial if isinstance(f, Variable)]
            if len(own) < len(monomial):
                continue
        for variable in own:
            others = (f for other, _ in terms if other is not monomial for f, _ in other)
            if not any(variable in free_of(factor) for factor in others):
                yield variable


def common_monomial(*dims: Polynomial) -> Monomial:
    """The largest monomial that divides all monomials of all the dimensions."""
    shared: dict[Factor, int] | None = None
    for dim in dims:
        for monomial, _ in dim.terms:
            powers = dict(monomial)
            if shared is None:
                shared = powers
            else:
                shared = {f: min(p, powers[f]) for f, p in shared.items() if f in powers}
    return tuple((shared or {}).items())


def content(dim: Polynomial) -> int:
    """The greatest common divisor of the coefficients, the constant term's not counted."""
    return gcd(*[c for monomial, c in dim.terms if monomial])


def may_be_number(dim: Polynomial, divisor: int) -> bool:
    """Whether a quotient by a number may be a number: variables alone have no upper bound."""
    if not any(isinstance(factor, Atom) for factor in dim.factors):
        return False
    samples = dim.samples
    return samples is None or len({sample // divisor for sample in samples}) == 1
