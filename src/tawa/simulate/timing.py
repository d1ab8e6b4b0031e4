"""Predicted time: one CTA's recorded communication, replayed with costs.

The CTA (or cluster) that starts first is run without data; its actors, the TMA engine and the
tensor core then take their turns in time. A launch takes as long as that CTA times the waves that
it needs, and at least as long as device memory needs for what is read and written once. The clock
is an input: a power-capped card runs matrix products slower than its nominal clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tawa.base.target import SM90A, Target
from tawa.base.timeline import Interval
from tawa.simulate.costs import ISSUE, LATENCY, TENSOR, costs_on
from tawa.simulate.hopper import RoundRobin, prepared, run_cluster
from tawa.simulate.launch import arrays_of
from tawa.simulate.machine import Event


@dataclass
class Prediction:
    """What the model says of a launch."""

    cycles: float
    """Of the CTA (cluster) that was replayed."""
    waves: int
    """How many CTAs each multiprocessor runs, one after the other."""
    clock_ghz: float
    memory_us: float
    """What device memory needs for every array once."""
    launch_us: float
    busy: dict[str, float]
    """Share of the CTA's time that each resource works."""
    timeline: list[Interval]
    stamps: dict[str, list[tuple[float, int, int]]] = field(
        default_factory=dict[str, "list[tuple[float, int, int]]"]
    )
    """Of a recording kernel: time, segment and point of each timestamp, by actor."""

    @property
    def kernel_us(self) -> float:
        """The kernel alone."""
        return max(self.cycles * self.waves / self.clock_ghz / 1e3, self.memory_us)

    @property
    def us(self) -> float:
        """Between events around the launch."""
        return self.kernel_us + self.launch_us

    def render(self) -> str:
        """The prediction as text."""
        shares = ", ".join(f"{name} {share:.0%}" for name, share in sorted(self.busy.items()))
        return (
            f"predicted {self.us:.1f} us at {self.clock_ghz:.3f} GHz: {self.waves} x "
            f"{self.cycles:.0f} cycles, device memory {self.memory_us:.1f} us, launch "
            f"{self.launch_us:.1f} us; busy: {shares}"
        )


@dataclass
class _Phase:
    """What a phase of a barrier has got so far."""

    left: int
    bytes: int = 0
    time: float = 0.0


@dataclass
class _Actor:
    name: str
    events: Sequence[Event]
    rank: int
    now: float = 0.0
    at: int = 0
    tensor_cycles: float = 0.0
    """Of the group of matrix instructions being issued."""
    groups: list[float] = field(default_factory=list[float])
    """When each group of matrix instructions ends."""
    stores: list[float] = field(default_factory=list[float])
    """When each group of stores has read its tiles."""
    open_store: float = 0.0


