"""Long replays from short ones: of an outermost loop's many iterations a few are replayed.

Every actor's program is first run through without a machine, which is quick, and tells what each
iteration of its outermost loop has to do. The machine then replays all actors with the same number
of their last iterations left out (of actors that take turns, each its share), and the iterations
left out take what those that ran took: a part for each iteration and a part for each cycle of its
instructions, fitted by least squares, since iterations differ (tiles of causal attention). Where
actors do not fit together that way, or the loop is short, all iterations are replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tawa.simulate.timing.code import ITERATION, MATRIX, WORK, Steps

LEAST_ITERATIONS = 6
"""Iterations that are replayed at least."""
NEARLY = 0.8
"""Part of the longest iteration that some iteration which is replayed takes: longer ones are
extrapolated."""
IDLE = 64
"""Steps of a program that has no part in the loop, such as a role's idle warps."""
STEPS = 10_000
"""Steps of all actors after which no further iteration is replayed."""


@dataclass
class Iterations:
    """What one actor's program does, in each iteration of its outermost loop."""

    cycles: list[float] = field(default_factory=list[float])
    """Of each iteration's instructions, alone."""
    steps: list[int] = field(default_factory=list[int])
    others: int = 0
    """Steps before the loop, or of a program without one."""
    before: float = 0.0
    """Cycles of their instructions: of a loop whose first iteration has been moved out, that
    iteration's."""

    @property
    def count(self) -> int:
        """How many iterations there are."""
        return len(self.cycles)


@dataclass(frozen=True)
class Cut:
    """How many iterations each actor is replayed for, and which are left out."""

    iterations: tuple[int, ...]
    reference: int
    """The actor whose iterations are timed: the one with most to do."""
    kept: tuple[float, ...]
    """Cycles of instructions of the reference's iterations that run."""
    left_out: tuple[float, ...]
    before: float = 0.0
    """Cycles of what comes before the iterations."""

    def rest(self, begins: Sequence[float]) -> float:
        """Cycles of the iterations left out, from when the reference's iterations began."""
        times = np.diff(begins)[1:]
        work = np.asarray(self.kept[1 : 1 + len(times)])
        if np.ptp(work) < 1e-3 * work.max():
            return float(times.mean()) * len(self.left_out)
        terms = np.stack([np.ones_like(work), work], axis=1)
        (each, slope), *_ = np.linalg.lstsq(terms, times, rcond=None)
        return float(each * len(self.left_out) + slope * sum(self.left_out))

    @property
    def factor(self) -> float:
        """All instructions over those of the iterations that run."""
        kept = self.before + sum(self.kept)
        return (kept + sum(self.left_out)) / kept


def iterations_of(steps: Steps) -> Iterations:
    """Run through a program."""
    found = Iterations()
    cycles, count = 0.0, 0
    for step in steps:
        count += 1
        if step[0] == MATRIX:
            cycles += step[1]
        elif step[0] == WORK:
            cycles += max(step[1].issue, step[1].alu, step[1].special)
        elif step[0] == ITERATION:
            _close(found, cycles, count)
            found.cycles.append(0.0)
            found.steps.append(0)
            cycles, count = 0.0, 0
    _close(found, cycles, count)
    return found


def _close(found: Iterations, cycles: float, count: int) -> None:
    if found.cycles:
        found.cycles[-1], found.steps[-1] = cycles, count
    else:
        found.others, found.before = count, cycles


def cut_of(actors: Sequence[Iterations], steps: int = STEPS) -> Cut | None:
    """Which iterations are replayed, none after so many steps of all actors; None is for all."""
    busy = [actor for actor in actors if actor.count or actor.others > IDLE]
    least = min((actor.count for actor in busy), default=0)
    if least <= LEAST_ITERATIONS:
        return None
    shares = [round(actor.count / least) for actor in actors]
    reference = max(range(len(actors)), key=lambda i: (shares[i] == 1, sum(actors[i].cycles)))
    cycles = actors[reference].cycles
    enough = round(steps * least / sum(sum(actor.steps) for actor in busy))
    out = least - max(LEAST_ITERATIONS, enough, _until_large(cycles))
    if out < 2:
        return None
    iterations = tuple(a.count - out * share for a, share in zip(actors, shares, strict=True))
    own = iterations[reference]
    before = actors[reference].before
    return Cut(iterations, reference, tuple(cycles[:own]), tuple(cycles[own:]), before)


def _until_large(cycles: Sequence[float]) -> int:
    """Iterations before there is one that is nearly as long as the longest."""
    longest = max(cycles)
    return next(i for i, c in enumerate(cycles, 1) if c >= NEARLY * longest)
