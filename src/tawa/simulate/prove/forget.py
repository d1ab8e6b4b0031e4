"""Forgetting how many iterations of a loop have passed: what lets a path come back to a state.

A loop's index is what it began with, plus the iterations since. All actors that are in a loop which
runs alike (`actor.Loop`) forget the same iterations at once: an unknown takes them up, in every
number of the state, so that what is known of one index is known of the others. Facts about the
unknown are weakened to "one or more iterations"; those about what nobody holds are dropped. A state
stands for all launches whose numbers fit it, and each of these steps only adds launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import NamedTuple

from tawa.simulate.prove.actor import Walker
from tawa.simulate.prove.facts import Facts
from tawa.simulate.prove.path import Loop, Path
from tawa.simulate.prove.unknowns import (
    Number,
    Range,
    Sum,
    Term,
    Terms,
    applied,
    is_condition,
    parts_of,
    plus,
    replaced,
    scaled,
    symbols,
    term,
)

Change = Callable[[Sum], Number]
PAST = ("new", "bit", "block")
HELD = 8
"""Iterations up to which a loop waits for those who are behind, so that they are taken up alike."""
NAMED = ("new", "op", "block")
"""Kinds of terms for which a new unknown may be put in."""
LOGICAL = ("andi", "ori", "xori")
"""Functions that join conditions."""
UNKNOWN = ("new", "bit")
"""Kinds of terms that no actor can come to again by itself."""


def forget(actors: Iterable[Walker], path: Path) -> bool:
    """Forget passed iterations, and facts that nobody can ask for again; name the unknowns anew.

    False, and nothing is forgotten, if what was decided contradicts itself: no launch comes here.
    """
    actors = list(actors)
    _decide(actors, path)
    if path.facts.contradicted:
        return False
    _forget_counted(actors, path)
    _forget_strided(actors, path)
    _forget_sums(actors, path)
    _forget_reasons(actors, path)
    _drop_facts(actors, path)
    _count_from_zero(actors, path)
    _rename(actors, path)
    return True


def change_all(actors: list[Walker], change: Change, only: Iterable[Term]) -> None:
    """Change every number that actors hold and that has one of the terms in it."""
    terms, known = frozenset(only), dict[Number, Number]()

    def new(number: Number) -> Number:
        return replaced(number, change, terms, known)

    for actor in actors:
        for value in actor.live[actor.at]:
            held = actor.values[value]
            if isinstance(held, Sum):
                actor.values[value] = new(held)
        actor.loops_open = [
            replace(
                loop, first=new(loop.first), end=new(loop.end), step=new(loop.step),
            )
            for loop in actor.loops_open
        ]  # fmt: skip


def _decide(actors: list[Walker], path: Path) -> None:
    """Put in what is known, so that equal numbers have one name; it may be forgotten later.

    Numbers with a shift, which may be known to be 0, keep it: it is to take up iterations.
    """
    shifts = frozenset(path.shifts.values())

    def simple(number: Number) -> Number:
        return number if shifts & symbols(number) else path.facts.simplified(number)

    for actor in actors:
        for value in actor.live[actor.at]:
            held = actor.values[value]
            if isinstance(held, Sum):
                actor.values[value] = simple(held)
        actor.loops_open = [
            replace(loop, first=simple(loop.first), end=simple(loop.end))
            for loop in actor.loops_open
        ]
    path.facts = path.facts.said_again(simple)
    known: dict[Terms, Term] = {}
    same: dict[Term, Term] = {}
    for left, shift in path.shifts.items():
        same[shift] = known.setdefault(_terms(simple(Sum(0, left))), shift)
    path.shifts = known
    _put_for({old: new for old, new in same.items() if old != new}, actors, path)


def _put_for(names: dict[Term, Term], actors: list[Walker], path: Path) -> None:
    """Use other names of equal unknowns everywhere."""
    if not names:
        return

    def change(number: Sum) -> Number:
        total: Number = number.constant
        for found, factor in number.terms:
            total = plus(total, term(*names.get(found, found)), factor)
        return total

    change_all(actors, change, names)
    for actor in actors:
        actor.loops_open = [
            loop if loop.shift is None else replace(loop, shift=names.get(loop.shift, loop.shift))
            for loop in actor.loops_open
        ]
    path.facts = _changed(path.facts, change, names)
    path.shifts = {
        _terms(replaced(Sum(0, left), change, frozenset(names))): names.get(shift, shift)
        for left, shift in path.shifts.items()
    }


def _terms(number: Number) -> Terms:
    return number.terms if isinstance(number, Sum) else ()


def _moved(known: Range, by: int) -> Range:
    low, high = known
    return None if low is None else low + by, None if high is None else high + by


# --- loops with a step that is known -----------------------------------------------------------


def _forget_counted(actors: list[Walker], path: Path) -> None:
    """Let the shifts of loops take up all but the last iteration that everybody has passed."""
    found: dict[Term, list[Loop]] = {}
    for actor in actors:
        for loop in actor.loops_open:
            if loop.shift is not None:
                found.setdefault(loop.shift, []).append(loop)
    for shift, loops in found.items():
        steps = [_step(loop) for loop in loops]
        whole = lcm(path.period, *steps)  # of the index
        least = min((loop.n - 1) * step for loop, step in zip(loops, steps, strict=True))
        passed = least // whole * whole
        if passed > 0 and (passed // min(steps) >= HELD or not _followed(actors, shift)):
            _take_up(actors, path, shift, passed)


def _followed(actors: list[Walker], shift: Term) -> bool:
    """Whether somebody is behind who may begin one of a shift's loops, and have it in common."""
    for first in actors:
        for depth, loop in enumerate(first.loops_open):
            if loop.shift == shift:
                place = progress(first.loops_open[:depth])
                if any(_behind(actor, loop, place) for actor in actors):
                    return True
    return False


