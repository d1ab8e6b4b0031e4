"""Chains of the no-U-turn sampler and of Hamiltonian Monte Carlo: their adaptation.

What a chain does in each transition is machine code (`natives/nuts.py`); between windows of the
warm-up the metric is learned here.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD
from tawa.cuppl.cpu.memory import mask_of_results
from tawa.cuppl.inference.ascent import ascent
from tawa.cuppl.inference.density import LEVELS, STEEP, Density
from tawa.cuppl.inference.settings import Limits, check_settings, counts
from tawa.cuppl.natives import nuts as k
from tawa.cuppl.typing.errors import BadSetting
from tawa.cuppl.typing.failures import HEAP_FULL, UnboundedRecursion

__all__ = ["NutsChain", "Plan", "nuts_chain", "results_of", "run_plans"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
METRICS = ("auto", "dense", "diagonal")
WINDOWS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.9)
"""Ends of the windows after each of which the metric is learned anew, as parts of the warm-up."""
EARLY = 0.1
"""The part of the warm-up in which trajectories are short."""
EARLY_DOUBLINGS = 8
MOST_DENSE = 64
"""Values from which a covariance is not learned unless it is asked for: it costs their square."""
DRAWS_A_VALUE = 3
"""How many positions a covariance needs for each of its rows."""
BYTES_A_LEVEL = 8192
"""Native stack for each level of recursion: differentiated functions have large frames."""
MOST_LEVELS = 1 << 17
LEAST = 1e-300
"""The least variance of a value."""
SLICE = 100
"""Transitions between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a chain does: `leapfrogs` is 0 for NUTS."""

    draws: int
    warm_up: int
    seed: int
    target: float = 0.8
    leapfrogs: int = 0
    metric: str = "auto"
    doublings: int = k.MAX_DOUBLINGS

    def checked(self) -> Plan:
        """The same with whole numbers. Raises BadSetting for what means nothing."""
        (draws,) = counts(draws=self.draws)
        (warm_up,) = counts(0, warm_up=self.warm_up)
        check_settings(self.seed, target=self.target)
        if self.metric not in METRICS:
            expected = " or ".join(map(repr, METRICS))
            raise BadSetting("unknown metric", expected=expected, found=repr(self.metric))
        return replace(self, draws=draws, warm_up=warm_up)


@dataclass(slots=True)
class NutsChain:
    """Kept results (a column each) and how the chain went."""

    columns: Words
    positions: Floats
    """The draws, unconstrained."""
    statistics: dict[str, Floats]
    """Of each kept draw, under the names that ArviZ has for them (`natives/nuts.py`)."""
    step: float
    evaluations: int
    memory: list[Words]
    """What the results refer to."""

    def e_bfmi(self) -> float:
        """How well new momenta explore the energies: low is below 0.3 (Betancourt 2016)."""
        energies = self.statistics["energy"]
        spread = float(((energies - energies.mean()) ** 2).sum())
        moves = float((np.diff(energies) ** 2).sum())
        return moves / spread if spread > 0.0 else math.nan


@dataclass(slots=True)
class _Sampler:
    """The words and arrays that the machine code works with."""

    density: Density
    plan: Plan
    words: int
    """How many result words are kept with each draw."""
    s: Words = field(init=False)
    arrays: dict[int, Floats] = field(default_factory=dict[int, Floats])

    def __post_init__(self) -> None:
        n, plan = self.density.dimension, self.plan
        self.s = np.zeros(k.SAMPLER_WORDS, dtype=np.int64)
        s = self.s
        s[k.RESULTS], s[k.WORDS] = self.density.results.ctypes.data, self.words
        s[k.FUEL], s[k.LEAPFROGS] = self.density.limits.max_steps, plan.leapfrogs
        s[k.STRIDE] = plan.draws
        self.give(k.WORK, k.work_size(n, self.words))
        self.give(k.MOMENTS, 4 * n + n * n)
        self.give(k.COLUMNS, self.words * plan.draws)
        self.give(k.POSITIONS, n * plan.draws)
        self.give(k.STATISTICS, len(k.KEPT) * plan.draws)
        self.put(k.TARGET, plan.target)
        self.put(k.STEP, 0.1)
        context = self.density.context
        context[FIELD["key0"]] = plan.seed & 0xFFFFFFFF
        context[FIELD["key1"]] = plan.seed >> 32 & 0xFFFFFFFF

    def give(self, word: int, size: int) -> None:
        """Set an array aside."""
        self.arrays[word] = array = np.zeros(size)
        self.s[word] = array.ctypes.data

    def put(self, word: int, value: float) -> None:
        """Set a float among the words."""
        self.s.view(np.float64)[word] = value

    def get(self, word: int) -> float:
        """A float among the words."""
        return float(self.s.view(np.float64)[word])

    def start(self) -> None:
        """Put the chain where the density was explored."""
        density, n = self.density, self.density.dimension
        density.leave_cliffs()
        q = density.position[:n].copy()
        value, gradient = density(q)
        metric = 1.0 / np.clip(np.abs(gradient), 1.0, 1e20)
        if np.abs(gradient).max() > STEEP or np.abs(gradient).min() < 1.0 / STEEP:
            for there, curvature in ascent(density):
                q, metric = there.q, curvature.diagonal
            value, gradient = density(q)
        work = self.arrays[k.WORK]
        work[:n], work[n : 2 * n], work[2 * n] = q, gradient, value
        work.view(np.int64)[2 * n + 1 : 2 * n + 1 + self.words] = density.results[: self.words]
        self.use(metric)

    def use(self, metric: Floats) -> None:
        """Go on with other variances, or another covariance."""
        dense = metric.ndim == 2
        factor = np.linalg.cholesky(metric) if dense else np.sqrt(metric)
        self.s[k.DENSE] = dense
        for word, array in ((k.METRIC, metric), (k.FACTOR, factor)):
            self.arrays[word] = kept = np.array(array, dtype=np.float64).reshape(-1)
            self.s[word] = kept.ctypes.data

    def learned(self) -> Floats | None:
        """The metric of the window that ends here; None if it was too short."""
        n, seen = self.density.dimension, int(self.s[k.SEEN])
        moments = self.arrays[k.MOMENTS]
        if seen < 10:
            return None
        _, squares, _, slopes = moments[: 4 * n].reshape(4, n)
        wanted = self.plan.metric == "dense" or (self.plan.metric == "auto" and n <= MOST_DENSE)
        if wanted and seen >= DRAWS_A_VALUE * n:
            variance = squares / (seen - 1.0)
            covariance = moments[4 * n :].reshape(n, n) / (seen - 1.0)
            covariance *= seen / (seen + 5.0)
            covariance[np.diag_indices(n)] += np.maximum(variance * 1e-3, LEAST)
            return 0.5 * (covariance + covariance.T) if np.isfinite(covariance).all() else None
        with np.errstate(all="ignore"):
            found = np.sqrt(squares / slopes)
        found[~np.isfinite(found) | (found <= 0.0)] = 1.0
        return np.clip(found, LEAST, 1.0 / LEAST)

    def forget(self) -> None:
        """Begin a new window."""
        self.arrays[k.MOMENTS][:] = 0.0
        self.s[k.SEEN] = 0

    def call(self, symbol: str, *more: int) -> int:
        """Run machine code, with more room where it needs that; its last result."""
        density = self.density
        first, *rest = more
        while True:
            given = [density.meter.ctypes.data, self.s.ctypes.data, first, *rest]
            out = density.executable.call_all(symbol, density.context, given)
            ended, status, reached = (int(w) for w in out[:3])
            if ended == k.FULL:
                density.more_tape()
            elif ended == k.FAILED and status == HEAP_FULL:
                density.more_heap()
            elif ended == k.FAILED:
                raise density.error(status)
            elif ended == k.CHANGED:
                raise density.changed()
            else:
                return reached
            if symbol == "run_chain":
                if rest[2] >= 0:
                    rest[2] += reached - first
                first = reached

    def run(
        self, first: int, last: int, learning: bool, kept: int, report: Callable[[int], None]
    ) -> None:
        """Transitions from one iteration to another."""
        while first < last:
            end = min(last, first + SLICE)
            self.call("run_chain", first, end, int(learning), kept)
            kept += end - first if kept >= 0 else 0
            first = end
            report(first)


def run_plans(
    plans: list[Plan],
    start: Callable[[int, int], Density],
    threads: int,
    limits: Limits,
    report: Callable[[int], None] | None,
) -> list[NutsChain]:
    """Chains on some threads; `start(seed, levels)` makes the density of one.

    They begin again on deeper native stacks where a program recurses deeper than those have room.
    """
    levels = LEVELS

    def run(plan: Plan) -> NutsChain:
        tell = report if report is not None and plan is plans[0] else None
        return nuts_chain(start(plan.seed, levels), plan, tell or (lambda _: None))

    while True:
        old = threading.stack_size(levels * BYTES_A_LEVEL + (1 << 20))
        try:
            with ThreadPoolExecutor(threads) as pool:
                return list(pool.map(run, plans))
        except UnboundedRecursion:
            levels *= 8
            if levels > min(limits.max_depth, MOST_LEVELS):
                raise
        finally:
            threading.stack_size(old)


def nuts_chain(
    density: Density, plan: Plan, report: Callable[[int], None] = lambda _: None
) -> NutsChain:
    """One chain; it is told of every so many transitions that were made."""
    references = density.references
    sampler = _Sampler(density, plan, 0 if any(references) else len(references))
    sampler.start()
    _warm_up(sampler, report)
    s = sampler.s
    s[k.DOUBLINGS] = plan.doublings
    sampler.run(plan.warm_up, plan.warm_up + plan.draws, False, 0, report)
    positions = sampler.arrays[k.POSITIONS].reshape(plan.draws, -1)
    if any(references):
        columns, memory = results_of(density, positions)
    else:
        columns = sampler.arrays[k.COLUMNS].view(np.int64).reshape(-1, plan.draws)
        memory = list[Words]()
    rows = sampler.arrays[k.STATISTICS].reshape(len(k.KEPT), plan.draws)
    statistics: dict[str, Floats] = dict(zip(k.KEPT, rows, strict=True))
    step, evaluations = sampler.get(k.STEP), int(s[k.EVALUATIONS])
    return NutsChain(columns, positions, statistics, step, evaluations, memory)


def _warm_up(sampler: _Sampler, report: Callable[[int], None]) -> None:
    """Find a step size and a metric, in windows of growing length."""
    plan, s, total = sampler.plan, sampler.s, sampler.plan.warm_up
    sampler.call("find_step", total)
    ends = sorted({round(part * total) for part in WINDOWS} - {0})
    first = 0
    for end in [*ends, total]:
        early = first < EARLY * total
        s[k.DOUBLINGS] = min(plan.doublings, EARLY_DOUBLINGS) if early else plan.doublings
        sampler.run(first, end, end < total, -1, report)
        metric = sampler.learned() if end < total else None
        if metric is not None:
            sampler.use(metric)
            sampler.forget()
            sampler.call("find_step", total)
        first = end
    if total:
        sampler.put(k.STEP, math.exp(sampler.get(k.AVERAGED)))


def results_of(density: Density, positions: Floats) -> tuple[Words, list[Words]]:
    """The results of draws, run again, and copied out of the heap with all they refer to."""
    objects = density.executable.objects
    mask = mask_of_results(density.executable.lowered.elaborated, objects)
    rows = np.zeros((len(density.references), len(positions)), dtype=np.int64)
    memory: list[Words] = [np.empty(1 << 16, dtype=np.int64)]
    used = 0
    for index, q in enumerate(positions):
        density(q)
        low, now = density.heap.ctypes.data, int(density.context[FIELD["heap"]])
        need = (now - low) // 8
        if used + need > len(memory[-1]):
            density.check_memory(8 * (sum(map(len, memory)) + need))
            memory.append(np.empty(max(need, 2 * len(memory[-1])), dtype=np.int64))
            used = 0
        density.context[FIELD["heap"]] = memory[-1].ctypes.data + 8 * used
        row = density.results.copy()
        given = [row.ctypes.data, len(row), mask, 1, low, now, objects.ctypes.data]
        density.executable.collect("collect_results", density.context, given)
        used = (int(density.context[FIELD["heap"]]) - memory[-1].ctypes.data) // 8
        rows[:, index] = row
    return rows, memory
