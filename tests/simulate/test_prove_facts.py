"""What a path knows of numbers: limits and quotients cancel, decisions contradict themselves."""

from __future__ import annotations

import itertools
import random

import pytest

from tawa.simulate.prove.facts import Facts
from tawa.simulate.prove.forget import (  # pyright: ignore[reportPrivateUsage]
    _by_name,
    _changed,
)
from tawa.simulate.prove.unknowns import Number, Sum, Term, applied, plus, scaled, term

A, B = term("parameter", "a"), term("parameter", "b")


def least(a: Number, b: Number) -> Number:
    return applied("minsi", "i32", [a, b])


def most(a: Number, b: Number) -> Number:
    return applied("maxsi", "i32", [a, b])


def over(a: Number, by: int) -> Number:
    return applied("divsi", "i32", [a, by])


def test_limits_are_taken_apart() -> None:
    facts = Facts()
    first = least(scaled(over(most(A, 0), 32), 32), scaled(B, 64))
    end = least(plus(scaled(B, 64), 64), A)
    assert facts.bounds(plus(end, first, -1)) == (None, 64)
    assert facts.bounds(plus(most(A, B), A, -1)) == (0, None)
    assert facts.bounds(plus(A, scaled(over(A, 8), 8), -1)) == (-7, 7)


def test_quotients_and_residues_are_bounded_as_closely_as_they_can_be() -> None:
    facts = Facts()
    assert facts.bounds(term("residue", A, 8)) == (0, 7)
    assert facts.bounds(term("quotient", A, 8)) == (None, None)
    facts.restrict(A, (-5, 16))
    assert facts.bounds(term("quotient", A, 8)) == (-1, 2)
    assert facts.bounds(plus(scaled(term("quotient", A, 8), 8), term("residue", A, 8))) == (-8, 23)


def _condition(number: Number) -> Term:
    found = applied("cmpi_sgt", "i1", [number, 0])
    assert isinstance(found, Sum)
    assert found.constant == 0
    return found.terms[0][0]


def test_what_is_known_follows_numbers_that_change() -> None:
    """A becomes A + 3: ranges and decisions that speak of it do, others stay; constants go."""
    facts = Facts(modulus=4)
    facts.put(A, (0, 4))
    facts.put(B, (1, None))
    whole = plus(A, B)
    facts.truths |= {_condition(whole): False, _condition(B): True, _condition(over(A, 2)): True}

    def further(number: Sum) -> Number:
        return plus(number, 3 * dict(number.terms).get(A.terms[0][0], 0))

    def gone(number: Sum) -> Number:
        return 7 if A.terms[0][0] in dict(number.terms) else number

    new = _changed(facts, further, [A.terms[0][0]])
    assert (new.bounds(A), new.bounds(B), new.modulus) == ((-3, 1), (1, None), 4)
    third = over(plus(A, 3), 2)
    assert new.truths == {
        _condition(plus(whole, 3)): False, _condition(B): True, _condition(third): True,
    }  # fmt: skip
    left = _changed(facts, gone, [A.terms[0][0]])
    assert (left.bounds(A), left.bounds(B), left.truths) == (
        (None, None),
        (1, None),
        {_condition(B): True},
    )


def test_decisions_that_no_launch_makes() -> None:
    """A is at most 160, but as a maximum with what is known to be 1 it is 2: at least 224."""
    facts = Facts()
    turns = over(plus(least(A, B), 31), 32)
    ends = most(over(plus(least(plus(A, -193), plus(B, -1)), 32), 32), plus(turns, -1))
    assert facts.assume(_condition(plus(ends, -1)), True)
    assert isinstance(turns, Sum)
    facts.restrict(turns, (2, 2))
    assert not facts.impossible()
    facts.assume(_condition(plus(A, -160)), False)
    assert facts.impossible()


NAMES = ("a", "b", "c")


def _drawn(draw: random.Random, depth: int) -> tuple[Number, str]:
    """A number, and the same as Python's text."""
    if not depth or draw.random() < 0.2:
        name = draw.choice(NAMES)
        return (term("parameter", name), name) if draw.random() < 0.8 else (7, "7")
    (a, one), (b, other) = _drawn(draw, depth - 1), _drawn(draw, depth - 1)
    factor = draw.choice([1, 1, -1, 2, 4, -4])
    match draw.choice(["plus", "plus", "min", "max", "over", "quotient", "residue"]):
        case "plus":
            return plus(a, b, factor), f"({one} + {factor} * {other})"
        case "min":
            return least(a, b), f"min({one}, {other})"
        case "max":
            return most(a, b), f"max({one}, {other})"
        case "quotient" | "residue" as part if isinstance(a, Sum):
            by = draw.choice([2, 4])
            return term(part, a, by), f"({one} {'//' if part == 'quotient' else '%'} {by})"
        case _:
            by = draw.choice([2, 4])
            return scaled(over(a, by), factor), f"({factor} * int({one} / {by}))"


