"""Hamiltonian Monte Carlo and the no-U-turn sampler, on compiled log densities and gradients.

The sampler is the multinomial variant of Hoffman and Gelman (JMLR 2014) as Betancourt (2017,
appendix A) describes it; step size by dual averaging (Hoffman and Gelman, section 3.2), diagonal
metric from the second half of the warm-up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD, Executable, new_context
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.natives import tape as k
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.failures import (
    ALL_ZERO,
    DEPTH,
    DISCRETE_CHOICE,
    FAILURES,
    HEAP_FULL,
    INVALID_PARAMETER,
    NAN_WEIGHT,
    REJECTED,
)
from tawa.functional.errors import FunctionalError

__all__ = ["GRADIENT", "Density", "NutsChain", "nuts_chain"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
ATTEMPTS = 100
MAX_TREE = 10
GRADIENT = "value_and_gradient grow_trajectory"
"""The entries of code that is compiled for gradients."""
DEPTH_LIMIT = 2000


class Density:
    """A program's log density on unconstrained reals, with its gradient."""

    def __init__(
        self, executable: Executable, inputs: int, results: int, limits: Limits, seed: int
    ) -> None:
        self.executable, self.limits, self.seed = executable, limits, seed
        self.meter = np.zeros(k.METER_WORDS, dtype=np.int64)
        self.context = new_context()
        self.context[FIELD["inputs"]] = inputs
        self.context[FIELD["depth_limit"]] = DEPTH_LIMIT
        self.results = np.zeros(max(1, results), dtype=np.int64)
        self.position = np.zeros(1 << 16)
        self.gradient = np.zeros(1 << 16)
        self.evaluations = 0
        self.new_tape(1 << 12)
        self.new_heap(1 << 12)
        self.function = executable.compiled.function("value_and_gradient")
        self.grower = executable.compiled.function("grow_trajectory")
        self.arguments = np.zeros(4, dtype=np.int64)
        self.out = np.zeros(2)
        self.dimension = self.explore()

    def new_tape(self, size: int) -> None:
        """Room for the tape."""
        if 40 * size > self.limits.max_memory:
            raise failure(self.executable.lowered.elaborated, HEAP_FULL, 0, self.seed, 0, 0)
        self.entries = np.empty(4 * (size + 1), dtype=np.int64)
        self.adjoints = np.zeros(size + 1)
        m = self.meter
        m[k.SIZE], m[k.ENTRIES] = size, self.entries.ctypes.data
        m[k.ADJOINTS] = self.adjoints.ctypes.data
        m[k.POSITION], m[k.ROOM] = self.position.ctypes.data, len(self.position)

    def new_heap(self, words: int) -> None:
        """A heap, and as many words for the places of the floats in it."""
        if 16 * words > self.limits.max_memory:
            raise failure(self.executable.lowered.elaborated, HEAP_FULL, 0, self.seed, 0, 0)
        self.heap = np.zeros(2 * words, dtype=np.int64)
        base = self.heap.ctypes.data
        self.context[FIELD["heap_start"]] = base
        self.context[FIELD["heap_end"]] = base + 8 * words
        self.context[FIELD["tape_delta"]] = 8 * words

    def explore(self) -> int:
        """Run once on fresh values; how many there are."""
        self.meter[k.DIMENSION] = -1
        self.context[FIELD["key0"]] = self.seed & 0xFFFFFFFF
        self.context[FIELD["stream"]] = 8
        value, status = -math.inf, REJECTED
        for attempt in range(ATTEMPTS):
            self.context[FIELD["step"]] = attempt
            self.context[FIELD["draw"]] = self.context[FIELD["made"]] = 0
            value, status = self.raw()
            if status == 0 and math.isfinite(value):
                break
        if status != 0 or not math.isfinite(value):
            error = self.error(ALL_ZERO if status in (0, REJECTED) else status)
            raise error.with_note(f"{ATTEMPTS} random starts were tried")
        taken = int(self.meter[k.TAKEN])
        if taken == 0 or taken > len(self.position):
            raise UnsupportedMethod(
                f"the program makes {taken} continuous choices", expected="between 1 and 65536"
            )
        self.meter[k.DIMENSION] = taken
        return taken

    def raw(self) -> tuple[float, int]:
        """Evaluate at `position`; makes room as needed. Raises the errors of the program.

        Where a scale overflows or a weight is NaN the density is 0: that is how a trajectory that
        overshoots is rejected, and a start that is no good.
        """
        while True:
            self.arguments[:] = (
                self.meter.ctypes.data, self.results.ctypes.data, self.gradient.ctypes.data,
                self.limits.max_steps,
            )  # fmt: skip
            self.function(
                self.context.ctypes.data, self.arguments.ctypes.data, self.out.ctypes.data
            )
            self.evaluations += 1
            status = int(self.out[1:].view(np.int64)[0])
            if status == HEAP_FULL:
                self.new_heap(len(self.heap))
            elif status == 0 and self.meter[k.USED] >= self.meter[k.SIZE]:
                self.new_tape(4 * int(self.meter[k.SIZE]))
            elif status in (0, REJECTED, INVALID_PARAMETER, NAN_WEIGHT):
                return (-math.inf if status else float(self.out[0])), status
            else:
                raise self.error(status)

    def error(self, status: int) -> FunctionalError:
        """The error for a status."""
        program = self.executable.lowered.elaborated
        site = int(self.context[FIELD["site"]]) if status != ALL_ZERO else len(program.sites)
        if status == DISCRETE_CHOICE:
            return UnsupportedMethod(
                "this choice is not continuous", span=program.sites[site],
                hint="use SMC, mh or enumerate",
            )  # fmt: skip
        known = status if status in FAILURES else DEPTH
        return failure(program, known, site, self.seed, 0, 0)

    def changed(self) -> UnsupportedMethod:
        """The error for a number of choices that isn't always the same."""
        return UnsupportedMethod(
            "the number of choices depends on their values",
            expected=f"{self.dimension} choices", found=f"{int(self.meter[k.TAKEN])}",
            hint="use SMC or mh",
        )  # fmt: skip

    def grow(
        self, at: _Point, metric: Floats, leaves: int, step: float, start: float, chances: Floats
    ) -> _Piece:
        """Leapfrog steps from a point; makes room as needed. Raises the errors of the program."""
        n = self.dimension
        kept = np.empty(2 * MAX_TREE * n)
        while True:
            end, draw, sums, report = at.copy(), np.zeros(2 * n + 1), np.zeros(n), np.zeros(4)
            arrays = (end.slope, end.q, end.p, metric, draw, sums, kept, chances, report)
            words = np.zeros(16, dtype=np.int64)
            words[:2] = self.meter.ctypes.data, self.results.ctypes.data
            words[2:11] = [array.ctypes.data for array in arrays]
            words[11], words[14] = leaves, self.limits.max_steps
            words.view(np.float64)[12:14] = step, start
            out = np.zeros(2, dtype=np.int64)
            self.grower(self.context.ctypes.data, words.ctypes.data, out.ctypes.data)
            ended, status = (int(word) for word in out)
            self.evaluations += int(report[2])
            if ended == k.FULL:
                self.new_tape(4 * int(self.meter[k.SIZE]))
            elif ended == k.FAILED and status == HEAP_FULL:
                self.new_heap(len(self.heap))
            elif ended == k.FAILED:
                raise self.error(status)
            elif ended == k.CHANGED:
                raise self.changed()
            else:
                break
        end.value = float(report[3])
        found = _Point(draw[:n], end.p, float(draw[2 * n]), draw[n : 2 * n])
        return _Piece(end, found, float(report[0]), sums, ended, float(report[1]), int(report[2]))

    def __call__(self, q: Floats) -> tuple[float, Floats]:
        """Log density and gradient. Raises UnsupportedMethod if the choices change in number."""
        self.position[: self.dimension] = q
        value, status = self.raw()
        if status == 0 and int(self.meter[k.TAKEN]) != self.dimension:
            raise self.changed()
        if math.isnan(value):
            value = -math.inf
        return value, self.gradient[: self.dimension].copy()


