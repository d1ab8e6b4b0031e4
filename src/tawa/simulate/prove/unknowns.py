"""Integers of a launch that is not known: sums of unknowns, and what decisions say about them.

A number is an integer or a `Sum`: a constant and multiples of *terms*. A term is a tuple: a
parameter, a CTA's index, an unknown, or an operation on numbers that is not resolved further; equal
terms are equal numbers (value numbering). Conditions are numbers too, 0 or 1: the terms
`("pos", e)`, which is 1 where e > 0, and `("zero", e)`. A path through a kernel decides them, and
`Facts` keeps what it has decided, as ranges of sums. Arithmetic is taken to be without overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import gcd
from typing import NamedTuple, TypeAlias

Term: TypeAlias = tuple[Hashable, ...]
Terms: TypeAlias = tuple[tuple[Term, int], ...]
Range: TypeAlias = tuple[int | None, int | None]
"""The least and the largest value; None is no bound."""


class Sum(NamedTuple):
    """`constant` and the terms, each times its factor; there is at least one, none twice."""

    constant: int
    terms: Terms


Number: TypeAlias = int | Sum
WORD = 2**32


def term(*parts: Hashable) -> Sum:
    """The number that a term is."""
    return Sum(0, ((parts, 1),))


def _made(constant: int, terms: dict[Term, int]) -> Number:
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
    return _made(a.constant + times * b.constant, terms)


def scaled(a: Number, factor: int) -> Number:
    """`factor * a`."""
    return plus(0, a, factor)


def positive(e: Number) -> Number:
    """1 where e > 0, else 0."""
    if isinstance(e, int):
        return int(e > 0)
    if len(e.terms) == 1 and e.terms[0][1] in (1, -1):
        (found, factor), limit = e.terms[0], -e.constant
        if factor == 1:
            above = _above(found, limit)
            return term("pos", e) if above is None else above
        above = _above(found, -limit - 1)
        return term("pos", e) if above is None else plus(1, above, -1)
    return term("pos", e)


def _above(found: Term, limit: int) -> Number | None:
    """1 where a term is above a limit, said of its operands; None if they do not say it."""
    if found[0] != "op" or found[1] not in ("divsi", "minsi", "maxsi"):
        return None
    a, b = parts_of(found)
    if found[1] == "divsi":
        if not isinstance(b, int) or b <= 0:
            return None
        # A quotient is rounded towards zero.
        return positive(plus(a, 1 - ((limit + 1) * b if limit >= 0 else limit * b + 1)))
    if isinstance(a, int):
        a, b = b, a
    # Only where the constant decides: a question of the other operand is one more unknown.
    if not isinstance(b, int) or (found[1] == "minsi") == (b > limit):
        return None
    return int(b > limit)


def zero(e: Number) -> Number:
    """1 where e = 0, else 0."""
    if isinstance(e, int):
        return int(e == 0)
    return term("zero", e if e.terms[0][1] > 0 else scaled(e, -1))


def _quotient(a: int, b: int) -> int:
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
    "divsi": lambda a, b: _quotient(a, b) if b else None,
    "remsi": lambda a, b: a - b * _quotient(a, b) if b else None,
    "minsi": min,
    "maxsi": max,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
}
"""What an operation is of two integers; None if it is nothing."""


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


def _added(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _meet(a: Range, b: Range) -> Range:
    low = b[0] if a[0] is None else a[0] if b[0] is None else max(a[0], b[0])
    high = b[1] if a[1] is None else a[1] if b[1] is None else min(a[1], b[1])
    return low, high


@dataclass
class Facts:
    """What a path has decided: ranges of sums without constant, the first factor positive."""

    ranges: dict[Terms, Range] = field(default_factory=dict[Terms, Range])
    truths: dict[Term, bool] = field(default_factory=dict[Term, bool])
    """Equalities that ranges do not tell."""

    def __post_init__(self) -> None:
        self._simple: dict[Number, Number] = {}

    def copy(self) -> Facts:
        """The same facts, to be added to."""
        return Facts(dict(self.ranges), dict(self.truths))

    def without(self, *gone: Term) -> Facts:
        """The facts that do not speak of these terms."""
        if not gone:
            return self
        away = set(gone)
        return Facts(
            {k: known for k, known in self.ranges.items() if away.isdisjoint(symbols(Sum(0, k)))},
            {
                t: holds
                for t, holds in self.truths.items()
                if away.isdisjoint(symbols(Sum(0, ((t, 1),))))
            },
        )

    # --- ranges ---------------------------------------------------------------------------------

    def bounds(self, number: Number) -> Range:
        """Between what a number lies."""
        if isinstance(number, int):
            return number, number
        low: int | None = number.constant
        high: int | None = number.constant
        for found, factor in number.terms:
            one = self._of_term(found)
            ends = [None if end is None else factor * end for end in one]
            if factor < 0:
                ends.reverse()
            low, high = _added(low, ends[0]), _added(high, ends[1])
        if len(number.terms) > 1:
            factor, key = _key(number)
            known = self.ranges.get(key)
            if known is not None:
                low, high = _meet((low, high), _times(known, factor, number.constant))
        return low, high

    def _of_term(self, found: Term) -> Range:
        known = self.ranges.get(((found, 1),), (None, None))
        return _meet(known, self._by_form(found))

    def _by_form(self, found: Term) -> Range:
        """What a term's form says."""
        if found[0] in ("pos", "zero", "bit"):
            return 0, 1
        if found[0] in ("block", "count"):
            return int(found[0] == "count"), None
        if found[0] != "op":
            return None, None
        function, kind = found[1], found[2]
        if kind == "i1":
            return 0, 1
        if function in ("minsi", "maxsi"):
            a, b = (self.bounds(part) for part in parts_of(found))
            if function == "maxsi":
                return _meet((a[0], None), (b[0], None))[0], _larger(a[1], b[1])
            return _smaller(a[0], b[0]), _meet((None, a[1]), (None, b[1]))[1]
        if function == "select":
            _, *ends = (self.bounds(part) for part in parts_of(found))
            a, b = ends[-2:]
            return _smaller(a[0], b[0]), _larger(a[1], b[1])
        if function in ("divsi", "remsi"):
            return self._divided(found)
        return None, None

    def _divided(self, found: Term) -> Range:
        a, b = parts_of(found)
        low, high = self.bounds(a)
        if not isinstance(b, int) or b <= 0:
            return None, None
        if found[1] == "remsi":
            return (0 if low is not None and low >= 0 else 1 - b), b - 1
        ends = [None if end is None else _quotient(end, b) for end in (low, high)]
        return ends[0], ends[1]

    # --- conditions -----------------------------------------------------------------------------

    def simplified(self, number: Number) -> Number:
        """A number with what is known put in."""
        if isinstance(number, int):
            return number
        return replaced(number, self._simpler, None, self._simple)

    def _simpler(self, number: Sum) -> Number:
        total: Number = number.constant
        for found, factor in number.terms:
            total = plus(total, self._known(found), factor)
        return total

    def _known(self, found: Term) -> Number:
        low, high = self._of_term(found)
        if low is not None and low == high:
            return low
        if found[0] in ("pos", "zero"):
            truth = self.decided(found)
            return Sum(0, ((found, 1),)) if truth is None else int(truth)
        if found[0] == "op":
            return self._folded(found)
        return Sum(0, ((found, 1),))

    def _folded(self, found: Term) -> Number:
        """An operation that the ranges of its operands decide."""
        function, kind, parts = found[1], found[2], list(parts_of(found))
        same = Sum(0, ((found, 1),))
        if function in ("minsi", "maxsi"):
            low, high = self.bounds(plus(parts[0], parts[1], -1))
            if high is not None and high <= 0:
                return parts[function == "maxsi"]
            return parts[function == "minsi"] if low is not None and low >= 0 else same
        if function not in ("divsi", "remsi", "andi") or kind == "i1" or len(parts) != 2:
            return same
        a, by = parts
        if isinstance(a, int) or not isinstance(by, int) or (self.bounds(a)[0] or -1) < 0:
            return same
        size = by + 1 if function == "andi" else by
        if size <= 0 or (function == "andi" and size & by) or any(n % size for _, n in a.terms):
            return same
        if function != "divsi":
            return a.constant % size
        return _made(a.constant // size, {t: n // size for t, n in a.terms})

    def decided(self, condition: Term) -> bool | None:
        """Whether a `pos` or `zero` holds, if that is known."""
        e = condition[1]
        assert isinstance(e, Sum)
        low, high = self.bounds(e)
        if condition[0] == "pos":
            if low is not None and low > 0:
                return True
            return False if high is not None and high <= 0 else None
        if low == high == 0:
            return True
        if (low is not None and low > 0) or (high is not None and high < 0):
            return False
        return self.truths.get(condition)

    def assume(self, condition: Term, holds: bool) -> bool:
        """Add a decision; False if it cannot be so."""
        self._simple.clear()
        e = condition[1]
        assert isinstance(e, Sum)
        if condition[0] == "pos":
            self._restrict(e, (1, None) if holds else (None, 0))
        elif holds:
            self._restrict(e, (0, 0))
        else:
            self.truths[condition] = False
        low, high = self.bounds(e)
        return low is None or high is None or low <= high

    def _restrict(self, e: Sum, to: Range) -> None:
        factor, key = _key(e)
        found = _over(_times(to, 1, -e.constant), factor)
        self.ranges[key] = _meet(self.ranges.get(key, (None, None)), found)
        self._simple.clear()

    def put(self, e: Sum, to: Range) -> None:
        """Set a sum's range; what was known of it is forgotten."""
        self.ranges.pop(_key(e)[1], None)
        self._restrict(e, to)


def _key(e: Sum) -> tuple[int, Terms]:
    """What was taken out of a sum's terms (their divisor, the first factor's sign); the rest."""
    common = gcd(*(n for _, n in e.terms))
    if e.terms[0][1] < 0:
        common = -common
    return common, e.terms if common == 1 else tuple((t, n // common) for t, n in e.terms)


def _over(known: Range, by: int) -> Range:
    """The range of an integer, of which `known` is the range of `by` times it."""
    low, high = known if by > 0 else (_negative(known[1]), _negative(known[0]))
    by = abs(by)
    return None if low is None else -(-low // by), None if high is None else high // by


def _times(known: Range, by: int, more: int = 0) -> Range:
    """The range of `by` times a number of this range, and `more`."""
    ends = [None if end is None else by * end + more for end in known]
    return (ends[0], ends[1]) if by > 0 else (ends[1], ends[0])


def _negative(end: int | None) -> int | None:
    return None if end is None else -end


def _larger(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else max(a, b)


def _smaller(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else min(a, b)


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