class Replay:
    """Gives every event a time, the earliest actor first."""

    def __init__(
        self, traces: dict[str, list[Event]], target: Target, store_bytes: float | None = None
    ) -> None:
        self.target = target
        self.store_bytes = store_bytes or target.copy_bytes
        self.actors = [_Actor(n, t, t[0].rank if t else 0) for n, t in traces.items()]
        self.free: dict[tuple[str, int], float] = {}
        self.busy: dict[str, float] = {}
        self.phases: dict[tuple[int, int, int], _Phase] = {}
        self.done: dict[tuple[int, int, int], float] = {}
        self.arrivals: dict[tuple[int, int], int] = {}
        self.timeline: list[Interval] = []
        self.stamps: dict[str, list[tuple[float, int, int]]] = {}
        self.event: Event | None = None
        """The one that is getting its time."""
        for trace in traces.values():
            for event in trace:
                if event.kind == "init":
                    rank, barrier, count = cast("tuple[int, int, int]", event.operands)
                    self.arrivals[rank, barrier] = count

    def run(self) -> float:
        """Replay all; returns the end in cycles."""
        while True:
            ready = [a for a in self.actors if a.at < len(a.events) and self._ready(a)]
            if not ready:
                break
            actor = min(ready, key=lambda a: a.now)
            self.event = event = actor.events[actor.at]
            actor.at += 1
            getattr(self, f"_{event.kind}")(actor, event)
        ends = [a.now for a in self.actors]
        return max([*ends, *(t for a in self.actors for t in (*a.groups, *a.stores))])

    def _ready(self, actor: _Actor) -> bool:
        event = actor.events[actor.at]
        if event.kind == "wait":
            rank, barrier, _, phase = cast("tuple[int, int, int, int]", event.operands)
            return phase < 0 or (rank, barrier, phase) in self.done
        if event.kind == "left":
            return self._meeting(event) in self.done
        return True

    # --- resources --------------------------------------------------------------------------------

    def _use(self, resource: str, rank: int, start: float, cycles: float) -> float:
        """Take a resource of a multiprocessor from `start` on, when it is free; gives the end."""
        key = resource, rank
        begin = max(start, self.free.get(key, 0.0))
        self.free[key] = begin + cycles
        self.busy[resource] = self.busy.get(resource, 0.0) + cycles
        return begin + cycles

    def _show(self, track: str, name: str, start: float, end: float) -> None:
        self.timeline.append(Interval(track, name, start, end, self.event))

    # --- events -----------------------------------------------------------------------------------

    def _work(self, actor: _Actor, event: Event) -> None:
        resource, cycles = cast("tuple[str, float]", event.operands)
        if resource == TENSOR:
            actor.tensor_cycles += cycles
            return
        start = actor.now
        if resource == LATENCY:
            actor.now += cycles
        elif resource == ISSUE:
            actor.now = self._use(ISSUE, actor.rank, actor.now, cycles)
        else:
            actor.now = self._use(resource, actor.rank, actor.now, cycles)
        if cycles >= 16:
            name = event.op.name if event.op is not None else resource
            self._show(actor.name, name, start, actor.now)

    def _commit(self, actor: _Actor, event: Event) -> None:
        start = max(actor.now, self.free.get((TENSOR, actor.rank), 0.0))
        cycles, actor.tensor_cycles = actor.tensor_cycles, 0.0
        end = self._use(TENSOR, actor.rank, actor.now, cycles)
        actor.groups.append(end + self.target.matrix_latency)
        actor.now += 4
        self._show(f"tensor core of CTA {actor.rank}", f"{actor.name}", start, end)

    def _matrix_wait(self, actor: _Actor, event: Event) -> None:
        last = len(actor.groups) - cast(int, event.operands[0])
        if last > 0:
            self._until(actor, actor.groups[last - 1], "wgmma wait")

    def _until(self, actor: _Actor, time: float, name: str) -> None:
        if time > actor.now:
            self._show(actor.name, name, actor.now, time)
            actor.now = time

    def _load(self, actor: _Actor, event: Event) -> None:
        ranks, barrier, size, _, phases = event.operands
        amount = cast(int, size)
        cycles = amount / self.target.copy_bytes
        end = self._use("copies", actor.rank, actor.now, cycles)
        landed = end + self.target.copy_latency
        self._show(f"copies of CTA {actor.rank}", event.text, end - cycles, landed)
        for rank, phase in zip(cast("list[int]", ranks), cast("list[int]", phases), strict=True):
            self._contribute((rank, cast(int, barrier), phase), 0, -amount, landed)
        actor.now += 8

    def _store(self, actor: _Actor, event: Event) -> None:
        cycles = cast(int, event.operands[2]) / self.store_bytes
        start = max(actor.now, self.free.get(("stores", actor.rank), 0.0))
        end = self._use("stores", actor.rank, actor.now, cycles)
        actor.open_store = max(actor.open_store, end)
        self._show(f"stores of CTA {actor.rank}", event.text, start, end)
        actor.now += 8

    def _bulk_commit(self, actor: _Actor, event: Event) -> None:
        actor.stores.append(actor.open_store)

    def _bulk_wait(self, actor: _Actor, event: Event) -> None:
        last = len(actor.stores) - cast(int, event.operands[0])
        if last > 0:
            self._until(actor, actor.stores[last - 1], "store wait")

    def _expect(self, actor: _Actor, event: Event) -> None:
        rank, barrier, size, phase = cast("tuple[int, int, int, int]", event.operands)
        actor.now += 4
        self._contribute((rank, barrier, phase), 1, size, actor.now)

    def _arrive(self, actor: _Actor, event: Event) -> None:
        rank, barrier, count, phase = cast("tuple[int, int, int, int]", event.operands)
        actor.now += 4
        self._contribute((rank, barrier, phase), count, 0, actor.now)

    def _wait(self, actor: _Actor, event: Event) -> None:
        rank, barrier, _, phase = cast("tuple[int, int, int, int]", event.operands)
        if phase >= 0:
            time = self.done[rank, barrier, phase]
            if time + self.target.barrier_latency > actor.now:
                self._until(actor, time + self.target.barrier_latency, "barrier wait")
        actor.now += 8

    def _named(self, actor: _Actor, event: Event) -> None:
        """Arrive; a waiting actor goes on in the event that is put after it."""
        rank, number, threads, active, wait, phase = cast("tuple[int, ...]", event.operands)
        key = rank, -1 - number, phase
        found = self.phases.setdefault(key, _Phase(threads))
        found.left -= active
        found.time = max(found.time, actor.now)
        if found.left <= 0:
            self.done[key] = found.time
        if wait:
            left = event._replace(kind="left")
            actor.events = [*actor.events[: actor.at], left, *actor.events[actor.at :]]

    def _meeting(self, event: Event) -> tuple[int, int, int]:
        rank, number, *_, phase = cast("tuple[int, ...]", event.operands)
        return rank, -1 - number, phase

    def _left(self, actor: _Actor, event: Event) -> None:
        self._until(actor, self.done[self._meeting(event)] + self.target.barrier_latency, "meeting")

    def _contribute(self, key: tuple[int, int, int], arrivals: int, size: int, time: float) -> None:
        found = self.phases.setdefault(key, _Phase(self.arrivals.get(key[:2], 1)))
        found.left -= arrivals
        found.bytes += size
        found.time = max(found.time, time)
        if found.left <= 0 and found.bytes == 0:
            self.done[key] = found.time

    def _timestamp(self, actor: _Actor, event: Event) -> None:
        """A recording kernel would read its clock now."""
        segment, index = cast("tuple[int, int]", event.operands)
        self.stamps.setdefault(actor.name, []).append((actor.now, segment, index))

    def _nothing(self, actor: _Actor, event: Event) -> None:
        """Costs nothing of its own."""

    _init = _fence = _read = _write = _operand = _wgmma = _nothing


