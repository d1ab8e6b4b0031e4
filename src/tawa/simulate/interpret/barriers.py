"""mbarriers and named barriers, with what each phase has been told.

An mbarrier's phase completes when its pending arrivals and its expected bytes are both used up (PTX
ISA, "mbarrier"). Clocks of those who arrive are collected and given to those who wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tawa.base.numerics import Array
from tawa.simulate.interpret import errors
from tawa.simulate.interpret.clocks import TIMED


@dataclass
class Arrival:
    """One arrival of the running phase."""

    actor: str
    text: str
    kind: str
    """`own`; `peer` if it may stand in for another CTA's; `expect` if bytes are announced."""


class Passed(NamedTuple):
    """A wait that went on: who, when, for which phase."""

    text: str
    components: tuple[int, ...]
    times: tuple[int, ...]
    phase: int


@dataclass
class Waiter:
    """An actor that waits for a phase of an mbarrier."""

    actor: str
    barrier: Mbarrier
    awaited: int
    describe: Callable[[], str]

    def ready(self) -> bool:
        """Whether the phase has completed."""
        return self.barrier.phase > self.awaited


@dataclass
class Mbarrier:
    """One mbarrier in shared memory."""

    label: str
    component: int
    arrivals: int
    collected: Array
    published: Array
    pending: int = 0
    bytes: int = 0
    """Bytes still expected; below zero while more has landed than was announced."""
    phase: int = 0
    """Phases completed so far."""
    announced: int = 0
    landed: int = 0
    copies: int = 0
    """Copies in flight that will count here."""
    late: int = 0
    """Arrivals of this phase that wait for copies of their threads."""
    last: Array | None = None
    """What the arrivals of the last phase had seen; None if copies counted in it, which end later
    than they start."""
    checking: bool = True
    """Report waits that are not over before the next phase completes."""
    fenced: bool = False
    initialised: tuple[int, int] = (0, 0)
    """Component and time of the initialisation."""
    present: list[Arrival] = field(default_factory=list[Arrival])
    ever: set[str] = field(default_factory=set[str])
    waiters: list[Waiter] = field(default_factory=list[Waiter])
    passed: list[Passed] = field(default_factory=list["Passed"])
    """Waits that have seen a phase since the one before it completed."""

    def __post_init__(self) -> None:
        self.pending = self.arrivals

    def passes(self, parity: int) -> bool:
        """Whether a wait for this parity goes on at once."""
        return (self.phase - 1) & 1 == parity

    def after_last(self, clock: Array) -> bool:
        """Whether a clock (its row `TIMED`) comes after everything in the last phase."""
        return self.last is not None and bool((self.last[TIMED] <= clock).all())

    def arrive(self, who: Arrival, count: int, clock: Array, size: int = 0) -> None:
        """`count` arrivals that expect `size` bytes; raises when there are too many."""
        if who.kind == "own" and any(self._again(a, who) for a in self.present):
            raise errors.DoubleArrive(
                f"{who.actor} arrives a second time in one phase of {self.label}",
                expected=f"one arrival of each participant a phase ({self.arrivals} arrivals)",
                found=self._roll([*self.present, who]),
                hint="arrive once for each get: in one thread, on one path, after the last reader",
            )
        if count > self.pending and who.kind == "expect":
            raise errors.OverwriteUnread(
                f"{who.actor} announces a second fill of {self.label} before the first has landed",
                expected="a wait for the slot's empty barrier before each fill",
                found=self._roll([*self.present, who]),
                hint="wait for the slot's empty barrier before filling it again",
            )
        if count > self.pending:
            raise errors.WrongArrivalCount(
                f"{who.actor} arrives at {self.label}, whose phase {self.phase} has none left",
                expected=f"at most {self.arrivals} arrivals a phase",
                found=self._roll([*self.present, who]),
                hint="initialise the mbarrier with the number of arrivals of one phase",
            )
        self.present.append(who)
        self.ever.add(who.actor)
        np.maximum(self.collected, clock, out=self.collected)
        self.pending -= count
        self.bytes += size
        self.announced += size
        self._complete()

    def _again(self, before: Arrival, now: Arrival) -> bool:
        return before.kind == "own" and before.actor == now.actor

    def start_copy(self, clock: Array) -> None:
        """A copy that will count here starts, after what its issuer's clock has seen."""
        self.copies += 1
        np.maximum(self.collected[TIMED], clock[TIMED], out=self.collected[TIMED])

    def start_arrival(self, clock: Array) -> None:
        """An arrival that waits for its threads' copies starts, after what their clock has seen."""
        self.late += 1
        np.maximum(self.collected[TIMED], clock[TIMED], out=self.collected[TIMED])

    def land(self, size: int) -> None:
        """`size` bytes of a copy have landed."""
        self.copies -= 1
        self.bytes -= size
        self.landed += size
        self._complete()

    def _complete(self) -> None:
        if self.pending or self.bytes > 0:
            return
        if self.bytes < 0 or self.copies:
            raise errors.WrongByteCount(
                f"phase {self.phase} of {self.label} completes before its copies have landed",
                expected="as many bytes announced as the copies of one phase move",
                found=f"{self.announced} bytes announced, {self.landed} landed, "
                f"{self.copies} copies still under way",
                hint="announce the bytes of all boxes of the slot, parts outside the tensor too",
            )
        for waiter in self.waiters:
            if waiter.awaited < self.phase:
                raise errors.PhaseAliased(
                    f"phase {self.phase} of {self.label} completes while {waiter.actor} still "
                    f"waits for phase {waiter.awaited}",
                    expected="nobody more than one phase ahead of a waiter: a parity tells only "
                    "two phases apart",
                    found=f"{waiter.describe()}; the phase completes through "
                    + self._roll(self.present),
                    hint="let the faster group wait for the slower one before it goes on",
                )
        self._check_passed()
        self.last = None if self.announced or self.late else self.collected.copy()
        np.maximum(self.published, self.collected, out=self.published)
        self.phase += 1
        self.published[:, self.component] = self.phase
        self.pending, self.announced, self.landed, self.late = self.arrivals, 0, 0, 0
        self.present = []

    def _check_passed(self) -> None:
        """Whoever waited for the phase before has gone on before this one completes."""
        for wait in self.passed:
            seen = self.collected[TIMED, list(wait.components)]
            if self.checking and wait.phase == self.phase - 1 and (seen < wait.times).any():
                raise errors.PhaseAliased(
                    f"phase {self.phase} of {self.label} may complete before a wait for phase "
                    f"{wait.phase} has seen it",
                    expected="nobody more than one phase ahead of a waiter: a parity tells only "
                    "two phases apart",
                    found=f"{wait.text} is not ordered before " + self._roll(self.present),
                    hint="let the faster group wait for the slower one before it goes on",
                )
        self.passed = [wait for wait in self.passed if wait.phase == self.phase]

    def _roll(self, arrivals: list[Arrival]) -> str:
        return "; ".join(a.text for a in arrivals) or "no arrival"

    def state(self) -> str:
        """The running phase, for messages."""
        text = (
            f"{self.label}: phase {self.phase} has {self.arrivals - self.pending} of "
            f"{self.arrivals} arrivals"
        )
        if self.bytes:
            text += f" and {self.landed} of {self.announced} bytes"
        return f"{text} ({self._roll(self.present)})" if self.present else text


