"""Integers of a launch that is not known: sums of unknowns.

A number is an integer or a `Sum`: a constant and multiples of *terms*. A term is a tuple: a
parameter, a CTA's index, an unknown, or an operation on numbers that is not resolved further; equal
terms are equal numbers (value numbering). Conditions are numbers too, 0 or 1: the terms
`("pos", e)`, which is 1 where e > 0, and `("zero", e)`; a path through a kernel decides them
(`facts.py`). Arithmetic is taken to be without overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from math import gcd
from typing import TypeAlias

Term: TypeAlias = tuple[Hashable, ...]
Terms: TypeAlias = tuple[tuple[Term, int], ...]
Range: TypeAlias = tuple[int | None, int | None]
"""The least and the largest value; None is no bound."""


class Sum:
    """`constant` and the terms, each times its factor; there is at least one, none twice.

    It never changes. Sums stand in terms of others, so each keeps its hash.
    """

    __slots__ = ("_hash", "constant", "terms")

    def __init__(self, constant: int, terms: Terms) -> None:
        self.constant, self.terms = constant, terms
        self._hash = hash((constant, terms))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Sum) or self._hash != other._hash:
            return False
        return self.constant == other.constant and self.terms == other.terms

    def __repr__(self) -> str:
        return f"Sum({self.constant}, {self.terms})"


Number: TypeAlias = int | Sum
WORD = 2**32


def term(*parts: Hashable) -> Sum:
    """The number that a term is."""
    return Sum(0, ((parts, 1),))


def made(constant: int, terms: dict[Term, int]) -> Number:
    """A number of these terms and factors."""
    kept = sorted(((t, n) for t, n in terms.items() if n), key=lambda item: hash(item[0]))
    return Sum(constant, tuple(kept)) if kept else constant


def plus(a: Number, b: Number, times: int = 1) -> Number:
    """`a + times * b`."""
    if isinstance(b, int):
        if isinstance(a, int):
            return a + times * b
        return Sum(a.constant + times * b, a.terms)
    if isinstance(a, int):
        a = Sum(a, ())
    terms = dict(a.terms)
    for t, n in b.terms:
        terms[t] = terms.get(t, 0) + times * n
    return made(a.constant + times * b.constant, terms)


def scaled(a: Number, factor: int) -> Number:
    """`factor * a`."""
    return plus(0, a, factor)


def positive(e: Number) -> Number:
    """1 where e > 0, else 0."""
    if isinstance(e, int):
        return int(e > 0)
    limited = _beyond_limits(e)
    if limited is not None:
        return limited
    if len(e.terms) == 1 and e.terms[0][1] in (1, -1):
        (found, factor), limit = e.terms[0], -e.constant
        if factor == 1:
            above = _above(found, limit)
            return term("pos", e) if above is None else above
        above = _above(found, -limit - 1)
        return term("pos", e) if above is None else plus(1, above, -1)
    return term("pos", e)


def _beyond_limits(e: Sum) -> Number | None:
    """1 where e > 0, said without a minimum or maximum in it, one end of which is a constant.

    Only there: to ask both ends would be a question of one more unknown.
    """
    for found, factor in e.terms:
        if found[0] != "op" or found[1] not in ("minsi", "maxsi") or factor not in (1, -1):
            continue
        rest = plus(e, Sum(0, ((found, 1),)), -factor)
        ends = [plus(rest, part, factor) for part in parts_of(found)]
        least = (found[1] == "minsi") == (factor == 1)
        for end, other in (ends, ends[::-1]):
            if isinstance(end, int):
                return positive(other) if (end > 0) == least else int(not least)
    return None


def _above(found: Term, limit: int) -> Number | None:
    """1 where a quotient is above a limit, said of its operands; None if they do not say it."""
    if found[:2] != ("op", "divsi"):
        return None
    a, b = parts_of(found)
    if not is_positive(b):
        return None
    # A quotient is rounded towards zero.
    return positive(plus(plus(a, 1), b, -limit - 1) if limit >= 0 else plus(a, b, -limit))


def is_positive(number: Number) -> bool:
    """Whether a number is above 0 by its form: of an axis of the grid there is at least one."""
    if isinstance(number, int):
        return number > 0
    counted = all(t[0] == "count" and n > 0 for t, n in number.terms)
    return counted and number.constant + sum(n for _, n in number.terms) > 0


def zero(e: Number) -> Number:
    """1 where e = 0, else 0."""
    if isinstance(e, int):
        return int(e == 0)
    return term("zero", e if e.terms[0][1] > 0 else scaled(e, -1))


def quotient(a: Number, by: int) -> Number:
    """`a // by`, rounded down, which a residue completes to the number."""
    if isinstance(a, int):
        return a // by
    rest = made(a.constant % by, {t: n for t, n in a.terms if n % by})
    whole = plus(a, rest, -1)
    found = _over_all(whole, by)
    return found if isinstance(rest, int) else plus(found, term("quotient", rest, by))


def residue(a: Number, by: int) -> Number:
    """`a` modulo `by`, between 0 and `by - 1`."""
    if isinstance(a, int):
        return a % by
    rest = made(a.constant % by, {t: n % by for t, n in a.terms})
    return rest if isinstance(rest, int) else term("residue", rest, by)


def _over_all(a: Number, by: int) -> Number:
    """A number whose parts can all be divided."""
    if isinstance(a, int):
        return a // by
    return made(a.constant // by, {t: n // by for t, n in a.terms})


def truncated(a: int, b: int) -> int:
    """A quotient, rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


