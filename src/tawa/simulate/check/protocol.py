"""Whether a kernel's communication is safe in every schedule: what `tawa check` asks.

Three ways, for every cluster of a launch: a recorded run whose vector clocks find every unordered
access, whatever the schedule; a search through all interleavings of the recorded communication, up
to a bound; and random schedules of the whole program, whose results are compared.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tawa.base.numerics import Array
from tawa.hopper.dialect.structure import Barriers
from tawa.hopper.dialect.types import BarrierType
from tawa.machine.chips import SM_90A
from tawa.simulate.check.explorer import Exploration, Line, lines_of
from tawa.simulate.check.interleave import explore
from tawa.simulate.check.order import undetermined
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.hopper import (
    Cluster,
    RandomSchedule,
    RoundRobin,
    prepared,
    run_cluster,
)
from tawa.simulate.interpret.launch import arrays_of
from tawa.simulate.interpret.limits import STATES, LimitReached, Limits
from tawa.simulate.interpret.machine import Event
from tawa.simulate.prove.fixpoint import Proof


@dataclass
class CheckReport:
    """What was checked, and how far."""

    kernel: str
    grid: tuple[int, ...]
    clusters: int = 0
    distinct: int = 0
    """Clusters that communicate differently; the others are like one of them."""
    states: int = 0
    cut: bool = False
    """A run was stopped, or clusters were left out."""
    ordered: bool = True
    """Every phase has its place in the recorded order: other schedules only exchange independent
    steps (see `simulate.check.order`)."""
    reached: list[str] = field(default_factory=list[str])
    """The limits at which the check gave up."""
    clocks: bool = True
    """The recorded runs were checked by vector clocks, which the search builds on."""
    schedules: int = 0
    same_results: bool = True
    """Every random schedule gave the recorded run's results, bit by bit."""
    seconds: float = 0.0
    actors: tuple[str, ...] = field(default_factory=tuple[str, ...])
    unawaited: set[str] = field(default_factory=set[str])
    """Barriers whose arrivals no cluster's actors waited for."""
    awaited: set[str] = field(default_factory=set[str])
    """Those that some did."""
    every: Proof | None = None
    """What is known of every launch, if that was looked at."""

    @property
    def untested(self) -> list[str]:
        """Barriers whose arrivals this launch does not test: nobody waits for them."""
        return sorted(self.unawaited - self.awaited)

    @property
    def complete(self) -> bool:
        """Every cluster was run to its end and every reachable state of each was visited."""
        return not self.reached

    @property
    def one_order(self) -> bool:
        """Every cluster ran to its end, and every phase has its place in that run's order."""
        return self.ordered and self.clocks and not self.cut

    @property
    def proved(self) -> bool:
        """Whether every interleaving of this launch was covered."""
        return self.complete and self.clocks

    @property
    def for_every_launch(self) -> bool:
        """Whether no launch can go wrong, and this one was run to its end."""
        return self.every is not None and self.every.proved and self.clocks and not self.cut

    def reach(self, limit: str) -> None:
        """Note a limit that was reached."""
        if limit not in self.reached:
            self.reached.append(limit)

    def render(self) -> str:
        """The report as text."""
        size = " x ".join(map(str, self.grid))
        lines = [
            f"{self.kernel}, grid {size}: {self.clusters} clusters, {self.distinct} that differ "
            f"in communication; actors {', '.join(self.actors)}"
        ]
        if self.proved:
            lines.append(
                f"proved for this launch: no deadlock, no race in any interleaving "
                f"({self.states} states, all visited)"
            )
        elif self.complete:
            lines.append(f"not proved: searched without vector clocks ({self.states} states)")
        for why in self.reached:
            lines.append(f"not proved: {why} ({self.states} states visited, no violation so far)")
        if self.one_order and not self.complete:
            lines.append(
                "order: every phase has its place in the recorded run, so that other schedules "
                "only exchange independent steps"
            )
        if self.clocks:
            which = "of shared memory" if self.complete else "that was made"
            lines.append(f"vector clocks: every access {which} is ordered")
        if self.every is not None:
            lines.append(self.every.render())
        if self.untested and not self.for_every_launch:
            names = ", ".join(f"`{name}`" for name in self.untested)
            lines.append(
                f"not tested: arrivals at {names}, for which nobody waits in this launch (no slot "
                "is used twice); launch more iterations, or give fewer slots (num_stages)"
            )
        results = "the same results" if self.same_results else "RESULTS THAT DIFFER"
        lines.append(f"{self.schedules} random schedules: {results}")
        lines.append(f"{self.seconds:.1f} s")
        return "\n".join(lines)