def test_bounds_hold_for_all_numbers() -> None:
    draw, values = random.Random(5), range(-6, 7, 3)
    places = [dict(zip(NAMES, v, strict=True)) for v in itertools.product(values, repeat=3)]
    told = 0
    for _ in range(1500):
        facts = Facts()
        limits = {name: sorted(draw.sample(range(-6, 7), 2)) for name in NAMES}
        for name, (low, high) in limits.items():
            facts.restrict(term("parameter", name), (low, high if draw.random() < 0.7 else None))
        number, text = _drawn(draw, 4)
        low, high = facts.bounds(number)
        told += low is not None or high is not None
        for place in places:
            if all(a <= place[name] <= b for name, (a, b) in limits.items()):
                value = eval(text, {"min": min, "max": max, "int": int}, place)
                assert low is None or low <= value, (text, place, low)
                assert high is None or value <= high, (text, place, high)
    assert told > 500


@pytest.mark.parametrize(("by", "factor", "expected"), [
    (1, 1, (0, 0)), (4, 4, (-3, 0)), (4, 8, (-6, 0)), (4, 2, (None, None)),
])  # fmt: skip
def test_a_quotient_beside_its_operand(by: int, factor: int, expected: tuple[int | None, ...]):
    """So many times `x / by`, less `factor / by` times x: what the division leaves out."""
    x, facts = term("new", 1), Facts()
    assert isinstance(x, Sum)
    facts.restrict(x, (0, None))
    apart = plus(plus(0, applied("divsi", "i32", [x, by]), factor), x, -max(1, factor // by))
    assert facts.bounds(apart) == expected


def test_what_is_known_of_a_sum_is_known_of_sums_with_it() -> None:
    facts, rest = Facts(), term("parameter", "c")
    facts.restrict(plus(A, B, -1), (0, 3))
    facts.restrict(rest, (0, 1))
    assert facts.bounds(plus(A, B, -1)) == (0, 3)
    assert facts.bounds(plus(plus(plus(A, B, -1), rest), 7)) == (7, 11)
    assert facts.bounds(plus(plus(B, A, -1), rest)) == (-3, 1)
    assert facts.bounds(plus(A, rest)) == (None, None)


def test_conditions_by_other_names() -> None:
    """A condition, its opposite and those that are made of it; numbers and others stay."""
    first, second, new = (_condition(n) for n in (A, B, plus(A, B)))
    by = {first: new}
    one, other, named = term(*first), term(*second), term(*new)
    assert _by_name(one, by) == named
    assert _by_name(plus(1, one, -1), by) == plus(1, named, -1)
    assert _by_name(other, by) == other
    assert [_by_name(n, by) for n in (0, 1)] == [0, 1]
    for function in ("andi", "ori", "xori"):
        both = applied(function, "i1", [one, other])
        assert _by_name(both, by) == applied(function, "i1", [named, other])
        assert _by_name(plus(1, both, -1), by) == plus(
            1, applied(function, "i1", [named, other]), -1
        )


def _asked(draw: random.Random) -> tuple[Term, str]:
    """A condition of drawn numbers, and its text."""
    while True:
        number, text = _drawn(draw, 2)
        kind, sign = draw.choice([("cmpi_sgt", ">"), ("cmpi_eq", "==")])
        found = applied(kind, "i1", [number, draw.randrange(-3, 4)])
        if (
            isinstance(found, Sum)
            and len(found.terms) == 1
            and found.terms[0][0][0] in ("pos", "zero")
        ):
            condition, (constant, factor) = found.terms[0][0], (found.constant, found.terms[0][1])
            of = plus(condition[1], 0)
            shown = _shown(of, text, number)
            if (constant, factor) == (0, 1) and shown is not None:
                return condition, f"({shown} {sign.replace('>', '> 0').replace('==', '== 0')})"


def _shown(of: Number, text: str, number: Number) -> str | None:
    """The text of a sum that is a drawn number and a constant."""
    for factor in (1, -1):
        rest = plus(of, number, -factor)
        if isinstance(rest, int):
            return f"({factor} * {text} + {rest})"
    return None


def test_what_follows_from_decisions_holds() -> None:
    """For every number that fits them: bounds, what is put in, and what is decided by others."""
    draw, told, decided, simpler = random.Random(7), 0, 0, 0
    places = [
        dict(zip(NAMES, v, strict=True)) for v in itertools.product(range(-6, 7, 2), repeat=3)
    ]
    scope = {"min": min, "max": max, "int": int}
    for _ in range(150):
        facts, left = Facts(), places
        for _ in range(draw.randrange(1, 5)):
            condition, shown = _asked(draw)
            text = compile(shown, "a condition", "eval")
            place = draw.choice(left)
            holds = bool(eval(text, scope, place))
            known = facts.decided(condition)
            assert known is None or known is holds, (condition, place)
            assert facts.assume(condition, holds)
            left = [p for p in left if bool(eval(text, scope, p)) is holds]
            assert facts.decided(condition) in (holds, None)
            decided += known is not None
        assert not facts.impossible()
        number, shown = _drawn(draw, 3)
        text = compile(shown, "a number", "eval")
        low, high = facts.bounds(number)
        told += low is not None or high is not None
        new = facts.simplified(number)
        simpler += new != number
        other, shown = _asked(draw)
        other_text = compile(shown, "a condition", "eval")
        answer = facts.decided(other)
        for place in left:
            value = eval(text, scope, place)
            assert low is None or low <= value
            assert high is None or value <= high
            assert _value(new, place) == value, (number, new, place)
            assert answer is None or answer is bool(eval(other_text, scope, place))
    assert (told > 25, decided > 3, simpler > 4) == (True, True, True)


def _value(number: Number, place: dict[str, int]) -> int:
    """A number's value."""
    if isinstance(number, int):
        return number
    return number.constant + sum(n * _value_of(found, place) for found, n in number.terms)


def _value_of(found: Term, place: dict[str, int]) -> int:
    if found[0] == "parameter":
        return place[found[1]]
    if found[0] in ("quotient", "residue"):
        whole, rest = divmod(_value(found[1], place), found[2])
        return whole if found[0] == "quotient" else rest
    if found[0] in ("pos", "zero"):
        value = _value(found[1], place)
        return int(value > 0 if found[0] == "pos" else value == 0)
    a, b = (_value(part, place) for part in found[3:5])
    return {"minsi": min, "maxsi": max, "divsi": lambda a, b: int(a / b)}[found[1]](a, b)


@pytest.mark.parametrize(
    ("said", "condition", "holds", "possible"),
    [
        ((3, None), _condition(A), True, True), ((3, None), _condition(A), False, False),
        ((None, 0), _condition(A), True, False), ((None, 0), _condition(A), False, True),
        ((None, 1), _condition(A), True, True), ((0, 0), _condition(A), False, True),
        ((1, 1), _condition(A), False, False),
    ],
)  # fmt: skip
def test_decisions_that_contradict_what_is_known(
    said: tuple[int | None, int | None], condition: Term, holds: bool, possible: bool
) -> None:
    facts = Facts()
    facts.restrict(A, said)
    known = facts.decided(condition)
    assert known in (None, holds if possible else not holds)
    assert facts.copy().assume(condition, holds) is possible


@pytest.mark.parametrize(
    ("function", "by", "number", "expected"),
    [
        ("divsi", 4, plus(scaled(A, 8), 5), plus(scaled(A, 2), 1)),
        ("remsi", 4, plus(scaled(A, 8), 5), 1), ("andi", 3, plus(scaled(A, 8), 5), 1),
        ("andi", 7, plus(scaled(A, 8), 13), 5), ("divsi", 1, A, A), ("remsi", 1, A, 0),
        ("divsi", 4, plus(scaled(A, 2), 5), None), ("remsi", 4, plus(A, 5), None),
        ("andi", 4, plus(scaled(A, 8), 5), None), ("andi", 6, plus(scaled(A, 8), 5), None),
        ("remsi", 4, plus(scaled(A, 4), -5), None), ("divsi", -4, scaled(A, 8), None),
    ],
)  # fmt: skip
def test_divisions_of_what_is_not_negative(
    function: str, by: int, number: Number, expected: Number | None
) -> None:
    """They are done where the divisor divides all terms, and nothing is rounded towards zero."""
    made = applied(function, "i32", [number, by])
    facts = Facts()
    if number == plus(scaled(A, 4), -5):
        facts.restrict(A, (0, None))
        assert facts.simplified(made) == made  # it may be less than zero
        return
    assert by == 1 or facts.simplified(made) == made
    facts.restrict(A, (0, None))
    assert facts.simplified(made) == (made if expected is None else expected)


@pytest.mark.parametrize("function", ["minsi", "maxsi"])
@pytest.mark.parametrize(
    ("apart", "first"),
    [((None, 0), True), ((0, None), False), ((None, 1), None), ((-1, None), None)],
)
def test_the_lesser_and_the_greater_where_it_is_known(
    function: str, apart: tuple[int | None, int | None], first: bool | None
) -> None:
    facts = Facts()
    assert isinstance(A, Sum)
    difference = plus(A, B, -1)
    assert isinstance(difference, Sum)
    facts.restrict(difference, apart)
    made = applied(function, "i32", [A, B])
    low_is_a = {True: A, False: B, None: made}[first]
    high_is_b = {True: B, False: A, None: made}[first]
    assert facts.simplified(made) == (low_is_a if function == "minsi" else high_is_b)
