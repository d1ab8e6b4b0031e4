"""Modulo scheduling of consumer loops with a constraint solver (OR-tools CP-SAT).

One turn of the new loop lasts T cycles; an op starts at s = r + j T, so it runs in turn j of its
iteration at offset r: j is its stage, r its place in the turn. The solver finds the least T under
the resources (the issuing thread, the tensor core, the special-function unit) and the machine's
rules:

- a product's accumulator that ordinary code touches is finished within its turn (else ptxas
  serialises everything: its diagnostics C7514 and C7515);
- there is one copy of each accumulator and of each A operand in registers, so the next iteration
  writes it only after this one's reader is done (C7513);
- products finish in the order they are issued.

Program order and stages are what is used; start times are not, since the hardware is dynamic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp

from tawa.aref.async_dots import find_chains
from tawa.aref.expand import Schedule, expand
from tawa.aref.flatten import flatten, obstacle
from tawa.aref.load_ahead import load_ahead
from tawa.aref.loop_graph import LoopGraph, Node, build
from tawa.aref.ops import ViewRead, WarpGroup
from tawa.aref.registers import budget
from tawa.base.options import Options
from tawa.base.remarks import Remarks
from tawa.base.spans import span_of
from tawa.base.target import TARGETS, Target
from tawa.tile.ops import Dot, Reshape, Trans

NO_SCHEDULE = "no schedule found"

STAGES = 2
"""Turns that an iteration may be spread over, at most."""

TILE_REGISTERS = 8
"""Values of fewer registers a thread are row statistics, which `ADDRESSES` covers."""

ADDRESSES = 28
"""Registers of a thread that addresses, counters and row statistics take (measured)."""

WORK_LIMIT = 0.1
"""Deterministic seconds of the solver for one period: the same answer on every machine."""

TOLERANCE_PERCENT = 2
"""How much longer than the shortest a turn of one warp group may take to save registers."""

SMALL = 16
"""Cycles of a node that may be moved up without delaying anything else."""

UNIT = 8
"""Cycles that the solver counts as one: it searches small numbers much faster."""

PROMPT = 4
"""Cycles of a turn's latency that one cycle is worth by which a product is issued earlier.

Products that wait in the tensor core's queue cover what the model does not know: at head dimension
256, attention that converts its weights before it issues both products runs 12% slower (measured).
"""

PATIENCE, STRIDE = 5, 3
"""Periods that may stay undecided at the work limit; steps at once when half of them have."""

PERIODS, STEP_PERCENT = 12, 4
"""Periods that are tried, and how much longer each is than the one before, of the bound."""


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


@dataclass(frozen=True)
class ScheduleLoops:
    """Reorder and pipeline the loops whose products feed ordinary code."""

    options: Options
    remarks: Remarks
    margin: int = 0
    """Registers of a thread to leave free, because an assembled attempt spilled."""
    stages: int = STAGES
    """Turns that an iteration may be spread over; with 0, loops keep the order of the source."""
    name: ClassVar[str] = "schedule"

    def apply(self, module: ModuleOp) -> None:
        """Schedule the innermost loops with products of every computing warp group."""
        if self.options.overlap is False or not self.stages:
            return
        target = TARGETS[self.options.target]
        for group in [op for op in module.walk() if isinstance(op, WarpGroup)]:
            if group.single is None:
                loops = [op for op in group.walk() if isinstance(op, scf.ForOp)]
                joined = [self._loop(loop, group, target) for loop in loops]
                if any(joined):
                    load_ahead(module)

    def _loop(self, loop: scf.ForOp, group: WarpGroup, target: Target) -> bool:
        """Schedule a loop; whether it was joined across tiles."""
        body = loop.body.block
        if not any(isinstance(op, Dot) for op in body.ops) or find_chains(body):
            return False
        where = span_of(loop) or "loop"
        graph = build(loop, group.warps.value.data, group.teams.value.data, target)
        if isinstance(graph, str):
            self.remarks.say(self.name, f"the loop at {where} keeps its order: {graph}")
            return False
        warps = group.warps.value.data * group.teams.value.data
        split = budget(target, warps, 0)
        solution = solve(graph, target, split.limit - ADDRESSES - self.margin, self.stages)
        if solution is None:
            self.remarks.say(self.name, f"the loop at {where} keeps its order: {NO_SCHEDULE}")
            return False
        self.remarks.say(self.name, describe(graph, solution, str(where)))
        order = as_schedule(graph, solution)
        inside = obstacle(loop, order) if group.teams.value.data == 1 else "teams take turns"
        if inside is None:
            self.remarks.say(self.name, f"the loop at {where} runs on from tile to tile")
            flatten(loop, order)
            return True
        if isinstance(loop.parent_op(), scf.ForOp):
            self.remarks.say(self.name, f"the loop at {where} is not joined across tiles: {inside}")
        expand(loop, order)
        return False


def _alternatives(node: Node) -> bool:
    """Whether ordinary code makes the node's A operand, in registers."""
    value = node.dot.a
    while isinstance(value.owner, Trans | Reshape):
        value = value.owner.value
    return not isinstance(value.owner, ViewRead)


