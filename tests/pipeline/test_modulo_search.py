"""The search finds the best schedule: compared with all schedules of small loops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tawa.pipeline.differences import ORIGIN, Contradiction, Differences, Numbers
from tawa.pipeline.modulo_bounds import likeness, too_like
from tawa.pipeline.modulo_problem import HELD, PROMPT, Aim, Part, Problem, Start
from tawa.pipeline.modulo_search import Search
from tawa.pipeline.transport import Transport

PAIRS = (0, 1), (0, 2), (1, 2)
PLENTY = 100_000
"""More parts than a search of a small loop has."""


@dataclass(frozen=True)
class Loop:
    """Three nodes of a loop, the last of which is a product, and the first, if it runs."""

    problem: Problem
    more: list[tuple[int, int, int]]
    """How much one variable is above another, at least."""

    def known(self) -> Differences:
        """The differences of the loop. Raises `Contradiction`."""
        problem = self.problem
        known = Differences(problem.variables)
        period, longest = problem.period, problem.period * problem.stages
        for i in range(len(problem.thread)):
            known.raises(ORIGIN, problem.start(i), 0)
            known.raises(problem.start(i), ORIGIN, problem.room(i) - longest)
        for i in problem.products:
            known.raises(problem.start(i), problem.run(i), 1)
            latest = period - problem.tensor[i] - problem.tail
            known.raises(problem.run(i), problem.start(i), -latest)
            known.raises(problem.run(i), ORIGIN, -longest)
        for i in problem.kept:
            known.raises(problem.start(i), problem.end(i), 0)
            known.raises(problem.end(i), problem.start(i), -period)
        known.raises(ORIGIN, problem.latency, 0)
        known.raises(problem.latency, ORIGIN, -period)
        for low, high, least in self.more:
            known.raises(low, high, least)
        return known


@st.composite
def loops(draw: st.DrawFn) -> Loop:
    """Small loops, most of which have a schedule."""
    products = draw(st.sampled_from(((2,), (2,), (2,), (0, 2))))
    period = draw(st.integers(3, 4 if len(products) > 1 else 5))
    problem = Problem(
        period=period,
        stages=2,
        capacity=draw(st.sampled_from((16, 24, 32))),
        tail=draw(st.integers(0, 1)),
        thread=[draw(st.integers(1 if i in products else 0, 2)) for i in range(3)],
        tensor=[draw(st.integers(1, 2)) if i in products else 0 for i in range(3)],
        registers=[draw(st.sampled_from((8, 16))) for _ in range(3)],
        products=products,
        kept=(0, 1, 2),
        costly=(0, 1, 2),
    )
    node, distance = st.integers(0, 2), st.integers(0, 1)
    more: list[tuple[int, int, int]] = []
    for a, b, d in draw(st.lists(st.tuples(node, node, distance), max_size=2)):
        least = problem.thread[a] - period * (d if a < b else 1)
        more += [(problem.start(a), problem.start(b), least)] if a != b else []
    for i, (reader, d) in enumerate(draw(st.lists(st.tuples(node, distance), max_size=3))):
        reads = problem.run(reader) if reader in products and d else problem.start(reader)
        more.append((reads, problem.end(i), period * (d if i < reader else 1)))
    return Loop(problem, more)


def every_schedule(loop: Loop) -> tuple[Numbers, Numbers, Numbers]:
    """Starts, what `Aim.EARLY` counts and what `Aim.HELD` does, of all schedules of a loop."""
    problem, period, above = loop.problem, loop.problem.period, loop.known().above
    thread, tensor = np.array(problem.thread), problem.tensor
    count = len(thread) + len(problem.products)
    axes = [np.arange(2 * period + 1)] * count
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, count)
    for a, b in product(range(count), repeat=2):
        grid = grid[grid[:, b] - grid[:, a] >= above[1 + a, 1 + b]]
    grid = grid[(grid[:, :3] % period + np.maximum(thread, 1) <= period).all(1)]
    stage = grid[:, :3] // period
    offset = grid[:, :3] - period * stage
    values = np.zeros((len(grid), problem.variables), dtype=np.int64)
    values[:, 1 : 1 + count] = grid
    runs = {i: values[:, problem.run(i)] - period * stage[:, i] for i in problem.products}
    done = [runs[i] + tensor[i] + problem.tail if i in runs else offset[:, i] + thread[i]
            for i in range(3)]  # fmt: skip
    values[:, problem.latency] = np.max(done, axis=0)
    for i in problem.kept:
        end = problem.end(i)
        values[:, end] = (values[:, : 1 + count] + above[: 1 + count, end]).max(1)
    fits = np.ones(len(grid), dtype=bool)
    for a, b in product(range(problem.variables), repeat=2):
        fits &= values[:, b] - values[:, a] >= above[a, b]
    for a, b in PAIRS:
        first, second = (
            offset[:, a] + thread[a] <= offset[:, b],
            offset[:, b] + thread[b] <= offset[:, a],
        )
        if a in runs and b in runs:
            first &= runs[a] + tensor[a] <= runs[b]
            second &= runs[b] + tensor[b] <= runs[a]
        fits &= first | second if thread[a] and thread[b] else True
    lengths = np.stack([values[:, problem.end(i)] - grid[:, i] for i in range(3)], 1)
    for time in range(period):
        held = (time - offset) % period < lengths
        fits &= held @ np.array(problem.registers) <= problem.capacity
    early = values[:, problem.latency] + PROMPT * sum(offset[:, i] for i in problem.products)
    kept = HELD * lengths @ np.array(problem.registers) + grid[:, :3].sum(1)
    return grid[fits], early[fits], kept[fits]


def searched(loop: Loop, aim: Aim, allowed: int | None = None) -> Search:
    """The whole search for a schedule of a loop."""
    search = Search(loop.problem, loop.known(), aim, allowed)
    assert search.run(PLENTY)
    return search


@settings(max_examples=150, deadline=None)
@given(loops(), st.integers(0, 9))
def test_the_best_of_all_schedules_is_found(loop: Loop, slack: int):
    try:
        starts, early, held = every_schedule(loop)
    except Contradiction:
        return
    assert (searched(loop, Aim.ANY).best is not None) == (len(starts) > 0)
    first = searched(loop, Aim.EARLY)
    if not len(starts):
        assert first.best is None
        return
    assert first.least == first.best.early == early.min()  # pyright: ignore[reportOptionalMemberAccess]
    allowed = int(early.min()) + slack
    second = searched(loop, Aim.HELD, allowed)
    assert second.least == held[early <= allowed].min()


@settings(max_examples=15, deadline=None)
@given(loops())
def test_schedules_that_were_found_are_excluded(loop: Loop):
    """Until none is left whose order or stages differ in enough places."""
    try:
        starts, _, _ = every_schedule(loop)
    except Contradiction:
        return
    period = loop.problem.period
    places = {
        (*(s[i] < period for i in range(3)), *(s[a] % period < s[b] % period for a, b in PAIRS))
        for s in starts
    }
    found: list[list[Start]] = []
    while (best := searched(without(loop, found), Aim.EARLY).best) is not None:
        found.append(best.starts)
    shown = [
        (*(j == 0 for _, j in s), *(s[a].offset < s[b].offset for a, b in PAIRS)) for s in found
    ]
    for i, one in enumerate(shown):
        assert one in places
        assert all(unlike(one, other) for other in shown[:i])
    left = [p for p in places if any(p[:3]) and not any(p == s for s in shown)]
    ordered = all(loop.problem.thread)  # others may start at the same time, in either order
    assert not ordered or not any(all(unlike(p, s) for s in shown) for p in left)


def unlike(one: tuple[bool, ...], other: tuple[bool, ...]) -> bool:
    """Whether two schedules differ in enough places."""
    return sum(a != b for a, b in zip(one, other, strict=True)) >= 2


def without(loop: Loop, found: list[list[Start]]) -> Loop:
    """A loop whose schedules differ from some."""
    return replace(loop, problem=replace(loop.problem, others=found))


def test_a_search_that_is_cut_short_says_so():
    loop = Loop(
        Problem(4, 2, 40, 0, [1, 1, 1], [0, 0, 1], [8, 8, 8], (2,), (0, 1, 2), (0, 1, 2)), []
    )
    search = Search(loop.problem, loop.known(), Aim.EARLY, None)
    assert not search.run(2)
    assert search.run(PLENTY)
    assert search.best is not None


@pytest.mark.parametrize("least", [-3, 0, 4])
def test_differences_are_closed(least: int):
    known = Differences(4)
    known.raises(1, 2, 5)
    assert known.raises(ORIGIN, 1, 2)
    assert known.raises(2, 3, least)
    assert known.values.tolist() == [0, 2, 7, 7 + least]
    assert not known.raises(1, 3, 5 + least)
    with pytest.raises(Contradiction):
        known.copy().raises(3, 1, -4 - least)
    assert known.raises(3, 1, -5 - least)


def test_a_transport_is_improved_in_a_cycle():
    """Two sources that swap their sinks gain more; the sum is least where they are tight."""
    known = Differences(5)
    for low, high, least in ((0, 1, 0), (0, 2, 0), (1, 4, 6), (2, 3, 5), (1, 3, 1), (2, 4, 1)):
        known.raises(low, high, least)
    plain = Transport([1, 2], [3, 4], np.diag([2, 2]))
    assert plain.gain(known) == 4
    best = plain.improved(known)
    assert best.gain(known) == 22
    values = best.tightened(known).values
    assert 2 * (values[3] + values[4] - values[1] - values[2]) == 22


@pytest.mark.parametrize(
    ("other", "places"),
    [
        ([(0, 0), (2, 0), (4, 1)], 0), ([(1, 0), (3, 0), (5, 1)], 0), ([(0, 0), (2, 0), (4, 0)], 1),
        ([(0, 0), (2, 0), (4, 2)], 0), ([(2, 0), (0, 0), (4, 1)], 1), ([(4, 0), (2, 0), (0, 1)], 3),
        ([(0, 1), (2, 0), (4, 0)], 2), ([(2, 1), (0, 0), (4, 1)], 2),
    ],
)  # fmt: skip
def test_schedules_differ_in_two_places(other: list[tuple[int, int]], places: int):
    """In which nodes belong to the first stage, and which of two nodes is earlier in the period."""
    problem = Problem(8, 3, 64, 0, [1] * 4, [0] * 4, [8] * 4, (), (), costly=(0, 1, 3))
    there = [(0, 0), (2, 0), (4, 1)]
    one, two = ([Start(*s) for s in (*part[:2], (7, 0), part[2])] for part in (there, other))
    assert too_like(problem, one, two) is (places < 2)
    assert too_like(problem, two, one) is (places < 2)


@pytest.mark.parametrize(
    ("orders", "same", "unordered"),
    [
        ((), 3, (0, 1)), (((0, 1),), 4, (0, 2)), (((1, 0),), 3, (0, 2)),
        (((0, 1), (0, 2)), 5, (1, 2)), (((0, 1), (1, 2)), 6, None), (((1, 2), (2, 0)), 4, None),
    ],
)  # fmt: skip
def test_which_order_is_open(
    orders: tuple[tuple[int, int], ...], same: int, unordered: tuple[int, int] | None
):
    """The first two nodes of which neither has to start first."""
    problem = Problem(
        period=6, stages=2, capacity=99, tail=0, thread=[1, 1, 1], tensor=[0, 0, 1],
        registers=[8, 8, 8], products=(2,), kept=(), costly=(0, 1, 2),
    )  # fmt: skip
    more = [(problem.start(a), problem.start(b), 1) for a, b in orders]
    part = Part(
        Loop(problem, more).known(), np.zeros(3, dtype=np.int64), Transport([], [], np.zeros(0))
    )
    other = [Start(0, 0), Start(1, 0), Start(2, 0)]
    assert likeness(problem, part, other) == (same, unordered)
