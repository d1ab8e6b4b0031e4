"""Branch and bound for a modulo schedule: the best, or that there is none.

A part of the schedules is what some differences, stages and what follows of them allow
([modulo_bounds](modulo_bounds.py)). Its least sum of the aim is known, for that takes no choices;
the values where it is least often are a schedule, and then it is the part's best. If not, they say
what to choose: which of two nodes that overlap comes first, or which of the values that are held
together ends in time. A part whose sum is no less than that of the best schedule is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tawa.pipeline.differences import ORIGIN, Contradiction, Differences, Numbers
from tawa.pipeline.modulo_bounds import apart, choose_stage, follow, likeness, stages_left, too_like
from tawa.pipeline.modulo_problem import (
    UNKNOWN,
    Aim,
    Part,
    Problem,
    Schedule,
    Start,
    early_of,
    held_at,
    schedule_of,
)

UNIMPROVED = 2000
"""Parts after the best schedule so far in which a better one is looked for.

The suite's searches find each better one within 290 parts of the one before, those of attention's
gradients within 1,920.
"""

More = tuple[int, int, int]
"""A difference that a choice adds: two variables, and how much the second is above the first."""


class Search:
    """The search for the best schedule of a problem."""

    def __init__(self, problem: Problem, known: Differences, aim: Aim, allowed: int | None) -> None:
        self.problem, self.aim, self.allowed = problem, aim, allowed
        self.best: Schedule | None = None
        self.least: int | None = None
        """What the best schedule counts of the aim."""
        stage = np.full(len(problem.thread), UNKNOWN)
        self.parts = [Part(known.copy(), stage, problem.transport(aim))]

    def run(self, work: int) -> bool:
        """Look at all parts, or at so many; whether that were all.

        It also ends where nothing better was found in `UNIMPROVED` parts.
        """
        looked, end = 0, work
        while self.parts:
            if looked == end:
                return False
            looked += 1
            before = self.best
            self.parts += reversed(self._choices(self.parts.pop()))
            if self.best is not None and self.aim is Aim.ANY:
                return True
            if self.best is not before:
                end = min(work, looked + UNIMPROVED)
        return True

    def _choices(self, part: Part) -> list[Part]:
        """Parts that have all schedules of this one that may be better, the most promising first.

        None if its best schedule is known.
        """
        try:
            follow(self.problem, part, self.allowed)
        except Contradiction:
            return []
        if not self._promises(part):
            return []  # as the transport that it was made with says: a better one says no less
        part.transport = part.transport.improved(part.known)
        held = part.transport.gain(part.known)
        if self.aim is not Aim.HELD and held > self.problem.capacity * self.problem.period:
            return []
        if not self._promises(part):
            return []
        for node in self.problem.order:
            if part.stage[node] == UNKNOWN:
                return list(self._with_stages(part, node))
        values = self._values(part)
        choices = self._conflict(part, values)
        if choices is None:
            self.best, self.least = schedule_of(self.problem, values, part.stage), self._sum(part)
            return []
        parts = [made for choice in choices if (made := self._with(part, choice)) is not None]
        return sorted(parts, key=self._sum)

    def _sum(self, part: Part) -> int:
        """What the part's schedules count of the aim, at least."""
        match self.aim:
            case Aim.ANY:
                return 0
            case Aim.EARLY:
                return early_of(self.problem, part.known.values, part.stage)
            case Aim.HELD:
                return part.transport.gain(part.known)

    def _promises(self, part: Part) -> bool:
        """Whether the part may have a better schedule than the best so far."""
        return self.least is None or self._sum(part) < self.least

    def _with_stages(self, part: Part, node: int) -> Iterator[Part]:
        for stage in stages_left(self.problem, part, node):
            made = part.copy()
            try:
                choose_stage(self.problem, made, node, stage)
            except Contradiction:
                continue
            yield made

    def _with(self, part: Part, choice: list[More]) -> Part | None:
        """The schedules of a part that have these differences, too."""
        made = part.copy()
        try:
            for low, high, least in choice:
                made.known.raises(low, high, least)
        except Contradiction:
            return None
        return made

    def _values(self, part: Part) -> Numbers:
        """Values of all variables for which the aim's sum is least; they may have conflicts."""
        if self.aim is Aim.HELD:
            return part.transport.tightened(part.known).values
        return part.known.values

    def _conflict(self, part: Part, values: Numbers) -> list[list[More]] | None:
        """The choices that settle a conflict of these values; None if they are a schedule."""
        for conflict in (self._overlap, self._too_many_registers, self._too_late, self._too_like):
            choices = conflict(part, values)
            if choices is not None:
                return choices
        return None

    def _before(self, part: Part, first: int, second: int, least: int) -> More:
        """A node starts so much after another, in an iteration."""
        problem = self.problem
        shift = problem.period * int(part.stage[first] - part.stage[second])
        return problem.start(first), problem.start(second), least - shift

    def _either_first(self, part: Part, a: int, b: int) -> list[list[More]]:
        room = self.problem.room
        return [[self._before(part, a, b, room(a))], [self._before(part, b, a, room(b))]]

    def _overlap(self, part: Part, values: Numbers) -> list[list[More]] | None:
        """Two nodes that take the issuing thread at once, or products that run at once."""
        problem = self.problem
        offsets = values[problem.starts] - problem.period * part.stage
        busy = sorted(problem.busy.tolist(), key=lambda i: (offsets[i], -problem.thread[i]))
        for a, b in pairwise(busy):
            if offsets[a] + problem.thread[a] > offsets[b]:
                return self._either_first(part, a, b)
        runs = {
            i: int(values[problem.run(i)]) - problem.period * int(part.stage[i])
            for i in problem.products
        }
        issued = sorted(problem.products, key=lambda i: offsets[i])
        for a, b in pairwise(issued):
            if runs[a] + problem.tensor[a] > runs[b]:
                return self._either_first(part, a, b)
        return None

    def _too_many_registers(self, part: Part, values: Numbers) -> list[list[More]] | None:
        """Values that are held together when one of them begins, and take too many registers.

        One of them has to end before.
        """
        problem, period = self.problem, self.problem.period
        offsets = values[problem.starts] - period * part.stage
        for new in problem.kept:
            held = held_at(problem, values, part.stage, new)
            if new not in held or sum(problem.registers[i] for i in held) <= problem.capacity:
                continue
            choices: list[list[More]] = []
            earlier: list[More] = []
            for i in held:
                if i != new and self._unordered(part, i, new):
                    return [[self._before(part, i, new, 0)], [self._before(part, new, i, 1)]]
                again = period if offsets[new] < offsets[i] else 0
                shift = period * int(part.stage[i] - part.stage[new])
                start, end = problem.start(new), problem.end(i)
                choices.append([*earlier, (end, start, -shift - again)])
                earlier.append((start, end, 1 + shift + again))
            return choices
        return None

    def _unordered(self, part: Part, a: int, b: int) -> bool:
        """Whether two nodes may start one before the other, either way."""
        least = apart(self.problem, part, np.array([a, b]))
        return bool(least[0, 1] < 0 and least[1, 0] <= 0)

    def _too_late(self, part: Part, values: Numbers) -> list[list[More]] | None:
        """An iteration that is longer than it was asked to be: something in it is earlier."""
        problem = self.problem
        if self.allowed is None or early_of(problem, values, part.stage) <= self.allowed:
            return None
        counted = [problem.latency, *(problem.start(i) for i in problem.products)]
        late = max(counted, key=lambda v: values[v] - part.known.least(v))
        middle = (part.known.least(late) + int(values[late])) // 2
        return [[(late, ORIGIN, -middle)], [(ORIGIN, late, middle + 1)]]

    def _too_like(self, part: Part, values: Numbers) -> list[list[More]] | None:
        """An order of costly nodes that was found before, and could be another."""
        problem = self.problem
        offsets = values[problem.starts] - problem.period * part.stage
        schedule = [Start(int(r), int(j)) for r, j in zip(offsets, part.stage, strict=True)]
        for other in problem.others:
            if too_like(problem, schedule, other):
                nodes = likeness(problem, part, other)[1]
                return [] if nodes is None else self._either_first(part, *nodes)
        return None
