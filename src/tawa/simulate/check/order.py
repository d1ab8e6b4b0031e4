"""Whether one recorded run stands for all schedules: every phase has its place in the order.

Parities and counts can be met by other arrivals than those of the recorded run. They cannot if

- whoever waits for phase p of a barrier, arrives in it, or starts a copy that counts in it, comes
  after the completion of phase p - 1;
- phase p + 1 completes after every wait for phase p has gone on.

Then no step can take part in another phase in any schedule, whether a step can be taken depends on
the steps before it alone, and every schedule is the recorded run with independent steps exchanged:
it deadlocks, or races, only if that run does. If one of the conditions fails, the steps before the
one that fails can be scheduled without the completion, so some schedule does differ.

"Comes after" is reachability in a graph, found by clocks that count each actor's steps and each
barrier's completed phases. The recorded run's accesses are checked by vector clocks of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tawa.base.numerics import Array
from tawa.simulate.check.explorer import Barrier, Line, Step


@dataclass
class _Phase:
    """One phase of a barrier: how many things it still needs, and what they have seen."""

    missing: int = 0
    clock: Array | None = None
    copies: bool = False
    """Copies count in it, which end later than the step that starts them."""


@dataclass
class _Order:
    """A replay of the lines in an order that the phases allow."""

    lines: Sequence[Line]
    phases: dict[tuple[Barrier, int], _Phase] = field(
        default_factory=lambda: defaultdict[tuple[Barrier, int], _Phase](_Phase)
    )

    def __post_init__(self) -> None:
        self.place: dict[Barrier, int] = {}
        for line in self.lines:
            for barrier, phase in _contributions(line):
                self.phases[barrier, phase].missing += 1
                self.place.setdefault(barrier, len(self.lines) + len(self.place))
            for step in line.steps:
                self.place.setdefault(step.barrier, len(self.lines) + len(self.place))
        size = len(self.lines) + len(self.place)
        self.clocks = [np.zeros(size, np.int64) for _ in self.lines]
        self.done: dict[Barrier, int] = dict.fromkeys(self.place, 0)
        self.position = [0] * len(self.lines)
        self.waits: dict[tuple[Barrier, int], list[tuple[int, int, str]]] = defaultdict(list)
        """Waits for a phase: actor, number of its step from 1 on, text."""
        for i, line in enumerate(self.lines):
            for number, step in enumerate(line.steps):
                if step.kind == "wait":
                    self.waits[step.barrier, step.phase].append((i, number + 1, step.text))

    def check(self) -> str | None:
        """What may fall into another phase; None if nothing may."""
        for i, line in enumerate(self.lines):
            found = self._start_copies(i, line, 0)
            if found is not None:
                return found
        while True:
            before = list(self.position)
            for i in range(len(self.lines)):
                found = self._run(i)
                if found is not None:
                    return found
            if before == self.position:
                return None

    def _run(self, i: int) -> str | None:
        """Take an actor's steps until it must wait."""
        line = self.lines[i]
        while self.position[i] < len(line.steps):
            step = line.steps[self.position[i]]
            if step.kind in ("wait", "joined") and self.done[step.barrier] <= step.phase:
                return None
            found = self._take(i, step)
            if found is not None:
                return found
            self.position[i] += 1
            found = self._start_copies(i, line, self.position[i])
            if found is not None:
                return found
        return None

    def _take(self, i: int, step: Step) -> str | None:
        clock = self.clocks[i]
        clock[i] += 1
        if step.kind == "joined":
            self._acquire(i, step)
            return None
        if not self._knows(i, step.barrier, step.phase):
            return self._early(step.text, step.phase)
        if step.kind == "wait":
            self._acquire(i, step)
            return None
        return self._contribute(step.barrier, step.phase, clock)

    def _acquire(self, i: int, step: Step) -> None:
        seen = self.phases[step.barrier, step.phase].clock if step.phase >= 0 else None
        if seen is not None:
            np.maximum(self.clocks[i], seen, out=self.clocks[i])

    def _start_copies(self, i: int, line: Line, segment: int) -> str | None:
        for barrier, landing in line.segments[segment].loads:
            if not self._knows(i, barrier, landing.phase):
                return self._early(landing.text.removesuffix(" lands"), landing.phase)
            self.phases[barrier, landing.phase].copies = True
            found = self._contribute(barrier, landing.phase, self.clocks[i])
            if found is not None:
                return found
        return None

    def _knows(self, i: int, barrier: Barrier, phase: int) -> bool:
        """Whether an actor comes after the phase before: after a wait for it, or for all in it."""
        if self.clocks[i][self.place[barrier]] >= phase:
            return True
        before = self.phases[barrier, phase - 1]
        if before.clock is None or before.copies or self.done[barrier] < phase:
            return False
        actors = slice(0, len(self.lines))
        return bool((before.clock[actors] <= self.clocks[i][actors]).all())

    def _early(self, text: str, phase: int) -> str:
        return f"{text} counts in phase {phase}, but nothing orders it after phase {phase - 1}"

    def _contribute(self, barrier: Barrier, number: int, clock: Array) -> str | None:
        """An arrival, or a copy; the last one of a phase completes it."""
        phase = self.phases[barrier, number]
        phase.clock = clock.copy() if phase.clock is None else np.maximum(phase.clock, clock)
        phase.missing -= 1
        if phase.missing or number != self.done[barrier]:
            return None
        self.done[barrier] += 1
        for actor, time, text in self.waits[barrier, number - 1]:
            if phase.clock[actor] < time:
                return (
                    f"phase {number} may complete before {text} has seen phase {number - 1}: "
                    "nothing orders the two"
                )
        phase.clock[self.place[barrier]] = number + 1
        return None


def _contributions(line: Line) -> Iterator[tuple[Barrier, int]]:
    """What an actor adds to phases: arrivals, meetings, copies."""
    for step in line.steps:
        if step.kind not in ("wait", "joined"):
            yield step.barrier, step.phase
    for segment in line.segments:
        for barrier, landing in segment.loads:
            yield barrier, landing.phase


def _with_joins(line: Line) -> Line:
    """A meeting is an arrival, and then a wait for all others."""
    new = Line(line.name, [], [line.segments[0]])
    for step, segment in zip(line.steps, line.segments[1:], strict=True):
        new.steps.append(step)
        if step.kind == "meet":
            new.segments.append(type(segment)())
            new.steps.append(step._replace(kind="joined"))
        new.segments.append(segment)
    return new


def undetermined(lines: Sequence[Line], arrivals: dict[Barrier, int]) -> str | None:
    """Why another schedule may communicate in another way than the recorded run; None if not.

    Phases that the recorded run left incomplete at its end are complete for nobody.
    """
    order = _Order([_with_joins(line) for line in lines])
    counts: dict[tuple[Barrier, int], int] = defaultdict(int)
    for line in lines:
        for step in line.steps:
            if step.kind == "arrive":
                counts[step.barrier, step.phase] += step.number
        for segment in line.segments:
            for barrier, landing in segment.loads:
                if landing.arrivals:
                    counts[barrier, landing.phase] += landing.arrivals
    for (barrier, phase), count in counts.items():
        if barrier in arrivals and count < arrivals[barrier]:
            order.phases[barrier, phase].missing += 1
    return order.check()