@dataclass(slots=True)
class NutsChain:
    """Kept results (a column each) and how the chain went."""

    columns: Words
    divergent: int
    accepted: float
    step: float
    evaluations: int
    energies: Floats
    """Of each kept draw, with its momentum."""

    def e_bfmi(self) -> float:
        """How well new momenta explore the energies: low is below 0.3 (Betancourt 2016)."""
        spread = float(((self.energies - self.energies.mean()) ** 2).sum())
        moves = float((np.diff(self.energies) ** 2).sum())
        return moves / spread if spread > 0.0 else math.nan


@dataclass(slots=True)
class _Point:
    """A state; its arrays are its own."""

    q: Floats
    p: Floats
    value: float
    slope: Floats

    def copy(self) -> _Point:
        """The same, to go on from."""
        return _Point(self.q.copy(), self.p.copy(), self.value, self.slope.copy())


@dataclass(slots=True)
class _Piece:
    """A piece of trajectory: its end, a point drawn from it, the log of its total weight."""

    end: _Point
    draw: _Point
    weight: float
    momentum: Floats
    ended: int
    accepted: float
    leaves: int
    energy: float = 0.0
    """At the start of a transition."""


@dataclass(slots=True)
class _Sampler:
    density: Density
    random: np.random.Generator
    metric: Floats
    step: float = 0.1
    averaged: float = 0.0
    error: float = 0.0
    count: int = 0
    centre: float = field(default=0.0)

    def energy(self, at: _Point) -> float:
        """log density of position and momentum."""
        return at.value - 0.5 * float((self.metric * at.p**2).sum())

    def piece(self, at: _Point, direction: int, leaves: int, start: float, free: bool) -> _Piece:
        """Leapfrog steps from a point; if `free`, as many whatever happens."""
        chances = np.full(1, -1.0) if free else self.random.random(leaves)
        return self.density.grow(at, self.metric, leaves, direction * self.step, start, chances)

    def start(self, at: _Point) -> float:
        """Give a point a new momentum; its energy."""
        at.p = self.random.standard_normal(len(at.q)) / np.sqrt(self.metric)
        return self.energy(at)

    def transition(self, at: _Point) -> tuple[_Point, _Piece]:
        """The next state of the chain."""
        start = self.start(at)
        ends, draw, weight, momentum = [at, at], at, 0.0, at.p.copy()
        accepted, leaves, ended = 0.0, 0, 0
        for depth in range(MAX_TREE):
            forward = int(self.random.random() < 0.5)
            new = self.piece(ends[forward], 2 * forward - 1, 1 << depth, start, free=False)
            accepted, leaves, ended = accepted + new.accepted, leaves + new.leaves, new.ended
            if ended:
                break
            if math.log(self.random.random()) < new.weight - weight:
                draw = new.draw
            ends[forward] = new.end
            weight, momentum = float(np.logaddexp(weight, new.weight)), momentum + new.momentum
            across = self.metric * momentum
            if any(float((end.p * across).sum()) <= 0.0 for end in ends):
                break
        return draw, _Piece(at, draw, weight, momentum, ended, accepted, leaves, -start)

    def fixed(self, at: _Point, steps: int) -> tuple[_Point, _Piece]:
        """Plain Hamiltonian Monte Carlo with some leapfrog steps."""
        start = self.start(at)
        piece = self.piece(at, 1, steps, start, free=True)
        change = self.energy(piece.end) - start
        change = -math.inf if math.isnan(change) else change
        piece.accepted, piece.leaves, piece.energy = math.exp(min(0.0, change)), 1, -start
        piece.ended = k.DIVERGENT if change < k.DIVERGENT_ENERGY else 0
        return (piece.end if self.random.random() < piece.accepted else at), piece

    def first_step(self, at: _Point) -> None:
        """A step size whose first step is accepted about half of the time."""
        self.step = 0.1
        start = self.start(at)

        def change() -> float:
            return self.energy(self.piece(at, 1, 1, start, free=True).end) - start

        up = change() > math.log(0.5)
        for _ in range(50):
            self.step *= 2.0 if up else 0.5
            if (change() > math.log(0.5)) != up:
                break
        self.centre = math.log(10.0 * self.step)
        self.averaged, self.error, self.count = 0.0, 0.0, 0

    def adapt(self, accepted: float, target: float) -> None:
        """Dual averaging."""
        self.count += 1
        rate = 1.0 / (self.count + 10.0)
        self.error += rate * (target - accepted - self.error)
        logarithm = self.centre - math.sqrt(self.count) / 0.05 * self.error
        keep = self.count**-0.75
        self.averaged = keep * logarithm + (1.0 - keep) * self.averaged
        self.step = math.exp(logarithm)