def _store_rate(size: int, target: Target, clock: float) -> float:
    """Bytes a clock that each multiprocessor can store: an array beyond L2 is bound by memory."""
    if size <= target.l2_bytes:
        return target.copy_bytes
    return min(target.copy_bytes, target.memory_gbs / target.multiprocessors / clock)


def predict(
    module: ModuleOp,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    target: Target = SM90A,
    clock_ghz: float | None = None,
    ctas_per_multiprocessor: int = 1,
) -> Prediction:
    """The model's time of a launch; `args` are those of `simulate.run`, whose data is not touched.

    Control flow that depends on loaded data sees zeros.
    """
    clock = clock_ghz or target.clock_ghz
    clusters = prepared(module, grid, args, target.multiprocessors)
    first = next(clusters)
    traces: dict[str, list[Event]] = {}
    with np.errstate(all="ignore"):
        run_cluster(first, RoundRobin(), traces, costs=costs_on(target))
    sizes = [a.nbytes for a in arrays_of(args)]
    replay = Replay(traces, target, _store_rate(max(sizes, default=0), target, clock))
    cycles = replay.run()
    launched = first.grid[0] * first.grid[1] * first.grid[2]
    at_once = target.multiprocessors // len(first.blocks) * len(first.blocks)
    waves = -(-launched // (at_once * ctas_per_multiprocessor))
    ranks = len(first.blocks)
    return Prediction(
        cycles,
        waves,
        clock,
        sum(sizes) / target.memory_gbs / 1e3,
        target.launch_us,
        {name: time / cycles / ranks for name, time in replay.busy.items()},
        replay.timeline,
        replay.stamps,
    )