def _behind(actor: Walker, loop: Loop, place: tuple[int, ...]) -> bool:
    """Whether an actor comes to a loop in this iteration of those around it, or one before."""
    inside = any(other.op is loop.op for other in actor.loops_open)
    return (
        not inside
        and loop.op in actor.ahead[actor.at]
        and progress(actor.loops_open)[: len(place)] <= place
    )


def _step(loop: Loop) -> int:
    assert isinstance(loop.step, int)
    return loop.step


def _take_up(actors: list[Walker], path: Path, shift: Term, passed: int) -> None:
    """Replace a shift by one that is larger by so much of the index; its loops count from there."""
    by = passed // path.period
    path.unknowns += 1
    new: Term = ("new", path.unknowns)
    later = plus(term(*new), -by)

    def change(number: Sum) -> Number:
        factor = dict(number.terms).get(shift, 0)
        if not factor:
            return number
        return plus(plus(number, term(*shift), -factor), later, factor)

    change_all(actors, change, (shift,))
    for actor in actors:
        actor.loops_open = [
            replace(loop, shift=new, n=loop.n - passed // _step(loop))
            if loop.shift == shift
            else loop
            for loop in actor.loops_open
        ]
    exact = path.facts.bounds(term(*shift)) == (0, 0)
    facts = _changed(path.facts, change, (shift,))
    for left, held in list(path.shifts.items()):
        if held == shift:
            del path.shifts[left]
            if exact:
                _carry_over(path, facts, Sum(0, left), scaled(term(*new), path.period), by)
    facts.put(term(*new), (1, None))
    facts.widen(new)
    path.facts = facts


def _carry_over(path: Path, facts: Facts, left: Sum, shift: Number, by: int) -> None:
    """What is known of what a loop has left, said of what it has left after the shift."""
    rest = plus(left, shift, -1)
    assert isinstance(rest, Sum)
    facts.put(rest, _moved(path.facts.bounds(left), -by * path.period))


def _changed(facts: Facts, change: Change, only: Iterable[Term]) -> Facts:
    """The same facts of changed numbers."""
    new, touched = Facts(modulus=facts.modulus), frozenset(only)
    for terms, known in facts.ranges.items():
        number = replaced(Sum(0, terms), change, touched)
        if isinstance(number, Sum):
            new.put(number, known)
    for condition, holds in facts.truths.items():
        number = replaced(Sum(0, ((condition, 1),)), change, touched)
        if isinstance(number, Sum) and len(number.terms) == 1 and not number.constant:
            new.truths[number.terms[0][0]] = holds
    return new


# --- loops with a step of the launch -------------------------------------------------------------


class Based(NamedTuple):
    """A loop's index as `base + at * unit + number`; each iteration adds `by` to `at`."""

    base: Sum
    unit: Sum
    at: int
    by: int
    number: int


def _based(loop: Loop) -> Based | None:
    """A loop's index, if its step is a number of the launch."""
    first, step = loop.first, loop.step
    if not isinstance(step, Sum) or not isinstance(first, Sum):
        return None
    by = gcd(step.constant, *(n for _, n in step.terms))
    unit = Sum(step.constant // by, tuple((t, n // by) for t, n in step.terms))
    found, factor = unit.terms[0]
    times, left = divmod(dict(first.terms).get(found, 0), factor)
    base = plus(first, unit, -times)
    if left or not isinstance(base, Sum):
        return None
    return Based(Sum(0, base.terms), unit, times + loop.n * by, by, base.constant)


def progress(loops: Iterable[Loop]) -> tuple[int, ...]:
    """How far an actor has come in its loops, the outermost first."""
    found = ((loop, _based(loop)) for loop in loops)
    return tuple(loop.n if based is None else based.at for loop, based in found)


def _forget_strided(actors: list[Walker], path: Path) -> None:
    """Begin at a new unknown, where the last of those who run along the same sequence is."""
    found: dict[tuple[Sum, Sum], list[int]] = {}
    for actor in actors:
        for loop in actor.loops_open:
            based = _based(loop)
            if based is not None:
                found.setdefault((based.base, based.unit), []).append(based.at)
    for (base, unit), places in found.items():
        places += _places_held(actors, base, unit)
        passed = min(places)
        if passed > 0:
            _begin_later(actors, path, base, unit, passed)


def _places_held(actors: list[Walker], base: Sum, unit: Sum) -> Iterator[int]:
    """Where along a sequence the loops stand that count by a value that they carry."""
    whole = Later(base, unit, 0, ())
    for actor in actors:
        for value in actor.strides[actor.at]:
            held = actor.values[value]
            found = whole.place(held) if isinstance(held, Sum) else None
            if found is not None and found[0] == 1:
                yield found[1]


@dataclass(frozen=True)
class Later:
    """A sequence that begins again at an unknown, which is `base + passed * unit`."""

    base: Sum
    unit: Sum
    passed: int
    new: Term

    def place(self, number: Sum) -> tuple[int, int] | None:
        """How often a number has the sequence's base, and how many units it is after the begin."""
        (pivot, pivot_factor), (stride, stride_factor) = self.base.terms[0], self.unit.terms[0]
        factor, left = divmod(dict(number.terms).get(pivot, 0), pivot_factor)
        if not factor or left:
            return None
        rest = plus(number, self.begin, -factor)
        after = 0 if isinstance(rest, int) else dict(rest.terms).get(stride, 0)
        units, left = divmod(after, stride_factor * factor)
        return None if left else (factor, units)

    @property
    def begin(self) -> Number:
        """Where it begins again."""
        return plus(self.base, self.unit, self.passed)

    def change(self, number: Sum) -> Number:
        """A number said of the new beginning; what lies before it stays as it is."""
        found = self.place(number)
        if found is None or found[1] < 0:
            return number
        return plus(plus(number, self.begin, -found[0]), term(*self.new), found[0])

    def loop(self, loop: Loop) -> Loop:
        """A loop along the sequence, begun at its present iteration; others stay as they are."""
        based = _based(loop)
        if based is None or (based.base, based.unit) != (self.base, self.unit):
            return loop
        first = plus(plus(term(*self.new), based.number), self.unit, based.at - self.passed)
        return replace(loop, first=first, n=0)

    def carried(self, facts: Facts, terms: Terms) -> tuple[Number, Range]:
        """What is known of an earlier place of the sequence, said of its new beginning."""
        number, found = Sum(0, terms), self.place(Sum(0, terms))
        if found is None or found[1] >= 0:
            return 0, (None, None)
        moved = plus(number, self.unit, -found[0] * found[1])
        assert isinstance(moved, Sum)
        return self.change(moved), facts.bounds(moved)


def _begin_later(actors: list[Walker], path: Path, base: Sum, unit: Sum, passed: int) -> None:
    path.unknowns += 1
    later = Later(base, unit, passed, ("new", path.unknowns))
    pivot = base.terms[0][0]
    # The loops first: their own beginnings are taken apart, which `change` leaves as they are.
    for actor in actors:
        actor.loops_open = [later.loop(loop) for loop in actor.loops_open]
    change_all(actors, later.change, (pivot,))
    facts = _changed(path.facts, later.change, (pivot,))
    for terms in path.facts.ranges:
        number, known = later.carried(path.facts, terms)
        if isinstance(number, Sum) and known != (None, None):
            facts.restrict(number, known)
    # What was decided of the iterations before is asked again by nobody.
    path.facts = facts.without(pivot)


# --- counters that go on by what is computed ----------------------------------------------------


def _forget_sums(actors: list[Walker], path: Path) -> None:
    """Name what a `while` goes on by, at its test, if sums have been added to it.

    The next turn then adds to a name, instead of to a sum that grows. Of numbers of which nobody
    holds all parts besides, the name is put in for one: nothing is lost. Of others only the range
    is kept.
    """
    for actor in actors:
        if actor.over or actor.code[actor.at].kind != "while":
            continue
        for value in actor.changing[actor.at]:
            held = actor.values[value]
            if isinstance(held, Sum) and _is_sum(held):
                _name(actors, path, Sum(0, held.terms))


def _is_sum(number: Sum) -> bool:
    """Whether a number is more than an unknown, or a place of a sequence of known steps."""
    kinds = {t[0] for t in symbols(number)}
    counted = all(t[0] in ("new", "block", "count") for t, _ in number.terms)
    several = sum(t[0] in UNKNOWN for t, _ in number.terms) > 1
    return len(number.terms) > 1 and "turn" not in kinds and (several or not counted)


def _name(actors: list[Walker], path: Path, number: Sum) -> None:
    """Call a number by a new unknown."""
    path.unknowns += 1
    name, known = term("new", path.unknowns), path.facts.bounds(number)
    others = {n for n in _numbers_held(actors) if isinstance(n, Sum) and n.terms != number.terms}
    used = {t for other in others for t in symbols(other)}
    free = [(t, n) for t, n in number.terms if n in (1, -1) and t not in used and t[0] in NAMED]
    last, own = max(free, key=lambda item: len(symbols(term(*item[0]))), default=((), 1))
    made_up = scaled(plus(name, plus(number, term(*last), -own), -1), own)

    def change(other: Sum) -> Number:
        if not last:
            return plus(name, other.constant) if other.terms == number.terms else other
        factor = dict(other.terms).get(last, 0)
        return plus(plus(other, term(*last), -factor), made_up, factor) if factor else other

    only = (last,) if last else tuple(t for t, _ in number.terms)
    change_all(actors, change, only)
    if last:
        path.facts = _changed(path.facts, change, only)
    path.facts.restrict(name, known)


# --- conditions of what is past ---------------------------------------------------------------


def _forget_reasons(actors: list[Walker], path: Path) -> None:
    """Keep of a condition whose numbers nobody holds besides that it is one, the same everywhere.

    What a tile was shared with, say, is known for as long as its slots are out, not why. Of what is
    made of several conditions, some of which are also held apart, each gets a name.
    """
    asked = {("block", axis) for actor in actors for axis in actor.axes[actor.at]}
    numbers = dict.fromkeys(n for n in _numbers_held(actors) if isinstance(n, Sum))
    conditions = [number.terms[0][0] for number in numbers if is_condition(number)]
    others = (number for number in numbers if not is_condition(number))
    kept = asked.union(*map(symbols, others))
    names: dict[Term, Term] = {}
    for found in dict.fromkeys(_apart(conditions)):
        of = {t for t in symbols(term(*found)) if t[0] in PAST} - {found}
        if not of <= kept:  # so nobody comes to it again by another way
            path.unknowns += 1
            names[found] = ("bit", "i1", path.unknowns)
    if not names:
        return
    for actor in actors:
        for value in actor.live[actor.at]:
            held = actor.values[value]
            if isinstance(held, Sum) and is_condition(held):
                actor.values[value] = _by_name(held, names)


def _apart(held: Sequence[Term]) -> Iterator[Term]:
    """The largest conditions that held ones are made of whose own parts are nowhere else."""
    inside: dict[Term, set[Term]] = {}
    above: dict[Term, set[Term]] = {found: {()} for found in held}
    todo = list(held)
    while todo:
        found = todo.pop()
        if found not in inside:
            inside[found] = parts = {t for part in _joined(found) for t, _ in part.terms}
            for part in parts:
                above.setdefault(part, set()).add(found)
            todo += parts

    def below(found: Term) -> set[Term]:
        return inside[found].union(*map(below, inside[found]))

    def largest(found: Term) -> Iterator[Term]:
        own = below(found)
        if all(above[part] <= own | {found} for part in own):
            yield found
        else:
            for part in _joined(found):
                yield from largest(part.terms[0][0])

    return (part for found in held for part in largest(found))


def _joined(found: Term) -> Iterator[Sum]:
    """The conditions that one is made of by logical functions."""
    if found[:1] == ("op",) and found[1] in LOGICAL:
        yield from (p for p in parts_of(found) if isinstance(p, Sum) and is_condition(p))


def _by_name(held: Number, names: dict[Term, Term]) -> Number:
    """A condition, or its opposite, with those that it is made of by other names."""
    if not isinstance(held, Sum):
        return held
    (found, factor), constant = held.terms[0], held.constant
    if found in names:
        return plus(constant, term(*names[found]), factor)
    if not any(_joined(found)):
        return held
    parts = [_by_name(part, names) for part in parts_of(found)]
    return plus(constant, applied(str(found[1]), "i1", parts), factor)


# --- facts and names ----------------------------------------------------------------------------


def _numbers_held(actors: list[Walker]) -> Iterator[Number]:
    """The numbers that actors hold, which may be unknown, in the order in which they do."""
    for actor in actors:
        for value in actor.live[actor.at]:
            held = actor.values[value]
            if isinstance(held, Sum):
                yield held
        for loop in actor.loops_open:
            yield from (loop.first, loop.end, loop.step)
            if loop.shift is not None:
                yield term(*loop.shift)


def _symbols_held(actors: list[Walker]) -> set[Term]:
    return {found for number in _numbers_held(actors) for found in symbols(number)}


def _held(actors: list[Walker]) -> list[Term]:
    """The unknowns that actors hold, in the order in which they do."""
    return list(dict.fromkeys(t for number in _numbers_held(actors) for t in _ordered(number)))


def _ordered(number: Number) -> list[Term]:
    """The unknowns of a number, in an order that does not change."""
    return sorted((t for t in symbols(number) if t[0] in UNKNOWN), key=lambda t: int(str(t[-1])))


def _drop_facts(actors: list[Walker], path: Path) -> None:
    """Drop what speaks of unknowns, or of the CTA's index, that nobody holds or can ask for."""
    held, facts = set(_held(actors)), path.facts
    held |= {("block", axis) for actor in actors for axis in actor.axes[actor.at]}
    held |= {t for t in _symbols_held(actors) if t[0] == "block"}
    of = (*UNKNOWN, "block")
    gone = {t for key in facts.ranges for t in symbols(Sum(0, key)) if t[0] in of}
    gone |= {t for key in facts.truths for t in symbols(Sum(0, ((key, 1),))) if t[0] in of}
    path.facts = facts.without(*(gone - held), *_beyond_reach(actors, facts))
    path.shifts = {key: shift for key, shift in path.shifts.items() if shift in held}


def _beyond_reach(actors: list[Walker], facts: Facts) -> set[Term]:
    """What facts speak of that nobody holds, even as a part, and nobody can compute again."""
    asked = {("block", axis) for actor in actors for axis in actor.axes[actor.at]}
    tops = {t for n in _numbers_held(actors) if isinstance(n, Sum) for t, _ in n.terms} | asked
    held = _symbols_held(actors)
    known: dict[Term, bool] = {}

    def again(found: Term) -> bool:
        if found not in known:
            inner = [t for part in parts_of(found) if isinstance(part, Sum) for t, _ in part.terms]
            known[found] = found in tops or (
                all(map(again, inner)) if inner else found[0] not in PAST
            )
        return known[found]

    keys = [*facts.ranges, *(((found, 1),) for found in facts.truths)]
    said = {t for key in keys for t, _ in key}
    return {t for t in said - held if not again(t)}


def _count_from_zero(actors: list[Walker], path: Path) -> None:
    """Let unknowns take up the constants beside them: a counter that goes on is another unknown."""
    shifts = {loop.shift for actor in actors for loop in actor.loops_open}
    more: dict[Term, int] = {}
    for number in _numbers_held(actors):
        if isinstance(number, Sum):
            (found, factor), *others = number.terms
            if found[0] == "new" and factor == 1 and not others and found not in shifts:
                more.setdefault(found, number.constant)
    more = {found: by for found, by in more.items() if by}
    if not more:
        return

    def change(number: Sum) -> Number:
        by = sum(more.get(found, 0) * factor for found, factor in number.terms)
        return plus(number, -by)

    change_all(actors, change, more)
    path.facts = _changed(path.facts, change, more)


def _rename(actors: list[Walker], path: Path) -> None:
    """Number the unknowns as the actors hold them."""
    names: dict[Term, Term] = {}
    for found in _held(actors):
        if found[0] in UNKNOWN and found not in names:
            names[found] = (*found[:-1], len(names))
    path.unknowns = len(names)
    if any(old != new for old, new in names.items()):
        _put_for(names, actors, path)