def check(
    module: ModuleOp,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    bound: int = STATES,
    schedules: int = 4,
    multiprocessors: int = SM_90A.multiprocessors,
    clocks: bool = True,
    limits: Limits | None = None,
) -> CheckReport:
    """Check a launch of a hopper module; `args` are as for `simulate.run` and hold its results.

    The claim is about this launch: its grid, its sizes, its trip counts. It says "proved" only if
    every cluster ran to its end and every state was visited; `limits` say when to give up, `bound`
    alone the number of states, over all clusters. `clocks=False` leaves the finding to the search.

    Raises a `ProtocolError` for the first thing that is wrong.
    """
    begin = time.perf_counter()
    arrays = arrays_of(args)
    before = [a.copy() for a in arrays]
    limits = limits or Limits(bound)
    report = CheckReport("", tuple(grid), clocks=clocks)
    launch = partial(prepared, module, grid, args, multiprocessors)
    with np.errstate(all="ignore"):
        _check_all(launch(), report, limits)
        after = [a.copy() for a in arrays]
        for seed in range(schedules if clocks else 0):
            _restore(arrays, before)
            if not _run_all(islice(launch(), limits.clusters), seed, limits):
                break
            report.schedules += 1
            report.same_results &= all(_same(a, b) for a, b in zip(arrays, after, strict=True))
    _restore(arrays, after)
    report.seconds = time.perf_counter() - begin
    return report


def _check_all(clusters: Iterator[Cluster], report: CheckReport, limits: Limits) -> None:
    """Check every cluster, or as many as the limits allow."""
    seen: set[Hashable] = set()
    for number, cluster in enumerate(clusters):
        report.clusters = number + 1
        if number < limits.clusters:
            try:
                _check_cluster(cluster, report, seen, limits)
            except LimitReached as limit:
                report.cut = True
                report.reach(str(limit))
    if report.clusters > limits.clusters:
        report.cut = True
        report.reach(f"only {limits.clusters} of {report.clusters} clusters were run")


def _run_all(clusters: Iterator[Cluster], seed: int, limits: Limits) -> bool:
    """Run every cluster in a random schedule; False if a limit was reached."""
    try:
        for number, cluster in enumerate(clusters):
            run_cluster(cluster, RandomSchedule(seed * 1000 + number), limits=limits)
    except LimitReached:
        return False
    return True


def _restore(arrays: Sequence[Array], values: Sequence[Array]) -> None:
    for array, value in zip(arrays, values, strict=True):
        if array.flags.writeable:
            array[...] = value


def _same(a: Array, b: Array) -> bool:
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def _check_cluster(
    cluster: Cluster, report: CheckReport, seen: set[Hashable], limits: Limits
) -> None:
    traces: dict[str, list[Event]] = {}
    report.kernel = cluster.kernel.sym_name.data
    limits.look()
    run_cluster(cluster, RoundRobin(), traces, checking=report.clocks, limits=limits)
    lines, arrivals = lines_of(traces)
    _note_waits(cluster, lines, report)
    report.actors = tuple(line.name for line in lines)
    key = _shape(lines)
    if key in seen:
        return
    seen.add(key)
    report.distinct += 1
    unordered = undetermined(lines, arrivals)
    report.ordered &= unordered is None
    left = max(1, limits.states - report.states)
    found = explore(lines, arrivals, left, out_of_time=limits.out_of_time)
    report.states += found.states
    if found.violation is not None:
        raise _unsafe(found)
    if unordered is not None:
        raise _another_phase(unordered)
    if not found.complete:
        timed = limits.out_of_time()
        bound = f"the bound of {limits.states} states was reached"
        report.reach(limits.time_text() if timed else bound)


def _note_waits(cluster: Cluster, lines: Sequence[Line], report: CheckReport) -> None:
    """Note which barriers with arrivals somebody waits for; the first wait of all needs none."""
    kinds: dict[str, set[int]] = {"wait": set(), "arrive": set()}
    for step in (step for line in lines for step in line.steps if step.phase >= 0):
        kinds.setdefault(step.kind, set()).add(step.barrier[1])
    for op in cluster.kernel.walk():
        if isinstance(op, Barriers) and isinstance(op.barrier.type, BarrierType):
            first = op.offset.value.data
            places = {first + 8 * slot for slot in range(op.barrier.type.slots.data)}
            name = op.barrier.name_hint or "a barrier"
            if places & kinds["wait"]:
                report.awaited.add(name)
            elif places & kinds["arrive"]:
                report.unawaited.add(name)


def _shape(lines: Sequence[Line]) -> Hashable:
    """What a search depends on: all but the texts."""
    return tuple(
        (
            line.name,
            tuple(step[:-1] for step in line.steps),
            tuple(
                (s.reads, s.writes, tuple((b, *landing[:-1]) for b, landing in s.loads))
                for s in line.segments
            ),
        )
        for line in lines
    )


def _another_phase(text: str) -> errors.UnsafeInterleaving:
    return errors.UnsafeInterleaving(
        "which phase an operation falls into depends on the schedule",
        expected="the same communication in every interleaving",
        found=text,
        hint="order the two by a barrier",
    )


def _unsafe(found: Exploration) -> errors.UnsafeInterleaving:
    assert found.violation is not None
    kinds = {
        "race": "two accesses of shared memory are not ordered",
        "deadlock": "an interleaving ends in a deadlock",
        "phase": "which phase an operation falls into depends on the schedule",
    }
    return errors.UnsafeInterleaving(
        kinds[found.violation.kind],
        expected="the same communication in every interleaving",
        found=found.violation.text,
        hint="order the two by a barrier, or give the slot back later",
        notes=[f"an interleaving that shows it:\n{found.table()}"],
    )
