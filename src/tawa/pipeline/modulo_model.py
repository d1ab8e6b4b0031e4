"""The constraints of a modulo schedule, for one initiation interval.

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

With the period fixed, most of this says how much later one thing is than another, at least; what is
left are choices, which [modulo_search](modulo_search.py) makes. Program order and stages are what
is used; start times are not, since the hardware is dynamic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tawa.machine.chips import Chip
from tawa.pipeline.dependence_graph import DependenceGraph, Edge, Node
from tawa.pipeline.differences import ORIGIN, Contradiction, Differences
from tawa.pipeline.infeasible_intervals import TILE_REGISTERS, UNIT, in_units, operand_edges
from tawa.pipeline.modulo_problem import Aim, Problem, Schedule, Start
from tawa.pipeline.modulo_search import Search

WORK_LIMIT = 5000
"""Parts of the search for one period: the same answer on every machine."""

TOLERANCE_PERCENT = 2
"""How much longer than the shortest an iteration of one warp group may take to save registers."""

COSTLY = 48
"""Schedules differ if the nodes of so many cycles differ in places, before or after another and in
the first or a later stage."""


@dataclass(frozen=True)
class Placed:
    """When a node starts in its iteration, and in which iteration of its iteration."""

    offset: int
    stage: int


class Model:
    """The constraints of one graph for one period."""

    def __init__(
        self, graph: DependenceGraph, target: Chip, capacity: int, period: int, stages: int
    ) -> None:
        self.undecided = False
        self.graph, self.period = graph, period // UNIT
        self.lead, self.tail = in_units(target.scheduled_lead), in_units(target.scheduled_tail)
        kept = [n.number for n in graph.nodes if n.registers >= TILE_REGISTERS and graph.uses(n)]
        self.problem = Problem(
            period=self.period,
            stages=stages,
            capacity=capacity,
            tail=self.tail,
            thread=[in_units(n.thread) for n in graph.nodes],
            tensor=[in_units(n.tensor) for n in graph.nodes],
            registers=[n.registers for n in graph.nodes],
            products=[n.number for n in graph.dots],
            kept=kept,
            costly=[n.number for n in graph.nodes if n.is_dot or n.thread >= COSTLY],
        )
        self.known: Differences | None = Differences(self.problem.variables)
        try:
            self._place()
            self._depend()
            self._one_copy()
            self._registers()
            self._slots()
        except Contradiction:
            self.known = None

    def _later(self, low: int, high: int, least: int) -> None:
        """Let variable `high` be so much above `low`, at least."""
        assert self.known is not None
        self.known.raises(low, high, least)

    def _place(self) -> None:
        problem, longest = self.problem, self.problem.stages * self.period
        for n in self.graph.nodes:
            start = problem.start(n.number)
            self._later(ORIGIN, start, 0)
            self._later(start, ORIGIN, -(longest - problem.room(n.number)))
        for n in self.graph.dots:
            start, run = problem.start(n.number), problem.run(n.number)
            self._later(start, run, self.lead)
            self._later(run, start, -(self.period - in_units(n.tensor) - self.tail))
            self._later(run, ORIGIN, -longest)
        # An iteration has all nodes of the issuing thread, one after the other.
        self._later(ORIGIN, problem.latency, sum(problem.thread))
        self._later(problem.latency, ORIGIN, -self.period)

    def _finish(self, node: Node) -> tuple[int, int]:
        """When a node's result may be used: so much after a variable."""
        if node.is_dot:
            return self.problem.run(node.number), in_units(node.tensor) + self.tail
        return self._end(node)

    def _end(self, node: Node) -> tuple[int, int]:
        """When the issuing thread is done with a node: so much after a variable."""
        return self.problem.start(node.number), in_units(node.thread)

    def _depend(self) -> None:
        for e in self.graph.edges:
            adds = e.source.is_dot and e.accumulates
            after, least = self._end(e.source) if adds else self._finish(e.source)
            self._later(
                after, self.problem.start(e.target.number), least - e.distance * self.period
            )

    def _one_copy(self) -> None:
        for n in self.graph.dots:
            for reader in self.graph.readers(n):
                if not reader.is_dot:
                    after, least = self._end(reader)
                    self._later(after, self.problem.start(n.number), least - self.period)
            for e in operand_edges(self.graph, n):
                rewritten = self.problem.start(e.source.number)
                self._later(self.problem.run(n.number), rewritten, in_units(n.tensor) - self.period)

    def _registers(self) -> None:
        """There is one copy of a value, so it is held for an iteration at most.

        That is from its op's start to its last reader's; an A operand, to the product's end.
        """
        for i in self.problem.kept:
            start, end = self.problem.start(i), self.problem.end(i)
            self._later(start, end, 0)
            self._later(end, start, -self.period)
            for e in self.graph.uses(self.graph.nodes[i]):
                after, least = self._read(e)
                self._later(after, end, least + e.distance * self.period)

    def _read(self, edge: Edge) -> tuple[int, int]:
        """Until when a value is held for a reader: so much after a variable."""
        target = edge.target
        if target.is_dot and not edge.accumulates:
            return self.problem.run(target.number), in_units(target.tensor)
        return self.problem.start(target.number), 0

    def _slots(self) -> None:
        """A slot is returned early enough for its next load to be there when it is waited for."""
        for slot in self.graph.slots:
            for reader in slot.readers:
                after, least = self._finish(reader)
                get = self.problem.start(slot.get.number)
                self._later(after, get, least + in_units(slot.load) - slot.depth * self.period)

    def differ_from(self, others: Sequence[Mapping[int, Placed]]) -> None:
        """Exclude schedules whose costly nodes have the order and the stages of one of `others`."""
        nodes = range(len(self.graph.nodes))
        self.problem.others[:] = [
            [Start(p[i].offset // UNIT, p[i].stage) for i in nodes] for p in others
        ]

    def possible(self, work: int = WORK_LIMIT) -> bool:
        """Whether a placement is found within the work limit."""
        return self._best(Aim.ANY, work) is not None

    def solve(self, work: int = WORK_LIMIT) -> tuple[dict[int, Placed], int] | None:
        """A placement, as good as the work limit finds, and the registers it takes.

        An iteration that one warp group finishes early leaves room for what the model does not
        know; of such placements, one that holds few registers and starts ops early.
        """
        early = self._best(Aim.EARLY, work)
        if early is None:
            return None
        shortest = early.early
        allowed = shortest + shortest * TOLERANCE_PERCENT // 100
        found = self._best(Aim.HELD, work, allowed) or early
        first = min(start.stage for start in found.starts)
        placed = {
            i: Placed(UNIT * start.offset, start.stage - first)
            for i, start in enumerate(found.starts)
        }
        return placed, found.most_held

    def _best(self, aim: Aim, work: int, allowed: int | None = None) -> Schedule | None:
        """The best schedule that the work limit finds."""
        if self.known is None:
            return None
        search = Search(self.problem, self.known, aim, allowed)
        self.undecided = not search.run(work) and search.best is None
        return search.best
