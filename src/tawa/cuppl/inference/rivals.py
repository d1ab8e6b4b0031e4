"""Regions that a chain is compared with, so that it does not stay in one without weight.

A chain explores the mode that its start is near. The evidence of its region is about that of the
normal with the chain's density and spread. A rival is the normal at the end of a climb from another
start; its evidence lower bound is one of the whole posterior. A chain that is far below the best
rival has seen next to nothing of the posterior, and goes on from a draw of the rival.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from tawa.cuppl.inference.approximation import HALF_LOG_TAU, Normal
from tawa.cuppl.inference.ascent import summit
from tawa.cuppl.inference.density import Density
from tawa.cuppl.inference.metrics import Metric, dense, diagonal, log_det, what_is_learned
from tawa.cuppl.inference.pathfinder import lower_bound, normal_at
from tawa.functional.errors import FunctionalError

__all__ = ["Moved", "Rivals", "evidence", "point_of"]

Floats = npt.NDArray[np.float64]
T = TypeVar("T")
Chosen = npt.NDArray[np.bool_]
Tried = tuple[Floats, Chosen]
"""Draws as points (of `natives/nuts.py`), and where the density is not 0."""
MOST = 5
A_RIVAL = 200
"""Transitions of the warm-up for each climb, which is a small part of what they cost."""
EVALUATIONS = 200
"""That a climb may take."""
APART = 10.0
"""How far, and by 1 for each value, a chain is below a rival that it gives way to."""
TRIES = 8
KEY = 0x52495641


@dataclass(frozen=True, slots=True)
class Moved:
    """Chains that go on elsewhere."""

    moved: Chosen
    """Of all that were asked for, which."""
    points: Floats
    """Of `natives/nuts.py`, a row for each that moves."""
    metric: Metric
    """There."""


def point_of(density: Density, value: float, words: int) -> Floats:
    """Where a density was evaluated last, as chains keep it (a point of `natives/nuts.py`)."""
    n = density.dimension
    point = np.zeros(2 * n + 1 + words)
    point[:n], point[n : 2 * n], point[2 * n] = density.position[:n], density.gradient[:n], value
    point.view(np.int64)[2 * n + 1 :] = density.results[:words]
    return point


@dataclass(slots=True)
class Rivals:
    """The best of some climbs, which are made when a chain first asks.

    `start` makes a density at the start of the first chain; the climbs start where that one would
    have looked next.
    """

    start: Callable[[], Density]
    warm_up: int
    """Transitions of all chains that learn together."""
    together: int = 0
    """How many chains learn together: there are draws for all of them."""
    density: Density | None = None
    best: tuple[Normal, float] | None = None
    climbing: Future[None] | None = None
    ahead: Future[Tried | None] | None = None
    """Draws for chains that learn together, before it is known whether they go there."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def instead(self, own: Floats, metric: str, seeds: Sequence[int]) -> Moved | None:
        """Where chains go on whose regions have about these log evidences; None if all stay.

        `seeds` are those of the chains, or one for all.
        """
        self.prepare()
        if self.climbing is not None:
            self.climbing.result()
        with self.lock:
            best = self.best
            if best is None:
                return None
            lost = own + APART + len(best[0].mean) < best[1]
            work = partial(self.drawn, best[0], metric, seeds, lost)
            return _aside(work) if lost.any() else None

    def prepare(self, ahead: bool = False) -> None:
        """Begin with the climbs, if nobody has; then make draws `ahead` of time."""
        with self.lock:
            if self.climbing is None:
                pool = ThreadPoolExecutor(1)
                self.climbing = pool.submit(self.climb)
                if ahead and self.together:
                    self.ahead = pool.submit(self.look_ahead)
                pool.shutdown(wait=False)

    def wait(self) -> None:
        """Wait for what has begun."""
        if self.climbing is not None:
            self.climbing.result()
        if self.ahead is not None:
            self.ahead.result()

    def climb(self) -> None:
        """Find the best rival."""
        self.density = self.start()
        self.best = _best(self.density, min(MOST, self.warm_up // A_RIVAL))

    def look_ahead(self) -> Tried | None:
        """Draws of the best rival; None where the program fails, which chains that go there say."""
        if self.best is None or self.density is None:
            return None
        with suppress(FunctionalError):
            return self.tried(self.best[0], self.density.seed, self.together)

    def drawn(self, normal: Normal, metric: str, seeds: Sequence[int], lost: Chosen) -> Moved:
        """Draws where the density is not 0, as points, and the metric there, for what is lost."""
        moved, points = lost.copy(), list[Floats]()
        teams = [slice(None)] if len(seeds) == 1 else [slice(c, c + 1) for c in range(len(seeds))]
        for seed, team in zip(seeds, teams, strict=True):
            chains = np.flatnonzero(lost[team]) + (team.start or 0)
            count = len(chains)
            if count:
                ahead = self.ahead.result() if self.ahead else None
                found, good = ahead or self.tried(normal, seed, max(count, self.together))
                moved[chains] = good[:count]
                points.append(found[:count][good[:count]])
        return Moved(moved, np.concatenate(points), _metric(normal, metric))

    def tried(self, normal: Normal, seed: int, count: int) -> Tried:
        """So many draws as points, and which of them are some."""
        n = len(normal.mean)
        noise = _random(seed).standard_normal((count * TRIES, n))
        return self.points(normal.draw(noise).reshape(-1, TRIES, n))

    def points(self, draws: Floats) -> Tried:
        """The first of each row of draws where the density is not 0, as a point; whether any is."""
        density = self.density
        assert density is not None
        count, _, n = draws.shape
        words = density.kept_words
        found = np.zeros((count, 2 * n + 1 + words))
        good = np.zeros(count, dtype=bool)
        for attempt in range(TRIES):
            left = np.flatnonzero(~good)
            if not len(left):
                break
            tried = np.zeros((len(left), found.shape[1]))
            tried[:, :n] = draws[left, attempt]
            density.complete(tried, words)
            found[left] = tried
            good[left] = np.isfinite(np.abs(tried[:, n : 2 * n + 1]).max(axis=1))
        return found, good


def _aside(work: Callable[[], T]) -> T:
    """Work on a thread of its own, whose stack has room for a recursion."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def evidence(value: float, metric: Metric, n: int) -> float:
    """About the log evidence of a normal region, of the density at a draw and the covariance."""
    return value + 0.5 * n + HALF_LOG_TAU * n + 0.5 * log_det(metric, n)


def _best(density: Density, count: int) -> tuple[Normal, float] | None:
    """The normal with the largest evidence lower bound, of so many climbs."""
    random = _random(density.seed)
    found: list[tuple[Normal, float]] = []
    for _ in range(count):
        try:
            value, status = density.look_elsewhere()
            if status != 0 or not math.isfinite(value):
                break
            one = normal_at(*summit(density, EVALUATIONS))
            if one is not None:
                found.append((one, lower_bound(density, one, random)))
        except FunctionalError:  # the program fails there, where no chain may ever come
            continue
    found = [one for one in found if math.isfinite(one[1])]
    return max(found, key=lambda one: one[1], default=None)


def _random(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=[seed & (1 << 64) - 1, KEY]))


def _metric(normal: Normal, metric: str) -> Metric:
    if what_is_learned(metric, len(normal.mean)) != "dense":
        return diagonal(normal.variances())
    root = normal.root()
    return dense(root @ root.T)
