"""Chains of the no-U-turn sampler and of Hamiltonian Monte Carlo on the CPU.

What a chain does in each transition is machine code (`natives/nuts.py`); between windows of the
warm-up step sizes and metrics are learned (`adaptation.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD
from tawa.cuppl.inference.adaptation import Plan, Report, moments_of, warm_up
from tawa.cuppl.inference.ascent import ascent
from tawa.cuppl.inference.checkpoint import Place
from tawa.cuppl.inference.density import LEVELS, STEEP, Density
from tawa.cuppl.inference.metrics import Metric, diagonal, sizes
from tawa.cuppl.inference.results import results_of
from tawa.cuppl.inference.rivals import Rivals, point_of
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.natives import nuts as k
from tawa.cuppl.typing.failures import UnboundedRecursion

__all__ = [
    "SLICE", "Drawn", "NutsChain", "Plan", "first_point", "nuts_chain", "rivals_of", "run_plans",
    "set_words", "sizes_of_arrays", "tell_nobody",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
BYTES_A_LEVEL = 8192
"""Native stack for each level of recursion: differentiated functions have large frames."""
MOST_LEVELS = 1 << 17
FIRST_SLICE, SLICE = 4, 100
"""Transitions between two reports of progress, at first and at most."""
QUICK = 0.1
"""Seconds in which as many transitions are too few for a report."""


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


@dataclass(frozen=True, slots=True)
class Drawn:
    """What some chains have drawn: lists of what each has (`NutsChain`)."""

    columns: list[Words]
    positions: list[Floats]
    statistics: dict[str, Floats]
    """By name, (chains, draws)."""
    memory: list[list[Words]]

    @staticmethod
    def of(chains: list[NutsChain]) -> Drawn:
        """Of chains one by one."""
        names = chains[0].statistics
        return Drawn(
            [one.columns for one in chains],
            [one.positions for one in chains],
            {name: np.stack([one.statistics[name] for one in chains]) for name in names},
            [one.memory for one in chains],
        )


def sizes_of_arrays(plan: Plan, n: int, words: int) -> dict[int, int]:
    """How many floats each array of a sampler has, by the word that holds its address."""
    metric, roots = sizes(plan.metric, n)
    return {
        k.WORK: k.work_size(n, words), k.MOMENTS: moments_of(plan, n)[1], k.METRIC: metric,
        k.FACTOR: roots, k.COLUMNS: words * plan.draws, k.POSITIONS: n * plan.draws,
        k.STATISTICS: len(k.KEPT) * plan.draws,
    }  # fmt: skip


def set_words(s: Words, plan: Plan, n: int, words: int, limits: Limits) -> None:
    """What a sampler's words say from the beginning (of one chain, or of rows of them)."""
    s[..., k.ROWS] = moments_of(plan, n)[0]
    s[..., k.WORDS], s[..., k.FUEL] = words, limits.max_steps
    s[..., k.LEAPFROGS], s[..., k.STRIDE] = plan.leapfrogs, plan.draws
    floats = s.view(np.float64)
    floats[..., k.TARGET], floats[..., k.STEP] = plan.target, 0.1


def first_point(density: Density, words: int) -> tuple[Floats, Floats]:
    """Where a chain starts (a point of `natives/nuts.py`), and variances that fit there."""
    value, gradient = density.leave_cliffs()
    steepness = np.abs(gradient)
    metric = 1.0 / np.clip(steepness, 1.0, 1e20)
    if steepness.max() > STEEP or steepness.min() < 1.0 / STEEP:
        q = density.position[: density.dimension].copy()
        for there, curvature in ascent(density):
            q, metric = there.q, curvature.diagonal
        value, _ = density(q)
    return point_of(density, value, words), metric


