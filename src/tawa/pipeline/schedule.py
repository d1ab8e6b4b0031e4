"""Reorder and pipeline the loops whose products feed ordinary code.

A solver orders the loop's [dependence graph](dependence_graph.py)
([modulo](modulo.py)), and the result expanded ([expand](expand.py)) or joined across tiles
([flatten](flatten.py)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from tawa.aref.analysis.registers import budget
from tawa.aref.dialect.ops import Consumed, GetEnter, WarpGroup
from tawa.aref.passes.async_dots import find_chains
from tawa.base.options import Options, RequestUnmet
from tawa.base.spans import Span, span_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import (
    LoopJoined,
    LoopKeepsOrder,
    LoopNotJoined,
    LoopScheduled,
    NoSchedule,
    ScheduledOp,
    Usage,
)
from tawa.ir.properties import (
    AS_PARTITIONED,
    DOTS,
    FINAL_RINGS,
    GROUP_PRODUCTS,
    OPEN_SLOTS,
    OWN_ENDS,
    SCHEDULED,
    SKIPPED_WORK,
    SPREAD_SUMS,
    TIDY,
)
from tawa.ir.walking import all_of, every
from tawa.machine.chips import Chip
from tawa.pipeline.dependence_graph import (
    ACCUMULATOR,
    DependenceGraph,
    Node,
    build,
    readers_of,
)
from tawa.pipeline.depths import Demand, two_tiles_fit
from tawa.pipeline.expand import Schedule, expand
from tawa.pipeline.flatten import flatten, obstacle
from tawa.pipeline.infeasible_intervals import TILE_REGISTERS
from tawa.pipeline.modulo import ADDRESSES, SMALL, STAGES, Solution, bounds, solve
from tawa.pipeline.modulo_model import Placed
from tawa.pipeline.tile_prefetch import load_ahead
from tawa.tile.dialect.ops import Dot


class NoSuchSchedule(RequestUnmet):
    """A loop has fewer schedules than the launch option `schedule` counts."""

    explanation = (
        "`schedule=k` is for loops whose products feed ordinary code. It asks for the schedule "
        "that the solver would prefer after k others. Schedules count if they fit the registers "
        "and shared memory, and differ in the order of what takes long. A loop has only so many."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def chained(x, w, y, H, M: tl.constexpr):
    tile = x.load([0, 0])
    acc = tl.zeros((M, 64), tl.float32)
    for k in range(0, H, 64):
        block = w.load([k, 0])
        acc = tl.dot(tl.dot(tile, block.T).to(tl.float16), block, acc)
    y.store([0, 0], acc.to(tl.float16))


block = "desc<f16,128x64>"
chained.compile(block, "desc<f16,64x64>", block, "i32:16", 128, schedule=63)
"""


class ScheduleRejected(RequestUnmet):
    """The schedule that a launch asks for spills registers, or has its products serialised."""

    explanation = (
        "Without the launch option `schedule`, a schedule that the assembler spills or serialises "
        "is rejected and a tighter one taken. One that is asked for by its number is not replaced; "
        "`autotune` leaves it out."
    )


@dataclass(frozen=True)
class ScheduleLoops:
    """Reorder and pipeline the loops whose products feed ordinary code."""

    options: Options
    decided: Decisions
    margin: int = 0
    """Registers of a thread to leave free, because an assembled attempt spilled."""
    stages: int = STAGES
    """Iterations that an iteration may be spread over; with 0, loops keep the order of the
    source."""
    joined: bool = True
    """Whether loops may run on from tile to tile."""
    narrow: bool = False
    """Whether loading roles keep the fewest registers."""
    name: ClassVar[str] = "schedule"
    contract: ClassVar[Contract] = Contract(
        requires=(
            DOTS,
            GROUP_PRODUCTS,
            FINAL_RINGS,
            OWN_ENDS,
            SKIPPED_WORK,
            SPREAD_SUMS,
            OPEN_SLOTS,
        ),
        establishes=(SCHEDULED,),
        invalidates=(AS_PARTITIONED, TIDY),
    )

    def apply(self, module: ModuleOp) -> None:
        """Schedule the innermost loops with products of every computing warp group."""
        if self.options.overlap is False or not self.stages:
            return
        target = self.options.machine
        chosen = Demand(module, self.options).chosen(self.options.num_stages)
        depths = {ring.ref: depth for ring, depth in chosen.items()}
        for group in all_of(module, WarpGroup):
            if group.computes:
                loops = all_of(group, scf.ForOp)
                joined = [self._loop(loop, group, target, depths) for loop in loops]
                if any(joined) and two_tiles_fit(module, self.options):
                    load_ahead(module)

    def _loop(
        self, loop: scf.ForOp, group: WarpGroup, target: Chip, depths: Mapping[SSAValue, int]
    ) -> bool:
        """Schedule a loop; whether it was joined across tiles."""
        body = loop.body.block
        if not any(isinstance(op, Dot) for op in body.ops) or find_chains(body):
            return False
        span = span_of(loop)
        if group.slices > 1:
            self.decided.add(LoopKeepsOrder("teams share its iterations", span=span))
            return False
        graph = build(loop, group.warps.value.data, group.teams.value.data, target, depths)
        if isinstance(graph, str):
            self.decided.add(LoopKeepsOrder(graph, span=span))
            return False
        warps = group.warps.value.data * group.teams.value.data
        split = budget(target, warps, 0, self.narrow)
        limits = graph, target, split.limit - ADDRESSES, self.stages
        rank = self.options.schedule
        solution = solve(*limits, rank, self.margin)
        if solution is None and rank and solve(*limits):
            raise NoSuchSchedule(
                "the loop has fewer schedules than that",
                span=span,
                expected="a smaller `schedule`",
                found=f"schedule={rank}",
                hint="leave `schedule` unset for the solver's first choice",
            )
        if solution is None:
            self.decided.add(NoSchedule(span=span))
            return False
        order = as_schedule(graph, solution)
        if few := _too_few(loop, order, depths):
            self.decided.add(LoopKeepsOrder(few, span=span))
            return False
        inside = self._obstacle(loop, order, group, depths)
        self.decided.add(_scheduled(graph, solution, span, joined=inside is None))
        if inside is None:
            self.decided.add(LoopJoined(span=span))
            flatten(loop, order)
            return True
        if isinstance(loop.parent_op(), scf.ForOp):
            self.decided.add(LoopNotJoined(inside, span=span))
        expand(loop, order)
        return False

    def _obstacle(
        self, loop: scf.ForOp, order: Schedule, group: WarpGroup, depths: Mapping[SSAValue, int]
    ) -> str | None:
        """Why the loop stays inside the loop over tiles; None if it need not."""
        if group.teams.value.data > 1:
            return "teams take turns"
        return obstacle(loop, order, depths) if self.joined else "registers are short"


