"""The search: known protocols, counterexamples, bounds, and that the reduction loses nothing."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from protocols import KINDS, broken, correct

from tawa.simulate.check import protocol as checker
from tawa.simulate.check.explorer import (
    Exploration,
    Landing,
    Line,
    Segment,
    Step,
    Violation,
    _table,
    lines_of,
)
from tawa.simulate.check.interleave import explore
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.hopper import RoundRobin, prepared, run_cluster
from tawa.simulate.interpret.limits import Limits

FULL, EMPTY = (0, 0), (0, 8)


def line(name: str, *parts: Step | Segment) -> Line:
    """Steps and the segments between them."""
    found = Line(name, [], [Segment()])
    for part in parts:
        if isinstance(part, Step):
            found.steps.append(part)
            found.segments.append(Segment())
        else:
            found.segments[-1] = part
    return found


def wait(barrier, phase):
    return Step("wait", barrier, 0, 0, phase, f"wait {barrier} phase {phase}")


def arrive(barrier, phase, size=0):
    return Step("arrive", barrier, 1, size, phase, f"arrive {barrier} phase {phase}")


def ring(turns: int, wait_empty: bool = True, early: bool = False) -> list[Line]:
    """One slot: a producer that copies into it, a consumer that reads it."""
    producer, consumer = [], []
    for turn in range(turns):
        if wait_empty or turn == 0:
            producer.append(wait(EMPTY, turn - 1))
        load = Landing(128, 1, turn, f"copy {turn}")
        producer += [arrive(FULL, turn, 128), Segment(loads=[(FULL, load)])]
        back = arrive(EMPTY, turn)
        reading = Segment(reads=1)
        consumer += [wait(FULL, turn), *([back, reading] if early else [reading, back])]
    return [line("producer", *producer), line("consumer", *consumer)]


ONE = {FULL: 1, EMPTY: 1}


@pytest.mark.parametrize("reduce", [True, False])
def test_a_correct_ring_is_proved(reduce: bool):
    found = explore(ring(4), ONE, 10_000, reduce)
    assert found.complete
    assert found.violation is None


@pytest.mark.parametrize("reduce", [True, False])
def test_a_slot_given_back_early_is_a_race(reduce: bool):
    found = explore(ring(3, early=True), ONE, 10_000, reduce)
    assert found.violation is not None
    assert found.violation.kind == "race"
    assert "copy 1" in found.violation.text
    assert "producer" in found.table()
    assert "consumer" in found.table()


def test_a_producer_that_does_not_wait_is_found():
    found = explore(ring(3, wait_empty=False), ONE, 10_000)
    assert found.violation is not None


def test_a_missing_arrival_is_a_deadlock():
    lines = ring(2)
    lines[1].steps[1:2] = []
    lines[1].segments[1:2] = []
    found = explore(lines, ONE, 10_000)
    assert found.violation is not None
    assert found.violation.kind == "deadlock"


def test_who_has_ended_waits_for_nothing():
    lines = [line("a", arrive(FULL, 0)), line("b", wait(FULL, 0), wait(FULL, 1))]
    found = explore(lines, ONE, 1000)
    assert found.violation is not None
    assert found.violation.text == "nobody can go on; waiting: wait (0, 0) phase 1"


def test_a_counterexample_has_a_column_for_each_actor_that_moves():
    path = [("a", "x"), ("c", "yy"), ("a", "zzz")]
    assert _table(["a", "idle", "c"], path).split("\n") == [
        "a   | c ", "--------", "x   |   ", "    | yy", "zzz |   ",
    ]  # fmt: skip


@pytest.mark.parametrize("steps", [1, 39, 40, 41, 90])
def test_a_long_counterexample_shows_its_end(steps: int):
    path = [("a", f"a step {n}") for n in range(steps)]
    found = Exploration(steps, False, Violation("race", "two accesses", path), ("a", "b"))
    head, line, *rows = found.table().split("\n")
    assert (head.strip(), set(line)) == ("a", {"-"})
    assert [row.strip() for row in rows] == [f"step {n}" for n in range(max(0, steps - 40), steps)]


@pytest.mark.parametrize("count", [1, 3])
def test_every_cluster_of_every_schedule_is_drawn_anew(monkeypatch: pytest.MonkeyPatch, count: int):
    drawn: list[int] = []
    monkeypatch.setattr(checker, "RandomSchedule", drawn.append)
    monkeypatch.setattr(checker, "run_cluster", lambda *_, **__: None)
    for seed in range(4):
        clusters: Any = iter(range(count))
        assert checker._run_all(clusters, seed, Limits(10))  # pyright: ignore[reportPrivateUsage]
    assert len(set(drawn)) == len(drawn) == 4 * count


def test_the_bound_is_never_called_a_proof():
    found = explore(ring(6), ONE, 5)
    assert not found.complete
    report = correct("cluster").check(bound=100, schedules=0)
    assert not report.proved
    assert "not proved: the bound of 100 states was reached" in report.render()


def test_a_search_without_clocks_is_no_proof():
    report = correct("cooperative").check(clocks=False)
    assert report.complete
    assert not report.proved
    assert report.schedules == 0
    assert "not proved: searched without vector clocks" in report.render()
    assert "every access of shared memory is ordered" not in report.render()


@pytest.mark.parametrize("kind", ["cooperative", "ping_pong", "copies"])
def test_hand_written_kernels_are_proved(kind: str):
    report = correct(kind).check(schedules=1)
    assert report.proved
    assert report.schedules == 1
    assert report.same_results
    assert report.states > 100
    assert f"{report.states} states, all visited" in report.render()


@pytest.mark.parametrize("kind", ["cooperative", "ping_pong"])
def test_the_reduction_agrees_with_the_whole_search_on_kernels(kind: str):
    grid, arguments = correct(kind).launch
    traces = {}
    cluster = next(iter(prepared(correct(kind).module(), grid, arguments, 132)))
    run_cluster(cluster, RoundRobin(), traces)
    found = explore(*lines_of(traces), 1_000_000, reduce=False)
    assert found.complete
    assert found.violation is None
    assert explore(*lines_of(traces), 1_000_000).states < found.states


@pytest.mark.parametrize(
    "name",
    [
        "one more matrix instruction in flight than the return allows",
        "slot returned before its matrix instruction is done",
        "producer fills another slot than it announces",
        "consumer reads another slot than it waited for",
    ],
)
def test_the_search_alone_finds_races_between_actors(name: str):
    with pytest.raises(errors.UnsafeInterleaving) as raised:
        broken(name).check(clocks=False)
    text = raised.value.render()
    assert "load" in text
    assert "math.0" in text
    assert "TMA engine" in text


def test_every_kind_is_checked():
    assert set(KINDS) == {"cooperative", "cluster", "ping_pong", "copies"}


# --- the reduction on random protocols ----------------------------------------------------------


def protocol(seed: int) -> tuple[dict, list[Line]]:
    """Two or three actors with random waits, arrivals, copies and accesses of four atoms.

    Phases are those of one random run, so that some schedule does what is recorded; what is
    blocked in it for ever is cut off.
    """
    random = Random(seed)
    counts = {(0, 8 * i): random.randint(1, 2) for i in range(random.randint(1, 3))}
    barriers = list(counts)
    plans = [
        [
            (random.choice(["wait", "arrive"]), random.choice(barriers), _access(random))
            for _ in range(random.randint(1, 5))
        ]
        for _ in range(random.randint(2, 3))
    ]
    lines = [Line(f"actor {i}") for i in range(len(plans))]
    phase, pending = dict.fromkeys(counts, 0), dict(counts)
    waited = [dict.fromkeys(counts, 0) for _ in plans]
    while True:
        ready = [
            i
            for i, plan in enumerate(plans)
            if plan and (plan[0][0] == "arrive" or phase[plan[0][1]] > waited[i][plan[0][1]])
        ]
        if not ready:
            return counts, lines
        i = random.choice(ready)
        kind, barrier, (reads, writes) = plans[i].pop(0)
        if kind == "wait":
            lines[i].steps.append(wait(barrier, waited[i][barrier]))
            waited[i][barrier] += 1
        else:
            lines[i].steps.append(arrive(barrier, phase[barrier]))
            pending[barrier] -= 1
            if not pending[barrier]:
                phase[barrier], pending[barrier] = phase[barrier] + 1, counts[barrier]
        lines[i].segments.append(Segment(reads, writes))


def _access(random: Random) -> tuple[int, int]:
    """Mostly none: a race that takes some doing is the interesting one."""
    if random.random() < 0.6:
        return 0, 0
    mask = 1 << random.randrange(4)
    return (mask, 0) if random.random() < 0.4 else (0, mask)


def test_the_reduction_keeps_the_verdict():
    verdicts = Counter()
    for seed in range(1500):
        counts, lines = protocol(seed)
        whole = explore(lines, counts, 100_000, reduce=False)
        reduced = explore(lines, counts, 100_000, reduce=True)
        assert whole.complete or whole.violation
        kind = whole.violation.kind if whole.violation else "none"
        verdicts[kind] += 1
        if kind == "none":
            assert reduced.violation is None, seed
            assert reduced.complete, seed
        elif kind != "phase":
            assert reduced.violation is not None, seed
    assert verdicts["race"] > 20
    assert verdicts["none"] > 100


def test_states_of_a_gemm_with_three_slots_and_two_consumers():
    """D = 3, P = 1, five k tiles: few states, each of them visited."""
    report = correct("cooperative").check(schedules=0)
    assert report.proved
    assert report.one_order
    assert report.states == 195


def test_states_of_attention_s_two_rings():
    """As compiled now; a search that loses its reduction has a hundred times as many."""
    from launches import SMALL

    (small,) = (s for s in SMALL if s.name == "attention")
    row = small.sweep().check({"num_stages": 2})
    assert row.verdict == "proved", row.detail or row.verdict
    assert 100 < row.states < 2000