@dataclass(slots=True)
class _Sampler:
    """The words and arrays that the machine code works with."""

    density: Density
    plan: Plan
    words: int
    """How many result words are kept with each draw."""
    s: Words
    place: Place | None = None
    """Where the chain is kept from time to time."""
    arrays: dict[int, Floats] = field(default_factory=dict[int, Floats])

    def __post_init__(self) -> None:
        density, plan = self.density, self.plan
        set_words(self.s, plan, density.dimension, self.words, density.limits)
        self.s[k.RESULTS] = density.results.ctypes.data
        for word, size in sizes_of_arrays(plan, density.dimension, self.words).items():
            self.arrays[word] = array = np.zeros(size)
            self.s[word] = array.ctypes.data
        density.context[FIELD["key0"]] = plan.seed & 0xFFFFFFFF
        density.context[FIELD["key1"]] = plan.seed >> 32 & 0xFFFFFFFF

    def start(self) -> None:
        """Put the chain where the density was explored."""
        point, metric = first_point(self.density, self.words)
        self.arrays[k.WORK][: len(point)] = point
        self.use(diagonal(metric))

    def use(self, metric: Metric) -> None:
        """Go on with another metric."""
        self.s[k.KIND] = metric.kind
        self.arrays[k.METRIC][: metric.words.size] = metric.words
        self.arrays[k.FACTOR][: metric.roots.size] = metric.roots

    def call(self, symbol: str, *more: int) -> int:
        """Run machine code, with more room where it needs that; its last result."""
        density = self.density
        first, *rest = more
        while True:
            given = [density.meter.ctypes.data, self.s.ctypes.data, first, *rest]
            out = density.executable.call_all(symbol, density.context, given)
            ended, status, reached = (int(w) for w in out[:3])
            if not density.make_room(ended, status):
                return reached
            if symbol == "run_chain":
                if rest[2] >= 0:
                    rest[2] += reached - first
                first = reached

    def run(self, first: int, last: int, learning: bool, kept: int, report: Report) -> None:
        """Transitions from one iteration to another."""
        more = FIRST_SLICE
        while first < last:
            if self.density.stopped.is_set():
                raise CancelledError
            end, begin = min(last, first + more), time.monotonic()
            self.call("run_chain", first, end, int(learning), kept)
            kept += end - first if kept >= 0 else 0
            first = end
            report(first)
            if time.monotonic() - begin < QUICK:
                more = min(2 * more, SLICE)
            if self.place is not None and self.place.due():
                self.keep(self.place, first)

    def keep(self, place: Place, done: int) -> None:
        """Write the chain, after so many transitions."""
        if self.plan.pooled and done <= self.plan.warm_up:
            return  # chains that learn together begin again together
        arrays = {f"array{word}": array for word, array in self.arrays.items()}
        place.save({"done": np.array(done), "words": self.s, **arrays})

    def take_up(self, kept: dict[str, npt.NDArray[Any]]) -> None:
        """Be where a chain was when it was written."""
        addresses = [k.RESULTS, *self.arrays]
        here = self.s[addresses]
        self.s[:] = kept["words"]
        self.s[addresses] = here
        for word, array in self.arrays.items():
            array[:] = kept[f"array{word}"]


class _Together:
    """A team of samplers; `each` applies a function to all of them."""

    def __init__(
        self, samplers: list[_Sampler], words: Words,
        each: Callable[[Callable[[int], None]], None],
    ) -> None:  # fmt: skip
        self.samplers, self.words, self.each = samplers, words, each
        self.dimension = n = samplers[0].density.dimension
        self.seeds = [sampler.plan.seed for sampler in samplers]
        self.moments = np.zeros((len(samplers), moments_of(samplers[0].plan, n)[1]))
        for sampler, row in zip(samplers, self.moments, strict=True):
            if sampler.density.dimension != n:
                raise samplers[0].density.changed()
            sampler.arrays[k.MOMENTS] = row
            sampler.s[k.MOMENTS] = row.ctypes.data

    @property
    def densities(self) -> Floats:
        """The log density where each chain is."""
        return np.array([one.arrays[k.WORK][2 * self.dimension] for one in self.samplers])

    def forget(self, chains: npt.NDArray[np.bool_]) -> None:
        """Some chains begin a new window."""
        self.moments[chains] = 0.0
        self.words[chains, k.SEEN] = 0

    def use(self, chains: Words, metric: Metric) -> None:
        """Give some chains a metric."""
        for chain in map(int, chains):
            self.samplers[chain].use(metric)

    def put(self, chains: Words, points: Floats) -> None:
        """Put some chains somewhere else."""
        for chain, point in zip(map(int, chains), points, strict=True):
            self.samplers[chain].arrays[k.WORK][: len(point)] = point

    def find_steps(self, iteration: int, chains: npt.NDArray[np.bool_]) -> None:
        """Some chains look for a step size."""

        def find(chain: int) -> None:
            if chains[chain]:
                self.samplers[chain].call("find_step", iteration)

        self.each(find)

    def run(self, first: int, last: int, learning: bool, kept: int, report: Report) -> None:
        """Transitions of all chains."""

        def run(chain: int) -> None:
            told = report if chain == 0 else tell_nobody
            self.samplers[chain].run(first, last, learning, kept, told)

        self.each(run)

    def draw(self, first: int, draws: int, done: list[int], report: Report) -> None:
        """The draws of all chains, some of which were made before."""

        def run(chain: int) -> None:
            told = report if chain == 0 else tell_nobody
            start = max(first, done[chain])
            self.samplers[chain].run(start, first + draws, False, start - first, told)

        self.each(run)


def tell_nobody(_: int) -> None:
    """A report that nobody waits for."""


@contextmanager
def _told(stopped: Event) -> Generator[None]:
    """Let chains know of an error or an interrupt, after which nobody waits for them."""
    try:
        yield
    except BaseException:
        stopped.set()
        raise


