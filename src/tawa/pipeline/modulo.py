"""Modulo scheduling: the search for the least initiation interval that has a schedule.

Periods are tried from the resources' bound upwards, each with the solver
([modulo_model](modulo_model.py)), unless no order of an iteration's ops fits it
([infeasible_intervals](infeasible_intervals.py)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tawa.base.attempts import MARGINS
from tawa.machine.chips import DEFAULT, SM_90A, Chip
from tawa.pipeline.dependence_graph import DependenceGraph, Slot
from tawa.pipeline.infeasible_intervals import UNIT, Orders, in_units, operand_edges
from tawa.pipeline.modulo_model import WORK_LIMIT, Model, Placed

STAGES = 2
"""Kernel iterations that an iteration may be spread over, at most."""

ADDRESSES = SM_90A.thresholds.addresses
"""Registers of a thread that addresses, counters and row statistics take."""

OTHERS_LIMIT = 2000
"""Parts of the search that are looked at for a schedule after the first."""

SPARE = SM_90A.register_step
"""Registers that schedules after the first leave free, the least that the assembler hands out.

Fewer of them are rejected.
"""

SMALL = DEFAULT.statistics_cycles
"""Cycles of a node that may be moved up without delaying anything else."""

PATIENCE, STRIDE = 5, 3
"""Periods that may stay undecided at the work limit; steps at once when half of them have."""

ALIKE = 4
"""Schedules that are asked for of one period."""

PERIODS, STEP_PERCENT = 24, 4
"""Periods that are tried, and how much longer each is than the one before, of the bound."""

LONGEST = 11, 8, 5, 23, 17
"""Steps of which one has a schedule if any has one that is found within the work limit.

The longest are for iterations that wait for each other and whose registers are full: they are still
shorter than what keeps the program's order.
"""


PROBE_LIMIT = 1000
"""Parts of the search for each of these steps after the first.

