"""All interleavings of one cluster, from the communication of one recorded run.

Each actor's communication is a straight line (its control flow does not depend on the schedule as
long as no access races, which is what is being checked). Two steps of different actors that are not
barrier operations or landing copies commute, so only those are interleaved: between two of them an
actor stands in a *segment*, during which it may be making any of the segment's accesses, besides
what its matrix instructions and bulk stores still read. A state is every actor's segment and the
number of copies landed at each mbarrier; two conflicting accesses held in one reachable state are a
race, a state without successor is a deadlock, and an arrival or a wait that falls into another
phase than in the recorded run is one as well (phases must not depend on the schedule).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np

from tawa.base.numerics import Array
from tawa.simulate.interpret.machine import Event

Barrier = tuple[int, int]
"""Rank of the CTA and address; a named barrier has -1 - number, the cluster's meeting rank -1."""


class Step(NamedTuple):
    """A barrier operation of an actor."""

    kind: str
    """`wait`, `arrive`, `meet` or `leave` (a named barrier, without waiting)."""
    barrier: Barrier
    number: int
    """Arrivals, or threads."""
    bytes: int
    """Bytes announced (mbarriers) or threads needed (named barriers)."""
    phase: int
    """The phase that it fell into, or that it waited for, in the recorded run."""
    text: str


class Landing(NamedTuple):
    """A copy on its way into one CTA."""

    bytes: int
    writes: int
    """Bit mask of the atoms it writes."""
    phase: int
    text: str
    arrivals: int = 0
    """Arrivals that it makes: of threads whose own copies it stands for."""


@dataclass
class Segment:
    """What an actor may be accessing between two barrier operations."""

    reads: int = 0
    writes: int = 0
    held: int = 0
    """What matrix instructions and stores of earlier segments still read."""
    loads: list[tuple[Barrier, Landing]] = field(default_factory=list[tuple[Barrier, Landing]])
    """Copies that it starts."""


@dataclass
class Line:
    """An actor: segment 0, step 0, segment 1, ..."""

    name: str
    steps: list[Step] = field(default_factory=list[Step])
    segments: list[Segment] = field(default_factory=lambda: [Segment()])


class Violation(NamedTuple):
    """What went wrong in one interleaving, and how to get there."""

    kind: str
    """`race`, `deadlock` or `phase`."""
    text: str
    path: list[tuple[str, str]]
    """Who did what, in order."""


@dataclass(frozen=True)
class Exploration:
    """What a search found."""

    states: int
    complete: bool
    """Every reachable state was visited."""
    violation: Violation | None
    names: tuple[str, ...]

    def table(self) -> str:
        """The counterexample, one column an actor."""
        if self.violation is None:
            return ""
        path = [(who, text.removeprefix(f"{who} ")) for who, text in self.violation.path]
        return _table(self.names, path[-40:])


def _table(names: Sequence[str], path: Sequence[tuple[str, str]]) -> str:
    columns = [n for n in names if any(who == n for who, _ in path)]
    width = {n: max([len(n), *(len(t) for who, t in path if who == n)]) for n in columns}
    head = " | ".join(n.ljust(width[n]) for n in columns)
    cells = ([text if who == n else "" for n in columns] for who, text in path)
    rows = [
        " | ".join(cell.ljust(width[n]) for n, cell in zip(columns, row, strict=True))
        for row in cells
    ]
    return "\n".join([head, "-" * len(head), *rows])


class _Atoms:
    """Shared memory cut into the largest pieces that every access takes whole or not at all."""

    def __init__(self, traces: dict[str, list[Event]]) -> None:
        self._masks: dict[tuple[int, int], int] = {}
        random = np.random.default_rng(0)
        signatures: dict[int, Array] = {}
        for rank, where in _wheres(traces):
            if (rank, id(where)) in self._masks:
                continue
            self._masks[rank, id(where)] = 0
            size = where.stop if isinstance(where, slice) else int(where.max()) + 1
            signatures[rank] = signature = _grown(signatures.get(rank), size)
            signature[where] += random.integers(1, 2**62, dtype=np.uint64)
        numbered: dict[int, tuple[Array, int]] = {}
        total = 0
        for rank, signature in signatures.items():
            kinds, inverse = np.unique(signature, return_inverse=True)
            numbered[rank] = inverse + total, total
            total += len(kinds)
        for rank, where in _wheres(traces):
            if not self._masks[rank, id(where)]:
                atoms = np.unique(numbered[rank][0][where])
                self._masks[rank, id(where)] = sum(1 << int(a) for a in atoms)

    def mask(self, rank: int, where: slice | Array) -> int:
        """The atoms of an access as a bit mask."""
        return self._masks[rank, id(where)]


def _grown(signature: Array | None, size: int) -> Array:
    if signature is None:
        return np.zeros(size, np.uint64)
    extra = size - len(signature)
    return np.concatenate([signature, np.zeros(extra, np.uint64)]) if extra > 0 else signature


