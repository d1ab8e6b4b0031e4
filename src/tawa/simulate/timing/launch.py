"""Predicted time of whole launches: CTAs in time, their waves and tail, and what all of them share.

A few CTAs are replayed on the timing machine; the others take their time from those (CTAs that
differ, as those of causal attention do, are interpolated along each axis of the grid) and are dealt
to multiprocessors in launch order, each as soon as one is free. The clock is an input: a
power-capped card runs matrix products far below its nominal clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from heapq import heapify, heapreplace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tawa.base.timeline import Interval
from tawa.machine.chips import DEFAULT, Chip
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.hopper import Cluster, prepared, warp_spans
from tawa.simulate.interpret.launch import arrays_of, spec_of
from tawa.simulate.timing.code import Amounts, Box, Count, Program, Steps, never
from tawa.simulate.timing.counts import count, places
from tawa.simulate.timing.ledger import Account, Ledger
from tawa.simulate.timing.machine import Actor, Machine, Rates
from tawa.simulate.timing.memory import MOST, Misses, misses
from tawa.simulate.timing.program import program
from tawa.simulate.timing.sample import Cut, cut_of, iterations_of
from tawa.simulate.timing.trace import Trace

Block = tuple[int, int, int]
Programs = list[tuple[str, Program]]
Start = tuple[str, int, Callable[[int | None], Steps]]
"""An actor's name, its CTA, and its program, given how many iterations it makes."""

SAMPLES = 7
"""CTAs along an axis of the grid that are replayed when they differ."""

SPREAD = 16
"""CTAs of a launch that say what one loads and stores on average."""

GOLDEN = (5**0.5 - 1) / 2
"""Of a launch, the step between those: its multiples are spread evenly, whatever divides it."""

MOST_SHOWN = 40_000
"""Steps of all actors after which a timeline shows no further iteration."""


@dataclass(frozen=True)
class LaunchPrediction:
    """What the model says of a launch, at a clock that was given."""

    seconds: float
    """Between events around the launch."""
    kernel_seconds: float
    clock_ghz: float
    bound: str
    """What the time is nearest to: a resource, or `latency` if none is busy enough."""
    shares: dict[str, float]
    """Part of the kernel's time that each resource works; of `L2` and `memory`, of all."""
    cycles: float
    """Of the longest CTA."""
    ctas: int
    waves: float
    """CTAs for each place that there is for one."""
    first: Replayed | None = field(default=None, repr=False)
    """The first CTA, or cluster, if it was asked for."""
    accounts: tuple[Account, ...] = field(default=(), repr=False)
    """What the actors of the longest CTA spent their time on, if it was asked for."""

    @property
    def us(self) -> float:
        """Between events around the launch, in microseconds."""
        return self.seconds * 1e6

    def render(self) -> str:
        """The prediction as text."""
        parts = [f"{name} {share:.0%}" for name, share in sorted(self.shares.items())]
        return (
            f"predicted {self.us:.1f} us at {self.clock_ghz:.3f} GHz, bound by {self.bound}: "
            f"{self.ctas} CTAs, {self.waves:.1f} waves of {self.cycles:.0f} cycles; "
            f"busy: {', '.join(parts)}"
        )


@dataclass(frozen=True)
class Replayed:
    """One CTA, or cluster: what its actors, and the engines for them, did when (in cycles)."""

    cycles: float
    """Of what is shown."""
    timeline: list[Interval]
    """Their events are of class `timing_trace.Step`."""
    stamps: dict[str, list[tuple[float, int, int]]]
    """Of a recording kernel: time, segment and point of each timestamp, by actor."""
    left_out: int = 0
    """Iterations of the outermost loop that are not shown: there are too many."""


@dataclass(frozen=True)
class _Sample:
    """What one replay found."""

    cycles: float
    busy: dict[str, float]
    loaded: float
    stored: float


