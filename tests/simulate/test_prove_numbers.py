"""What the proof makes of a computation has its value, whatever the unknowns are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from tawa.simulate.prove.unknowns import (
    COMPARISONS,
    CONSTANTS,
    Number,
    Sum,
    Term,
    applied,
    is_condition,
    of_the_launch,
    parts_of,
    quotient,
    rebuilt,
    residue,
    symbols,
    term,
)

NAMES = ("a", "b", "c")
PLACES = [dict(zip(NAMES, v, strict=True)) for v in itertools.product((-7, -1, 0, 3, 34), repeat=3)]


def truncated(a: int, b: int) -> int:
    """C's quotient; that by zero never counts."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b,
    "divsi": truncated, "remsi": lambda a, b: a - b * truncated(a, b), "minsi": min, "maxsi": max,
    "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b,
    "cmpi_eq": lambda a, b: int(a == b), "cmpi_ne": lambda a, b: int(a != b),
    "cmpi_slt": lambda a, b: int(a < b), "cmpi_sle": lambda a, b: int(a <= b),
    "cmpi_sgt": lambda a, b: int(a > b), "cmpi_sge": lambda a, b: int(a >= b),
}  # fmt: skip
LOGICAL = ("andi", "ori", "xori")
Drawn = tuple[Number, Callable[[dict[str, int]], int]]


def value(number: Number, place: dict[str, int]) -> int:
    """A number where the unknowns are known."""
    if isinstance(number, int):
        return number
    return number.constant + sum(n * _term(t, place) for t, n in number.terms)


def _term(found: Term, place: dict[str, int]) -> int:
    parts: list[Any] = [value(p, place) if isinstance(p, int | Sum) else p for p in found]
    match parts:
        case ["parameter", name]:
            return place[name]
        case ["pos", e]:
            return int(e > 0)
        case ["zero", e]:
            return int(e == 0)
        case ["quotient", a, by]:
            return a // by
        case ["residue", a, by]:
            return a % by
        case ["op", "select", _, condition, yes, no]:
            return yes if condition else no
        case ["op", function, _, a, b]:
            return FUNCTIONS[function](a, b)
        case _:
            raise AssertionError(found)


def number(draw: random.Random, depth: int) -> Drawn:
    """A computation of the unknowns: as the proof has it, and as Python does it."""
    if depth == 0 or draw.random() < 0.15:
        name, constant = draw.choice(NAMES), draw.randint(-9, 40)
        if draw.random() < 0.3:
            return constant, lambda place: constant
        return term("parameter", name), lambda place: place[name]
    kind = draw.choice([*FUNCTIONS, "addi", "muli", "select", "quotient", "residue"])
    a, one = number(draw, depth - 1)
    if kind in ("quotient", "residue"):
        by = draw.choice([1, 2, 3, 8])
        if kind == "quotient":
            return quotient(a, by), lambda place: one(place) // by
        return residue(a, by), lambda place: one(place) % by
    if kind == "select":
        (c, if_), (b, other) = condition(draw, depth - 1), number(draw, depth - 1)
        chosen = applied("select", "i32", [c, a, b])
        return chosen, lambda place: one(place) if if_(place) else other(place)
    if kind in COMPARISONS:
        return condition(draw, depth)
    b, other = number(draw, depth - 1)
    if kind in ("divsi", "remsi", *LOGICAL) and draw.random() < 0.7:
        size = draw.choice([1, 2, 3, 4, 7, 8, 32])
        b, other = size, lambda place: size
    function = FUNCTIONS[kind]
    return applied(kind, "i32", [a, b]), lambda place: function(one(place), other(place))


