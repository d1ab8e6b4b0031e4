"""Hamiltonian Monte Carlo and the no-U-turn sampler, on compiled log densities and gradients.

The sampler is the multinomial variant of Hoffman and Gelman (JMLR 2014) as Betancourt (2017,
appendix A) describes it; step size by dual averaging (Hoffman and Gelman, section 3.2), diagonal
metric from the second half of the warm-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.functional.errors import FunctionalError

from ..errors import UnsupportedMethod
from ..executable import FIELD, Executable, new_context
from ..failures import (
    ALL_ZERO,
    DEPTH,
    DISCRETE_CHOICE,
    FAILURES,
    HEAP_FULL,
    INVALID_PARAMETER,
    NAN_WEIGHT,
    REJECTED,
)
from . import tape_natives as k
from .settings import Limits, failure

__all__ = ["Density", "NutsChain", "nuts_chain"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
ATTEMPTS = 100
MAX_TREE = 10
DIVERGENT = 1000.0
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
        self.arguments = np.zeros(4, dtype=np.int64)
        self.out = np.zeros(2)
        # A trajectory may overshoot to where a scale overflows, which only means rejection; but
        # the start must be fine.
        self.strict = True
        self.dimension = self.explore()
        self.strict = False

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
            error = self.error(ALL_ZERO)
            raise error.with_note(f"{ATTEMPTS} random starts were tried")
        taken = int(self.meter[k.TAKEN])
        if taken == 0 or taken > len(self.position):
            raise UnsupportedMethod(
                f"the program makes {taken} continuous choices", expected="between 1 and 65536"
            )
        self.meter[k.DIMENSION] = taken
        return taken

    def raw(self) -> tuple[float, int]:
        """Evaluate at `position`; makes room as needed. Raises the errors of the program."""
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
            elif status in (0, REJECTED):
                return (-math.inf if status else float(self.out[0])), status
            elif status in (INVALID_PARAMETER, NAN_WEIGHT) and not self.strict:
                return -math.inf, REJECTED
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

    def __call__(self, q: Floats) -> tuple[float, Floats]:
        """Log density and gradient. Raises UnsupportedMethod if the choices change in number."""
        self.position[: self.dimension] = q
        value, status = self.raw()
        if status == 0 and int(self.meter[k.TAKEN]) != self.dimension:
            raise UnsupportedMethod(
                "the number of choices depends on their values",
                expected=f"{self.dimension} choices", found=f"{int(self.meter[k.TAKEN])}",
                hint="use SMC or mh",
            )  # fmt: skip
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


@dataclass(slots=True)
class _Point:
    q: Floats
    p: Floats
    value: float
    slope: Floats


@dataclass(slots=True)
class _Tree:
    """A piece of trajectory: its ends, a point drawn from it, the log of its total weight."""

    left: _Point
    right: _Point
    draw: _Point
    weight: float
    momentum: Floats
    turning: bool
    divergent: bool
    accepted: float
    leaves: int


@dataclass(slots=True)
class _Sampler:
    density: Callable[[Floats], tuple[float, Floats]]
    random: np.random.Generator
    metric: Floats
    step: float = 0.1
    averaged: float = 0.0
    error: float = 0.0
    count: int = 0
    centre: float = field(default=0.0)

    def leap(self, at: _Point, direction: int) -> _Point:
        """One leapfrog step."""
        step = direction * self.step
        p = at.p + 0.5 * step * at.slope
        q = at.q + step * self.metric * p
        value, slope = self.density(q)
        return _Point(q, p + 0.5 * step * slope, value, slope)

    def energy(self, at: _Point) -> float:
        """log density of position and momentum."""
        return at.value - 0.5 * float((self.metric * at.p**2).sum())

    def turns(self, left: _Point, right: _Point, momentum: Floats) -> bool:
        """Whether the trajectory has begun to turn back (generalised criterion)."""
        across = self.metric * momentum
        return float((left.p * across).sum()) <= 0.0 or float((right.p * across).sum()) <= 0.0

    def tree(self, at: _Point, direction: int, depth: int, start: float) -> _Tree:
        """2^depth leapfrog steps from a point."""
        if depth == 0:
            new = self.leap(at, direction)
            change = self.energy(new) - start
            if math.isnan(change):
                change = -math.inf
            accepted = math.exp(min(0.0, change))
            return _Tree(new, new, new, change, new.p, False, change < -DIVERGENT, accepted, 1)
        first = self.tree(at, direction, depth - 1, start)
        if first.turning or first.divergent:
            return first
        end = first.right if direction > 0 else first.left
        second = self.tree(end, direction, depth - 1, start)
        return self.join(first, second, direction, uniform=True)

    def join(self, a: _Tree, b: _Tree, direction: int, uniform: bool) -> _Tree:
        """Two adjacent pieces as one; inside a tree draws are uniform, else biased to the new."""
        weight = float(np.logaddexp(a.weight, b.weight))
        odds = b.weight - (weight if uniform else a.weight)
        take = not (b.turning or b.divergent) and math.log(self.random.random()) < odds
        left, right = (a.left, b.right) if direction > 0 else (b.left, a.right)
        momentum = a.momentum + b.momentum
        turning = b.turning or self.turns(left, right, momentum)
        return _Tree(
            left, right, b.draw if take else a.draw, weight, momentum, turning,
            b.divergent, a.accepted + b.accepted, a.leaves + b.leaves,
        )  # fmt: skip

    def transition(self, at: _Point) -> tuple[_Point, _Tree]:
        """The next state of the chain."""
        at.p = self.random.standard_normal(len(at.q)) / np.sqrt(self.metric)
        start = self.energy(at)
        whole = _Tree(at, at, at, 0.0, at.p, False, False, 0.0, 0)
        for depth in range(MAX_TREE):
            direction = 1 if self.random.random() < 0.5 else -1
            end = whole.right if direction > 0 else whole.left
            new = self.tree(end, direction, depth, start)
            whole = self.join(whole, new, direction, uniform=False)
            if whole.turning or whole.divergent:
                break
        return whole.draw, whole

    def fixed(self, at: _Point, steps: int) -> tuple[_Point, _Tree]:
        """Plain Hamiltonian Monte Carlo with some leapfrog steps."""
        at.p = self.random.standard_normal(len(at.q)) / np.sqrt(self.metric)
        start, new = self.energy(at), at
        for _ in range(steps):
            new = self.leap(new, 1)
        change = self.energy(new) - start
        change = -math.inf if math.isnan(change) else change
        accepted = math.exp(min(0.0, change))
        found = new if self.random.random() < accepted else at
        return found, _Tree(at, new, found, 0.0, at.p, False, change < -DIVERGENT, accepted, 1)

    def first_step(self, at: _Point) -> None:
        """A step size whose first step is accepted about half of the time."""
        self.step = 0.1
        at.p = self.random.standard_normal(len(at.q)) / np.sqrt(self.metric)
        start = self.energy(at)
        change = self.energy(self.leap(at, 1)) - start
        up = change > math.log(0.5)
        for _ in range(50):
            self.step *= 2.0 if up else 0.5
            change = self.energy(self.leap(at, 1)) - start
            if (change > math.log(0.5)) != up:
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
    divergent, accepted = 0, 0.0
    for iteration in range(warm_up + draws):
        at, tree = sampler.fixed(at, leapfrogs) if leapfrogs else sampler.transition(at)
        share = tree.accepted / max(1, tree.leaves)
        if iteration < warm_up:
            sampler.adapt(share, target)
            _learn_metric(sampler, history, at, iteration, warm_up)
            if iteration == warm_up - 1:
                sampler.step = math.exp(sampler.averaged)
            continue
        divergent += tree.divergent
        accepted += share
        density(at.q)
        columns[:, iteration - warm_up] = density.results
    return NutsChain(
        columns, divergent, accepted / max(1, draws), sampler.step, density.evaluations
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