def _wheres(traces: dict[str, list[Event]]) -> Iterator[tuple[int, slice | Array]]:
    """CTA and granules of every access."""
    for trace in traces.values():
        for event in trace:
            if event.kind in ("read", "write", "operand", "store", "copy"):
                yield event.rank, cast("slice | Array", event.operands[0])
            elif event.kind == "load":
                ranks = cast("list[int]", event.operands[0])
                for rank in ranks:
                    yield rank, cast("slice | Array", event.operands[3])


class _InFlight:
    """Groups of asynchronous reads: matrix instructions, or bulk stores."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.groups: list[list[int]] = []

    def commit(self) -> None:
        """Close the open group."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, pending: int) -> None:
        """All but the newest groups are done."""
        self.groups = self.groups[max(0, len(self.groups) - pending) :]

    def mask(self) -> int:
        """What is still being read."""
        return _union([m for group in (*self.groups, self.open) for m in group])


class _Builder:
    """Makes one actor's line out of its recorded communication."""

    def __init__(self, name: str, atoms: _Atoms) -> None:
        self.line = Line(name)
        self.atoms = atoms
        self.matrix, self.stores = _InFlight(), _InFlight()
        self.copies = 0
        """What copies of threads write for which no arrival waits yet."""

    def add(self, event: Event) -> None:
        """One more event."""
        step = _step(event)
        if step is not None:
            self.line.steps.append(step)
            mask = self.matrix.mask() | self.stores.mask()
            # What arrives in the segment is a landing there, and over once it has landed.
            self.line.segments[-1].writes |= self.copies
            self.line.segments.append(Segment(reads=mask, held=mask))
        elif event.kind == "copy":
            self.copies |= self.atoms.mask(event.rank, cast("slice", event.operands[0]))
        elif event.kind == "copy_arrive":
            self.line.segments[-1].loads.append(_arrival(event, self.copies))
            self.copies = 0
        elif event.kind == "load":
            self.line.segments[-1].loads += _landings(event, self.atoms)
        elif event.kind in ("commit", "bulk_commit"):
            self._flight(event.kind == "commit").commit()
        elif event.kind in ("matrix_wait", "bulk_wait"):
            self._flight(event.kind == "matrix_wait").wait(cast(int, event.operands[0]))
        elif event.kind in ("read", "write", "operand", "store"):
            self._access(event)

    def _flight(self, matrix: bool) -> _InFlight:
        return self.matrix if matrix else self.stores

    def _access(self, event: Event) -> None:
        mask = self.atoms.mask(event.rank, cast("slice", event.operands[0]))
        segment = self.line.segments[-1]
        if event.kind == "write":
            segment.writes |= mask
            return
        segment.reads |= mask
        if event.kind != "read":
            self._flight(event.kind == "operand").open.append(mask)


def line_of(name: str, trace: Sequence[Event], atoms: _Atoms) -> Line:
    """The segments and steps of one actor's recorded communication."""
    builder = _Builder(name, atoms)
    for event in trace:
        builder.add(event)
    return builder.line


def _union(masks: Sequence[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _landings(event: Event, atoms: _Atoms) -> Iterator[tuple[Barrier, Landing]]:
    ranks, barrier, size, where, phases = event.operands
    places, found = cast("list[int]", ranks), cast("list[int]", phases)
    for rank, phase in zip(places, found, strict=True):
        writes = atoms.mask(rank, cast("slice", where))
        landing = Landing(cast(int, size), writes, phase, f"copy of {event.text} lands")
        yield (rank, cast(int, barrier)), landing


def _arrival(event: Event, writes: int) -> tuple[Barrier, Landing]:
    """Arrivals of threads whose copies land at any time before."""
    rank, barrier, count, phase = cast("tuple[int, int, int, int]", event.operands)
    text = f"copies of {event.text} land"
    return (rank, barrier), Landing(0, writes, phase, text, count)


def _step(event: Event) -> Step | None:
    """The barrier operation of an event, if it is one."""
    if event.kind == "named":
        rank, number, threads, active, wait, phase = cast("tuple[int, ...]", event.operands)
        kind = "meet" if wait else "leave"
        return Step(kind, (rank, -1 - number), active, threads, phase, event.text)
    if event.kind in ("arrive", "expect", "wait"):
        rank, barrier, number, phase = cast("tuple[int, int, int, int]", event.operands)
        kind = "wait" if event.kind == "wait" else "arrive"
        announced = number if event.kind == "expect" else 0
        count = 1 if event.kind == "expect" else number
        return Step(kind, (rank, barrier), count, announced, phase, event.text)
    return None


def lines_of(traces: dict[str, list[Event]]) -> tuple[list[Line], dict[Barrier, int]]:
    """Every actor's line, and the arrivals that each mbarrier's phases take."""
    atoms = _Atoms(traces)
    arrivals: dict[Barrier, int] = {}
    for trace in traces.values():
        for event in trace:
            if event.kind == "init":
                rank, barrier, count = cast("tuple[int, int, int]", event.operands)
                arrivals[rank, barrier] = count
    return [line_of(name, trace, atoms) for name, trace in traces.items()], arrivals
