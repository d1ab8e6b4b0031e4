"""What a path through a kernel has decided about its numbers: ranges of sums, and residues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import gcd

from tawa.simulate.prove.unknowns import (
    DIVISIONS,
    Number,
    Range,
    Sum,
    Term,
    Terms,
    made,
    parts_of,
    plus,
    positive,
    quotient,
    replaced,
    residue,
    symbols,
    term,
    truncated,
    undecided_in,
)


def _added(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _meet(a: Range, b: Range) -> Range:
    low = b[0] if a[0] is None else a[0] if b[0] is None else max(a[0], b[0])
    high = b[1] if a[1] is None else a[1] if b[1] is None else min(a[1], b[1])
    return low, high


LIMITS = {("op", "minsi"), ("op", "maxsi")}


class NeedsModulus(Exception):
    """Numbers have to be split by the residues of this modulus, too."""

    def __init__(self, modulus: int) -> None:
        super().__init__(modulus)
        self.modulus = modulus


@dataclass
class Facts:
    """What a path has decided: ranges of sums without constant, the first factor positive."""

    ranges: dict[Terms, Range] = field(default_factory=dict[Terms, Range])
    truths: dict[Term, bool] = field(default_factory=dict[Term, bool])
    """Equalities that ranges do not tell."""
    modulus: int = 1
    """What terms are split by: one whose residue is known is so many times a quotient, and that."""

    def __post_init__(self) -> None:
        self.contradicted = False
        """Whether a number was said to lie in no range at all: no launch takes this path."""
        self._simple: dict[Number, Number] = {}
        self._bounds: dict[Sum, Range] = {}

    def copy(self) -> Facts:
        """The same facts, to be added to."""
        return Facts(dict(self.ranges), dict(self.truths), self.modulus)

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
            self.modulus,
        )

    # --- ranges ---------------------------------------------------------------------------------

    def bounds(self, number: Number) -> Range:
        """Between what a number lies."""
        if isinstance(number, int):
            return number, number
        found = self._bounds.get(number)
        if found is None:
            # What is asked on the way there is answered without what follows.
            found = self._bounds[number] = self._direct(number)
            for key, known in self.ranges.items():
                if len(key) > 1:
                    found = _meet(found, self._beside(number, key, known))
            if len(number.terms) > 1:
                found = _meet(found, self._taken_apart(number))
            self._bounds[number] = found
        return found

    def _taken_apart(self, number: Sum) -> Range:
        """A sum said of both ends of a limit in it, or of a quotient's operand: terms cancel."""
        found: Range = (None, None)
        for one, factor in number.terms:
            rest = plus(number, Sum(0, ((one, 1),)), -factor)
            if one[:2] in LIMITS:
                a, b = (self.bounds(plus(rest, part, factor)) for part in parts_of(one))
                smaller = (one[1] == "minsi") == (factor > 0)
                found = _meet(found, _smaller_range(a, b) if smaller else _larger_range(a, b))
            elif one[:2] == ("op", "divsi"):
                a, by = parts_of(one)
                if isinstance(by, int) and by > 0 and factor % by == 0:
                    of = self.bounds(plus(rest, a, factor // by))
                    left = _times(self._remainder(a, by), -(factor // by))
                    found = _meet(found, (_added(of[0], left[0]), _added(of[1], left[1])))
        return found

    def _remainder(self, a: Number, by: int) -> Range:
        """Of a division that is rounded towards zero."""
        low, high = self.bounds(a)
        least = 0 if low is not None and low >= 0 else 1 - by
        return least, 0 if high is not None and high <= 0 else by - 1

    def _direct(self, number: Number) -> Range:
        """What is known of a number's terms, and of just this sum of them."""
        if isinstance(number, int):
            return number, number
        low: int | None = number.constant
        high: int | None = number.constant
        for found, factor in number.terms:
            one = _times(self._of_term(found), factor)
            low, high = _added(low, one[0]), _added(high, one[1])
        if len(number.terms) > 1:
            factor, key = _key(number)
            known = self.ranges.get(key)
            if known is not None:
                low, high = _meet((low, high), _times(known, factor, number.constant))
        return low, high

    def _beside(self, number: Sum, key: Terms, known: Range) -> Range:
        """A number as a multiple of a sum that is known, and the rest, of fewer terms than that."""
        factors = dict(number.terms)
        found: Range = (None, None)
        for times in {factors[t] // n for t, n in key if t in factors and not factors[t] % n}:
            rest = plus(number, Sum(0, key), -times)
            if isinstance(rest, int) or len(rest.terms) < max(len(key), len(number.terms)):
                left, of = self._direct(rest), _times(known, times)
                found = _meet(found, (_added(of[0], left[0]), _added(of[1], left[1])))
        return found

    def _of_term(self, found: Term) -> Range:
        known = self.ranges.get(((found, 1),), (None, None))
        return _meet(known, self._by_form(found))

    def _by_form(self, found: Term) -> Range:
        """What a term's form says."""
        if found[0] in ("pos", "zero", "bit"):
            return 0, 1
        if found[0] in ("block", "count", "turn"):
            return _of_machine(found)
        if found[0] in ("quotient", "residue"):
            return self._split(found)
        if found[0] != "op":
            return None, None
        function, kind = found[1], found[2]
        if kind == "i1":
            return 0, 1
        if function in ("minsi", "maxsi"):
            a, b = (self.bounds(part) for part in parts_of(found))
            return _larger_range(a, b) if function == "maxsi" else _smaller_range(a, b)
        if function == "select":
            _, *ends = (self.bounds(part) for part in parts_of(found))
            a, b = ends[-2:]
            return _smaller(a[0], b[0]), _larger(a[1], b[1])
        if function in ("divsi", "remsi"):
            return self._divided(found)
        return None, None

    def _split(self, found: Term) -> Range:
        """Of a quotient or residue."""
        of, by = found[1:]
        assert isinstance(of, Sum) and isinstance(by, int)
        if found[0] == "residue":
            return 0, by - 1
        low, high = self.bounds(of)
        least, most = self.bounds(term("residue", of, by))
        assert least is not None and most is not None
        # As many times `by` as lie between the bounds, less the residue.
        return (
            None if low is None else -((most - low) // by),
            None if high is None else (high - least) // by,
        )

    def _divided(self, found: Term) -> Range:
        a, b = parts_of(found)
        low, high = self.bounds(a)
        if not isinstance(b, int) or b <= 0:
            return None, None
        if found[1] == "remsi":
            return self._remainder(a, b)
        ends = [None if end is None else truncated(end, b) for end in (low, high)]
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
        if self.modulus > 1:
            of = Sum(0, ((found, 1),))
            left: Term = ("residue", of, self.modulus)
            if ((left, 1),) in self.ranges:
                low, high = self._of_term(left)
                if low is not None and low == high:
                    return plus(low, quotient(of, self.modulus), self.modulus)
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
        if isinstance(a, int) or not isinstance(by, int) or not _at_least_zero(self.bounds(a)):
            return same
        size = by + 1 if function == "andi" else by
        if size <= 0 or (function == "andi" and size & by) or any(n % size for _, n in a.terms):
            return same
        if function != "divsi":
            return a.constant % size
        return made(a.constant // size, {t: n // size for t, n in a.terms})

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
        self._bounds.clear()
        e = condition[1]
        assert isinstance(e, Sum)
        if condition[0] == "pos":
            self.restrict(e, (1, None) if holds else (None, 0))
        elif holds:
            self.restrict(e, (0, 0))
        else:
            self.truths[condition] = False
        self.contradicted |= _empty(self.bounds(e))
        if not self.contradicted:
            self._settle(e)
        return not self.contradicted

    def _settle(self, e: Sum) -> None:
        """Say of a quotient what was said of its term, if the residue is known now."""
        found = e.terms[0][0]
        if len(e.terms) > 1 or found[0] != "residue":
            return
        low, high = self.bounds(term(*found))
        if low != high:
            return
        gone = symbols(term(*found)) - {found}
        for key, known in list(self.ranges.items()):
            if not gone.isdisjoint(t for t, _ in key) or not gone.isdisjoint(symbols(Sum(0, key))):
                new = self.simplified(Sum(0, key))
                if isinstance(new, Sum) and new.terms != key:
                    self.restrict(new, known)

    def said_again(self, simple: Callable[[Number], Number]) -> Facts:
        """The same, of numbers with what is known put in."""
        new = Facts({}, dict(self.truths), self.modulus)
        for key, known in self.ranges.items():
            number = simple(Sum(0, key))
            new.contradicted |= _empty(_meet(self.bounds(number), known))
            new.restrict(number if isinstance(number, Sum) else Sum(0, key), known)
        return new

    def impossible(self) -> bool:
        """Whether what is known contradicts itself, as far as is seen by saying it again."""
        again = self.said_again(self.simplified)
        return again.contradicted or again.said_again(again.simplified).contradicted

    def asked_for(self, number: Number) -> Term | None:
        """A condition that helps to decide a number; None if there is none.

        Raises `NeedsModulus` if a residue would decide it.
        """
        found = undecided_in(number)
        if found is not None or isinstance(number, int):
            return found
        for one, _ in number.terms:
            if one[:2] in DIVISIONS:
                found = self._residue_for(one)
                if found is not None:
                    return found
                continue
            for part in parts_of(one):
                found = self.asked_for(part)
                if found is not None:
                    return found
        return None

    def _residue_for(self, found: Term) -> Term | None:
        """A condition about what a division needs to know of its operand."""
        a, by = parts_of(found)
        size = 1
        if found[1] == "andi" and isinstance(by, int) and isinstance(a, Sum) and not by & (by + 1):
            size, inner = by + 1, a.terms[0][0]
            if inner[:2] == ("op", "divsi") and len(a.terms) == 1:  # bits of a quotient
                a, by = parts_of(inner)
            else:
                by = 1
        if isinstance(a, int) or not isinstance(by, int) or by <= 0:
            return None
        low, high = self.bounds(a)
        if low is None or low < 0:
            return None if high is not None and high < 0 else undecided_in(positive(plus(a, 1)))
        asked = (self._residue_of(one, by * size) for one, n in a.terms if n % (by * size))
        return next((condition for condition in asked if condition), None)

    def _residue_of(self, found: Term, by: int) -> Term | None:
        if found[:2] in LIMITS:
            a, b = parts_of(found)
            return undecided_in(positive(plus(a, b, -1)))
        if found[0] == "quotient":  # by a modulus that is too small
            assert isinstance(found[2], int)
            by *= found[2]
        if self.modulus % by:
            raise NeedsModulus(by)
        left = residue(Sum(0, ((found, 1),)), self.modulus)
        low, high = self.bounds(left)
        assert low is not None and high is not None
        return undecided_in(positive(plus(left, (low + high) // 2, -1))) if low < high else None

    def restrict(self, e: Sum, to: Range) -> None:
        """Add to what is known of a sum."""
        factor, key = _key(e)
        found = _meet(self.ranges.get(key, (None, None)), _over(_times(to, 1, -e.constant), factor))
        if found == (None, None):
            return
        self.ranges[key] = found
        self.contradicted |= _empty(found)
        self._simple.clear()
        self._bounds.clear()
        if len(key) == 1 and not self.contradicted:
            self._restrict_operands(key[0][0], found)

    def _restrict_operands(self, found: Term, to: Range) -> None:
        """What the range of a limit, or of a quotient, says of its operands."""
        if found[:2] not in LIMITS | {("op", "divsi")}:
            return
        a, b = parts_of(found)
        low, high = to
        if found[1] == "divsi":
            if isinstance(a, Sum) and isinstance(b, int) and b > 0:
                # Rounded towards zero.
                least = None if low is None else low * b if low > 0 else (low - 1) * b + 1
                most = None if high is None else (high + 1) * b - 1 if high >= 0 else high * b
                self.restrict(a, (least, most))
            return
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int):
                continue
            least, most = self.bounds(other)
            if found[1] == "minsi":
                above = high is not None and least is not None and least > high
                self.restrict(one, (low, high if above else None))
            else:
                below = low is not None and most is not None and most < low
                self.restrict(one, (low if below else None, high))

    def put(self, e: Sum, to: Range) -> None:
        """Set a sum's range; what was known of it is forgotten."""
        self.ranges.pop(_key(e)[1], None)
        self._simple.clear()
        self._bounds.clear()
        self.restrict(e, to)

    def widen(self, growing: Term) -> None:
        """Drop what sums with a growing term are said to be below, if that says nothing of a sign.

        It would be said of one more with each turn, and never be the same again.
        """
        for key, (low, high) in list(self.ranges.items()):
            factor = dict(key).get(growing, 0) if len(key) > 1 else 0
            if factor > 0 and high is not None and high > 0:
                self.put(Sum(0, key), (low, None))
            if factor < 0 and low is not None and low < 0:
                self.put(Sum(0, key), (None, high))


def _of_machine(found: Term) -> Range:
    """Of a CTA's index, a grid's axis, and a wheel's slot or phase."""
    if found[0] != "turn":
        return int(found[0] == "count"), None
    depth = found[3]
    assert isinstance(depth, int)
    return 0, depth - 1 if found[1] == "slot" else 1


def _empty(known: Range) -> bool:
    return known[0] is not None and known[1] is not None and known[0] > known[1]


def _at_least_zero(known: Range) -> bool:
    return known[0] is not None and known[0] >= 0


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


def _larger_range(a: Range, b: Range) -> Range:
    """Of the larger of two numbers."""
    return _meet((a[0], None), (b[0], None))[0], _larger(a[1], b[1])


def _smaller_range(a: Range, b: Range) -> Range:
    """Of the smaller of two numbers."""
    return _smaller(a[0], b[0]), _meet((None, a[1]), (None, b[1]))[1]
