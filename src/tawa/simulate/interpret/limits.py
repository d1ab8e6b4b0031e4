"""How far a check goes before it gives up, and what it says then: never "proved"."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

STATES = 1_000_000
STEPS = 1_000_000
CLUSTERS = 1024

_LOOK_AT_CLOCK = 256
"""Steps, or states, between two looks at the clock."""


class LimitReached(Exception):
    """A run was stopped; its text says why."""


@dataclass
class Limits:
    """What a check may spend. A kernel may loop for ever, and a launch have a million CTAs."""

    states: int = STATES
    """States that the search visits, over all clusters."""
    steps: int = STEPS
    """Operations that the actors of one cluster's run execute."""
    clusters: int = CLUSTERS
    """Clusters of the launch that are run, the first ones."""
    seconds: float | None = None
    """Time for all of it."""
    _begin: float = field(default_factory=time.perf_counter)
    _steps: int = 0

    def start_run(self) -> None:
        """A cluster's run begins."""
        self._steps = 0

    def step(self) -> None:
        """An actor is about to execute an op. Raises LimitReached."""
        self._steps += 1
        if self._steps > self.steps:
            raise LimitReached(f"a run was stopped after {self.steps} operations: it may never end")
        if self._steps % _LOOK_AT_CLOCK == 0:
            self.look()

    def look(self) -> None:
        """Raise LimitReached if the time is over."""
        if self.out_of_time():
            raise LimitReached(self.time_text())

    def out_of_time(self, state: int = 0) -> bool:
        """Whether the time is over; looks at the clock at some states only."""
        if self.seconds is None or state % _LOOK_AT_CLOCK:
            return False
        return time.perf_counter() - self._begin > self.seconds

    def time_text(self) -> str:
        """What a report says when the time is over."""
        return f"the time limit of {self.seconds:g} s was reached"
