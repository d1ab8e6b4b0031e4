"""A modulo schedule for one period, as numbers: what a search chooses, and what it knows so far.

The variables are when nodes start, when products run, until when values are held, and how long one
iteration takes from its first op to its end. All count units from the start of the first kernel
iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tawa.pipeline.differences import Differences, Numbers
from tawa.pipeline.transport import Transport

PROMPT = 4
"""Cycles of an iteration's latency that one cycle is worth by which a product is issued earlier.

Products that wait in the tensor core's queue cover what the model does not know: at head dimension
256, attention that converts its weights before it issues both products runs 12% slower (measured).
"""

HELD = 16
"""Starts of ops, one unit earlier, that a register is worth that is held one unit less."""

DIFFERENCES = 2
"""In how many places of the costly nodes two schedules differ, at least."""

UNKNOWN = -1
"""The stage of a node that has none yet."""


class Aim(Enum):
    """What a schedule is best in."""

    ANY = auto()
    """Nothing: one is as good as another."""
    EARLY = auto()
    """Short iterations of one warp group, whose products are issued early."""
    HELD = auto()
    """Registers times the units they are held, and, with less weight, when ops start."""


class Start(NamedTuple):
    """When a node starts in its iteration, and in which iteration of its iteration."""

    offset: int
    stage: int


@dataclass(frozen=True)
class Problem:
    """The choices of a schedule: nodes by number, times in units."""

    period: int
    stages: int
    capacity: int
    """Registers of a thread for values."""
    tail: int
    """Units between a product's end and the use of what it gives."""
    thread: Sequence[int]
    tensor: Sequence[int]
    registers: Sequence[int]
    products: Sequence[int]
    kept: Sequence[int]
    """The nodes whose values take registers that are counted."""
    costly: Sequence[int]
    """The nodes that make schedules differ."""
    others: list[list[Start]] = field(default_factory=list[list[Start]])
    """Schedules to differ from."""

    def start(self, node: int) -> int:
        """The variable: when a node starts."""
        return 1 + node

    def run(self, product: int) -> int:
        """The variable: when a product starts to run."""
        return 1 + len(self.thread) + self.products.index(product)

    def end(self, node: int) -> int:
        """The variable: until when a node's value is held."""
        return 1 + len(self.thread) + len(self.products) + self.kept.index(node)

    @property
    def latency(self) -> int:
        """The variable: how long the ops of one kernel iteration take, with their products."""
        return 1 + len(self.thread) + len(self.products) + len(self.kept)

    @property
    def variables(self) -> int:
        """How many there are, with the origin."""
        return self.latency + 1

    def room(self, node: int) -> int:
        """What of an iteration is left after the latest start of a node."""
        return max(1, self.thread[node])

    @cached_property
    def starts(self) -> Numbers:
        """The variables of all nodes' starts."""
        return np.array([self.start(i) for i in range(len(self.thread))])

    @cached_property
    def busy(self) -> Numbers:
        """The nodes that take time of the issuing thread."""
        return np.flatnonzero(np.array(self.thread))

    @cached_property
    def sizes(self) -> Numbers:
        """How much time these take."""
        return np.array(self.thread)[self.busy]

    @cached_property
    def taken(self) -> Numbers:
        """The registers of the values that are counted."""
        return np.array([self.registers[i] for i in self.kept], dtype=np.int64)

    @cached_property
    def ends(self) -> Numbers:
        """The variables of their ends."""
        return np.array([self.end(i) for i in self.kept], dtype=np.int64)

    @cached_property
    def order(self) -> list[int]:
        """Nodes in the order in which their stages are chosen: those first that take long."""
        return sorted(range(len(self.thread)), key=lambda i: -self.thread[i] - self.tensor[i])

    def transport(self, aim: Aim) -> Transport:
        """What bounds how many registers are held, and, if it is the aim, when ops start."""
        values = [self.start(i) for i in self.kept]
        if aim is not Aim.HELD:
            return Transport(values, self.ends.tolist(), np.diag(self.taken))
        count, nodes = len(values), len(self.thread)
        carried = np.zeros((count + 1, count + nodes), dtype=np.int64)
        carried[:count, :count] = np.diag(HELD * self.taken)
        carried[count, count:] = 1
        return Transport([*values, 0], [*self.ends.tolist(), *self.starts.tolist()], carried)


@dataclass
class Part:
    """Schedules that a search has yet to look at: what they have in common."""

    known: Differences
    stage: Numbers
    transport: Transport

    def copy(self) -> Part:
        """The same schedules, of which more may be said."""
        return Part(self.known.copy(), self.stage.copy(), self.transport)


@dataclass(frozen=True)
class Schedule:
    """A schedule, how long an iteration of it is, and what its values take."""

    starts: list[Start]
    early: int
    """What `Aim.EARLY` counts."""
    most_held: int
    """Registers at the fullest time of an iteration."""


def early_of(problem: Problem, values: Numbers, stage: Numbers) -> int:
    """What `Aim.EARLY` counts, of the products whose stages are known."""
    placed = [i for i in problem.products if stage[i] != UNKNOWN]
    offsets = (int(values[problem.start(i)]) - problem.period * int(stage[i]) for i in placed)
    return int(values[problem.latency]) + PROMPT * sum(offsets)


def held_at(problem: Problem, values: Numbers, stage: Numbers, place: int) -> list[int]:
    """The nodes whose values take registers when the value of a node begins."""
    period = problem.period
    offsets = values[problem.starts] - period * stage
    return [
        i
        for i in problem.kept
        if (offsets[place] - offsets[i]) % period
        < values[problem.end(i)] - values[problem.start(i)]
    ]


def schedule_of(problem: Problem, values: Numbers, stage: Numbers) -> Schedule:
    """The schedule that values of all variables are."""
    offsets = values[problem.starts] - problem.period * stage
    fullest = (
        sum(problem.registers[j] for j in held_at(problem, values, stage, i)) for i in problem.kept
    )
    starts = [Start(int(r), int(j)) for r, j in zip(offsets, stage, strict=True)]
    return Schedule(starts, early_of(problem, values, stage), max(fullest, default=0))