Of a period that has a schedule the suite's and the kernels' searches find one in 25 parts, but for
the least ones that have any.
"""


@dataclass(frozen=True)
class Solution:
    """A modulo schedule; `bound` is what limits the initiation interval."""

    period: int
    placed: dict[int, Placed]
    bound: str
    registers: int = 0
    """Most that values of a thread take at one time of an iteration."""


def bounds(graph: DependenceGraph) -> dict[str, int]:
    """The least period that each resource allows."""
    return {
        "the issuing thread": sum(n.thread for n in graph.nodes),
        "the tensor core": graph.groups * sum(n.tensor for n in graph.nodes),
        "the special-function unit": graph.groups * sum(n.special for n in graph.nodes),
        "the slots of a ring": max(map(_slot_bound, graph.slots), default=0),
    }


def _slot_bound(slot: Slot) -> int:
    """Cycles of an iteration that loads a slot, and holds it for its longest reader."""
    held = max(n.tensor or n.thread for n in slot.readers)
    return -(-(slot.load + held) // slot.depth)


def solve(
    graph: DependenceGraph,
    target: Chip,
    capacity: int,
    stages: int = STAGES,
    rank: int = 0,
    margin: int = 0,
) -> Solution | None:
    """The shortest modulo schedule whose values take at most `capacity` registers of a thread.

    Periods are tried from the resources' bound upwards; None if none is found. With a `rank`, what
    the solver prefers after so many others that differ in the order of what takes long. With a
    `margin`, so many registers are left free: what is best without them is best with them if it
    needs no more. Slots are kept when products are issued again only where that makes iterations
    shorter: those that are returned sooner are loaded sooner.
    """
    found = _tightest(graph, target, capacity, stages, rank, margin)
    if graph.shares_slots and (found is None or found.period > _period(bounds(graph), 0)):
        keeping = graph.keeping_slots()
        other = _tightest(keeping, target, capacity, stages, rank, margin)
        if other is not None and (found is None or other.period < found.period):
            return other
    return found


def _tightest(
    graph: DependenceGraph, target: Chip, capacity: int, stages: int, rank: int, margin: int
) -> Solution | None:
    """What `solve` gives for one way to keep slots."""
    found = _search(graph, target, capacity, stages).ranked(rank)
    for less in (m for m in MARGINS if m <= margin):
        if found is not None and found.registers > capacity - less:
            search = _search(graph, target, capacity - less, stages, found.period)
            found = search.ranked(rank)
    return found


def _search(
    graph: DependenceGraph, target: Chip, capacity: int, stages: int, least: int = 0
) -> _Search:
    """The search with these limits, of periods from `least` on, which goes on where it was left."""
    limits = bounds(graph)
    step = next((s for s in range(PERIODS) if _period(limits, s) >= least), PERIODS)
    key = (_form(graph), target.name, capacity, stages, step)
    if key not in _SOLVED:
        if len(_SOLVED) > 64:
            _SOLVED.clear()
        _SOLVED[key] = _Search(graph, target, capacity, stages, step)
    return _SOLVED[key]


def _form(graph: DependenceGraph) -> tuple[object, ...]:
    """All that a schedule depends on of a graph."""
    return (
        graph.groups,
        graph.keeps_slots,
        tuple((n.thread, n.tensor, n.special, n.registers) for n in graph.nodes),
        tuple((e.source.number, e.target.number, e.distance, e.accumulates, e.returns)
              for e in graph.edges),
        tuple((n.number, tuple(e.source.number for e in operand_edges(graph, n)))
              for n in graph.dots),
        tuple((s.get.number, tuple(r.number for r in s.readers), s.load, s.depth)
              for s in graph.slots),
    )  # fmt: skip


class _Search:
    """The schedules of one graph, in the order in which the solver prefers them."""

    def __init__(
        self, graph: DependenceGraph, target: Chip, capacity: int, stages: int, step: int
    ) -> None:
        self.found: list[Solution] = []
        self.graph, self.target, self.capacity, self.stages = graph, target, capacity, stages
        self.limits = bounds(graph)
        lead, tail = in_units(target.scheduled_lead), in_units(target.scheduled_tail)
        self.orders = Orders(graph, lead, tail, stages)
        self.impossible = -1
        """The longest step whose period has no schedule, so that no shorter one has one."""
        self.rest = self._schedules(step)

    def ranked(self, rank: int) -> Solution | None:
        """The schedule after `rank` others; None if there are no more."""
        while len(self.found) <= rank:
            following = next(self.rest, None)
            if following is None:
                return None
            self.found.append(following)
        return self.found[rank]

    def _model(self, step: int) -> Model:
        """The model of a period, without the schedules that were found."""
        spare = SPARE if self.found else 0
        period = _period(self.limits, step)
        return Model(self.graph, self.target, self.capacity - spare, period, self.stages)

    def _models(self, step: int) -> Iterator[Model]:
        """The models of a period, each without what was found so far."""
        for _ in range(ALIKE):
            model = self._model(step)
            model.differ_from([s.placed for s in self.found])
            yield model

    def _refused(self, step: int) -> bool:
        """Whether a period needs no solver: no order of an iteration's ops fits it."""
        if step <= self.impossible:
            return True
        return self.orders.refuse(_period(self.limits, step) // UNIT, self.capacity)

    def _possible(self, step: int, work: int = WORK_LIMIT) -> bool:
        """Whether the solver finds a schedule of a period within a work limit."""
        if self._refused(step):
            return False
        model = self._model(step)
        if model.possible(work):
            return True
        if not model.undecided:
            self.impossible = max(self.impossible, step)
        return False

    def _solution(self, step: int, placed: dict[int, Placed], registers: int) -> Solution:
        first = max(self.limits, key=lambda name: self.limits[name])
        bound = "latency" if step else first
        return Solution(_period(self.limits, step), placed, bound, registers)

    def _schedules(self, step: int) -> Iterator[Solution]:
        undecided = 0
        while step < PERIODS and undecided < PATIENCE:
            if self.found or not self._refused(step):
                for model in self._models(step):
                    work = OTHERS_LIMIT if self.found else WORK_LIMIT
                    found = model.solve(work)
                    if found is None:
                        undecided += model.undecided
                        break
                    yield self._solution(step, *found)
            if self.found:
                step += STRIDE if undecided > PATIENCE // 2 else 1
                continue
            following = _least_step(self._possible, step)
            if following is None:
                return
            step = following


def _period(limits: Mapping[str, int], step: int) -> int:
    """The period that is tried as number `step`."""
    least = max(limits.values())
    return UNIT * -(-(least + least * step * STEP_PERCENT // 100) // UNIT)


def _least_step(possible: Callable[[int, int], bool], low: int = 0) -> int | None:
    """The first step after `low` whose period has a schedule.

    A schedule of one period is one of any longer period, with idle cycles at the end of its
    iteration, so the least is found by halving. The longest may all the same be too hard for the
    work limit.
    """
    refused: list[int] = []
    for high in (step for step in LONGEST if step > low):
        if possible(high, PROBE_LIMIT if refused else WORK_LIMIT):
            break
        refused.append(high)
    else:
        return None
    low = max([low, *(step for step in refused if step < high)])
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if possible(middle, WORK_LIMIT) else (middle, high)
    return high


_SOLVED: dict[tuple[object, ...], _Search] = {}
"""Searches by loop: one compilation asks again when shared memory turns out to be short."""
