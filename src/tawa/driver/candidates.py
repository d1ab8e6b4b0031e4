"""What the compiler has the assembler look at: CUDA texts, of which the first good one is taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp

from tawa.aref.analysis.registers import Budget, Sharing, blocks_in_flight
from tawa.aref.dialect.ops import WarpGroup
from tawa.base.attempts import Slack
from tawa.codegen.lower import sharing
from tawa.hopper.dialect.core import number
from tawa.hopper.dialect.structure import Role, SharedWarpGroup
from tawa.hopper.emit import emit
from tawa.ir.copying import copied
from tawa.ir.decisions.assembling import AttemptLeftOut, Why
from tawa.ir.decisions.decision import Decision, Decisions, of_kind
from tawa.ir.decisions.loops import LoopScheduled, NoSchedule
from tawa.ir.walking import all_of, every
from tawa.machine.chips import Chip


@dataclass(frozen=True)
class Scheduled:
    """A kernel with one attempt's schedules of its loops, to be lowered further."""

    slack: Slack
    decided: Decisions
    """What was decided in this attempt, to which later passes add."""
    module: ModuleOp
    """Of the aref level; lowering it changes it."""
    schedules: Sequence[Decision]
    """What was decided about each loop."""

    @property
    def gave_up(self) -> bool:
        """Whether a loop has no schedule."""
        return bool(of_kind(self.schedules, NoSchedule))

    @property
    def choices(self) -> tuple[object, ...]:
        """What decides, besides how roles share registers, what the module is lowered to."""
        chosen = of_kind(self.schedules, LoopScheduled)
        return *((c.joined, c.places) for c in chosen), self.slack.stages > 1 and not (
            self.slack.registers
        )


@dataclass(frozen=True)
class Candidate:
    """A kernel lowered to CUDA text with one attempt's choices."""

    slack: Slack
    decided: Decisions
    aref: ModuleOp
    module: ModuleOp
    """Of the last level."""
    text: str
    given: bool = False
    """Whether the text is the user's."""

    @property
    def last(self) -> bool:
        """Whether nothing is left to try if it is not good: loops keep the order of the source."""
        return not self.slack.stages

    @property
    def takes_registers(self) -> bool:
        """Whether something was decided that another attempt decides otherwise."""
        return any(decision.takes_registers for decision in self.decided.made)

    @property
    def one_role(self) -> bool:
        """Whether all threads do everything, with as many registers as the assembler takes."""
        return len([op for op in every(self.module) if isinstance(op, Role | SharedWarpGroup)]) == 1

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """The registers that roles keep when they give up the others."""
        roles = [] if self.given else _giving(self.module)
        return tuple(op.registers.value.data for op in roles if op.registers is not None)

    @cached_property
    def frame(self) -> str:
        """The text, whatever the registers that roles keep."""
        if not self.kept:
            return self.text
        module = copied(self.module)
        for role in _giving(module):
            role.registers = number(0)
        return emit(module)


@dataclass
class Tried:
    """What was assembled, or needn't be.

    A text that differs from another only by leaving fewer registers to its loading roles spills if
    the other does.
    """

    machine: Chip
    exhausted: bool = False
    """Whether schedules in more than one stage are not asked for any more."""
    hopeless: bool | None = None
    """Whether the first attempt has a loop without a schedule, and goes on all the same."""
    seen: list[Candidate] = field(default_factory=list[Candidate])
    """What was assembled."""
    lowered: dict[tuple[object, ...], tuple[Sharing, list[Budget]]] = field(
        default_factory=dict[tuple[object, ...], tuple[Sharing, list[Budget]]]
    )
    """By choices, the registers that roles need, and how they shared them."""
    left_out: list[AttemptLeftOut] = field(default_factory=list[AttemptLeftOut])
    """Attempts since the last one that was worth it."""

    def needless(self, scheduled: Scheduled) -> bool:
        """Whether a schedule needs no lowering: there is none, or it was lowered before."""
        slack = scheduled.slack
        if self.hopeless is None:
            self.hopeless = scheduled.gave_up
        elif scheduled.gave_up and not self.hopeless and slack.stages > 1:
            self.exhausted = True  # fewer stages may have a schedule that needs no more registers
            self._leave_out(slack, "no schedule found")
            return True
        if not slack.stages or scheduled.choices not in self.lowered:
            return False
        needs, others = self.lowered[scheduled.choices]
        now = needs.split(self.machine, slack.narrow, slack.registers)
        if not any(_leaves_as_much(other, now) for other in others):
            return False
        self._leave_out(slack, "the assembler has seen it")
        return True

    def add(self, candidate: Candidate, scheduled: Scheduled) -> bool:
        """Remember a candidate; whether it has to be assembled."""
        slack = scheduled.slack
        if candidate.takes_registers and candidate.slack == slack:
            needs = sharing(all_of(candidate.aref, WarpGroup))
            split = needs.split(self.machine, slack.narrow, slack.registers)
            self.lowered.setdefault(scheduled.choices, (needs, []))[1].append(split)
        if slack.stages and self.has(candidate):
            self._leave_out(slack, "the assembler has seen it")
            return False
        self.seen.append(candidate)
        scheduled.decided.merge(self.left_out)
        self.left_out.clear()
        return True

    def has(self, candidate: Candidate) -> bool:
        """Whether its text, or one that leaves each role as many registers, was assembled."""
        return any(
            all(a >= b for a, b in zip(other.kept, candidate.kept, strict=True))
            for other in self.seen
            if other.frame == candidate.frame
        )

    def _leave_out(self, slack: Slack, why: Why) -> None:
        self.left_out.append(AttemptLeftOut(slack, why))


def _leaves_as_much(other: Budget, now: Budget) -> bool:
    """Whether a split that is the same in all else left loading roles as many registers."""
    if other.producer is None or now.producer is None:
        return other == now
    moved = blocks_in_flight(other.producer) == blocks_in_flight(now.producer)
    return moved and other.producer >= now.producer and other.consumer == now.consumer


def _giving(module: ModuleOp) -> list[Role | SharedWarpGroup]:
    """Where threads give registers up, in order."""
    roles = (op for op in every(module) if isinstance(op, Role | SharedWarpGroup))
    return [role for role in roles if role.gives_up]
