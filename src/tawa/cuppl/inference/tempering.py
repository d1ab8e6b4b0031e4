"""Tempering: from the prior to the posterior by powers of the weight that grow from 0 to 1.

A population of recorded runs is drawn from the prior. Then the power grows, by as much each time as
leaves so many particles effective; they are resampled, and lightweight Metropolis-Hastings moves
each of them among the runs that are likely with that power (Del Moral, Doucet and Jasra 2006).
Floats also walk, by distances that are at most as large as those between the particles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import Executable
from tawa.cuppl.cpu.memory import float_bits
from tawa.cuppl.inference.mh import Chain, on_threads
from tawa.cuppl.inference.population import effective, parents_of, scales_of
from tawa.cuppl.inference.record import Record
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.natives import trace as k
from tawa.cuppl.typing.failures import ALL_ZERO

__all__ = ["ENTRIES", "Tempered", "run_tempered"]

ENTRIES = "mh_chain traced_run"
"""The entries of code for this method."""
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
HALVINGS = 60
AS_RECORDED = -2
"""The choice that is drawn anew in a run that draws none."""


@dataclass(slots=True)
class Tempered:
    """Results of the particles (a column each), which all weigh the same."""

    words: Words
    log_evidence: float
    ancestors: Words
    powers: list[float]
    accepted: float
    memory: list[Words]


@dataclass(slots=True)
class _Particle(Chain):
    """A chain of which nothing is kept but the run where it is."""

    record: Record = field(default_factory=lambda: Record(16, 32))
    heap: Words = field(default_factory=lambda: np.empty(1 << 9, dtype=np.int64))

    @property
    def log_weight(self) -> float:
        """Of the run where it is."""
        return float(self.control[k.WEIGHT : k.WEIGHT + 1].view(np.float64)[0])

    @property
    def choices(self) -> int:
        """Of the run where it is."""
        return int(self.record.words[k.OLD_COUNT])

    def grow_heap(self) -> None:
        """Twice the heap; no result in it is kept."""
        self.heap = np.empty(2 * len(self.heap), dtype=np.int64)
        self.give_heap(0)

    def move(self, last: int) -> None:
        """Go on to an iteration; the heap is free again after each."""
        self.control[k.LAST] = last
        self.until_done("mh_chain", [self.control.ctypes.data, self.record.words.ctypes.data, 0])

    def become(self, other: _Particle) -> None:
        """Be where another particle is."""
        self.record.take(other.record)
        self.control[k.WEIGHT] = other.control[k.WEIGHT]

    def result(self) -> Words:
        """The result of the run where it is, which runs again."""
        self.give_heap(0)
        given = [self.control.ctypes.data, self.record.words.ctypes.data, AS_RECORDED]
        self.until_done("traced_run", given)
        scratch = int(self.control[k.SCRATCH]) == self.buffers[1].ctypes.data
        return self.buffers[1 if scratch else 0].copy()


def run_tempered(
    executable: Executable, inputs: int, particles: int, seed: int, threshold: float, sweeps: int,
    threads: int, limits: Limits, report: Callable[[int], None] | None = None,
) -> Tempered:  # fmt: skip
    """Run a population; each sweep moves as many choices of each particle as runs have."""
    random = np.random.Generator(np.random.Philox(key=seed & (1 << 64) - 1))
    all_particles = [
        _Particle(executable, n, 0, 0, 1, seed, limits, inputs) for n in range(particles)
    ]
    for one in all_particles:
        one.start()
    done, power, log_evidence, powers = 1, 0.0, 0.0, [0.0]
    on_threads(all_particles, lambda one: one.move(1), threads)
    ancestors = np.arange(particles)
    while power < 1.0:
        weights = np.array([one.log_weight for one in all_particles])
        if weights.max() == -math.inf:
            raise failure(executable.lowered.elaborated, ALL_ZERO, 1 << 60, seed, 0, 0)
        power, change = _next_power(weights, power, threshold)
        log_evidence += float(np.logaddexp.reduce(change)) - math.log(particles)
        parents = parents_of(change, random)
        for slot in np.flatnonzero(parents != np.arange(particles)).tolist():
            all_particles[slot].become(all_particles[int(parents[slot])])
        ancestors = ancestors[parents]
        powers.append(power)
        done += sweeps * max(1, round(float(np.mean([one.choices for one in all_particles]))))
        scales = scales_of([one.record for one in all_particles])
        for one in all_particles:
            one.control[k.POWER] = float_bits(power)
            one.record.walk_by(scales)
        on_threads(all_particles, partial(_Particle.move, last=done), threads)
        if report is not None:
            report(round(100 * power))
    columns = [one.result() for one in all_particles]
    accepted = float(np.mean([one.accepted for one in all_particles]))
    return Tempered(
        np.array(columns).T.copy(), log_evidence, ancestors, powers, accepted,
        [one.heap for one in all_particles],
    )  # fmt: skip


def _next_power(weights: Floats, power: float, threshold: float) -> tuple[float, Floats]:
    """The largest power that leaves a share of the particles effective, and what it adds.

    Of those that have a weight: if they are too few, the power stays and the others are lost.
    """
    alive = weights > -math.inf

    def added(new: float) -> Floats:
        return np.where(alive, (new - power) * np.where(alive, weights, 0.0), -math.inf)

    wanted = threshold * float(alive.sum())
    if not alive.all() and effective(added(1.0)) < wanted:
        return power, added(power)
    low, high = power, 1.0
    if effective(added(high)) >= wanted:
        return high, added(high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective(added(middle)) >= wanted else (low, middle)
    low = max(low, math.nextafter(power, 1.0))
    return low, added(low)