class Launch:
    """A kernel and its arguments, ready to be replayed CTA by CTA."""

    def __init__(
        self,
        module: ModuleOp,
        grid: Sequence[int],
        args: Sequence[Any],
        target: Chip,
        free: Callable[[Operation], bool] = never,
    ) -> None:
        """Ops that are `free` take no time."""
        self.target, self.free = target, free
        self.first: Cluster = next(prepared(module, grid, args, target.multiprocessors))
        kernel, warps = self.first.kernel, self.first.threads // 32
        spans = warp_spans(kernel, warps)
        self.programs = self._programs()
        memory = self.first.memory
        self._counts: list[Count] = [count(kernel, s, warps, target, memory=memory) for s in spans]
        self._amounts: list[Count] = []
        values: Sequence[Any] = self.first.values
        self.values: list[Any] = [getattr(v, "tolist", lambda v=v: v)() for v in values]
        self.grid = self.first.grid
        self.cluster = len(self.first.blocks)
        self.bytes = sum(array.nbytes for array in arrays_of(args))
        spec = spec_of(module, kernel)
        self.persistent = spec.grid == "persistent"
        self.asked = spec.ctas_per_sm

    def _programs(self, notes: bool = False) -> list[tuple[str, Program]]:
        """The program of each actor, by name."""
        kernel, warps = self.first.kernel, self.first.threads // 32
        return [
            (
                span.name,
                program(kernel, span, warps, self.target, self.first.memory, notes, self.free),
            )
            for span in warp_spans(kernel, warps)
        ]

    @cached_property
    def loads(self) -> list[int]:
        """Of a persistent grid, how many copies each CTA loads: what its work goes by."""
        return [int(self._moved(x).loads) for x in range(self.grid[0])]

    @cached_property
    def typical(self) -> Amounts:
        """What a CTA loads and stores on average, of some that are spread over the launch.

        A single one won't do: the first of a triangle loads next to nothing. Nor will steps that
        divide the grid: they meet one column of it.
        """
        some = min(self.ctas, SPREAD)
        blocks = [self.block(int(number * GOLDEN % 1 * self.ctas)) for number in range(some)]
        moved = [self._counted(self._counts, block) for block in blocks]
        return reduce(Amounts.plus, moved, Amounts()).times(1 / some)

    @cached_property
    def loaded(self) -> float:
        """Bytes that all CTAs load."""
        return float(self.ctas * self.typical.loaded)

    @cached_property
    def memory_bytes(self) -> tuple[float, float]:
        """Bytes that device memory reads and writes.

        What is loaded replaces in L2 what was written before the launch, which memory has to
        write; of what is stored, as much stays there.
        """
        stored = min(float(self.ctas * self.typical.stored), self.bytes)
        fresh = 1.0 - stored / max(1, self.bytes)
        return self.bytes - stored, stored + fresh * min(self.target.l2_bytes, self.bytes)

    def misses(self, read: float, replaced: float, resident: int) -> Misses:
        """Which loads come from device memory: known if all CTAs run at once, else all alike."""
        together = min(self.ctas, self.target.multiprocessors * resident)
        lists: list[list[Box]] = []
        if self.ctas == together:
            kernel, warps = self.first.kernel, self.first.threads // 32
            spans = warp_spans(kernel, warps)
            at_first = self.values, 0, (0, 0, 0), self.grid
            loading = [s for s, n in zip(spans, self._counts, strict=True) if n(*at_first)[0]]
            listed = [
                places(kernel, span, warps, self.target, self.first.memory) for span in loading
            ]
            for number in range(together):
                block = self.block(number)
                at = self.values, block[0] % self.cluster, block, self.grid
                lists += [boxes(*at, MOST // together) for boxes in listed]
        return misses(lists, self.loaded, read, replaced)

    def _moved(self, x: int) -> Amounts:
        """What CTA `x` loads and stores by copies."""
        return self._counted(self._counts, (x, 0, 0))

    def amounts(self, block: Block) -> Amounts:
        """What a CTA loads, stores and multiplies."""
        if not self._amounts:
            kernel, warps = self.first.kernel, self.first.threads // 32
            spans = warp_spans(kernel, warps)
            self._amounts = [
                count(kernel, s, warps, self.target, False, self.first.memory) for s in spans
            ]
        return self._counted(self._amounts, block)

    def block(self, number: int) -> Block:
        """The place of a CTA in launch order: x fastest."""
        x, y, _ = self.grid
        return number % x, number // x % y, number // (x * y)

    def _counted(self, counts: Sequence[Count], block: Block) -> Amounts:
        place = self.values, block[0] % self.cluster, block, self.grid
        total = Amounts()
        for counter in counts:
            total = total.plus(counter(*place))
        return total

    @property
    def ctas(self) -> int:
        """CTAs of the launch."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def resident(self) -> int:
        """CTAs that share a multiprocessor, if each thread takes as many registers as it may."""
        if self.cluster > 1:
            return 1
        if self.asked > 1:
            return self.asked
        threads = self.first.threads
        shared = self.target.ctas_with(self.first.shared_bytes)
        registers = self.target.registers // (threads * (self.target.max_registers + 1))
        return max(1, min(shared, registers, self.target.threads // threads, self.target.ctas))

    @property
    def most_together(self) -> int:
        """CTAs that the fullest multiprocessor gets of those that are launched."""
        return -(-self.ctas // self.target.multiprocessors)

    def replay(self, block: Block, rates: Rates, resident: int, whole: bool = False) -> _Sample:
        """Replay the cluster that `block` begins, or CTAs like it that share a multiprocessor.

        Of many iterations of the outermost loop only some are replayed, unless the `whole` is asked
        for.
        """
        starts = self._starts(block, resident, self.programs)
        cut = None if whole else cut_of([iterations_of(start(None)) for _, _, start in starts])
        try:
            machine = self._machine(starts, rates, cut)
        except errors.Deadlock:
            if cut is None:
                raise
            cut = None  # the actors' iterations do not belong together one by one
            machine = self._machine(starts, rates, cut)
        return self._sample(machine, cut)

    def shown(self, rates: Rates, resident: int) -> Replayed:
        """The first CTA or cluster, beside those like it that share its multiprocessor."""
        starts = self._starts((0, 0, 0), resident, self._programs(notes=True))
        cut = cut_of([iterations_of(start(None)) for _, _, start in starts], MOST_SHOWN)
        trace = Trace(self.cluster, self.cluster > 1)
        try:
            machine = self._machine(starts, rates, cut, trace)
        except errors.Deadlock:
            if cut is None:
                raise
            trace, cut = Trace(self.cluster, self.cluster > 1), None
            machine = self._machine(starts, rates, cut, trace)
        own = [actor for actor in machine.actors if actor.cta < self.cluster]
        stamps = {trace.track(actor): actor.stamps for actor in own if actor.stamps}
        left_out = len(cut.left_out) if cut is not None else 0
        return Replayed(machine.end, trace.intervals, stamps, left_out)

    def accounts(self, block: Block, rates: Rates, resident: int) -> list[Account]:
        """What the actors of a CTA, or of the first of a cluster, spend their time on."""
        starts = self._starts(block, resident, self._programs(notes=True))
        cut = cut_of([iterations_of(start(None)) for _, _, start in starts])
        ledger = Ledger(0, clustered=False)
        try:
            machine = self._machine(starts, rates, cut, ledger)
        except errors.Deadlock:
            if cut is None:
                raise
            ledger, cut = Ledger(0, clustered=False), None
            machine = self._machine(starts, rates, cut, ledger)
        rest = cut.rest(machine.actors[cut.reference].iterations) if cut is not None else 0.0
        return ledger.accounts(machine.actors, rest)

    def _starts(self, block: Block, resident: int, programs: Programs) -> list[Start]:
        """How to start each actor of the cluster at `block`, or of CTAs that run beside it."""
        many = self.cluster if self.cluster > 1 else resident
        ctas = [(block[0] + cta, *block[1:]) if self.cluster > 1 else block for cta in range(many)]
        return [
            (name, cta, self._start(run, own, cta if self.cluster > 1 else 0))
            for cta, own in enumerate(ctas)
            for name, run in programs
        ]

    def _start(self, run: Program, block: Block, rank: int) -> Callable[[int | None], Steps]:
        return lambda iterations: run(self.values, rank, block, self.grid, iterations)

    def _machine(
        self, starts: Sequence[Start], rates: Rates, cut: Cut | None, trace: Trace | None = None
    ) -> Machine:
        """A machine that has run all actors, each for as many iterations as the cut says."""
        iterations = cut.iterations if cut is not None else [None] * len(starts)
        actors = [
            Actor(name, cta, start(most))
            for (name, cta, start), most in zip(starts, iterations, strict=True)
        ]
        many = 1 + max(actor.cta for actor in actors)
        places = list(range(many)) if self.cluster > 1 else [0] * many
        machine = Machine(self.target, rates, actors, places, trace)
        machine.run()
        return machine

    def _sample(self, machine: Machine, cut: Cut | None) -> _Sample:
        """What a machine's run says of a CTA, with the iterations that were left out."""
        cycles, factor = machine.end, 1.0
        if cut is not None:
            cycles += cut.rest(machine.actors[cut.reference].iterations)
            factor = cut.factor
        many, units = len(machine.places), len(set(machine.places))
        busy = {name: factor * time / units for name, time in machine.busy.items()}
        return _Sample(cycles, busy, factor * machine.loaded / many, factor * machine.stored / many)


def predict_launch(
    module: ModuleOp,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    clock_ghz: float,
    target: Chip = DEFAULT,
    ctas_per_multiprocessor: int | None = None,
    whole: bool = False,
    timeline: bool = False,
    accounts: bool = False,
    free: Callable[[Operation], bool] = never,
) -> LaunchPrediction:
    """The model's time of a launch of a hopper module.

    `grid` is the user's grid and `args` are those of `simulate.run` (arrays give sizes only: their
    data is not touched, and `np.empty` costs nothing). `ctas_per_multiprocessor` is how many CTAs
    share one, where the registers that the assembler chose say so. Of CTAs with many tiles a few
    are replayed (`timing_sample`); with `whole`, all. With `timeline`, the result has what the
    first CTA does when; with `accounts`, what the longest one's time is spent on. Ops that are
    `free` take no time, which tells what there is to gain from them.
    """
    launch = Launch(module, grid, args, target, free)
    resident = min(ctas_per_multiprocessor or launch.resident, launch.most_together)
    rates = _rates(launch, clock_ghz, launch.loaded, resident)
    samples = _samples(launch, rates, resident, whole)
    times = _all_cycles(launch, samples)
    switch = target.timing.cta_us * 1e3 * clock_ghz
    total = _scheduled(times, launch, resident, switch)
    block = max(samples, key=lambda block: samples[block].cycles)
    part = _mean(samples)
    kernel_us = total / clock_ghz / 1e3
    shares = {name: cycles * launch.ctas for name, cycles in part.busy.items()}
    units = min(target.multiprocessors * resident, launch.ctas)
    shares = {name: value / (units * total) for name, value in shares.items()}
    memory_us = sum(launch.memory_bytes) / target.memory_gbs / 1e3
    shares["memory"] = memory_us / max(kernel_us, memory_us)
    kernel_us = max(kernel_us, memory_us)
    bound = max(shares, key=lambda name: shares[name])
    return LaunchPrediction(
        (kernel_us + target.timing.empty_us) / 1e6,
        kernel_us / 1e6,
        clock_ghz,
        bound if shares[bound] > 0.7 else "latency",
        shares,
        samples[block].cycles,
        launch.ctas,
        launch.ctas / (target.multiprocessors * resident),
        launch.shown(rates, resident) if timeline else None,
        tuple(launch.accounts(block, rates, resident)) if accounts else (),
    )


def _rates(launch: Launch, clock: float, loaded: float, resident: int = 1) -> Rates:
    """What a multiprocessor gets, when all of them load `loaded` bytes altogether.

    What is read several times is read by neighbours at about the same time, from L2.
    """
    target = launch.target
    share = 1.0 / min(launch.ctas, target.multiprocessors) / clock
    reuse = max(1.0, loaded / max(1.0, launch.bytes))
    read, written = launch.memory_bytes
    replaced = written - min(written, launch.bytes - read)
    return Rates(
        min(target.ingest_bytes, min(reuse, target.shared_reads) * target.l2_gbs * share),
        min(target.ingest_bytes, target.l2_store_gbs * share),
        target.load_latency,
        target.miss_latency,
        target.memory_gbs * share,
        launch.misses(read, replaced, resident),
        target.timing.cold_us * 1e3 * clock,
    )


def _samples(launch: Launch, rates: Rates, resident: int, whole: bool) -> dict[Block, _Sample]:
    """Replays of CTAs that stand for all.

    Of a persistent grid, those with the least and the most to load; else the first, and more along
    the axes of the grid on which they differ.
    """
    found: dict[Block, _Sample] = {}

    def at(block: Block) -> _Sample:
        if block not in found:
            found[block] = launch.replay(block, rates, resident, whole)
        return found[block]

    first = at((0, 0, 0))
    if launch.persistent:
        loads = launch.loads
        for place in (int(np.argmin(loads)), int(np.argmax(loads))):
            if abs(loads[place] - loads[0]) > 0.01 * loads[0]:
                at((place // launch.cluster * launch.cluster, 0, 0))
        return found
    for axis, size in enumerate(launch.grid):
        step = launch.cluster if axis == 0 else 1
        end, half = ((size - 1) // part // step * step for part in (1, 2))
        if end == 0:
            continue
        cycles = [first.cycles, at(_block(axis, end)).cycles, at(_block(axis, half)).cycles]
        if max(cycles) > 1.01 * min(cycles):
            for number in range(1, SAMPLES - 1):
                at(_block(axis, end * number // (SAMPLES - 1) // step * step))
    return found


def _block(axis: int, place: int) -> Block:
    x, y, z = (place if i == axis else 0 for i in range(3))
    return x, y, z


def _mean(samples: dict[Block, _Sample]) -> _Sample:
    """The average of samples."""
    count = len(samples)
    names = {name for s in samples.values() for name in s.busy}
    busy = {n: sum(s.busy.get(n, 0.0) for s in samples.values()) / count for n in names}
    return _Sample(
        sum(s.cycles for s in samples.values()) / count,
        busy,
        sum(s.loaded for s in samples.values()) / count,
        sum(s.stored for s in samples.values()) / count,
    )


def _all_cycles(launch: Launch, samples: dict[Block, _Sample]) -> Any:
    """Cycles of every CTA in launch order: x fastest."""
    if launch.persistent:
        order = sorted({launch.loads[b[0]]: s.cycles for b, s in samples.items()}.items())
        loads, cycles = zip(*order, strict=True)
        return np.interp(launch.loads, loads, cycles)
    base = samples[0, 0, 0].cycles
    axes: list[Any] = []
    for axis, size in enumerate(launch.grid):
        points = sorted(
            (b[axis], s.cycles) for b, s in samples.items() if not any(_others(b, axis))
        )
        where, values = zip(*points, strict=True)
        axes.append(np.interp(np.arange(size), where, values) - base)
    x, y, z = axes
    return (base + z[:, None, None] + y[None, :, None] + x[None, None, :]).ravel()


def _others(block: Block, axis: int) -> list[int]:
    return [place for i, place in enumerate(block) if i != axis]


def _scheduled(times: Any, launch: Launch, resident: int, switch: float) -> float:
    """When the last CTA ends, each started in order as soon as there is a place."""
    clusters = times[:: launch.cluster]
    places = launch.target.multiprocessors // launch.cluster * resident
    if len(clusters) <= places:
        return float(clusters.max())
    free = [float(t) for t in clusters[:places]]
    heapify(free)
    for time in clusters[places:]:
        heapreplace(free, free[0] + switch + float(time))
    return max(free)
