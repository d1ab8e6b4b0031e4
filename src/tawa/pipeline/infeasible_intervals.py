"""Initiation intervals too short for every order of ops: what the solver need not be asked.

The solver ([modulo](modulo.py)) is quick to find a schedule, and slow to find that there is none.
This search leaves things out: ops that take no time, idle cycles before an op that has nothing to
wait for, how long slots are held. So what it refuses has no schedule, and what it does not refuse
may have none either.

With the stages of all ops chosen, an op of the same iteration and stage comes before those that
need it, and one of another stage anywhere. Then only the order of an iteration's ops is left, and
what is known of a beginning of it is which ops it has, when the last of them ends, and when its
products do: of two beginnings with the same ops, one that is no later in anything is as good in
everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from tawa.aref.dialect.ops import ViewRead
from tawa.machine.chips import SM_90A
from tawa.pipeline.dependence_graph import DependenceGraph, Edge, Node
from tawa.tile.dialect.ops import ViewLike

UNIT = 8
"""Cycles that the solver counts as one: it searches small numbers much faster."""

TILE_REGISTERS = SM_90A.thresholds.statistics_registers
"""Values of fewer registers a thread are row statistics, which `ADDRESSES` covers."""

MOST_WORK = 10_000
"""Ops that are put after a beginning, in all; a loop that needs more is not refused."""


def in_units(cycles: int) -> int:
    """Cycles as the solver counts them; what is shorter than half a unit takes no time."""
    return round(cycles / UNIT)


def operand_edges(graph: DependenceGraph, node: Node) -> list[Edge]:
    """The edges to a product from the ordinary code that makes its A operand, in registers."""
    value = node.dot.a
    while isinstance(value.owner, ViewLike):
        value = value.owner.value
    if isinstance(value.owner, ViewRead):
        return []
    return [
        e
        for e in graph.edges
        if e.target is node and e.distance == 0
        if any(r is node.dot.a for op in e.source.ops for r in op.results)
    ]


class Gap(NamedTuple):
    """`target` starts, so many iterations after `source`'s, when that is done.

    A product is done when it has run and `after` units more have passed, or, with None, as soon as
    it is issued, like ordinary code when it ends.
    """

    source: int
    target: int
    distance: int
    after: int | None


class Use(NamedTuple):
    """A reader of a value, so many iterations later; operands are read till the product ends."""

    reader: int
    distance: int
    operand: bool


@dataclass(frozen=True)
class Held:
    """A value in an iteration, its readers as sets of ops: of its own, and of the next one."""

    maker: int
    registers: int
    soon: int = 0
    later: int = 0
    operand_soon: int = 0
    operand_later: int = 0


@dataclass
class Iteration:
    """An iteration with the stages of all ops: what each op comes after, and what is held."""

    after: list[int]
    """The ops that are before an op in the iteration, as a set."""
    waits: list[list[tuple[int, int]]]
    """The products that an op waits for, and the units after their ends."""
    held: list[Held] = field(default_factory=list[Held])


class TooMuchWork(Exception):
    """The search for an order was given up."""


class Orders:
    """What every schedule of a graph obeys, in at most so many stages.

    `lead` and `tail` are the units between a product's issue, its run and the use of what it gives.
    """

    def __init__(self, graph: DependenceGraph, lead: int, tail: int, stages: int) -> None:
        self.lead, self.tail = lead, tail
        nodes = [n for n in graph.nodes if in_units(n.thread)]
        number = {n.number: i for i, n in enumerate(nodes)}
        self.thread = [in_units(n.thread) for n in nodes]
        self.tensor = [in_units(n.tensor) for n in nodes]
        self.products = [i for i, n in enumerate(nodes) if n.is_dot]
        self.all = (1 << len(nodes)) - 1
        gaps = _without_idle(_gaps(graph, tail), {n.number for n in nodes}, len(graph.nodes))
        self.gaps = [Gap(number[a], number[b], d, after) for a, b, d, after in gaps]
        self.values: list[tuple[int, int, list[Use]]] = []
        for n in nodes:
            uses = [
                Use(number[e.target.number], e.distance, e.target.is_dot and not e.accumulates)
                for e in graph.uses(n)
                if e.target.number in number
            ]
            if n.registers >= TILE_REGISTERS and uses:
                self.values.append((number[n.number], n.registers, uses))
        self.iterations: list[Iteration] | None = None
        """The iterations of all stages that ops may have; None if they are too many to look at."""
        if all(n.number in number for n in graph.dots):
            with suppress(TooMuchWork):
                self.iterations = [
                    t for s in self._stages(stages) if (t := self._iteration(s)) is not None
                ]

    def refuse(self, period: int, capacity: int) -> bool:
        """Whether no order fits `period` units and `capacity` registers of a thread."""
        if self.iterations is None:
            return False
        search = _Search(self, period, capacity)
        try:
            return not any(search.fits(iteration) for iteration in self.iterations)
        except TooMuchWork:
            return False

    def _stages(self, stages: int) -> Iterator[list[int]]:
        """The stages that ops may have: none needs what is only made in a later iteration.

        Raises `TooMuchWork`.
        """
        count, work = len(self.thread), 0
        known: list[list[Gap]] = [[] for _ in range(count)]
        for gap in self.gaps:
            known[max(gap.source, gap.target)].append(gap)
        partial: list[list[int]] = [[]]
        while partial:
            found = partial.pop()
            work += 1
            if work > MOST_WORK:
                raise TooMuchWork
            if len(found) == count:
                if not all(found):
                    yield found
                continue
            for stage in range(stages):
                more = [*found, stage]
                if all(more[a] - more[b] <= d for a, b, d, _ in known[len(found)]):
                    partial.append(more)

    def _iteration(self, stage: list[int]) -> Iteration | None:
        """The iteration of these stages; None if a value would be made again before it is read."""
        count = len(stage)
        iteration = Iteration([0] * count, [[] for _ in range(count)])
        for source, target, distance, after in self.gaps:
            if stage[source] - stage[target] == distance:
                iteration.after[target] |= 1 << source
                if after is not None and source in self.products:
                    iteration.waits[target].append((self.products.index(source), after))
        for maker, registers, uses in self.values:
            readers = [[0, 0], [0, 0]]
            for reader, distance, operand in uses:
                iterations = stage[reader] + distance - stage[maker]
                if iterations > 1:
                    return None
                if iterations >= 0:
                    readers[operand][iterations] |= 1 << reader
                if iterations == 1 and reader != maker:
                    iteration.after[maker] |= 1 << reader
                    if operand:
                        iteration.waits[maker].append((self.products.index(reader), 0))
            iteration.held.append(Held(maker, registers, *readers[False], *readers[True]))
        return iteration


def _gaps(graph: DependenceGraph, tail: int) -> list[Gap]:
    """Who starts after whom, by the numbers of the graph's nodes."""
    found = [
        Gap(
            *(e.source.number, e.target.number, e.distance),
            tail if e.source.is_dot and not e.accumulates else None,
        )
        for e in graph.edges
    ]
    for n in graph.dots:
        found += [Gap(r.number, n.number, 1, None) for r in graph.readers(n) if not r.is_dot]
        found += [Gap(n.number, e.source.number, 1, 0) for e in operand_edges(graph, n)]
    return found