@dataclass
class NamedBarrier:
    """One of the CTA's sixteen hardware barriers, or the barrier of a cluster."""

    label: str
    collected: Array
    published: Array
    threads: int = 0
    arrived: int = 0
    generation: int = 0
    present: list[str] = field(default_factory=list[str])
    alone: str | None = None
    """Who used the barrier without others."""

    def arrive(self, actor: str, count: int, threads: int, clock: Array) -> int:
        """`count` of `threads` threads arrive; returns the generation to wait for."""
        if count == threads and self.alone not in (None, actor):
            raise errors.NamedBarrierMismatch(
                f"{actor} and {self.alone} use {self.label} for themselves",
                expected=f"a barrier of its own for each group of {threads} threads",
                found="one number for both: warps of one group can complete the other's meeting",
                hint="add the group's or the team's index to the barrier's number",
            )
        self.alone = actor if count == threads else self.alone
        if self.present and threads != self.threads:
            raise errors.NamedBarrierMismatch(
                f"{actor} uses {self.label} with {threads} threads",
                expected=f"{self.threads} threads, as {', '.join(self.present)} said",
                found=f"{threads} threads",
                hint="all users of a named barrier give the same number of threads",
            )
        if self.arrived + count > threads:
            raise errors.NamedBarrierMismatch(
                f"{actor} arrives at {self.label} with {count} threads",
                expected=f"{threads} threads altogether",
                found=f"{self.arrived} there already ({', '.join(self.present) or 'nobody'}), "
                f"and {count} more",
                hint="count the threads of all groups that use the barrier",
            )
        self.threads, self.arrived = threads, self.arrived + count
        self.present.append(actor)
        np.maximum(self.collected, clock, out=self.collected)
        mine = self.generation
        if self.arrived == threads:
            np.maximum(self.published, self.collected, out=self.published)
            self.generation, self.arrived, self.present = mine + 1, 0, []
        return mine

    def state(self) -> str:
        """Who is there, for messages."""
        there = ", ".join(self.present) or "nobody"
        return f"{self.label}: {self.arrived} of {self.threads} threads ({there})"
