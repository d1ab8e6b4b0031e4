"""Modulo scheduling with a constraint solver (OR-tools CP-SAT): the model and its search.

One turn of the new loop lasts T cycles; an op starts at s = r + j T, so it runs in turn j of its
iteration at offset r: j is its stage, r its place in the turn. The solver finds the least T under
the resources (the issuing thread, the tensor core, the special-function unit) and the machine's
rules:

- a product's accumulator that ordinary code touches is finished within its turn (else ptxas
  serialises everything: its diagnostics C7514 and C7515);
- there is one copy of each accumulator and of each A operand in registers, so the next iteration
  writes it only after this one's reader is done (C7513);
- products finish in the order they are issued;
- a ring of D slots is loaded again D turns later, so a slot is held for less than that by the time
  that a load takes.

Program order and stages are what is used; start times are not, since the hardware is dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tawa.aref.loop_graph import LoopGraph, Node, Slot
from tawa.aref.turn_orders import TILE_REGISTERS, UNIT, Orders, in_units, operand_edges
from tawa.base.attempts import MARGINS
from tawa.base.target import Target

STAGES = 2
"""Turns that an iteration may be spread over, at most."""

ADDRESSES = 28
"""Registers of a thread that addresses, counters and row statistics take (measured)."""

WORK_LIMIT = 0.1
"""Deterministic seconds of the solver for one period: the same answer on every machine."""

OTHERS_LIMIT = 0.04
"""The same for a schedule after the first."""

SPARE = 8
"""Registers that schedules after the first leave free: fewer of them are rejected."""

TOLERANCE_PERCENT = 2
"""How much longer than the shortest a turn of one warp group may take to save registers."""

SMALL = 16
"""Cycles of a node that may be moved up without delaying anything else."""

PROMPT = 4
"""Cycles of a turn's latency that one cycle is worth by which a product is issued earlier.

Products that wait in the tensor core's queue cover what the model does not know: at head dimension
256, attention that converts its weights before it issues both products runs 12% slower (measured).
"""

PATIENCE, STRIDE = 5, 3
"""Periods that may stay undecided at the work limit; steps at once when half of them have."""

COSTLY, DIFFERENCES, ALIKE = 48, 2, 4
"""Schedules differ if the nodes of so many cycles differ in so many places, before or after another
and in the first or a later stage; so many of them are asked for of one period."""

PERIODS, STEP_PERCENT = 12, 4
"""Periods that are tried, and how much longer each is than the one before, of the bound."""

LONGEST = 11, 8, 5
"""Steps of which one has a schedule if any has one that is found within the work limit."""


@dataclass(frozen=True)
class Placed:
    """When a node starts in its turn, and in which turn of its iteration."""

    offset: int
    stage: int


@dataclass(frozen=True)
class Solution:
    """A modulo schedule; `bound` is what limits the turn's length."""

    period: int
    placed: dict[int, Placed]
    bound: str
    registers: int = 0
    """Most that values of a thread take at one time of a turn."""


def bounds(graph: LoopGraph) -> dict[str, int]:
    """The least period that each resource allows."""
    return {
        "the issuing thread": sum(n.thread for n in graph.nodes),
        "the tensor core": graph.groups * sum(n.tensor for n in graph.nodes),
        "the special-function unit": graph.groups * sum(n.special for n in graph.nodes),
        "the slots of a ring": max(map(_slot_bound, graph.slots), default=0),
    }


