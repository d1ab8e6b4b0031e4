"""The search over the interleavings of recorded lines (see `explorer`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tawa.simulate.check.explorer import (
    Barrier,
    Exploration,
    Landing,
    Line,
    Segment,
    Step,
    Violation,
)

ENGINE = "TMA engine"

State = tuple[int, ...]
"""For each actor twice the number of its next step (plus one while it waits at a named barrier),
then for each queue of copies how many have landed, then the barriers' states (phase, pending
arrivals or threads, bytes)."""


class _Queue(NamedTuple):
    """Copies that one actor starts and one mbarrier counts; they land in order."""

    line: int
    barrier: int
    landings: list[Landing]
    started: list[int]
    """How many have been started when the actor stands in each of its segments."""


class _Move(NamedTuple):
    """A successor, or a violation on the way to it."""

    who: str
    text: str
    state: State
    wrong: str | None


@dataclass
class Search:
    """The transition system of a cluster."""

    lines: Sequence[Line]
    arrivals: dict[Barrier, int]
    reduce: bool = True
    """Leave out interleavings that can show nothing new."""

    def __post_init__(self) -> None:
        found = {step.barrier for line in self.lines for step in line.steps} | set(self.arrivals)
        self.barriers = sorted(found)
        self.number = {barrier: i for i, barrier in enumerate(self.barriers)}
        self.queues = list(self._queues())
        self.first_landed = len(self.lines)
        self.first_barrier = self.first_landed + len(self.queues)
        self.waits = [
            {b: [i for i, s in enumerate(line.steps) if s.kind == "wait" and s.barrier == b]
             for b in {s.barrier for s in line.steps}}
            for line in self.lines
        ]  # fmt: skip
        self.eager = [self._eager(i) for i in range(len(self.lines))]

    def _eager(self, own: int) -> list[bool]:
        """For each step of a line, whether it may be taken at once, before all other moves.

        Standing before the step shows no conflict that standing after it would not: the segment
        before it accesses nothing more than the one after it, or nothing that others touch. And
        the step disables nothing: which phase it falls into is checked in every state, and that a
        wait is over before the next phase completes in the recorded run's clocks.
        """
        reads = writes = 0
        for i, line in enumerate(self.lines):
            for segment in line.segments:
                if i != own:
                    reads, writes = reads | segment.reads, writes | segment.writes
                for _, landing in segment.loads:
                    writes |= landing.writes
        found: list[bool] = []
        segments = self.lines[own].segments
        for before, after in pairwise(segments):
            private = not (before.reads & writes or before.writes & (reads | writes))
            within = before.reads | after.reads == after.reads
            within = within and before.writes | after.writes == after.writes
            found.append(private or within)
        return found

    def _queues(self) -> Iterator[_Queue]:
        for i, line in enumerate(self.lines):
            barriers = {b for segment in line.segments for b, _ in segment.loads}
            for barrier in sorted(barriers):
                landings: list[Landing] = []
                started: list[int] = []
                for segment in line.segments:
                    landings += [landing for b, landing in segment.loads if b == barrier]
                    started.append(len(landings))
                yield _Queue(i, self.number[barrier], landings, started)

    def start(self) -> State:
        """Everybody at the beginning."""
        barriers: list[int] = []
        for barrier in self.barriers:
            barriers += [0, self.arrivals.get(barrier, 0), 0]
        return (*[0] * (len(self.lines) + len(self.queues)), *barriers)

    # --- what holds in a state --------------------------------------------------------------------

    def conflict(self, state: State) -> str | None:
        """Two accesses that may happen at once, if there are any."""
        reads = writes = 0
        for line, position in zip(self.lines, state, strict=False):
            segment = line.segments[position // 2]
            own_reads, own_writes = segment.reads, segment.writes
            if position % 2:
                own_reads, own_writes = segment.held, 0
            if own_writes & (reads | writes) or own_reads & writes:
                return self._who_conflicts(state)
            reads |= own_reads
            writes |= own_writes
        for queue, landed in zip(self.queues, state[self.first_landed :], strict=False):
            for landing in queue.landings[landed : queue.started[state[queue.line] // 2]]:
                others = reads | writes
                if landing.writes & others and self._foreign(state, queue.line, landing.writes):
                    return self._who_conflicts(state)
                writes |= landing.writes
        return None

    def _foreign(self, state: State, own: int, mask: int) -> bool:
        """Whether somebody other than the copy's starter (and its other copies) uses the atoms."""
        for i, line in enumerate(self.lines):
            position = state[i]
            segment = line.segments[position // 2]
            used = segment.held if position % 2 else segment.reads | segment.writes
            if i != own and used & mask:
                return True
        for queue, landed in zip(self.queues, state[self.first_landed :], strict=False):
            flying = queue.landings[landed : queue.started[state[queue.line] // 2]]
            if sum(1 for landing in flying if landing.writes & mask) > (queue.line == own):
                return True
        return False

    def _who_conflicts(self, state: State) -> str:
        """Names of what overlaps, for the message."""
        users: list[tuple[str, int, int]] = []
        for line, position in zip(self.lines, state, strict=False):
            segment = line.segments[position // 2]
            used = (segment.held, 0) if position % 2 else (segment.reads, segment.writes)
            users.append((f"{line.name} after {_last(line, position)}", used[0], used[1]))
        for queue, landed in zip(self.queues, state[self.first_landed :], strict=False):
            for landing in queue.landings[landed : queue.started[state[queue.line] // 2]]:
                users.append((landing.text.replace(" lands", ""), 0, landing.writes))
        for i, (a, reads, writes) in enumerate(users):
            for b, other_reads, other_writes in users[:i]:
                if writes & (other_reads | other_writes) or reads & other_writes:
                    return f"{b} and {a} access the same bytes"
        return "two accesses of the same bytes"

    # --- moves ------------------------------------------------------------------------------------

    def moves(self, state: State) -> Iterator[_Move]:
        """The steps that have to be tried next: one that commutes with all others, or every one."""
        found: list[_Move] = []
        for i in range(len(self.lines)):
            move = self._own_move(state, i)
            if move is not None and self.reduce and self.eager[i][state[i] // 2]:
                yield move
                return
            if move is not None:
                found.append(move)
        yield from found
        for number, queue in enumerate(self.queues):
            landed = state[self.first_landed + number]
            if landed < queue.started[state[queue.line] // 2]:
                yield self._land(state, number, queue, queue.landings[landed])

    def _own_move(self, state: State, i: int) -> _Move | None:
        """An actor's next step, if it can be taken."""
        line, position = self.lines[i], state[i]
        if position % 2 or position // 2 >= len(line.steps):
            return None
        step = line.steps[position // 2]
        if step.kind == "wait":
            if state[self._at(step.barrier)] <= step.phase:
                return None
            return _Move(line.name, step.text, _moved(state, i, position + 2), None)
        return self._arrive(state, i, step) if step.kind == "arrive" else self._meet(state, i, step)

    def _at(self, barrier: Barrier) -> int:
        return self.first_barrier + 3 * self.number[barrier]

    def _arrive(self, state: State, i: int, step: Step) -> _Move:
        at, name = self._at(step.barrier), self.lines[i].name
        after = list(_moved(state, i, state[i] + 2))
        wrong = None
        if state[at] != step.phase:
            wrong = f"an arrival falls into phase {state[at]}, in another schedule {step.phase}"
        after[at + 1] -= step.number
        after[at + 2] += step.bytes
        return self._completed(after, at, step.barrier, (name, step.text, wrong))

    def _land(self, state: State, number: int, queue: _Queue, landing: Landing) -> _Move:
        barrier = self.barriers[queue.barrier]
        at = self._at(barrier)
        after = list(state)
        after[self.first_landed + number] += 1
        wrong = None
        if state[at] != landing.phase:
            wrong = f"bytes land in phase {state[at]} here, {landing.phase} in another schedule"
        after[at + 1] -= landing.arrivals
        after[at + 2] -= landing.bytes
        return self._completed(after, at, barrier, (ENGINE, landing.text, wrong))

    def _completed(
        self, after: list[int], at: int, barrier: Barrier, move: tuple[str, str, str | None]
    ) -> _Move:
        """Complete the phase if all is there; nobody may still need the phase before."""
        who, text, wrong = move
        if after[at + 1] == 0 and after[at + 2] == 0:
            phase = after[at]
            after[at], after[at + 1] = phase + 1, self.arrivals[barrier]
            for i, line in enumerate(self.lines):
                for index in self.waits[i].get(barrier, ()):
                    if 2 * index >= after[i] and line.steps[index].phase < phase:
                        wrong = wrong or (
                            f"phase {phase} completes before {line.steps[index].text} has seen "
                            f"phase {line.steps[index].phase}"
                        )
        return _Move(who, text, tuple(after), wrong)

    def _meet(self, state: State, i: int, step: Step) -> _Move:
        """Arrive at a named barrier; the last one lets all go on."""
        at, name = self._at(step.barrier), self.lines[i].name
        wrong = None
        if state[at] != step.phase:
            wrong = f"meeting number {state[at]} here, {step.phase} in another schedule"
        waits = step.kind == "meet"
        after = list(_moved(state, i, state[i] + (1 if waits else 2)))
        after[at + 1] += step.number
        if after[at + 1] >= step.bytes:
            after[at], after[at + 1] = after[at] + 1, 0
            for j, line in enumerate(self.lines):
                if after[j] % 2 and line.steps[after[j] // 2].barrier == step.barrier:
                    after[j] += 1
        return _Move(name, step.text, tuple(after), wrong)

    def finished(self, state: State) -> bool:
        """Whether every actor has ended."""
        return all(
            position == 2 * len(line.steps)
            for line, position in zip(self.lines, state, strict=False)
        )


def _moved(state: State, i: int, position: int) -> State:
    return (*state[:i], position, *state[i + 1 :])


def _last(line: Line, position: int) -> str:
    return line.steps[position // 2 - 1].text if position >= 2 else "its start"


def _stuck(search: Search, state: State) -> str:
    """Who waits for what."""
    texts: list[str] = []
    for line, position in zip(search.lines, state, strict=False):
        if position < 2 * len(line.steps):
            texts.append(line.steps[position // 2].text)
    return "nobody can go on; waiting: " + "; ".join(texts)


def explore(
    lines: Sequence[Line],
    arrivals: dict[Barrier, int],
    bound: int,
    reduce: bool = True,
    out_of_time: Callable[[int], bool] = lambda states: False,
) -> Exploration:
    """Visit every reachable state, breadth first, until there are `bound` or time is over."""
    search = Search(lines, arrivals, reduce)
    names = (*(line.name for line in lines), ENGINE)
    start = search.start()
    parent: dict[State, tuple[State, str, str] | None] = {start: None}
    todo = deque([start])
    visited = 0
    while todo:
        visited += 1
        state = todo.popleft()
        found = search.conflict(state)
        if found is not None:
            return _violated("race", found, state, parent, names)
        stuck = True
        for move in search.moves(state):
            stuck = False
            if move.state not in parent:
                parent[move.state] = (state, move.who, move.text)
                todo.append(move.state)
            if move.wrong is not None:
                parent[move.state] = (state, move.who, move.text)
                return _violated("phase", move.wrong, move.state, parent, names)
        if stuck and not search.finished(state):
            return _violated("deadlock", _stuck(search, state), state, parent, names)
        if len(parent) > bound or out_of_time(visited):
            return Exploration(len(parent), False, None, names)
    return Exploration(len(parent), True, None, names)


def _violated(
    kind: str,
    text: str,
    state: State,
    parent: dict[State, tuple[State, str, str] | None],
    names: tuple[str, ...],
) -> Exploration:
    path: list[tuple[str, str]] = []
    at = parent[state]
    while at is not None and len(path) < 10_000:
        before, who, what = at
        path.append((who, what))
        at = parent[before]
    violation = Violation(kind, text, path[::-1])
    return Exploration(len(parent), False, violation, names)


__all__ = ["ENGINE", "Search", "Segment", "explore"]