COMPARISONS: dict[str, Callable[[Number, Number], Number]] = {
    "cmpi_eq": lambda a, b: zero(plus(a, b, -1)),
    "cmpi_ne": lambda a, b: plus(1, zero(plus(a, b, -1)), -1),
    "cmpi_slt": lambda a, b: positive(plus(b, a, -1)),
    "cmpi_sle": lambda a, b: positive(plus(plus(b, a, -1), 1)),
    "cmpi_sgt": lambda a, b: positive(plus(a, b, -1)),
    "cmpi_sge": lambda a, b: positive(plus(plus(a, b, -1), 1)),
}
CONSTANTS: dict[str, Callable[[int, int], int | None]] = {
    "divsi": lambda a, b: truncated(a, b) if b else None,
    "remsi": lambda a, b: a - b * truncated(a, b) if b else None,
    "minsi": min,
    "maxsi": max,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
}
"""What an operation is of two integers; None if it is nothing."""


DIVISIONS = {("op", name) for name in ("divsi", "remsi", "andi")}
"""Operations that a residue of their first operand decides."""


def applied(function: str, kind: str, values: Sequence[Number]) -> Number:
    """A scalar function of numbers; `kind` is the result's type, part of an opaque term's name."""
    if function == "addi":
        found = plus(values[0], values[1])
    elif function == "subi":
        found = plus(values[0], values[1], -1)
    elif function == "muli":
        found = _product(kind, *values)
    elif function in COMPARISONS:
        return COMPARISONS[function](*values)
    elif function == "select":
        found = _selected(kind, *values)
    elif function in ("extui", "extsi") and isinstance(values[0], int):
        found = abs(values[0]) if function == "extui" else values[0]
    elif function == "extui" and is_condition(values[0]):
        return values[0]
    else:
        found = _opaque(function, kind, values)
    return found & 1 if kind == "i1" and isinstance(found, int) else found


def _product(kind: str, a: Number, b: Number) -> Number:
    if isinstance(a, int):
        return scaled(b, a)
    if isinstance(b, int):
        return scaled(a, b)
    return term("op", "muli", kind, *sorted((a, b), key=hash))


def _selected(kind: str, condition: Number, yes: Number, no: Number) -> Number:
    if isinstance(condition, int):
        return yes if condition else no
    return yes if yes == no else term("op", "select", kind, condition, yes, no)


def _opaque(function: str, kind: str, values: Sequence[Number]) -> Number:
    if function in CONSTANTS:
        a, b = values
        if isinstance(a, int) and isinstance(b, int):
            found = CONSTANTS[function](a, b)
            if found is not None:
                return found
        if kind == "i1" and function in ("andi", "ori", "xori"):
            return _logical(function, a, b)
        if a == b and function in ("minsi", "maxsi"):
            return a
        if function in ("andi", "ori", "xori") and isinstance(a, Sum) and isinstance(b, int):
            low = _of_low_bits(function, a, b)
            if low is not None:
                return low
    return term("op", function, kind, *values)