@np.errstate(over="ignore", invalid="ignore")  # of trajectories that diverge
def nuts_chain(
    density: Density, draws: int, warm_up: int, seed: int, target: float, leapfrogs: int
) -> NutsChain:
    """One chain; with `leapfrogs` > 0, plain HMC with so many steps."""
    random = np.random.Generator(np.random.Philox(key=seed))
    sampler = _Sampler(density, random, np.ones(density.dimension))
    q = density.position[: density.dimension].copy()
    at = _Point(q, np.zeros_like(q), *density(q))
    sampler.first_step(at)
    size = len(density.results)
    columns = np.zeros((size, draws), dtype=np.int64)
    history: list[Floats] = []
    divergent, accepted, energies = 0, 0.0, np.zeros(draws)
    for iteration in range(warm_up + draws):
        at, tree = sampler.fixed(at, leapfrogs) if leapfrogs else sampler.transition(at)
        share = tree.accepted / max(1, tree.leaves)
        if iteration < warm_up:
            sampler.adapt(share, target)
            _learn_metric(sampler, history, at, iteration, warm_up)
            if iteration == warm_up - 1:
                sampler.step = math.exp(sampler.averaged)
            continue
        divergent += tree.ended == k.DIVERGENT
        accepted += share
        energies[iteration - warm_up] = tree.energy
        density(at.q)
        columns[:, iteration - warm_up] = density.results
    return NutsChain(
        columns, divergent, accepted / max(1, draws), sampler.step, density.evaluations, energies
    )


def _learn_metric(
    sampler: _Sampler, history: list[Floats], at: _Point, iteration: int, warm_up: int
) -> None:
    """Windows of growing length, each of which ends with a new metric and step size."""
    ends = {warm_up // 8, warm_up // 4, warm_up // 2, 7 * warm_up // 8}
    if iteration >= warm_up // 16:
        history.append(at.q.copy())
    if iteration in ends and len(history) >= 10:
        n = len(history)
        variance = np.var(np.array(history), axis=0, ddof=1)
        sampler.metric = (n * variance + 5e-3) / (n + 5.0)
        history.clear()
        sampler.first_step(at)