def bounds(graph: LoopGraph) -> dict[str, int]:
    """The least period that each resource allows."""
    return {
        "the issuing thread": sum(n.thread for n in graph.nodes),
        "the tensor core": graph.groups * sum(n.tensor for n in graph.nodes),
        "the special-function unit": graph.groups * sum(n.special for n in graph.nodes),
    }


def in_units(cycles: int) -> int:
    """Cycles as the solver counts them; what is shorter than half a unit takes no time."""
    return round(cycles / UNIT)


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
        self.graph, self.period = graph, period // UNIT
        period = self.period
        self.lead, self.tail = in_units(target.costs.lead), in_units(target.costs.tail)
        self.model: Any = cp_model.CpModel()
        count = range(len(graph.nodes))
        far = stages * period
        self.offset = [self.model.new_int_var(0, period, f"r{i}") for i in count]
        self.turn = [self.model.new_int_var(0, stages - 1, f"j{i}") for i in count]
        self.start = [self.offset[i] + period * self.turn[i] for i in count]
        self.run = {n.number: self.model.new_int_var(0, far, f"x{n.number}") for n in graph.dots}
        self._place()
        self._depend()
        self._tensor_core()
        self._one_copy()
        self._registers(capacity)
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
            if _alternatives(n):
                for e in self.graph.edges:
                    makes = any(r is n.dot.a for op in e.source.ops for r in op.results)
                    if e.target is n and e.distance == 0 and makes:
                        rewritten = self.start[e.source.number] + self.period
                        self.model.add(rewritten >= self.run[n.number] + in_units(n.tensor))

    def _registers(self, capacity: int) -> None:
        """What is held at any time of a turn fits the registers of a thread.

        A value is held from its op's start to its last reader's (an A operand: to the product's
        end); there is one copy of it, so it is held for a turn at most.
        """
        intervals: list[Any] = []
        demands: list[int] = []
        self.lengths: list[tuple[int, Any]] = []
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
            self.lengths.append((n.registers, length))
        self.model.add_cumulative(intervals, demands, capacity)

    def _held(self) -> Any:
        """Registers times the cycles they are held, and, with less weight, when ops start."""
        return sum(16 * r * length for r, length in self.lengths) + sum(self.start)

    def solve(self) -> dict[int, Placed] | None:
        """A placement, as good as the work limit finds.

        A turn that one warp group finishes early leaves room for what the model does not know; of
        such placements, one that holds few registers and starts ops early.
        """
        solver: Any = self.cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = WORK_LIMIT
        good = (self.cp.OPTIMAL, self.cp.FEASIBLE)
        early = self.latency + PROMPT * sum(self.offset[n.number] for n in self.graph.dots)
        found: list[tuple[int, int]] = []
        for objective in (None, early, self._held()):
            if objective is not None:
                self.model.minimize(objective)
            status = solver.solve(self.model)
            if status not in good:
                self.undecided = status == self.cp.UNKNOWN
                break
            found = [(solver.value(r), solver.value(j)) for r, j in
                     zip(self.offset, self.turn, strict=True)]  # fmt: skip
            self.model.clear_hints()
            for variable in (*self.offset, *self.turn):
                self.model.add_hint(variable, solver.value(variable))
            if objective is early:
                shortest = int(solver.value(early))
                self.model.add(early <= shortest + shortest * TOLERANCE_PERCENT // 100)
        if not found:
            return None
        first = min(turn for _, turn in found)
        return {i: Placed(UNIT * offset, turn - first) for i, (offset, turn) in enumerate(found)}


def solve(graph: LoopGraph, target: Target, capacity: int, stages: int = STAGES) -> Solution | None:
    """The shortest modulo schedule whose values take at most `capacity` registers of a thread.

    Periods are tried from the resources' bound upwards; None if none is found.
    """
    key = (str(graph.loop), graph.groups, target.name, capacity, stages)
    if key not in _SOLVED:
        if len(_SOLVED) > 64:
            _SOLVED.clear()
        _SOLVED[key] = _search(graph, target, capacity, stages)
    return _SOLVED[key]


_SOLVED: dict[tuple[str, int, str, int, int], Solution | None] = {}
"""Solutions by loop: one compilation asks again when shared memory turns out to be short."""


def _search(graph: LoopGraph, target: Target, capacity: int, stages: int) -> Solution | None:
    limits = bounds(graph)
    least = max(limits.values())
    step = undecided = 0
    while step < PERIODS and undecided < PATIENCE:
        period = UNIT * -(-(least + least * step * STEP_PERCENT // 100) // UNIT)
        model = _Model(graph, target, capacity, period, stages)
        placed = model.solve()
        if placed is not None:
            bound = max(limits, key=lambda name: limits[name]) if step == 0 else "latency"
            return Solution(period, placed, bound)
        undecided += model.undecided
        step += STRIDE if undecided > PATIENCE // 2 else 1
    return None


def as_schedule(graph: LoopGraph, solution: Solution) -> Schedule:
    """Ops in the order of a turn, with their stages."""
    nodes = in_order(graph, solution.placed)
    order = [op for n in nodes for op in n.ops]
    stage = {op: solution.placed[n.number].stage for n in nodes for op in n.ops}
    return Schedule(order, stage)


def _is_small(graph: LoopGraph, node: Node) -> bool:
    """Whether a node computes row statistics or scalars from other ordinary code."""
    if node.is_dot or node.thread > SMALL or node.registers >= TILE_REGISTERS:
        return False
    return not any(e.source.is_dot for e in graph.edges if e.target is node)


def in_order(graph: LoopGraph, placed: Mapping[int, Placed]) -> list[Node]:
    """The nodes of a turn by their places; at one place, a value before its readers."""
    waits = {n.number: 0 for n in graph.nodes}
    then: dict[int, list[Node]] = {n.number: [] for n in graph.nodes}
    for e in graph.edges:
        if placed[e.source.number].stage == placed[e.target.number].stage + e.distance:
            waits[e.target.number] += 1
            then[e.source.number].append(e.target)

    def key(node: Node) -> tuple[int, int]:
        """Row statistics as soon as they can be computed: what needs them comes sooner."""
        return (-1 if _is_small(graph, node) else placed[node.number].offset, node.number)

    ready = [key(n) for n in graph.nodes if not waits[n.number]]
    heapify(ready)
    found: list[Node] = []
    while ready:
        node = graph.nodes[heappop(ready)[1]]
        found.append(node)
        for reader in then[node.number]:
            waits[reader.number] -= 1
            if not waits[reader.number]:
                heappush(ready, key(reader))
    assert len(found) == len(graph.nodes), "a schedule keeps every value before its readers"
    return found


def describe(graph: LoopGraph, solution: Solution, where: str) -> str:
    """The schedule as two tables: what each resource works in a turn, and the costly nodes."""
    lines = [f"the loop at {where} turns every {solution.period} cycles, bound by {solution.bound}"]
    lines.append("  cycles  share  resource")
    for name, cycles in sorted(bounds(graph).items(), key=lambda item: -item[1]):
        lines.append(f"  {cycles:6}  {cycles / solution.period:5.0%}  {name}")
    lines.append("   start  stage  op                takes")
    for n in sorted(graph.nodes, key=lambda n: solution.placed[n.number].offset):
        place = solution.placed[n.number]
        if n.is_dot or n.thread >= 16:
            op = n.dot if n.is_dot else n.ops[-1]
            unit = f"tensor core {n.tensor}" if n.is_dot else f"thread {n.thread}"
            text = getattr(getattr(op, "function", None), "data", op.name)
            span = span_of(op)
            line = f", line {span.line}" if span else ""
            lines.append(f"  {place.offset:6}  {place.stage:5}  {text:16}  {unit}{line}")
    return "\n".join(lines)
