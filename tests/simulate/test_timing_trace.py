"""What a predicted timeline shows of a replay: whose intervals, when, and what they are about."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects.builtin import f32
from xdsl.dialects.test import TestOp as Made

from tawa.base.timeline import Interval
from tawa.ir.elementwise import Map
from tawa.simulate.timing.trace import (
    NOTHING,
    SHORTEST,
    About,
    Step,
    Trace,
    called,
    heaviest,
)
from tawa.simulate.timing.work import Work


class Actor:
    """As much of an actor as a trace looks at."""

    def __init__(self, cta: int, name: str = "math", issued: float = 0.0) -> None:
        self.cta, self.name, self.issued = cta, name, issued


VALUE = Made(result_types=[f32]).results[0]
NEGATED, SUM = Map("negf", [VALUE]), Map("addf", [VALUE, VALUE])


@pytest.mark.parametrize(
    ("cta", "start", "end", "shown"),
    [(0, 1.0, 2.0, True), (1, 1.0, 2.0, True), (2, 1.0, 2.0, False), (0, 2.0, 2.0, False),
     (0, 3.0, 2.0, False)],
)  # fmt: skip
def test_intervals_of_the_first_ctas_that_take_time(
    cta: int, start: float, end: float, shown: bool
) -> None:
    trace = Trace(2, False)
    trace.own(Actor(cta), "waits", start, end)
    assert trace.intervals == [Interval("math", "waits", start, end, NOTHING)] * shown


def test_tracks_of_clusters_name_their_cta() -> None:
    actor = Actor(1, "load")
    assert Trace(2, False).track(actor) == "load"
    assert Trace(2, True).track(actor) == "CTA 1 load"


def test_ordinary_code_is_called_by_its_functions() -> None:
    trace, actor = Trace(1, False), Actor(0)
    trace.work(actor, 0.0, SHORTEST)
    trace.note(actor, ("work", About((NEGATED, SUM, NEGATED))))
    trace.work(actor, 5.0, 5.0 + SHORTEST)
    trace.work(actor, 40.0, 40.0 + SHORTEST - 0.5)
    assert [(i.name, i.start) for i in trace.intervals] == [("work", 0.0), ("negf, addf", 5.0)]
    assert trace.intervals[1].event.op is NEGATED


def test_copies_are_on_the_track_of_their_engine() -> None:
    trace, actor = Trace(2, True), Actor(1)
    trace.engine(actor, "TMA loads", 1.0, 2.0)
    named: Any = SimpleNamespace(map=SimpleNamespace(name_hint="q"))
    trace.note(actor, ("copy", About((named,))))
    trace.engine(actor, "TMA loads", 2.0, 4.0)
    trace.engine(Actor(2), "TMA loads", 2.0, 4.0)
    found = [(i.track, i.name, i.start, i.end) for i in trace.intervals]
    assert found == [("TMA loads of CTA 1", "TMA loads", 1.0, 2.0),
                     ("TMA loads of CTA 1", "q", 2.0, 4.0)]  # fmt: skip


def test_products_run_one_after_the_other() -> None:
    """A group ends where the tensor core has taken what was issued by then, and starts as the one
    before ends, or when it was issued."""
    trace, actor = Trace(1, False), Actor(0, issued=10.0)
    trace.issued(actor, 2.0)
    actor.issued = 30.0
    trace.issued(actor, 3.0)
    trace.issued(Actor(1), 3.0)
    trace.ran(actor, 0.0, 20.0, (4.0, 14.0))
    assert [(i.start, i.end) for i in trace.intervals] == [(2.0, 9.0)]
    trace.ran(actor, 20.0, 30.0, (14.0, 24.0))
    assert [(i.start, i.end) for i in trace.intervals] == [(2.0, 9.0), (9.0, 24.0)]
    assert {i.track for i in trace.intervals} == {"tensor core of CTA 0"}
    assert {i.name for i in trace.intervals} == {"math"}
    trace.ran(actor, 30.0, 40.0, (24.0, 34.0))
    assert len(trace.intervals) == 2
    actor.issued = 40.0
    trace.issued(actor, 50.0)
    trace.ran(actor, 40.0, 40.0, (60.0, 61.0))
    assert (trace.intervals[2].start, trace.intervals[2].end) == (50.0, 61.0)


def test_steps_say_where_they_are() -> None:
    step = Step(About((SUM, NEGATED), ("k", "n"), "a"), (3, 0), 2)
    assert step.op is SUM
    assert step.iteration == "k = 3, n = 0"
    assert step.slot == "a[2]"
    assert step._replace(at=0).slot == "a[0]"
    assert step._replace(at=None).slot == ""
    assert NOTHING.op is None
    assert called(SUM) == "addf"
    assert called(Made()) == "test.op"


def test_the_functions_that_take_most_come_first() -> None:
    """By all their ops together, each shown by its longest."""

    def part(cycles: float, function: str) -> tuple[Work, Map]:
        arguments = [VALUE] if function == "negf" else [VALUE, VALUE]
        work: Any = SimpleNamespace(cycles=cycles)
        return work, Map(function, arguments)

    parts = [part(4, "addf"), part(3, "negf"), part(5, "addf"), part(7, "mulf"), part(1, "subf")]
    found = heaviest(parts)
    assert [op.function.data for op in found if isinstance(op, Map)] == ["addf", "mulf", "negf"]
    assert found[0] is parts[2][1]
    assert heaviest([]) == ()