def _too_few(loop: scf.ForOp, order: Schedule, depths: Mapping[SSAValue, int]) -> str | None:
    """Why rings of these depths can't be: a slot is waited for that can't be filled before others.

    Rings are filled in the order of the loop's body, one iteration after the other. So when an
    iteration waits for a slot, all that is filled before has to have found room: no more is filled
    and not returned than each ring has slots.
    """
    body = {op: number for number, op in enumerate(loop.body.block.ops)}
    at = {op: number for number, op in enumerate(order.order)}
    done = _done(order)
    pairs: list[tuple[GetEnter, Consumed, int]] = []
    for op in order.order:
        get = op.token.owner if isinstance(op, Consumed) else None
        if isinstance(op, Consumed) and isinstance(get, GetEnter) and get in at:
            products = (done[reader] for reader in readers_of(get) if reader in done)
            pairs.append((get, op, max(at[op], *products, 0)))
    for waiting, _, _ in pairs:
        filled: dict[SSAValue, int] = {}
        for get, returned, place in pairs:
            early = order.stage[waiting] + (body[get] > body[waiting])
            late = order.stage[returned] + (place > at[waiting])
            filled[get.ref] = filled.get(get.ref, 0) + late - early
        for ring, count in filled.items():
            if count > depths.get(ring, count):
                return f"iterations would hold {count} slots of a ring of {depths[ring]}"
    return None


def _done(order: Schedule) -> dict[Operation, int]:
    """Before which place of an iteration each product is waited for, which returns its slots.

    That is where its value is read first, or that of a product after it, if that comes sooner.
    """
    found: dict[Operation, int] = {}
    soonest = len(order.order)
    for op in reversed(order.order):
        if isinstance(op, Dot):
            soonest = min(soonest, _read_at(op, order))
            found[op] = soonest
    return found


def _read_at(dot: Dot, order: Schedule) -> int:
    """The place where an iteration reads a product's value, at its end if another iteration does.

    A product that adds to it reads it without waiting.
    """
    users = {use.operation: use.index for use in dot.result.uses}
    first = order.order.index(dot)
    for place, op in enumerate(order.order[first:], first):
        if order.stage[op] != order.stage[dot]:
            continue
        if len(users) == 1 and isinstance(op, Dot) and users.get(op) == ACCUMULATOR:
            return _read_at(op, order)
        if any(inner in users for inner in every(op)):
            return place
    return len(order.order)


def as_schedule(graph: DependenceGraph, solution: Solution) -> Schedule:
    """Ops in the order of an iteration, with their stages."""
    nodes = in_order(graph, solution.placed)
    order = [op for n in nodes for op in n.ops]
    stage = {op: solution.placed[n.number].stage for n in nodes for op in n.ops}
    return Schedule(order, stage)


def _is_small(graph: DependenceGraph, node: Node) -> bool:
    """Whether a node computes row statistics or scalars from other ordinary code."""
    if node.is_dot or node.thread > SMALL or node.registers >= TILE_REGISTERS:
        return False
    if any(isinstance(op, GetEnter) for op in node.ops):
        return False  # it waits for a load
    return not any(e.source.is_dot for e in graph.edges if e.target is node)


def in_order(graph: DependenceGraph, placed: Mapping[int, Placed]) -> list[Node]:
    """The nodes of an iteration by their places; at one place, a value before its readers."""
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


def _scheduled(
    graph: DependenceGraph, solution: Solution, span: Span | None, *, joined: bool
) -> LoopScheduled:
    """The schedule as data: what each resource works in an iteration, and the costly nodes."""
    usages = sorted(bounds(graph).items(), key=lambda item: -item[1])
    nodes = sorted(graph.nodes, key=lambda n: solution.placed[n.number].offset)
    return LoopScheduled(
        solution.period,
        solution.bound,
        joined,
        tuple(Usage(name, cycles) for name, cycles in usages),
        tuple(_shown(n, solution.placed[n.number]) for n in nodes if n.is_dot or n.thread >= 16),
        tuple((place.offset, place.stage) for place in solution.placed.values()),
        span=span,
    )


def _shown(n: Node, place: Placed) -> ScheduledOp:
    op = n.dot if n.is_dot else n.ops[-1]
    unit, cycles = ("tensor core", n.tensor) if n.is_dot else ("thread", n.thread)
    text = getattr(getattr(op, "function", None), "data", op.name)
    span = span_of(op)
    line = span.line if span else None
    return ScheduledOp(place.offset, place.stage, text, unit, cycles, line)