def _without_idle(gaps: list[Gap], kept: set[int], count: int) -> set[Gap]:
    """The gaps between ops that are kept, through those that take no time."""
    found = {gap for gap in gaps if gap.source != gap.target}
    for idle in (i for i in range(count) if i not in kept):
        before = [gap for gap in found if gap.target == idle]
        after = [gap for gap in found if gap.source == idle]
        found = {gap for gap in found if idle not in gap[:2]}
        for (source, _, first, wait), (_, target, second, _) in product(before, after):
            if source != target:
                found.add(Gap(source, target, first + second, wait))
    return found


class _Search:
    """A search for an order that fits, of one iteration after the other."""

    def __init__(self, orders: Orders, period: int, capacity: int) -> None:
        self.orders, self.period, self.capacity = orders, period, capacity
        self.work = 0

    def fits(self, iteration: Iteration) -> bool:
        """Whether the iteration has an order that fits. Raises `TooMuchWork`."""
        self.iteration = iteration
        self.seen: dict[int, list[tuple[int, ...]]] = {}
        idle = self.period - sum(self.orders.thread)
        return idle >= 0 and self._goes_on(0, 0, (0,) * len(self.orders.products), idle)

    def _goes_on(self, placed: int, time: int, ends: tuple[int, ...], idle: int) -> bool:
        """Whether the beginning with these ops has an end; `idle` units may still pass."""
        orders = self.orders
        if placed == orders.all:
            return True
        if self._known(placed, (time, *ends)):
            return False
        for op, after in enumerate(self.iteration.after):
            if placed >> op & 1 or after & ~placed:
                continue
            self.work += 1
            if self.work > MOST_WORK:
                raise TooMuchWork
            start = self._start(op, placed, time, ends)
            if start is None or start - time > idle:
                continue
            then = self._issued(op, start, ends)
            if then is None:
                continue
            left = idle - (start - time)
            if self._goes_on(placed | 1 << op, start + orders.thread[op], then, left):
                return True
        return False

    def _known(self, placed: int, times: tuple[int, ...]) -> bool:
        """Whether a beginning with the same ops that is no later was looked at."""
        before = self.seen.setdefault(placed, [])
        if any(all(a <= b for a, b in zip(other, times, strict=True)) for other in before):
            return True
        before.append(times)
        return False

    def _issued(self, op: int, start: int, ends: tuple[int, ...]) -> tuple[int, ...] | None:
        """When products end after an op was placed; None if that is past the iteration."""
        orders = self.orders
        if not orders.tensor[op]:
            return ends
        end = max(start + orders.lead, *ends) + orders.tensor[op]
        if end + orders.tail > self.period:
            return None
        place = orders.products.index(op)
        return (*ends[:place], end, *ends[place + 1 :])

    def _start(self, op: int, placed: int, time: int, ends: tuple[int, ...]) -> int | None:
        """When an op can start at the earliest; None if there are never enough registers."""
        for place, after in self.iteration.waits[op]:
            time = max(time, ends[place] + after)
        taken, operands = self._taken(op, placed)
        if taken > self.capacity:
            return None
        until: list[tuple[int, int]] = []
        for readers, registers in operands:
            last = max(ends[i] for i, p in enumerate(self.orders.products) if readers >> p & 1)
            if last > time:
                until.append((last, registers))
                taken += registers
        for end, registers in sorted(until):
            if taken <= self.capacity:
                break
            time, taken = end, taken - registers
        return time

    def _taken(self, op: int, placed: int) -> tuple[int, list[tuple[int, int]]]:
        """Registers that are taken when an op starts, after those that are placed.

        Of what is free as soon as products end: which products, and the registers.
        """
        here = 1 << op
        rest = self.orders.all & ~placed & ~here
        taken = 0
        operands: list[tuple[int, int]] = []
        for value in self.iteration.held:
            if (placed | here) >> value.maker & 1:
                users, products = value.soon, value.operand_soon
                passed = value.later | value.operand_later
            else:
                users, products, passed = value.later, value.operand_later, 0
            if passed or users & rest or products & (rest | here):
                taken += value.registers
            elif products:
                operands.append((products, value.registers))
        return taken, operands
