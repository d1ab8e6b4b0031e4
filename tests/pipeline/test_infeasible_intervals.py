"""Turns that are too short are refused without the solver, and no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_graphs import attention, graph_of
from plain_products import gemm

from tawa.machine.chips import H100
from tawa.pipeline import modulo
from tawa.pipeline.dependence_graph import DependenceGraph
from tawa.pipeline.differences import ORIGIN
from tawa.pipeline.infeasible_intervals import Orders
from tawa.pipeline.modulo import PERIODS, UNIT, bounds, in_units, solve
from tawa.pipeline.modulo_model import Model
from tawa.pipeline.modulo_problem import Aim
from tawa.pipeline.modulo_search import Search

LEAD, TAIL = in_units(H100.scheduled_lead), in_units(H100.scheduled_tail)
TIGHT = 160
"""Registers with which the shortest turns of attention with 64 columns have no schedule."""


@cache
def graph() -> DependenceGraph:
    """The loop of attention with 64 columns; its costs may be changed."""
    return attention(64)


def periods(of: DependenceGraph) -> list[int]:
    """The periods that are tried."""
    return [modulo._period(bounds(of), step) for step in range(PERIODS)]


def test_what_is_shorter_than_the_solvers_choice_is_refused():
    found = solve(graph(), H100, TIGHT)
    assert found is not None
    orders = Orders(graph(), LEAD, TAIL, 2)
    refused = [p for p in periods(graph()) if orders.refuse(p // UNIT, TIGHT)]
    assert refused == [p for p in periods(graph()) if p < found.period]
    assert refused


def test_an_iteration_takes_as_long_as_its_nodes():
    """So what is known of a shortest one leaves out more of the search for another."""
    least = max(bounds(graph()).values())
    search, plain = (
        Search(model.problem, model.known, Aim.EARLY, None)
        for model in (Model(graph(), H100, 200, least, 2) for _ in range(2))
        if model.known is not None
    )
    problem = search.problem
    assert search.parts[0].known.least(problem.latency) == sum(problem.thread) > 0
    above = plain.parts[0].known.above
    above[ORIGIN, problem.latency] = 0
    assert search.run(50)
    assert not plain.run(50)
    assert plain.least is None or plain.least >= (search.least or 0)


def test_the_solver_is_asked_for_nothing_that_is_refused(monkeypatch: pytest.MonkeyPatch):
    modulo._SOLVED.clear()
    answers: list[bool] = []
    plain = Model.possible

    def noted(self: Model, work: int) -> bool:
        answers.append(plain(self, work))
        return answers[-1]

    monkeypatch.setattr(Model, "possible", noted)
    assert solve(graph(), H100, TIGHT) is not None
    assert answers
    assert all(answers)


def test_the_search_ends_after_a_few_periods_that_are_left_undecided(
    monkeypatch: pytest.MonkeyPatch,
):
    asked: list[Model] = []
    plain = Model.solve

    def tired(self: Model, work: float) -> object:
        asked.append(self)
        if len(asked) == 1:
            return plain(self, work)
        self.undecided = True
        return None

    monkeypatch.setattr(Model, "solve", tired)
    search = modulo._Search(graph(), H100, 255, 2, 0)
    assert search.ranked(0) is not None
    assert search.ranked(1) is None
    assert len(asked) == 1 + modulo.PATIENCE


COSTS = st.lists(st.integers(0, 400), min_size=32, max_size=32)
REGISTERS = st.lists(st.sampled_from((0, 2, 16, 32, 64)), min_size=32, max_size=32)


@settings(max_examples=25, deadline=None)
@given(COSTS, REGISTERS, st.integers(0, 5), st.integers(60, 200))
def test_what_is_refused_has_no_schedule(
    costs: list[int], registers: list[int], step: int, capacity: int
):
    changed = graph()
    before = [(n.thread, n.registers) for n in changed.nodes]
    try:
        for node, cost, held in zip(changed.nodes, costs, registers, strict=False):
            node.thread, node.registers = (max(8, cost) if node.is_dot else cost), held
        period = periods(changed)[step]
        if Orders(changed, LEAD, TAIL, 2).refuse(period // UNIT, capacity):
            assert not Model(changed, H100, capacity, period, 2).possible()
    finally:
        for node, (cost, held) in zip(changed.nodes, before, strict=True):
            node.thread, node.registers = cost, held


def test_more_orders_than_can_be_looked_at_are_not_refused(monkeypatch: pytest.MonkeyPatch):
    period = bounds(graph())["the issuing thread"] // UNIT
    assert Orders(graph(), LEAD, TAIL, 2).refuse(period, TIGHT)
    monkeypatch.setattr("tawa.pipeline.infeasible_intervals.MOST_WORK", 10)
    assert not Orders(graph(), LEAD, TAIL, 2).refuse(period, TIGHT)


def of_gemm() -> DependenceGraph:
    """A product that nothing but its next turn reads."""
    block = "desc<f16,128x64>"
    types = {"a": block, "b": block, "c": "desc<f16,128x128>", "K": "i32"}
    return graph_of(gemm, types, {})


@pytest.mark.parametrize("more", [0, 5])
@pytest.mark.parametrize("of", [graph, of_gemm])
def test_a_products_instructions_end_in_their_turn(of: Callable[[], DependenceGraph], more: int):
    """Each node begins in an iteration's time, a product's instructions after it, and all that
    runs on the tensor core is done before the next turn of the same product."""
    found = of()
    period = periods(found)[-1] + more * UNIT
    model = Model(found, H100, 1000, period, 2)
    assert model.known is not None
    above, problem, turn = model.known.above, model.problem, period // UNIT
    for node in found.nodes:
        start = problem.start(node.number)
        assert above[ORIGIN, start] >= 0
        assert above[start, ORIGIN] >= problem.room(node.number) - 2 * turn
    for dot in found.dots:
        start, run = problem.start(dot.number), problem.run(dot.number)
        assert above[start, run] >= LEAD
        assert above[run, start] >= in_units(dot.tensor) + TAIL - turn
        assert above[run, ORIGIN] >= -2 * turn
    assert above[problem.latency, ORIGIN] >= -turn
