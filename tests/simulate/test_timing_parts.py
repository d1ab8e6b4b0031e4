"""Parts of the timing model by themselves: divisions, shares, samples, and whose line a cycle is."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from xdsl.dialects.builtin import f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation

from tawa.base.spans import Span, set_span
from tawa.ir.elementwise import Map
from tawa.simulate.timing.code import ITERATION, MATRIX, WORK
from tawa.simulate.timing.ledger import Account, Ledger, _by_op  # pyright: ignore
from tawa.simulate.timing.lines import DONE, NOWHERE, WAITING, busiest
from tawa.simulate.timing.sample import (
    IDLE,
    LEAST_ITERATIONS,
    Cut,
    Iterations,
    cut_of,
    iterations_of,
)
from tawa.simulate.timing.scalars import divide, remainder
from tawa.simulate.timing.state import Actor, left_of
from tawa.simulate.timing.trace import About
from tawa.simulate.timing.work import Work


def test_divisions_are_rounded_towards_zero() -> None:
    numbers = [*range(-9, 10), 2**62 + 1, -(2**62) - 1, 10**17 + 3]
    for a, b in product(numbers, [n for n in numbers if n]):
        whole, rest = divide(a, b), remainder(a, b)
        assert whole * b + rest == a
        assert abs(rest) < abs(b)
        assert rest == 0 or (rest < 0) == (a < 0)


def work(issue: float = 0.0, alu: float = 0.0, special: float = 0.0) -> Work:
    return Work(issue, alu, special)


def test_what_each_iteration_has_to_do() -> None:
    """Instructions of the tensor core, and of the pipe that has most of a piece."""
    steps: list[tuple[Any, ...]] = [
        (WORK, work(7.0)), (MATRIX, 3.0), (ITERATION,), (MATRIX, 5.0), (WORK, work(1.0, 4.0, 2.0)),
        (ITERATION,), (WORK, work(1.0, 2.0, 6.0)), (ITERATION,),
    ]  # fmt: skip
    found = iterations_of(iter(steps))  # type: ignore[arg-type]
    assert (found.cycles, found.steps, found.count) == ([9.0, 6.0, 0.0], [3, 2, 0], 3)
    assert (found.others, found.before) == (3, 10.0)
    bare = iterations_of(iter(steps[:2]))  # type: ignore[arg-type]
    assert (bare.cycles, bare.others, bare.before) == ([], 2, 10.0)


def turns(*cycles: float, steps: int = 10, others: int = 0) -> Iterations:
    return Iterations(list(cycles), [steps] * len(cycles), others, 2.0)


FEW, MANY = LEAST_ITERATIONS, 40


@pytest.mark.parametrize(
    ("actors", "steps", "iterations"),
    [
        ([turns(*[5.0] * MANY)], 0, (FEW,)), ([turns(*[5.0] * MANY)], 100, (10,)),
        ([turns(*[5.0] * FEW)], 0, None), ([turns(*[5.0] * (FEW + 1))], 0, None),
        ([turns(*[5.0] * (FEW + 2))], 0, (FEW,)), ([turns(*[5.0] * MANY)], 390, None),
        ([turns(*[5.0] * MANY)], 380, (38,)),
        ([turns(*[5.0] * MANY), turns(others=IDLE)], 0, (FEW, 0)),
        ([turns(*[5.0] * MANY), turns(others=IDLE + 1)], 0, None),
        ([turns(*[5.0] * MANY), turns(*[1.0] * (2 * MANY))], 0, (FEW, 2 * FEW)),
        ([turns(*[1.0] * 9, 2.0, *[1.0] * (MANY - 10))], 0, (10,)),
        ([turns(*[1.7] * 9, 2.0, *[1.0] * (MANY - 10))], 0, (FEW,)),
        ([], 0, None),
    ],
)  # fmt: skip
def test_how_many_iterations_are_replayed(
    actors: list[Iterations], steps: int, iterations: tuple[int, ...] | None
) -> None:
    """At least some, as many as so many steps are, and one that is nearly as long as the longest."""
    found = cut_of(actors, steps)
    assert (None if found is None else found.iterations) == iterations


def test_the_actor_with_most_to_do_tells_the_time() -> None:
    """Of those that have all iterations; what they leave out is its own."""
    actors = [
        turns(*[1.0] * MANY),
        turns(*map(float, range(1, MANY + 1))),
        turns(*[99.0] * 2 * MANY),
    ]
    actors[1].cycles.reverse()
    found = cut_of(actors, 0)
    assert found is not None
    assert found.reference == 1
    assert found.kept == tuple(range(40, 34, -1))
    assert found.left_out == tuple(range(34, 0, -1))
    assert found.before == 2.0
    assert found.factor == (2.0 + sum(range(1, 41))) / (2.0 + sum(range(35, 41)))


@pytest.mark.parametrize(
    ("kept", "left_out", "begins", "rest"),
    [
        ((4.0,) * 5, (4.0, 4.0), (0, 20, 27, 34, 41), 14.0),  # the first is not like the others
        ((9.0, 1.0, 2.0, 3.0), (4.0, 5.0), (0, 50, 62, 76), 2 * 10 + 2 * 9.0),
        ((9.0, 1.0, 2.0, 3.0), (), (0, 50, 62, 76), 0.0),
    ],
)  # fmt: skip
def test_iterations_that_are_left_out_take_what_others_took(
    kept: Any, left_out: Any, begins: Any, rest: float
) -> None:
    """Each so much, and so much for a cycle of its instructions."""
    found = Cut((len(kept),), 0, kept, left_out).rest(begins)
    assert found == pytest.approx(rest)


A, B, C = Made(), Made(), Made()


def test_a_step_s_cycles_are_its_ops() -> None:
    """In parts as large as their work; of loops, with the iterations that were left out."""
    spent = {
        About((A, B), parts=((work(3.0), A), (work(1.0), B))): 8.0,
        About((C, A), ("k",)): 10.0, About((B,), ("k",), parts=((work(0.0), B),)): 5.0,
        About(()): 7.0,
    }  # fmt: skip
    assert _by_op(spent, 0.0) == {A: 6.0, B: 2.0, C: 10.0}
    assert _by_op(spent, 30.0) == {A: 6.0, B: 2.0, C: 30.0}
    assert _by_op({About((A,)): 4.0}, 30.0) == {A: 4.0}


def test_time_from_note_to_note() -> None:
    ledger = Ledger(2, False)
    actor: Any = Actor("math", 0, None, 2.0)  # type: ignore[arg-type]
    other: Any = Actor("math of another", 1, None, 50.0)  # type: ignore[arg-type]
    for now, about in ((3.0, About((A,))), (7.0, About((B,))), (12.0, About((A,)))):
        actor.now = now
        ledger.note(actor, ("note", about))
    actor.now = 20.0
    (found,) = ledger.accounts([actor, other], 5.0)
    assert (found.actor, found.cycles, found.spent) == ("math", 55.0, {A: 12.0, B: 5.0})


def at(line: int, function: str = "addi") -> Operation:
    """Arithmetic of a line; without a function, what nobody knows, and so may wait."""
    kind = f32 if function == "exp2" else i32
    value = Made(result_types=[kind]).results[0]
    op = Map(function, [value] * (1 if kind is f32 else 2)) if function else Made()
    set_span(op, Span("a.py", line, 0, line, 1))
    return op


def test_lines_of_the_actor_that_waits_least() -> None:
    """Its lines with most first, and of each what took most first; the rest was done before."""
    first, second, third = at(3), at(3, "exp2"), at(9)
    accounts = [
        Account("waits", 100.0, {at(1, ""): 80.0, first: 20.0}),
        Account("busy", 100.0, {first: 15.0, second: 30.0, third: 30.0, at(9, ""): 20.0}),
        Account("idle", 100.0, {first: 40.0}),
    ]
    found = busiest(accounts)
    assert (found.actor, found.cycles) == ("busy", 100.0)
    assert [(line.place, line.cycles) for line in found.lines] == [
        (("a.py", 9), 50.0), (("a.py", 3), 45.0), (NOWHERE, 5.0),
    ]  # fmt: skip
    assert found.lines[0].causes == (("arithmetic", 30.0), (WAITING, 20.0))
    assert found.lines[1].causes == (("special functions", 30.0), ("arithmetic", 15.0))
    assert found.lines[2].causes == ((DONE, 5.0),)
    whole = busiest([Account("busy", 100.4, {first: 100.0})])
    assert [line.place for line in whole.lines] == [("a.py", 3)]


@pytest.mark.parametrize(
    ("issued", "waits_for", "waiting", "later", "latency", "left"),
    [
        (100.0, 0.0, False, 0, 0.0, 60.0), (100.0, 80.0, True, 0, 0.0, 40.0),
        (100.0, 40.0, True, 0, 0.0, 0.0), (100.0, 80.0, True, 1, 0.0, 40.0),
        (100.0, 80.0, True, 1, 5.0, 34.0), (100.0, 80.0, True, 2, 5.0, 32.0),
        (100.0, 80.0, True, 0, 5.0, 40.0), (100.0, 40.0 + 1e-7, True, 1, 5.0, 0.0),
        (100.0, 40.0 - 1e-7, True, 1, 5.0, 0.0), (100.0, 41.0, True, 0, 0.0, 1.0),
    ],
)  # fmt: skip
def test_what_is_left_of_an_actor_s_instructions(
    issued: float, waits_for: float, waiting: bool, later: int, latency: float, left: float
) -> None:
    """Of 12 cycles its last: before those of actors that come later, if it goes on from there."""
    actor = Actor("math", 0, None, issued=issued, last=12.0, waits_for=waits_for, waiting=waiting,
                  latency=latency)  # type: ignore[arg-type]  # fmt: skip
    assert left_of(actor, 40.0, later) == pytest.approx(left)


@pytest.mark.parametrize(
    ("of", "cycles", "alone"),
    [
        (Work(3.0, 1.0, 2.0), 3.0, 6.0), (Work(1.0, 5.0), 5.0, 10.0), (Work(1.0, 0.0, 4.0), 4.0, 8.0),
        (Work(1.0, shared=9.0), 9.0, 9.0), (Work(3.0, shared=5.0), 5.0, 6.0),
        (Work(2.0, latency=10.0), 12.0, 14.0), (Work(0.1), 0.1, 1.0), (Work(2.0, chain=30.0), 2.0, 30.0),
    ],
)  # fmt: skip
def test_what_a_piece_takes(of: Work, cycles: float, alone: float) -> None:
    """The busiest pipe's cycles, and what is waited for; alone, code takes twice as long here."""
    assert of.cycles == pytest.approx(cycles)
    found, parts = of.alone(2.0)
    assert found == pytest.approx(alone)
    assert parts == pytest.approx([n / alone for n in (of.issue, of.alu, of.special, of.shared)])
