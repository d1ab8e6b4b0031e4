"""Whether a kernel's communication is safe in every schedule: what `tawa check` asks.

Three ways, for every cluster of a launch: a recorded run whose vector clocks find every unordered
access, whatever the schedule; a search through all interleavings of the recorded communication, up
to a bound; and random schedules of the whole program, whose results are compared.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tawa.base.numerics import Array
from tawa.base.target import SM90A
from tawa.simulate import errors
from tawa.simulate.explorer import Exploration, Line, lines_of
from tawa.simulate.hopper import Cluster, RandomSchedule, RoundRobin, prepared, run_cluster
from tawa.simulate.interleave import explore
from tawa.simulate.launch import arrays_of
from tawa.simulate.machine import Event

BOUND = 1_000_000
"""States that a search visits at most."""


@dataclass
class CheckReport:
    """What was checked, and how far."""

    kernel: str
    grid: tuple[int, ...]
    clusters: int = 0
    distinct: int = 0
    """Clusters that communicate differently; the others are like one of them."""
    states: int = 0
    bound: int = BOUND
    complete: bool = True
    """Every reachable state of every cluster was visited."""
    clocks: bool = True
    """The recorded runs were checked by vector clocks, which the search builds on."""
    schedules: int = 0
    same_results: bool = True
    """Every random schedule gave the recorded run's results, bit by bit."""
    seconds: float = 0.0
    actors: tuple[str, ...] = field(default_factory=tuple[str, ...])

    @property
    def proved(self) -> bool:
        """Whether every interleaving of this launch was covered."""
        return self.complete and self.clocks

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
        else:
            lines.append(
                f"not proved: the bound of {self.bound} states was reached ({self.states} visited, "
                "no violation among them)"
            )
        if self.clocks:
            lines.append("vector clocks: every access of shared memory is ordered")
        results = "the same results" if self.same_results else "RESULTS THAT DIFFER"
        lines.append(f"{self.schedules} random schedules: {results}")
        lines.append(f"{self.seconds:.1f} s")
        return "\n".join(lines)


def check(
    module: ModuleOp,
    grid: Sequence[int],
    args: Sequence[Any],
    *,
    bound: int = BOUND,
    schedules: int = 4,
    multiprocessors: int = SM90A.multiprocessors,
    clocks: bool = True,
) -> CheckReport:
    """Check a launch of a hopper module; `args` are as for `simulate.run` and hold its results.

    The claim is about this launch: its grid, its sizes, its trip counts. It says "proved" only if
    every state was visited; `bound` is the number of states at which the search gives up, over all
    clusters. `clocks=False` leaves the finding to the search alone.

    Raises a `ProtocolError` for the first thing that is wrong.
    """
    begin = time.perf_counter()
    arrays = arrays_of(args)
    before = [a.copy() for a in arrays]
    report = CheckReport("", tuple(grid), bound=bound, clocks=clocks)
    seen: set[Hashable] = set()
    with np.errstate(all="ignore"):
        for cluster in prepared(module, grid, args, multiprocessors):
            _check_cluster(cluster, report, seen, clocks)
    after = [a.copy() for a in arrays]
    for seed in range(schedules if clocks else 0):
        _restore(arrays, before)
        with np.errstate(all="ignore"):
            for number, cluster in enumerate(prepared(module, grid, args, multiprocessors)):
                run_cluster(cluster, RandomSchedule(seed * 1000 + number))
        report.schedules += 1
        report.same_results &= all(_same(a, b) for a, b in zip(arrays, after, strict=True))
    _restore(arrays, after)
    report.seconds = time.perf_counter() - begin
    return report


def _restore(arrays: Sequence[Array], values: Sequence[Array]) -> None:
    for array, value in zip(arrays, values, strict=True):
        if array.flags.writeable:
            array[...] = value


def _same(a: Array, b: Array) -> bool:
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def _check_cluster(
    cluster: Cluster, report: CheckReport, seen: set[Hashable], clocks: bool
) -> None:
    traces: dict[str, list[Event]] = {}
    run_cluster(cluster, RoundRobin(), traces, checking=clocks)
    lines, arrivals = lines_of(traces)
    report.kernel = cluster.kernel.sym_name.data
    report.clusters += 1
    report.actors = tuple(line.name for line in lines)
    key = _shape(lines)
    if key in seen:
        return
    seen.add(key)
    report.distinct += 1
    found = explore(lines, arrivals, max(1, report.bound - report.states))
    report.states += found.states
    report.complete &= found.complete
    if found.violation is not None:
        raise _unsafe(found)


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