def _slot_bound(slot: Slot) -> int:
    """Cycles of a turn that loads a slot, and holds it as long as its longest reader works."""
    held = max(n.tensor or n.thread for n in slot.readers)
    return -(-(slot.load + held) // slot.depth)


class _Model:
    """The constraint model of one graph for one period.

    With the period fixed all constraints are linear in small numbers, which makes them quick.
    """

    def __init__(
        self, graph: LoopGraph, target: Target, capacity: int, period: int, stages: int
    ) -> None:
        from ortools.sat.python import cp_model  # takes half a second: only when it is needed

        self.cp: Any = cp_model
        self.undecided = False
        self.begun: Any = None
        self.graph, self.period = graph, period // UNIT
        period = self.period
        self.lead, self.tail = in_units(target.costs.lead), in_units(target.costs.tail)
        self.model: Any = cp_model.CpModel()
        count = range(len(graph.nodes))
        far = stages * period
        self.offset = [self.model.new_int_var(0, period - 1, f"r{i}") for i in count]
        self.turn = [self.model.new_int_var(0, stages - 1, f"j{i}") for i in count]
        self.start = [self.offset[i] + period * self.turn[i] for i in count]
        self.run = {n.number: self.model.new_int_var(0, far, f"x{n.number}") for n in graph.dots}
        self._place()
        self._depend()
        self._tensor_core()
        self._one_copy()
        self._registers(capacity)
        self._slots()
        self.latency: Any = self.model.new_int_var(0, period, "latency")
        for n in graph.nodes:
            end = (
                self.in_turn(n) + in_units(n.tensor) + self.tail
                if n.is_dot
                else self._thread_end(n)
            )
            self.model.add(self.latency >= end)

    def _thread_end(self, node: Node) -> Any:
        return self.offset[node.number] + in_units(node.thread)

    def _place(self) -> None:
        intervals: list[Any] = []
        for n in self.graph.nodes:
            i = n.number
            size = in_units(n.thread)
            self.model.add(self.offset[i] + size <= self.period)
            if size:
                intervals.append(
                    self.model.new_fixed_size_interval_var(self.offset[i], size, f"i{i}")
                )
        self.model.add_no_overlap(intervals)

    def finish(self, node: Node) -> Any:
        """When a node's result may be used."""
        if node.is_dot:
            return self.run[node.number] + in_units(node.tensor) + self.tail
        return self.start[node.number] + in_units(node.thread)

    def _depend(self) -> None:
        for e in self.graph.edges:
            begin = self.start[e.target.number] + e.distance * self.period
            if e.source.is_dot and e.accumulates:
                self.model.add(begin >= self.start[e.source.number] + in_units(e.source.thread))
            else:
                self.model.add(begin >= self.finish(e.source))

    def in_turn(self, node: Node) -> Any:
        """When a product starts to run, counted from the start of the turn that issues it."""
        i = node.number
        return self.run[i] - self.start[i] + self.offset[i]

    def _tensor_core(self) -> None:
        dots = self.graph.dots
        for n in dots:
            self.model.add(self.run[n.number] >= self.start[n.number] + self.lead)
            self.model.add(self.in_turn(n) + in_units(n.tensor) + self.tail <= self.period)
        for a in dots:
            for b in dots:
                if a.number < b.number:
                    first = self.model.new_bool_var(f"o{a.number}_{b.number}")
                    for x, y, literal in ((a, b, first), (b, a, first.negated())):
                        order = self.offset[x.number] < self.offset[y.number]
                        self.model.add(order).only_enforce_if(literal)
                        runs = self.in_turn(x) + in_units(x.tensor) <= self.in_turn(y)
                        self.model.add(runs).only_enforce_if(literal)

    def _one_copy(self) -> None:
        for n in self.graph.dots:
            again = self.start[n.number] + self.period
            for reader in self.graph.readers(n):
                if not reader.is_dot:
                    self.model.add(again >= self.start[reader.number] + in_units(reader.thread))
            for e in operand_edges(self.graph, n):
                rewritten = self.start[e.source.number] + self.period
                self.model.add(rewritten >= self.run[n.number] + in_units(n.tensor))

    def _registers(self, capacity: int) -> None:
        """What is held at any time of a turn fits the registers of a thread.

        A value is held from its op's start to its last reader's (an A operand: to the product's
        end); there is one copy of it, so it is held for a turn at most.
        """
        intervals: list[Any] = []
        demands: list[int] = []
        self.lengths: list[tuple[int, int, Any]] = []
        for n in self.graph.nodes:
            users = [e for e in self.graph.edges if e.source is n]
            if n.registers < TILE_REGISTERS or not users:
                continue
            i = n.number
            length = self.model.new_int_var(0, self.period, f"l{i}")
            for e in users:
                until = self.start[e.target.number] + e.distance * self.period
                if e.target.is_dot and not e.accumulates:
                    until = (
                        self.run[e.target.number]
                        + in_units(e.target.tensor)
                        + e.distance * self.period
                    )
                self.model.add(length >= until - self.start[i])
            for shift in (0, 1):
                begin = self.offset[i] - shift * self.period
                end = self.model.new_int_var(-self.period, 2 * self.period, f"e{i}_{shift}")
                intervals.append(self.model.new_interval_var(begin, length, end, f"h{i}_{shift}"))
                demands.append(n.registers)
            self.lengths.append((i, n.registers, length))
        self.model.add_cumulative(intervals, demands, capacity)
        # Follows from the cumulative; without it, budgets that are too tight take long to refuse.
        area = sum(r * length for _, r, length in self.lengths)
        self.model.add(area <= capacity * self.period)

    def _slots(self) -> None:
        """A slot is returned early enough for its next load to be there when it is waited for."""
        for slot in self.graph.slots:
            for reader in slot.readers:
                held = self.finish(reader) - self.start[slot.get.number]
                self.model.add(held + in_units(slot.load) <= slot.depth * self.period)

    def differ_from(self, others: Sequence[Mapping[int, Placed]]) -> None:
        """Exclude schedules whose costly nodes have the order and the stages of one of `others`."""
        if not others:
            return
        costly = [n.number for n in self.graph.nodes if n.is_dot or n.thread >= COSTLY]
        early = {i: self._literal(self.turn[i] == 0, self.turn[i] > 0) for i in costly}
        self.model.add_bool_or(early.values())
        before = {
            (a, b): self._literal(self.offset[a] < self.offset[b], self.offset[b] < self.offset[a])
            for a, b in combinations(costly, 2)
        }
        for placed in others:
            same = [
                literal if placed[i].stage == 0 else literal.negated()
                for i, literal in early.items()
            ]
            same += [
                literal if placed[a].offset < placed[b].offset else literal.negated()
                for (a, b), literal in before.items()
            ]
            self.model.add(sum(same) <= len(same) - DIFFERENCES)

    def _literal(self, then: Any, otherwise: Any) -> Any:
        """A literal that says which of two linear conditions holds."""
        found = self.model.new_bool_var("")
        self.model.add(then).only_enforce_if(found)
        self.model.add(otherwise).only_enforce_if(found.negated())
        return found

    def _held(self) -> Any:
        """Registers times the cycles they are held, and, with less weight, when ops start."""
        return sum(16 * r * length for _, r, length in self.lengths) + sum(self.start)

    def _most_held(self, value: Any) -> int:
        """Registers at the fullest time of a turn, which is the start of a value."""
        held = [(value(self.offset[i]), r, value(length)) for i, r, length in self.lengths]
        return max(
            (
                sum(r for begin, r, length in held if (time - begin) % self.period < length)
                for time, _, _ in held
            ),
            default=0,
        )

    def _solver(self, work: float) -> Any:
        """A solver that gives the same answer on every machine."""
        solver: Any = self.cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = work
        return solver

    def possible(self) -> bool:
        """Whether a placement is found within the work limit; `solve` goes on from there."""
        solver = self._solver(WORK_LIMIT)
        status = solver.solve(self.model)
        self.begun = solver, status
        self.undecided = status == self.cp.UNKNOWN
        return status in (self.cp.OPTIMAL, self.cp.FEASIBLE)

    def solve(self, work: float = WORK_LIMIT) -> tuple[dict[int, Placed], int] | None:
        """A placement, as good as the work limit finds, and the registers it takes.

        A turn that one warp group finishes early leaves room for what the model does not know; of
        such placements, one that holds few registers and starts ops early.
        """
        solver, status = self.begun or (self._solver(work), None)
        good = (self.cp.OPTIMAL, self.cp.FEASIBLE)
        early = self.latency + PROMPT * sum(self.offset[n.number] for n in self.graph.dots)
        found: list[tuple[int, int]] = []
        registers = 0
        for objective in (None, early, self._held()):
            if objective is not None:
                self.model.minimize(objective)
            if objective is not None or status is None:
                status = solver.solve(self.model)
            if status not in good:
                self.undecided = status == self.cp.UNKNOWN
                break
            found = [(solver.value(r), solver.value(j)) for r, j in
                     zip(self.offset, self.turn, strict=True)]  # fmt: skip
            registers = self._most_held(solver.value)
            self.model.clear_hints()
            for variable in (*self.offset, *self.turn):
                self.model.add_hint(variable, solver.value(variable))
            if objective is early:
                shortest = int(solver.value(early))
                self.model.add(early <= shortest + shortest * TOLERANCE_PERCENT // 100)
        if not found:
            return None
        first = min(turn for _, turn in found)
        placed = {i: Placed(UNIT * offset, turn - first) for i, (offset, turn) in enumerate(found)}
        return placed, registers


def solve(
    graph: LoopGraph,
    target: Target,
    capacity: int,
    stages: int = STAGES,
    rank: int = 0,
    margin: int = 0,
) -> Solution | None:
    """The shortest modulo schedule whose values take at most `capacity` registers of a thread.

    Periods are tried from the resources' bound upwards; None if none is found. With a `rank`, what
    the solver prefers after so many others that differ in the order of what takes long. With a
    `margin`, so many registers are left free: what is best without them is best with them if it
    needs no more.
    """
    found = _search(graph, target, capacity, stages).ranked(rank)
    for less in (m for m in MARGINS if m <= margin):
        if found is not None and found.registers > capacity - less:
            search = _search(graph, target, capacity - less, stages, found.period)
            found = search.ranked(rank)
    return found


def _search(
    graph: LoopGraph, target: Target, capacity: int, stages: int, least: int = 0
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


def _form(graph: LoopGraph) -> tuple[object, ...]:
    """All that a schedule depends on of a graph."""
    return (
        graph.groups,
        tuple((n.thread, n.tensor, n.special, n.registers) for n in graph.nodes),
        tuple((e.source.number, e.target.number, e.distance, e.accumulates) for e in graph.edges),
        tuple((n.number, tuple(e.source.number for e in operand_edges(graph, n)))
              for n in graph.dots),
        tuple((s.get.number, tuple(r.number for r in s.readers), s.load, s.depth)
              for s in graph.slots),
    )  # fmt: skip


class _Search:
    """The schedules of one graph, in the order in which the solver prefers them."""

    def __init__(
        self, graph: LoopGraph, target: Target, capacity: int, stages: int, step: int
    ) -> None:
        self.found: list[Solution] = []
        self.graph, self.target, self.capacity, self.stages = graph, target, capacity, stages
        self.limits = bounds(graph)
        lead, tail = in_units(target.costs.lead), in_units(target.costs.tail)
        self.orders = Orders(graph, lead, tail, stages)
        self.asked: dict[int, _Model] = {}
        self.rest = self._schedules(step)

    def ranked(self, rank: int) -> Solution | None:
        """The schedule after `rank` others; None if there are no more."""
        while len(self.found) <= rank:
            following = next(self.rest, None)
            if following is None:
                return None
            self.found.append(following)
        return self.found[rank]

    def _model(self, step: int) -> _Model:
        """The model of a period, without the schedules that were found."""
        spare = SPARE if self.found else 0
        period = _period(self.limits, step)
        return _Model(self.graph, self.target, self.capacity - spare, period, self.stages)

    def _models(self, step: int) -> Iterator[_Model]:
        """The models of a period, each without what was found so far."""
        for _ in range(ALIKE):
            begun = self.asked.pop(step, None)
            model = begun if begun is not None and not self.found else self._model(step)
            model.differ_from([s.placed for s in self.found])
            yield model

    def _refused(self, step: int) -> bool:
        """Whether a period needs no solver: no order of a turn's ops fits it."""
        return self.orders.refuse(_period(self.limits, step) // UNIT, self.capacity)

    def _possible(self, step: int) -> bool:
        """Whether the solver finds a schedule of a period within its work limit."""
        if self._refused(step):
            return False
        self.asked[step] = self._model(step)
        return self.asked[step].possible()

    def _gives_up(self, step: int) -> bool:
        """Whether the solver leaves a period undecided that was not asked of it."""
        period = _period(self.limits, step)
        model = _Model(self.graph, self.target, self.capacity, period, self.stages)
        return not model.possible() and model.undecided

    def _solution(self, step: int, placed: dict[int, Placed], registers: int) -> Solution:
        first = max(self.limits, key=lambda name: self.limits[name])
        bound = "latency" if step else first
        return Solution(_period(self.limits, step), placed, bound, registers)

    def _schedules(self, step: int) -> Iterator[Solution]:
        undecided, skipped = 0, None
        while step < PERIODS and undecided < PATIENCE:
            if not self.found and self._refused(step):
                skipped = step
            else:
                for model in self._models(step):
                    work = OTHERS_LIMIT if self.found else WORK_LIMIT
                    found = model.solve(work)
                    if found is None:
                        undecided += model.undecided
                        break
                    yield self._solution(step, *found)
                    if skipped is not None:  # who wants more goes by what the solver gave up
                        undecided, skipped = undecided + self._gives_up(skipped), None
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


def _least_step(possible: Callable[[int], bool], low: int = 0) -> int | None:
    """The first step after `low` whose period has a schedule.

    A schedule of one period is one of any longer period, with idle cycles at the end of its turn,
    so the least is found by halving. The longest may all the same be too hard for the work limit.
    """
    high = next((step for step in LONGEST if step > low and possible(step)), None)
    if high is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if possible(middle) else (middle, high)
    return high


_SOLVED: dict[tuple[object, ...], _Search] = {}
"""Searches by loop: one compilation asks again when shared memory turns out to be short."""
