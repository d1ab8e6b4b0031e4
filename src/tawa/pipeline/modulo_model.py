"""The constraint model of a modulo schedule (OR-tools CP-SAT), for one initiation interval.

One kernel iteration lasts T cycles; an op starts at s = r + j T, so it runs in the j-th kernel
iteration of its own at offset r: j is its stage, r its place. The model knows the
resources (the issuing thread, the tensor core, the special-function unit) and the machine's rules:

- a product's accumulator that ordinary code touches is finished within its iteration (else ptxas
  serialises everything: its diagnostics C7514 and C7515);
- there is one copy of each accumulator and of each A operand in registers, so the next iteration
  writes it only after this one's reader is done (C7513);
- the liveness of values at any time of an iteration fits the registers of a thread;
- products finish in the order they are issued;
- a ring of D slots is loaded again D iterations later, so a slot is held for less than that by the
  time that a load takes.

Program order and stages are what is used; start times are not, since the hardware is dynamic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tawa.machine.chips import Chip
from tawa.pipeline.dependence_graph import DependenceGraph, Node
from tawa.pipeline.infeasible_intervals import TILE_REGISTERS, UNIT, in_units, operand_edges

WORK_LIMIT = 0.1
"""Deterministic seconds of the solver for one period: the same answer on every machine."""

TOLERANCE_PERCENT = 2
"""How much longer than the shortest an iteration of one warp group may take to save registers."""

PROMPT = 4
"""Cycles of an iteration's latency that one cycle is worth by which a product is issued earlier.

Products that wait in the tensor core's queue cover what the model does not know: at head dimension
256, attention that converts its weights before it issues both products runs 12% slower (measured).
"""

COSTLY, DIFFERENCES = 48, 2
"""Schedules differ if the nodes of so many cycles differ in so many places, before or after another
and in the first or a later stage."""


@dataclass(frozen=True)
class Placed:
    """When a node starts in its iteration, and in which iteration of its iteration."""

    offset: int
    stage: int


class Model:
    """The constraint model of one graph for one period.

    With the period fixed all constraints are linear in small numbers, which makes them quick.
    """

    def __init__(
        self, graph: DependenceGraph, target: Chip, capacity: int, period: int, stages: int
    ) -> None:
        from ortools.sat.python import cp_model  # takes half a second: only when it is needed

        self.cp: Any = cp_model
        self.undecided = False
        self.begun: Any = None
        self.graph, self.period = graph, period // UNIT
        period = self.period
        self.lead, self.tail = in_units(target.scheduled_lead), in_units(target.scheduled_tail)
        self.model: Any = cp_model.CpModel()
        count = range(len(graph.nodes))
        far = stages * period
        self.offset = [self.model.new_int_var(0, period - 1, f"r{i}") for i in count]
        self.stage = [self.model.new_int_var(0, stages - 1, f"j{i}") for i in count]
        self.start = [self.offset[i] + period * self.stage[i] for i in count]
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
                self.within(n) + in_units(n.tensor) + self.tail if n.is_dot else self._thread_end(n)
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

    def within(self, node: Node) -> Any:
        """When a product starts to run, counted from the start of the iteration that issues it."""
        i = node.number
        return self.run[i] - self.start[i] + self.offset[i]

    def _tensor_core(self) -> None:
        dots = self.graph.dots
        for n in dots:
            self.model.add(self.run[n.number] >= self.start[n.number] + self.lead)
            self.model.add(self.within(n) + in_units(n.tensor) + self.tail <= self.period)
        for a in dots:
            for b in dots:
                if a.number < b.number:
                    first = self.model.new_bool_var(f"o{a.number}_{b.number}")
                    for x, y, literal in ((a, b, first), (b, a, first.negated())):
                        order = self.offset[x.number] < self.offset[y.number]
                        self.model.add(order).only_enforce_if(literal)
                        runs = self.within(x) + in_units(x.tensor) <= self.within(y)
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
        """What is held at any time of an iteration fits the registers of a thread.

        A value is held from its op's start to its last reader's (an A operand: to the product's
        end); there is one copy of it, so it is held for an iteration at most.
        """
        intervals: list[Any] = []
        demands: list[int] = []
        self.lengths: list[tuple[int, int, Any]] = []
        for n in self.graph.nodes:
            users = self.graph.uses(n)
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
        early = {i: self._literal(self.stage[i] == 0, self.stage[i] > 0) for i in costly}
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
        """Registers at the fullest time of an iteration, which is the start of a value."""
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

        An iteration that one warp group finishes early leaves room for what the model does not
        know; of such placements, one that holds few registers and starts ops early.
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
                     zip(self.offset, self.stage, strict=True)]  # fmt: skip
            registers = self._most_held(solver.value)
            self.model.clear_hints()
            for variable in (*self.offset, *self.stage):
                self.model.add_hint(variable, solver.value(variable))
            if objective is early:
                shortest = int(solver.value(early))
                self.model.add(early <= shortest + shortest * TOLERANCE_PERCENT // 100)
        if not found:
            return None
        first = min(stage for _, stage in found)
        placed = {
            i: Placed(UNIT * offset, stage - first) for i, (offset, stage) in enumerate(found)
        }
        return placed, registers
