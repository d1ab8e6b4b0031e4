"""What the compiler has the assembler look at: CUDA texts, of which the first good one is taken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from tawa.aref.analysis.registers import Budget, Sharing, blocks_in_flight
from tawa.aref.dialect.ops import WarpGroup
from tawa.base.attempts import Slack
from tawa.base.remarks import Remarks
from tawa.codegen.lower import sharing
from tawa.machine.target import Target
from tawa.pipeline.schedule import NO_SCHEDULE, Chosen, ScheduleLoops

GIVEN_UP = re.compile(r"set_registers_down<(\d+)>")
"""How a role's text gives up registers, all but so many a thread."""

SAME = "the assembler has seen it"


@dataclass(frozen=True)
class Scheduled:
    """A kernel with one attempt's schedules of its loops, to be lowered further."""

    slack: Slack
    remarks: Remarks
    module: ModuleOp
    """Of the aref level; lowering it changes it."""
    chosen: tuple[Chosen, ...]
    """The schedules."""
    gave_up: bool
    """Whether a loop has none."""

    @property
    def choices(self) -> tuple[object, ...]:
        """What decides, besides how roles share registers, what the module is lowered to."""
        return *self.chosen, self.slack.stages > 1 and not self.slack.registers


@dataclass(frozen=True)
class Candidate:
    """A kernel lowered to CUDA text with one attempt's choices."""

    slack: Slack
    remarks: Remarks
    said: Sequence[str]
    """The remarks about choices that take registers."""
    aref: ModuleOp
    module: ModuleOp
    """Of the last level."""
    text: str

    @property
    def last(self) -> bool:
        """Whether nothing is left to try if it is not good: loops keep the order of the source."""
        return not self.slack.stages


@dataclass
class Tried:
    """What was assembled, or needn't be.

    A text that differs from another only by leaving fewer registers to its loading roles spills if
    the other does.
    """

    machine: Target
    exhausted: bool = False
    """Whether schedules in more than one stage are not asked for any more."""
    hopeless: bool | None = None
    """Whether the first attempt has a loop without a schedule, and goes on all the same."""
    kept: dict[str, list[tuple[int, ...]]] = field(default_factory=dict[str, list[tuple[int, ...]]])
    """By the text without them, the registers that roles keep."""
    lowered: dict[tuple[object, ...], tuple[Sharing, list[Budget]]] = field(
        default_factory=dict[tuple[object, ...], tuple[Sharing, list[Budget]]]
    )
    """By choices, the registers that roles need, and how they shared them."""
    left_out: list[str] = field(default_factory=list[str])
    """Why attempts since the last one that was worth it were not."""

    def needless(self, scheduled: Scheduled) -> bool:
        """Whether a schedule needs no lowering: there is none, or it was lowered before."""
        slack = scheduled.slack
        if self.hopeless is None:
            self.hopeless = scheduled.gave_up
        elif scheduled.gave_up and not self.hopeless and slack.stages > 1:
            self.exhausted = True  # fewer stages may have a schedule that needs no more registers
            self._leave_out(slack, NO_SCHEDULE)
            return True
        if not slack.stages or scheduled.choices not in self.lowered:
            return False
        needs, others = self.lowered[scheduled.choices]
        now = needs.split(self.machine, slack.narrow, slack.registers)
        if not any(_leaves_as_much(other, now) for other in others):
            return False
        self._leave_out(slack, SAME)
        return True

    def add(self, candidate: Candidate, scheduled: Scheduled) -> bool:
        """Remember a candidate; whether it has to be assembled."""
        slack = scheduled.slack
        if candidate.said and candidate.slack == slack:
            needs = sharing([op for op in candidate.aref.walk() if isinstance(op, WarpGroup)])
            split = needs.split(self.machine, slack.narrow, slack.registers)
            self.lowered.setdefault(scheduled.choices, (needs, []))[1].append(split)
        if slack.stages and self.has(candidate.text):
            self._leave_out(slack, SAME)
            return False
        self.add_text(candidate.text)
        for line in self.left_out:
            candidate.remarks.say(ScheduleLoops.name, line)
        self.left_out.clear()
        return True

    def add_text(self, text: str) -> None:
        """Remember a text."""
        self.kept.setdefault(GIVEN_UP.sub("", text), []).append(_registers(text))

    def has(self, text: str) -> bool:
        """Whether the text, or one that leaves each role as many registers, was added."""
        now = _registers(text)
        others = self.kept.get(GIVEN_UP.sub("", text), [])
        return any(all(a >= b for a, b in zip(other, now, strict=True)) for other in others)

    def _leave_out(self, slack: Slack, why: str) -> None:
        self.left_out.append(f"left out with {slack}: {why}")


def _leaves_as_much(other: Budget, now: Budget) -> bool:
    """Whether a split that is the same in all else left loading roles as many registers."""
    if other.producer is None or now.producer is None:
        return other == now
    moved = blocks_in_flight(other.producer) == blocks_in_flight(now.producer)
    return moved and other.producer >= now.producer and other.consumer == now.consumer


def _registers(text: str) -> tuple[int, ...]:
    return tuple(map(int, GIVEN_UP.findall(text)))