def run_plans(
    plans: list[Plan],
    start: Callable[[int, int], Density],
    threads: int,
    limits: Limits,
    report: Report | None,
    places: list[Place] | None = None,
) -> list[NutsChain]:
    """Chains on some threads; `start(seed, levels)` makes the density of one.

    They begin again on deeper native stacks where a program recurses deeper than those have room.
    With `places`, they are kept there and go on from there.
    """
    levels, stopped = LEVELS, Event()
    own = places or [None] * len(plans)

    def begin(seed: int, levels: int) -> Density:
        density = start(seed, levels)
        density.stopped = stopped
        return density

    def run(plan: Plan, place: Place | None) -> NutsChain:
        tell = report if report is not None and plan is plans[0] else None
        return nuts_chain(begin(plan.seed, levels), plan, tell or tell_nobody, place, rivals)

    while True:
        stopped.clear()
        old = threading.stack_size(levels * BYTES_A_LEVEL + (1 << 20))
        try:
            rivals = rivals_of(plans, partial(start, plans[0].seed, levels))
            with ThreadPoolExecutor(threads) as pool, _told(stopped):
                if not plans[0].pooled:
                    return list(pool.map(run, plans, own))
                seeds = [plan.seed for plan in plans]
                densities = list(pool.map(begin, seeds, [levels] * len(plans)))
                return pooled_chains(densities, plans, pool, report or tell_nobody, own, rivals)
        except UnboundedRecursion:
            levels *= 8
            if levels > min(limits.max_depth, MOST_LEVELS):
                raise
        finally:
            threading.stack_size(old)


def rivals_of(plans: list[Plan], start: Callable[[], Density]) -> Rivals:
    """What chains are compared with; `start` makes the density of the first."""
    together = len(plans) if plans[0].pooled else 0
    return Rivals(start, plans[0].warm_up * max(1, together), together)


def nuts_chain(
    density: Density, plan: Plan, report: Report = tell_nobody, place: Place | None = None,
    rivals: Rivals | None = None,
) -> NutsChain:  # fmt: skip
    """One chain; it is told of every so many transitions that were made."""

    def each(work: Callable[[int], None]) -> None:
        work(0)

    (chain,) = _chains([density], [plan], each, report, [place], rivals)
    return chain


def pooled_chains(
    densities: list[Density], plans: list[Plan], pool: ThreadPoolExecutor, report: Report,
    places: Sequence[Place | None], rivals: Rivals | None = None,
) -> list[NutsChain]:  # fmt: skip
    """Chains that learn together, on the threads of a pool."""

    def each(work: Callable[[int], None]) -> None:
        for _ in pool.map(work, range(len(plans))):
            pass

    return _chains(densities, plans, each, report, places, rivals)


def _chains(
    densities: list[Density], plans: list[Plan],
    each: Callable[[Callable[[int], None]], None], report: Report, places: Sequence[Place | None],
    rivals: Rivals | None = None,
) -> list[NutsChain]:  # fmt: skip
    plan, kept = plans[0], densities[0].kept_words
    words = np.zeros((len(plans), k.SAMPLER_WORDS), dtype=np.int64)
    samplers = [
        _Sampler(density, own, kept, row, place)
        for density, own, row, place in zip(densities, plans, words, places, strict=True)
    ]
    team = _Together(samplers, words, each)
    before = [place.load() if place else None for place in places]
    done = [-1 if one is None else int(one["done"]) for one in before]
    for sampler, one in zip(samplers, before, strict=True):
        if one is not None and min(done) >= 0:
            sampler.take_up(one)
    if min(done) < 0:
        each(lambda chain: samplers[chain].start())
        done = [-1] * len(plans)
    if min(done) <= plan.warm_up:
        warm_up(team, plan, report, rivals, min(done))
    team.draw(plan.warm_up, plan.draws, done, report)
    return [_finished(sampler) for sampler in samplers]


def _finished(sampler: _Sampler) -> NutsChain:
    """What a chain has drawn."""
    density, draws, s = sampler.density, sampler.plan.draws, sampler.s
    positions = sampler.arrays[k.POSITIONS].reshape(draws, -1)
    if any(density.references):
        columns, memory = results_of(density, positions)
    else:
        columns = sampler.arrays[k.COLUMNS].view(np.int64).reshape(-1, draws)
        memory = list[Words]()
    rows = sampler.arrays[k.STATISTICS].reshape(len(k.KEPT), draws)
    statistics: dict[str, Floats] = dict(zip(k.KEPT, rows, strict=True))
    step = float(s.view(np.float64)[k.STEP])
    return NutsChain(columns, positions, statistics, step, int(s[k.EVALUATIONS]), memory)