def condition(draw: random.Random, depth: int) -> Drawn:
    """A condition, 0 or 1."""
    if depth and draw.random() < 0.3:
        (a, one), (b, other) = condition(draw, depth - 1), condition(draw, depth - 1)
        kind = draw.choice(LOGICAL)
        function = FUNCTIONS[kind]
        return applied(kind, "i1", [a, b]), lambda place: function(one(place), other(place))
    (a, one), (b, other) = number(draw, max(0, depth - 1)), number(draw, max(0, depth - 1))
    kind = draw.choice(list(COMPARISONS))
    function = FUNCTIONS[kind]
    return applied(kind, "i1", [a, b]), lambda place: function(one(place), other(place))


def divides_by_zero(number: Number, place: dict[str, int]) -> bool:
    """Whether a division by zero is in a number, which says nothing then."""
    divided = [t for t in symbols(number) if t[:2] in (("op", "divsi"), ("op", "remsi"))]
    return any(value(list(parts_of(t))[1], place) == 0 for t in divided)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_have_the_values_of_their_computations(seed: int) -> None:
    draw, held = random.Random(seed), 0
    for _ in range(250):
        for make in (number, condition):
            found, computed = make(draw, 3)
            for place in draw.sample(PLACES, 25):
                if not divides_by_zero(found, place):
                    assert value(found, place) == computed(place), (found, place)
                    held += 1
            if make is condition and is_condition(found):
                assert {value(found, place) for place in draw.sample(PLACES, 25)} <= {0, 1}
    assert held > 8000


@pytest.mark.parametrize("seed", range(2))
def test_a_term_is_made_again_of_other_parts(seed: int) -> None:
    """With each unknown replaced by a computation it has the value of what it was made of."""
    draw = random.Random(seed)
    inside = {name: number(draw, 1) for name in NAMES}

    def change(old: Number) -> Number:
        if isinstance(old, int):
            return old
        found: Number = old.constant
        for t, n in old.terms:
            new = inside[str(t[1])][0] if t[0] == "parameter" else rebuilt(t, change)
            found = applied("addi", "i32", [found, applied("muli", "i32", [n, new])])
        return found

    for _ in range(150):
        old, computed = number(draw, 2)
        new = change(old)
        for place in draw.sample(PLACES, 10):
            put = {name: made[1](place) for name, made in inside.items()}
            if not divides_by_zero(new, place) and not divides_by_zero(old, put):
                assert value(new, place) == computed(put), (old, place)


def test_a_quotient_and_its_residue_are_the_number() -> None:
    """Equal residues are equal numbers: what a modulus divides makes no difference."""
    a, b = (term("parameter", name) for name in "ab")
    odd = applied("addi", "i32", [applied("muli", "i32", [a, 7]), 10])
    same = applied("addi", "i32", [a, 4])
    assert residue(odd, 3) == residue(same, 3)
    assert residue(odd, 3) != residue(applied("addi", "i32", [a, b]), 3)
    assert residue(applied("muli", "i32", [a, 6]), 3) == 0
    assert quotient(applied("muli", "i32", [a, 6]), 3) == applied("muli", "i32", [a, 2])


@pytest.mark.parametrize(
    ("kind", "known"), [("parameter", True), ("new", False), ("count", False), ("block", False),
                        ("bit", False), ("turn", False)],
)  # fmt: skip
def test_what_differs_between_iterations_is_not_of_the_launch(kind: str, known: bool) -> None:
    inner = term(kind, "x")
    assert of_the_launch(inner) is known
    assert of_the_launch(applied("divsi", "i32", [inner, 3])) is known
    assert of_the_launch(applied("cmpi_sgt", "i1", [inner, 3])) is known
    assert of_the_launch(7)


def test_functions_of_numbers_are_those_of_constants() -> None:
    for function in (*CONSTANTS, *COMPARISONS, "addi", "subi", "muli"):
        for a, b in itertools.product((-9, -1, 0, 1, 8), repeat=2):
            if b or function not in ("divsi", "remsi"):
                assert applied(function, "i32", [a, b]) == FUNCTIONS[function](a, b), function
    assert applied("select", "i32", [1, 5, 6]) == 5
    assert applied("select", "i32", [0, 5, 6]) == 6