def _of_low_bits(function: str, a: Sum, b: int) -> Number | None:
    """A logical function with a number that reaches only bits which no term of a sum touches."""
    size = gcd(*(n for _, n in a.terms))
    size &= -size
    if not 0 <= b < size:
        return None
    low = a.constant % size
    found = CONSTANTS[function](low, b)
    assert found is not None
    return found if function == "andi" else plus(a, found - low)


def _logical(function: str, a: Number, b: Number) -> Number:
    if isinstance(b, int):
        a, b = b, a
    if isinstance(a, int):
        if function == "xori":
            return plus(1, b, -1) if a else b
        return (b if a else 0) if function == "andi" else (1 if a else b)
    return term("op", function, "i1", *sorted((a, b), key=hash))


def is_condition(number: Number) -> bool:
    """Whether a number is 0 or 1 by its form."""
    if isinstance(number, int):
        return number in (0, 1)
    if len(number.terms) != 1:
        return False
    (found, factor), constant = number.terms[0], number.constant
    logical = found[0] in ("pos", "zero") or (found[0] in ("op", "bit") and "i1" in found[1:3])
    return logical and (constant, factor) in ((0, 1), (1, -1))


def parts_of(found: Term) -> Iterator[Number]:
    """The numbers that a term is made of."""
    for part in found:
        if isinstance(part, Sum) or (type(part) is int and found[0] == "op"):
            yield part


@lru_cache(maxsize=100_000)
def _inside(found: Term) -> frozenset[Term]:
    """A term and all terms inside it."""
    return frozenset((found,)).union(*(symbols(part) for part in parts_of(found)))


@lru_cache(maxsize=100_000)
def symbols(number: Number) -> frozenset[Term]:
    """All terms of a number, also inside others."""
    if isinstance(number, int):
        return frozenset()
    return frozenset[Term]().union(*(_inside(found) for found, _ in number.terms))


def of_the_launch(number: Number) -> bool:
    """Whether a number is made of parameters alone, so that it is the same in all iterations."""
    return all(t[0] not in ("new", "bit", "block", "count", "turn") for t in symbols(number))


def rebuilt(found: Term, change: Callable[[Number], Number]) -> Number:
    """A term with changed parts."""
    if found[0] == "pos":
        e = found[1]
        assert isinstance(e, Sum)
        return positive(change(e))
    if found[0] == "zero":
        e = found[1]
        assert isinstance(e, Sum)
        return zero(change(e))
    if found[0] in ("quotient", "residue"):
        of, by = found[1:]
        assert isinstance(of, Sum) and isinstance(by, int)
        return (quotient if found[0] == "quotient" else residue)(change(of), by)
    if found[0] == "op":
        function, kind, *values = found[1:]
        assert isinstance(function, str) and isinstance(kind, str)
        new = [change(v) for v in values if isinstance(v, int | Sum)]
        return applied(function, kind, new)
    return term(*found)


def replaced(
    number: Number,
    change: Callable[[Sum], Number],
    only: frozenset[Term] | None = None,
    known: dict[Number, Number] | None = None,
) -> Number:
    """A number after `change` of it and of all sums inside its terms, the inner ones first.

    With `only`, numbers without these terms stay as they are; `known` keeps what was found.
    """
    if isinstance(number, int) or (only is not None and only.isdisjoint(symbols(number))):
        return number
    known = {} if known is None else known
    found = known.get(number)
    if found is None:
        total: Number = number.constant
        for one, factor in number.terms:
            inner = any(isinstance(p, Sum) for p in one)
            if inner:
                new = rebuilt(one, lambda n: replaced(n, change, only, known))
                total = plus(total, new, factor)
            else:
                total = plus(total, Sum(0, ((one, 1),)), factor)
        found = total if isinstance(total, int) else change(total)
        known[number] = found
    return found


def undecided_in(number: Number) -> Term | None:
    """A condition that decides a number, the innermost first; None if there is none in it."""
    if isinstance(number, int):
        return None
    for found, _ in number.terms:
        for part in parts_of(found):
            inner = undecided_in(part)
            if inner is not None:
                return inner
        if found[0] in ("pos", "zero"):
            return found
        if found[0] == "bit" or (found[0] == "op" and found[2] == "i1"):
            return ("pos", Sum(0, ((found, 1),)))
    return None
