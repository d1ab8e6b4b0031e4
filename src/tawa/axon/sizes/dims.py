"""Dimensions as canonical polynomials with integer coefficients.

A `Dim` is a sum of monomials; a monomial is a product of powers of atoms. Atoms are variables and
what polynomials can't express: floor quotients, maxima, and what `measures.py` adds. Two
dimensions that polynomial arithmetic can prove equal are the same object by value.

Variables of kind `"dim"` stand for integers of at least 1, of kind `"count"` for those of at least
0, of kind `"integer"` for any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, lcm

from tawa.axon.sizes.interned import once
from tawa.axon.sizes.monomials import (
    MAX_KEPT,
    Atom,
    Factor,
    Monomial,
    Replace,
    as_variable,
    factor_least,
    free_of,
    join,
    lone_least,
    product_least,
    product_most,
    quotient_monomial,
)
from tawa.axon.sizes.polynomials import (
    Polynomial,
    Samples,
    common_monomial,
    content,
    may_be_number,
    merged,
    ordered,
)
from tawa.functional.terms import Variable

MAX_DECIDED_WEIGHT = 32
"""Symbols and numbers of a dimension from which its bound is no longer sought case by case."""


@dataclass(frozen=True, eq=False, init=False, match_args=False)
class Dim(Polynomial):
    """A polynomial in sizes; what is known of their values bounds it."""

    @staticmethod
    def of(value: int | Factor | Dim) -> Dim:
        """A number, a variable or an atom as a dimension."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, int):
            return _number(value)
        if isinstance(value, Atom):
            return Dim.alone(value)
        return Dim(((((value, 1),), 1),))

    @once
    def is_positive(self) -> bool:
        """Whether it is provably at least 1."""
        return (self._least or 0) >= 1

    @once
    def is_minimum(self) -> bool:
        """Whether it is the smallest of several dimensions."""
        atom, sign = self.signed_atom
        return atom is not None and sign < 0 and not self.offset and bool(atom.choices())

    def substitute(self, replace: Replace) -> Dim:
        """The dimension with variables replaced by dimensions (shape variables by shapes)."""
        terms = self.terms
        if not terms:
            return self
        if len(terms) == 1:
            monomial, c = terms[0]
            if not monomial:
                return self
            if c == 1 and len(monomial) == 1 and monomial[0][1] == 1:
                found = substitute_factor(monomial[0][0], replace)
                return self if found is None else found
        replaced = {f: substitute_factor(f, replace) for f in self.factors}
        if all(value is None for value in replaced.values()):
            return self
        return total(_replaced(monomial, replaced) * c for monomial, c in terms)

    def __add__(self, other: Dim | int) -> Dim:
        if isinstance(other, int):
            return self.plus(other)
        if self.constant is not None:
            return other.plus(self.constant)
        number = other.constant
        if number is not None:
            return self.plus(number)
        longer, shorter = (self, other) if len(self.terms) >= len(other.terms) else (other, self)
        return longer.with_terms(shorter.terms)

    def __sub__(self, other: Dim | int) -> Dim:
        if isinstance(other, int):
            return self.plus(-other)
        number = other.constant
        if number is not None:
            return self.plus(-number)
        if self.symbols is other.symbols:
            return _number(self.offset - other.offset)
        return self.with_terms([(monomial, -c) for monomial, c in other.terms])

    def __mul__(self, other: Dim | int) -> Dim:
        if isinstance(other, int):
            return self._multiple(other)
        for one, by in ((self, other.constant), (other, self.constant)):
            if by is not None:
                return one._multiple(by)
        found: dict[Monomial, int] = {}
        for mine, c in self.terms:
            for theirs, d in other.terms:
                monomial = join(mine, theirs)
                found[monomial] = found.get(monomial, 0) + c * d
        return collected(found)

    def _multiple(self, by: int) -> Dim:
        """The product with a number."""
        if by == 1:
            return self
        return Dim(tuple([(monomial, c * by) for monomial, c in self.terms]) if by else ())

    def __radd__(self, other: int) -> Dim:
        return self.plus(other)

    def __rsub__(self, other: int) -> Dim:
        return (-self).plus(other)

    def __rmul__(self, other: int) -> Dim:
        return self._multiple(other)

    def __floordiv__(self, other: Dim | int) -> Dim:
        return floor_quotient(self, Dim.of(other))

    def __mod__(self, other: Dim | int) -> Dim:
        return self - floor_quotient(self, Dim.of(other)) * other

    def least(self) -> int | None:
        """A number that this is provably not below, if one is known."""
        return self._least

    def most(self) -> int | None:
        """A number that this is provably not above, if one is known."""
        return self._most

    @once
    def _most(self) -> int | None:
        if self.offset:
            high = self.symbols._most
            return None if high is None else high + self.offset
        if len(self.terms) == 1 and _is_lone(self.terms[0][0]):
            return -low if (low := lone_least(self.terms[0], -1)) is not None else None
        if self.is_free(1):
            return None
        return None if (low := (-self)._least) is None else -low

    @once
    def _least(self) -> int | None:
        if self.offset:
            low = self.symbols._least
            return None if low is None else low + self.offset
        if len(self.terms) == 1:
            if _is_lone(self.terms[0][0]):
                return lone_least(self.terms[0], 1)
        if self.is_free(-1):
            return None
        shared = content(self)
        if not shared:
            return 0
        if shared == 1:
            return _least_of(self)
        low = _least_of(Dim(tuple((m, c // shared) for m, c in self.terms)))
        return None if low is None else low * shared

    def least_of_terms(self) -> int | None:
        """The sum of the terms' bounds."""
        bound = 0
        for monomial, c in self.terms:
            low = product_least(monomial) if c > 0 else product_most(monomial)
            if low is None:
                return None
            bound += c * low
        return bound

    def least_of_choices(self) -> int | None:
        """The bound if the dimension is a sum with one of several dimensions in it."""
        if len(self.terms) < 2:
            return None
        for monomial, c in self.terms:
            factor = monomial[0][0] if len(monomial) == 1 and monomial[0][1] == 1 else None
            options = factor.choices() if isinstance(factor, Atom) else ()
            if options:
                rest = Dim(tuple([term for term in self.terms if term[0] is not monomial]))
                bounds = ((rest + option * c).least() for option in options)
                return self.best(bounds) if c > 0 else _weakest(bounds)
        return None

    def best(self, bounds: Iterable[int | None]) -> int | None:
        """The largest of lower bounds: none is larger than an example, so that ends the search."""
        found, samples = None, self.samples
        for bound in bounds:
            if bound is not None and (found is None or bound > found):
                found = bound
                if samples is not None and found >= min(samples):
                    break
        return found

    def linear_in(self, variable: Factor) -> tuple[Dim, Dim] | None:
        """`(a, b)` with this equal to `a * variable + b` and neither mentioning `variable`."""
        if isinstance(variable, Variable):
            others = (factor for factor in self.factors if factor is not variable)
            if any(variable in free_of(factor) for factor in others):
                return None
        slope: list[tuple[Monomial, int]] = []
        rest: list[tuple[Monomial, int]] = []
        for term in self.terms:
            power = next((power for factor, power in term[0] if factor is variable), 0)
            if power > 1:
                return None
            if power:
                left = tuple([item for item in term[0] if item[0] is not variable])
                slope.append((left, term[1]))
            else:
                rest.append(term)
        return Dim(ordered(slope)), Dim(tuple(rest))


@lru_cache(MAX_KEPT)
def _number(value: int) -> Dim:
    """A number as a dimension."""
    return Dim((((), value),) if value else ())


@lru_cache(MAX_KEPT)
def _least_of(dim: Dim) -> int | None:
    """The best bound of a sum of symbols, kept, as the cases of one sum share most others."""
    if (len(dim.terms) == 1 and _is_lone(dim.terms[0][0])) or dim.weight > MAX_DECIDED_WEIGHT:
        return dim.least_of_terms()
    searches = (Dim.least_of_terms, Dim.least_of_choices, _least_of_quotients)
    return dim.best(search(dim) for search in searches)


def _weakest(bounds: Iterable[int | None]) -> int | None:
    """The smallest of lower bounds, None if one is missing."""
    found: list[int] = []
    for bound in bounds:
        if bound is None:
            return None
        found.append(bound)
    return min(found)


def _is_lone(monomial: Monomial) -> bool:
    """Whether a product is of one factor, whose bounds say all: a quotient by a number, say."""
    factor, power = monomial[0]
    is_quotient = isinstance(factor, Floor) and factor.denominator.constant is None
    return len(monomial) == 1 and power == 1 and not is_quotient


def substitute_factor(factor: Factor, replace: Replace) -> Dim | None:
    """The factor's value after replacement; None if nothing changes."""
    if isinstance(factor, Variable):
        found = replace(factor)
        if found is None:
            return None
        return found if isinstance(found, Dim) else Dim.of(as_variable(found))
    if not any(map(replace, factor.free)):
        return None
    value = factor.substitute(replace)
    return None if value.terms == (((((factor, 1),)), 1),) else value


def _replaced(monomial: Monomial, by: dict[Factor, Dim | None]) -> Dim:
    """A product with factors replaced by dimensions."""
    rest = tuple(item for item in monomial if by[item[0]] is None)
    result = Dim(((rest, 1),))
    for factor, power in monomial:
        value = by[factor]
        for _ in range(power if value is not None else 0):
            result = result * (value or ONE)
    return result


def collected(terms: dict[Monomial, int]) -> Dim:
    """The polynomial with these coefficients."""
    return Dim(ordered([term for term in terms.items() if term[1]]))


def total(dims: Iterable[Dim]) -> Dim:
    """The sum."""
    parts = sorted(dims, key=lambda dim: len(dim.terms))
    if len(parts) == 2:
        return parts[0] + parts[1]
    longest = parts.pop().terms if parts else ()
    return Dim(merged(longest, [term for dim in parts for term in dim.terms]))


ZERO = Dim(())
ONE = Dim.of(1)


@dataclass(frozen=True, eq=False, init=False)
class Floor(Atom):
    """`numerator // denominator`, rounded down."""

    numerator: Dim
    denominator: Dim

    @once
    def key(self) -> tuple[object, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Orders factors."""
        return (2, self.numerator.key, self.denominator.key)

    def parts(self) -> tuple[Dim, ...]:
        """Both parts."""
        return (self.numerator, self.denominator)

    def substitute(self, replace: Replace) -> Dim:
        """The quotient of the substituted parts."""
        top = self.numerator.substitute(replace)
        bottom = self.denominator.substitute(replace)
        if top is self.numerator and bottom is self.denominator:
            return Dim.of(self)
        return floor_quotient(top, bottom)

    @once
    def samples(self) -> Samples | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The quotients, unless one is by 0."""
        tops, bottoms = self.numerator.samples, self.denominator.samples
        if tops is None or bottoms is None or 0 in bottoms:
            return None
        return tops[0] // bottoms[0], tops[1] // bottoms[1], tops[2] // bottoms[2]

    @once
    def growing(self) -> dict[Variable, None]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of the numerator, if it is divided by a positive number."""
        return self.numerator.growing if (self.denominator.constant or 0) > 0 else {}

    def least(self) -> int | None:
        """The bound of a quotient by a number."""
        low, divisor = self.numerator.least(), self.denominator.constant
        if low is None:
            return None
        if divisor is None:
            return 0 if low >= 0 else None
        return low // divisor

    def most(self) -> int | None:
        """The bound of a quotient by a number."""
        high, divisor = self.numerator.most(), self.denominator.constant
        return None if high is None or divisor is None else high // divisor


def _least_of_quotients(dim: Dim) -> int | None:
    """The bound of a sum with quotients in it, from `x - d + 1 <= d * (x // d) <= x`.

    They are quotients by numbers, or by sizes that they are multiplied by.
    """
    floors = {m: floor for m, _ in dim.terms if (floor := _floor_of(m))}
    if not floors:
        return None
    found = {m: shown for m, shown in zip(floors, _shown(*floors.values()), strict=True) if shown}
    if not found:
        return None  # those inside come later
    common = lcm(*(divisor.constant or 1 for _, divisor in found.values()))
    sums: dict[Monomial, int] = {}
    for monomial, c in dim.terms:
        if monomial in found:
            numerator, divisor = found[monomial]
            terms = _replacing(monomial, floors[monomial], numerator, divisor, c > 0)
            c *= common // (divisor.constant or 1)
        else:
            terms, c = ((monomial, 1),), c * common
        for product, d in terms:
            sums[product] = sums.get(product, 0) + c * d
    low = collected(sums).least()
    return None if low is None else -(-low // common)


@lru_cache(MAX_KEPT)
def _shown(*floors: Floor) -> tuple[tuple[Dim, Dim] | None, ...]:
    """What is divided by what in quotients, of each other if they are; None for those inside."""
    shown = [within(floor, floors if len(floors) > 1 else ()) for floor in floors]
    inside = {factor for numerator, _ in shown for factor in numerator.atoms()}
    pairs = zip(floors, shown, strict=True)
    return tuple([None if floor in inside else one for floor, one in pairs])


def _replacing(
    monomial: Monomial, floor: Floor, numerator: Dim, divisor: Dim, is_low: bool
) -> Iterable[tuple[Monomial, int]]:
    """What a product with a quotient in it is by its divisor at least, or else at most."""
    if len(monomial) == 1 and divisor.constant is not None:
        least = ((), 1 - divisor.constant)
        return (*numerator.terms, least) if is_low else numerator.terms
    by = divisor.sole_variable
    left = ((f, power - (f is by)) for f, power in monomial if f is not floor)
    rest = tuple((factor, power) for factor, power in left if power)
    quotient = numerator - (divisor - 1 if is_low else 0)
    return (quotient * Dim(((rest, 1),))).terms


def within(floor: Floor, others: Iterable[Floor]) -> tuple[Dim, Dim]:
    """What is divided by what: another quotient by a number if it can be.

    So `x // 8` is `(x // 4) // 2`.
    """
    divisor = floor.denominator.constant or 0
    best, found = 1, (floor.numerator, floor.denominator)
    for other in others:
        by = other.denominator.constant or 0
        if best < by < divisor and divisor % by == 0:
            rest = exact_quotient(floor.numerator - other.numerator, Dim.of(by))
            if rest is not None:
                best, found = by, (Dim.of(other) + rest, Dim.of(divisor // by))
    return found


def _floor_of(monomial: Monomial) -> Floor | None:
    """The quotient in a product with what is never negative: by a number, or by one of that."""
    if len(monomial) == 1:
        factor, power = monomial[0]
        if not isinstance(factor, Floor) or power != 1 or factor.denominator.constant is None:
            return None
        return factor
    floors = [(f, n) for f, n in monomial if isinstance(f, Floor)]
    if len(floors) != 1 or floors[0][1] != 1:
        return None
    floor, divisor = floors[0][0], floors[0][0].denominator
    rest = [factor for factor, _ in monomial if factor != floor]
    if divisor.constant is None and not (
        divisor.sole_variable in rest and (divisor.least() or 0) >= 1
    ):
        return None
    return floor if all(_is_no_less(factor) for factor in rest) else None


def _is_no_less(factor: Factor) -> bool:
    """Whether a factor is never negative."""
    low = factor_least(factor)
    return low is not None and low >= 0


def ceil_quotient(top: Dim, bottom: int) -> Dim:
    """`top / bottom` rounded up, for a positive number."""
    return top if bottom == 1 else _quotient_by_number(top, bottom, bottom - 1)


def floor_quotient(top: Dim, bottom: Dim) -> Dim:
    """`top // bottom` in canonical form. Raises ZeroDivisionError."""
    divisor = bottom.constant
    if divisor == 0:
        raise ZeroDivisionError("a dimension is divided by 0")
    if divisor is not None:
        return top if divisor == 1 else _quotient_by_number(top, divisor)
    exact = exact_quotient(top, bottom)
    if exact is not None:
        return exact
    common = common_monomial(top, bottom)
    if common:
        top, bottom = divide_monomial(top, common), divide_monomial(bottom, common)
        return floor_quotient(top, bottom)
    whole, rest = _multiples(top, bottom)
    return whole + (Dim.of(Floor(rest, bottom)) if rest.terms else ZERO)


@lru_cache(MAX_KEPT)
def _quotient_by_number(top: Dim, divisor: int, more: int = 0) -> Dim:
    """`(top + more) // divisor` in canonical form."""
    if divisor < 0:
        top, divisor, more = -top, -divisor, -more
    inner = _lone_floor(top)
    if inner is not None:
        floor, by = inner
        return _quotient_by_number(floor.numerator, by * divisor, by * (top.offset + more))
    atom, sign = top.signed_atom
    if atom is not None and (found := atom.divided(sign, top.offset + more, divisor)) is not None:
        return found
    whole, rest = ZERO, top.symbols
    number, offset = divmod(top.offset + more, divisor)
    if divisor == 1 or rest.counted_factor is None:
        whole, rest, divisor, offset = _in_lowest_terms(rest, divisor, offset)
    whole += number
    if not rest.terms:
        return whole
    if divisor == 1:
        return whole + rest + offset
    inner = _lone_floor(rest)
    if inner is not None:
        floor, by = inner
        return whole + _quotient_by_number(floor.numerator, by * divisor, by * offset)
    rest += offset
    if may_be_number(rest, divisor):
        low, high = rest.least(), rest.most()
        if None not in (low, high) and (low or 0) // divisor == (high or 0) // divisor:
            return whole + (low or 0) // divisor
    return whole + Dim.of(Floor(rest, Dim.of(divisor)))


def _in_lowest_terms(rest: Dim, divisor: int, offset: int) -> tuple[Dim, Dim, int, int]:
    """`(w, r, d, o)` with `w + (r + o) // d` equal to `(rest + offset) // divisor`."""
    whole, coefficients = ZERO, [c for _, c in rest.terms] or [0]
    if min(coefficients) < 0 or max(coefficients) >= divisor:
        whole = Dim(tuple((monomial, n) for monomial, c in rest.terms if (n := c // divisor)))
        rest = Dim(tuple((monomial, n) for monomial, c in rest.terms if (n := c % divisor)))
    shared = gcd(content(rest), divisor)
    if shared > 1:
        rest = Dim(tuple((monomial, c // shared) for monomial, c in rest.terms))
        divisor, offset = divisor // shared, offset // shared
    return whole, rest, divisor, offset


def _lone_floor(dim: Dim) -> tuple[Floor, int] | None:
    """`x // n` and n, if `dim` is that plus a number."""
    factor = dim.counted_factor
    if not isinstance(factor, Floor):
        return None
    by = factor.denominator.constant
    return None if by is None else (factor, by)


def _multiples(top: Dim, bottom: Dim) -> tuple[Dim, Dim]:
    """`(q, r)` with top = q * bottom + r, where bottom is one monomial; else q is 0."""
    if len(bottom.terms) != 1:
        return ZERO, top
    monomial, c = bottom.terms[0]
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mine, d in top.terms:
        quotient = quotient_monomial(mine, monomial)
        if quotient is not None and d % c == 0:
            whole[quotient] = d // c
        else:
            rest[mine] = d
    return collected(whole), collected(rest)


def exact_quotient(top: Dim, bottom: Dim) -> Dim | None:
    """`top / bottom` if that is a polynomial, by division with the leading monomials."""
    number = bottom.constant
    if number is not None:
        whole = not any(c % number for _, c in top.terms)
        return Dim(tuple((m, c // number) for m, c in top.terms)) if whole else None
    quotient: dict[Monomial, int] = {}
    lead, c = bottom.terms[0]
    for _ in range(64):
        if not top.terms:
            return collected(quotient)
        mine, d = top.terms[0]
        part = quotient_monomial(mine, lead)
        if part is None or d % c:
            return None
        quotient[part] = quotient.get(part, 0) + d // c
        top = top - Dim(((part, d // c),)) * bottom
    return None


def divide_monomial(dim: Dim, monomial: Monomial) -> Dim:
    """The dimension with a monomial, which divides it, taken out."""
    found: dict[Monomial, int] = {}
    for mine, c in dim.terms:
        quotient = quotient_monomial(mine, monomial)
        if quotient is None:
            raise ValueError("the monomial doesn't divide the dimension")
        found[quotient] = c
    return collected(found)
