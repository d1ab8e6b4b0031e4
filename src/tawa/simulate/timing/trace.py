"""What a replay shows: the intervals of a predicted timeline, and the steps that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xdsl.ir import Operation

from tawa.base.timeline import Interval
from tawa.hopper.dialect.matrix import Wgmma
from tawa.simulate.timing.work import Work

SHORTEST = 12.0
"""Cycles of ordinary code below which a piece of it is not shown."""


@dataclass(frozen=True)
class About:
    """Which ops a step of a program stands for (those that take most of it first), and where.

    `loops` are the names of the loops around them, `ring` that of the barriers that they use.
    """

    ops: tuple[Operation, ...]
    loops: tuple[str, ...] = ()
    ring: str = ""
    parts: tuple[tuple[Work, Operation], ...] = ()
    """Of ordinary code: all its ops, with the work of each."""


class Step(NamedTuple):
    """What an interval of a predicted timeline is about."""

    about: About
    iterations: tuple[int, ...] = ()
    """Values of the loops' variables."""
    at: int | None = None
    """Slot of the ring."""

    @property
    def op(self) -> Operation | None:
        """The op that takes most of the step."""
        return self.about.ops[0] if self.about.ops else None

    @property
    def iteration(self) -> str:
        """The loops' variables, such as `k = 3`."""
        named = zip(self.about.loops, self.iterations, strict=True)
        return ", ".join(f"{name} = {number}" for name, number in named)

    @property
    def slot(self) -> str:
        """The slot of a ring, such as `a[2]`."""
        return f"{self.about.ring}[{self.at}]" if self.at is not None else ""


NOTHING = Step(About(()))


@dataclass
class _Products:
    """Of one actor: groups of matrix instructions on the tensor core, the oldest first."""

    groups: list[tuple[float, float, Step]] = field(default_factory=list[Any])
    """What the actor's issued cycles are at its end, when it was issued, and what it is."""
    free: float = 0.0
    """When the last one ended."""


@dataclass
class Trace:
    """Intervals of the actors of the first `ctas` CTAs; `clustered` CTAs are named in tracks."""

    ctas: int
    clustered: bool
    intervals: list[Interval] = field(default_factory=list[Interval])
    notes: dict[Any, Step] = field(default_factory=dict[Any, Step])
    """What each actor is at."""
    matrix: dict[Any, Step] = field(default_factory=dict[Any, Step])
    """The last matrix instruction of each actor."""
    products: dict[Any, _Products] = field(default_factory=dict[Any, _Products])

    def note(self, actor: Any, step: tuple[Any, ...]) -> None:
        """An actor comes to its next step."""
        found = self.notes[actor] = Step(*step[1:])
        if isinstance(found.op, Wgmma):
            self.matrix[actor] = found

    def track(self, actor: Any) -> str:
        """An actor's own track."""
        return f"CTA {actor.cta} {actor.name}" if self.clustered else actor.name

    def own(self, actor: Any, name: str, start: float, end: float) -> None:
        """Something that the actor itself does or waits for."""
        if actor.cta < self.ctas and end > start:
            step = self.notes.get(actor, NOTHING)
            self.intervals.append(Interval(self.track(actor), name, start, end, step))

    def work(self, actor: Any, start: float, end: float) -> None:
        """Ordinary code."""
        if end - start >= SHORTEST:
            ops = self.notes.get(actor, NOTHING).about.ops
            self.own(actor, ", ".join(dict.fromkeys(map(called, ops))) or "work", start, end)

    def engine(self, actor: Any, engine: str, start: float, end: float) -> None:
        """A copy that the actor has asked for."""
        if actor.cta < self.ctas:
            step = self.notes.get(actor, NOTHING)
            hint = getattr(getattr(step.op, "map", None), "name_hint", None) or engine
            track = f"{engine} of CTA {actor.cta}"
            self.intervals.append(Interval(track, hint, start, end, step))

    def issued(self, actor: Any, now: float) -> None:
        """A group of matrix instructions is closed; `now` is when its first one was issued."""
        if actor.cta < self.ctas:
            found = self.products.setdefault(actor, _Products())
            found.groups.append((actor.issued, now, self.matrix.get(actor, NOTHING)))

    def ran(self, actor: Any, before: float, after: float, times: tuple[float, float]) -> None:
        """The tensor core took an actor's instructions from `before` to `after` cycles of all."""
        found = self.products.get(actor)
        while found is not None and found.groups and found.groups[0][0] <= after + 1e-3:
            end, issued, step = found.groups.pop(0)
            part = (end - before) / (after - before) if after > before else 1.0
            time = times[0] + (times[1] - times[0]) * min(1.0, max(0.0, part))
            start = min(max(issued, found.free), time)
            found.free = time
            track = f"tensor core of CTA {actor.cta}"
            self.intervals.append(Interval(track, self.track(actor), start, time, step))


def called(op: Operation) -> str:
    """An op's function, or its name."""
    function = getattr(getattr(op, "function", None), "data", None)
    return function if isinstance(function, str) else op.name.removeprefix("hopper.")


def heaviest(parts: Sequence[tuple[Work, Operation]]) -> tuple[Operation, ...]:
    """An op of each of the three functions that take most of a piece of work."""
    totals: dict[str, float] = {}
    largest: dict[str, tuple[float, Operation]] = {}
    for work, op in parts:
        name, cycles = called(op), work.cycles
        totals[name] = totals.get(name, 0.0) + cycles
        if name not in largest or cycles > largest[name][0]:
            largest[name] = (cycles, op)
    order = sorted(totals, key=lambda name: -totals[name])
    return tuple(largest[name][1] for name in order[:3])
