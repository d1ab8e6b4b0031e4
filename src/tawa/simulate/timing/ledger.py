"""Where the cycles of a replay go: every cycle of an actor, by the op and the loop that it is at.

An actor says before each step what that step is about, so the time from one such note to the next
belongs to the first: computing, issuing and waiting alike. Ordinary code runs in pieces of many
ops, which share a piece's cycles by what each takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation

from tawa.simulate.timing.state import Actor
from tawa.simulate.timing.trace import NOTHING, About, Step, Trace


@dataclass(frozen=True)
class Account:
    """What one actor of a CTA spent its time on."""

    actor: str
    cycles: float
    """Of the whole CTA."""
    spent: dict[Operation, float]
    """Of these, those that it spent on each op: the rest is before its first step or after its
    last."""


@dataclass
class Ledger(Trace):
    """A trace that keeps no intervals, but what every actor's cycles were spent on."""

    spent: dict[Actor, dict[About, float]] = field(
        default_factory=lambda: defaultdict[Any, Any](lambda: defaultdict(float))
    )
    since: dict[Actor, tuple[Step, float]] = field(default_factory=dict[Any, Any])
    """What each actor is at, and since when."""

    def note(self, actor: Actor, step: tuple[Any, ...]) -> None:
        """An actor comes to its next step."""
        self._close(actor)
        self.since[actor] = Step(*step[1:]), actor.now

    def own(self, actor: Any, name: str, start: float, end: float) -> None:
        """Counted from note to note."""

    def work(self, actor: Any, start: float, end: float) -> None:
        """Counted from note to note."""

    def engine(self, actor: Any, engine: str, start: float, end: float) -> None:
        """Engines are no actors."""

    def issued(self, actor: Any, now: float) -> None:
        """Nothing is shown of the tensor core."""

    def ran(self, actor: Any, before: float, after: float, times: tuple[float, float]) -> None:
        """Nothing is shown of the tensor core."""

    def accounts(self, actors: Sequence[Actor], rest: float) -> list[Account]:
        """Of each actor of the first CTA; `rest` are cycles of iterations that were left out.

        These were spent as those were that ran: what stands in loops counts for more.
        """
        end = max(actor.now for actor in actors) + rest
        found: list[Account] = []
        for actor in actors:
            if actor.cta == 0:
                self._close(actor)
                found.append(Account(actor.name, end, _by_op(self.spent[actor], rest)))
        return found

    def _close(self, actor: Actor) -> None:
        step, since = self.since.pop(actor, (NOTHING, actor.now))
        self.spent[actor][step.about] += actor.now - since


def _by_op(spent: dict[About, float], rest: float) -> dict[Operation, float]:
    """Cycles by op, with those of the iterations left out."""
    inside = sum(cycles for about, cycles in spent.items() if about.loops)
    more = 1.0 + rest / inside if inside else 1.0
    found: dict[Operation, float] = defaultdict(float)
    for about, cycles in spent.items():
        parts = [(work.cycles, op) for work, op in about.parts]
        parts = parts or [(1.0, op) for op in about.ops[:1]]
        whole = sum(weight for weight, _ in parts) or 1.0
        for weight, op in parts:
            found[op] += cycles * (more if about.loops else 1.0) * weight / whole
    return dict(found)
