"""How chains learn a step size and a metric: each for itself, or all of them together.

A *team* is chains that go through the windows of the warm-up at the same time, on some device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tawa.cuppl.inference.metrics import (
    LEAST,
    METRICS,
    Metric,
    dense,
    diagonal,
    low_rank,
    variances,
    what_is_learned,
)
from tawa.cuppl.inference.rivals import Rivals, evidence
from tawa.cuppl.inference.settings import check_settings, counts
from tawa.cuppl.natives import nuts as k
from tawa.cuppl.typing.errors import BadSetting

__all__ = ["Plan", "Report", "Team", "moments_of", "near_others", "warm_up"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
Given = list[tuple[Words, Metric]]
"""Chains that have a new metric, with it."""
Report = Callable[[int], None]
"""What is told of every so many transitions that were made."""
WINDOWS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.9)
"""Ends of the windows after each of which the metric is learned anew, as parts of the warm-up."""
EARLY = 0.1
"""The part of the warm-up in which trajectories are short."""
EARLY_DOUBLINGS = 6
LONGEST = 0.5
"""The longest of these windows, as a part of the warm-up."""
LEAST_SEEN = 10
"""Positions from which a metric is learned."""
DRAWS_A_VALUE = 3
"""How many positions a covariance needs for each of its rows."""
AT_ONCE = 4
"""How many transitions after a change of the metric the step size is put right after each."""
GAIN = 2.0
"""By how much the logarithm of the step size changes, at first, for a missing acceptance of 1."""
NEAR_STEP = 4.0
"""A step size for a new metric is found within such a factor."""
FAR = 10.0
"""Chains so many distances of median and upper quartile, each and 1, below the second are far."""
FROM = 0.2
"""The part of the warm-up after which the metric is good enough to blame the step size."""
PART = 0.1
"""After each such part of the warm-up chains that diverge get shorter steps."""
OFTEN = 1 / 200
"""The part of transitions that may diverge."""
STRICTEST = 0.95
"""The acceptance that is wanted, at most, of chains that diverge."""
SETTLED_UPDATES = AT_ONCE + 3
"""Changes after which the step size that chains share is nearly right."""
POOLED_DOUBLINGS, SHORT_DOUBLINGS = 5, 4
"""In a warm-up together all wait for the longest trajectories.

The second is for its beginning, and for single transitions, after which a step size is put right.
"""


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
    pooled: bool = False
    """Whether chains learn one step size and one metric together."""

    def checked(self) -> Plan:
        """The same with whole numbers. Raises BadSetting for what means nothing."""
        (draws,) = counts(draws=self.draws)
        (warm_up,) = counts(0, warm_up=self.warm_up)
        check_settings(self.seed, target=self.target)
        if self.metric not in METRICS:
            expected = " or ".join(map(repr, METRICS))
            raise BadSetting("unknown metric", expected=expected, found=repr(self.metric))
        return replace(self, draws=draws, warm_up=warm_up)


class Team(Protocol):
    """Chains that go through the warm-up together."""

    dimension: int
    words: Words
    """The sampler's words (`natives/nuts.py`), a row a chain; what is written there counts."""

    @property
    def seeds(self) -> list[int]:
        """Of each chain."""
        ...

    @property
    def moments(self) -> Floats:
        """What the window so far has seen, a row a chain."""
        ...

    def forget(self, chains: npt.NDArray[np.bool_]) -> None:
        """Some chains begin a new window."""
        ...

    @property
    def densities(self) -> Floats:
        """The log density where each chain is."""
        ...

    def use(self, chains: Words, metric: Metric) -> None:
        """Give some chains a metric."""
        ...

    def put(self, chains: Words, points: Floats) -> None:
        """Put some chains somewhere else (points of `natives/nuts.py`, a row each)."""
        ...

    def find_steps(self, iteration: int, chains: npt.NDArray[np.bool_]) -> None:
        """Some chains look for a step size."""
        ...

    def run(self, first: int, last: int, learning: bool, kept: int, report: Report) -> None:
        """Transitions from one iteration to another; draws are kept from `kept` on, if not < 0."""
        ...


def warm_up(
    team: Team, plan: Plan, report: Report, rivals: Rivals | None = None, done: int = -1
) -> None:
    """Find step sizes and metrics, in windows of growing length.

    `done` transitions were made before (none, with no step size yet, if it is -1). Once chains
    know how much they vary, they are compared with `rivals`.
    """
    total = plan.warm_up
    words, floats = team.words, team.words.view(np.float64)
    pool = _Pool(team, plan) if plan.pooled else None
    if done < 0:
        _find_steps(team, plan, pool, np.ones(len(words), dtype=bool))
    ends = sorted({round(part * total) for part in WINDOWS} - {0})
    first = 0
    for end in [*ends, total]:
        if end < done:
            first = end
            continue
        most = plan.doublings if pool is None else POOLED_DOUBLINGS
        if first < EARLY * total:
            most = EARLY_DOUBLINGS if pool is None else SHORT_DOUBLINGS
        words[:, k.DOUBLINGS] = min(plan.doublings, most)
        if pool:
            pool.run(first, end, end < total, report)
        else:
            _run_parts(team, plan, first, end, done, report)
        if end < total:
            found = _learn(team, plan)
            if rivals and first < EARLY * total <= end:
                _give_way(team, plan, rivals, found)
            chosen = np.zeros(len(words), dtype=bool)
            for chains, _ in found:
                chosen[chains] = True
            team.forget(chosen)
            _find_steps(team, plan, pool, chosen)
        first = end
    own = words[:, k.STEP_GIVEN] == 0
    if total:
        floats[own, k.STEP] = [math.exp(one) for one in floats[own, k.AVERAGED].tolist()]
    words[:, k.DOUBLINGS] = plan.doublings


def _run_parts(
    team: Team, plan: Plan, first: int, end: int, done: int, report: Report
) -> None:  # fmt: skip
    """A window in which each chain learns for itself."""
    total = plan.warm_up
    length, early = max(1, round(PART * total)), first < FROM * total
    for last in [end] if early else [*range(first + length, end, length), end]:
        if last >= done:
            team.run(max(first, done), last, end < total, -1, report)
            if not early:
                _raise_targets(team, team.words[:, k.DIVERGED] > OFTEN * (last - first))
            team.words[:, k.DIVERGED] = 0
        first = last


def _raise_targets(team: Team, chains: npt.NDArray[np.bool_]) -> None:
    """Some chains, which diverge, want a higher acceptance, so shorter steps.

    With long steps they miss where the density is curved most, or are stuck there. The step size
    is learned anew, from where it is.
    """
    words, floats = team.words, team.words.view(np.float64)
    raised = chains & (floats[:, k.TARGET] < STRICTEST)
    floats[raised, k.TARGET] = np.minimum(STRICTEST, 0.5 * (1.0 + floats[raised, k.TARGET]))
    floats[raised, k.CENTRE] = floats[raised, k.AVERAGED]
    floats[raised, k.ERROR] = 0.0
    words[raised, k.COUNT] = 0


def _find_steps(
    team: Team, plan: Plan, pool: _Pool | None, chains: npt.NDArray[np.bool_]
) -> None:  # fmt: skip
    """Step sizes for a new metric."""
    if chains.any():
        team.find_steps(plan.warm_up, chains)
        if pool:
            pool.share_steps()


@dataclass(slots=True)
class _Pool:
    """The step size that chains share; those far below the others in density have their own.

    So a chain that starts where the density is steep gets away from there with short steps, and
    then joins the others.
    """

    team: Team
    plan: Plan
    step: float = 0.0

    def share_steps(self) -> None:
        """The step in the middle of those that chains have found, or the last one if it is near."""
        floats = self.team.words.view(np.float64)
        near = near_others(self.team.densities, self.team.dimension)
        middle = float(np.median(floats[near, k.STEP]))
        if not 1.0 / NEAR_STEP < self.step / middle < NEAR_STEP:
            self.step = middle
        floats[near, k.STEP] = self.step
        self.team.words[:, k.STEP_GIVEN] = near

    def run(self, first: int, end: int, learning: bool, report: Report) -> None:
        """A window, in which the step is put right in growing distances.

        Acceptance falls by about 0.4 where the logarithm of the step grows by 1, near the target.
        """
        updates, length, begin = 0, 1, end
        most = int(self.team.words[0, k.DOUBLINGS])
        late = first >= FROM * self.plan.warm_up
        while first < end:
            if updates == SETTLED_UPDATES:
                self.team.words[:, k.DIVERGED], begin = 0, first
            last = min(end, first + length)
            self.team.words[:, k.DOUBLINGS] = min(most, SHORT_DOUBLINGS) if length == 1 else most
            self.team.run(first, last, learning, -1, report)
            first, updates = last, updates + 1
            if updates >= AT_ONCE:
                length *= 2
            self.put_right(GAIN / max(1, updates - AT_ONCE + 1))
        if late and begin < end:
            self.raise_target(end - begin)

    def raise_target(self, transitions: int) -> None:
        """Take shorter steps from here on, if too many of so many transitions diverged."""
        words = self.team.words
        joined = words[:, k.STEP_GIVEN] == 1
        if words[joined, k.DIVERGED].sum() > OFTEN * transitions * joined.sum():
            _raise_targets(self.team, np.ones(len(words), dtype=bool))

    def put_right(self, gain: float) -> None:
        """Change the step by how much acceptance is missing; chains leave the pool, or join it."""
        words = self.team.words
        floats = words.view(np.float64)
        near = near_others(self.team.densities, self.team.dimension)
        joined = words[:, k.STEP_GIVEN] == 1
        share, target = float(floats[:, k.SHARE][near].mean()), float(floats[0, k.TARGET])
        self.step = math.exp(math.log(self.step) + gain * (share - target))
        leaving = joined & ~near
        if not leaving.any() and near.all():
            floats[:, k.STEP], words[:, k.STEP_GIVEN] = self.step, 1
            return
        floats[leaving, k.CENTRE] = floats[leaving, k.AVERAGED] = math.log(self.step)
        floats[leaving, k.ERROR] = 0.0
        words[leaving, k.COUNT] = 0
        words[:, k.STEP_GIVEN] = near
        floats[near, k.STEP] = self.step


def _learn(team: Team, plan: Plan) -> Given:
    """Give chains the metric of the window that ends; those whose window was too short keep theirs.

    Returns what is new. Those chains begin a new window.
    """
    seen, moments, n = team.words[:, k.SEEN], team.moments, team.dimension
    every = np.arange(len(seen))
    if plan.pooled:
        near = near_others(team.densities, n)
        groups, seeing = [every], [near]
    else:
        groups = seeing = [every[chain : chain + 1] for chain in range(len(seen))]
    found: Given = []
    for chains, own in zip(groups, seeing, strict=True):
        metric = learned(plan, n, seen[own], moments[own])
        if metric is not None:
            found.append((chains, metric))
            team.use(chains, metric)
    return found


def _give_way(team: Team, plan: Plan, rivals: Rivals, learned: Given) -> Given:
    """Chains in a region that has next to no weight beside a rival's go on from there.

    They take its metric; of chains that learn together all do, if most have moved. Returns who has
    which new metric.
    """
    n, seeds = team.dimension, team.seeds
    chains = np.concatenate([np.zeros(0, dtype=np.int64), *(some for some, _ in learned)])
    volumes = [np.full(len(some), evidence(0.0, one, n)) for some, one in learned]
    own = team.densities[chains] + np.concatenate([np.zeros(0), *volumes])
    chosen = seeds[:1] if plan.pooled else [seeds[chain] for chain in map(int, chains)]
    found = rivals.instead(own, plan.metric, chosen)
    if found is None:
        return learned
    moved = chains[found.moved]
    team.put(moved, found.points)
    if plan.pooled:
        every = np.arange(len(seeds))
        moved = every if 2 * len(moved) > len(seeds) else every[:0]
    team.use(moved, found.metric)
    return [*learned, (moved, found.metric)]


def near_others(densities: Floats, n: int) -> npt.NDArray[np.bool_]:
    """Which chains are not far below the best quarter: one that is stuck would spoil all metrics.

    Those below the median, which may all be stuck, have no say. `n` is the number of values.
    """
    middle, high = _quantiles(densities, (0.5, 0.75))
    near: npt.NDArray[np.bool_] = densities >= high - FAR * (high - middle + 1.0) - n
    return near


def _quantiles(values: Floats, parts: tuple[float, ...]) -> list[float]:
    """Those of `np.quantile`, which takes ten times as long."""
    ordered = np.sort(values)
    found: list[float] = []
    for part in parts:
        at = part * (len(ordered) - 1)
        low, high = float(ordered[int(at)]), float(ordered[math.ceil(at)])
        found.append(low if low == high else low + (high - low) * (at - int(at)))
    return found


def moments_of(plan: Plan, n: int) -> tuple[int, int]:
    """The word `ROWS` of chains of so many values, and how many floats their moments have."""
    kind = what_is_learned(plan.metric, n)
    if kind == "dense":
        return -1, 4 * n + n * n
    rows = max(1, math.ceil(LONGEST * plan.warm_up)) if kind == "low_rank" else 0
    return rows, 4 * n + 2 * n * rows


def pooled(seen: Words, moments: Floats, n: int, products: bool) -> tuple[int, Floats]:
    """How much chains have seen together, and its moments (`learn` in the natives)."""
    count = int(seen.sum())
    if len(seen) == 1:
        return count, moments[0]
    out = np.zeros(4 * n + (n * n if products else 0))
    if not count:
        return 0, out
    weights = seen.astype(np.float64)
    for at in (0, 2 * n):
        means = moments[:, at : at + n]
        mean = (weights[:, None] * means).sum(0) / count
        apart = means - mean
        out[at : at + n] = mean
        out[at + n : at + 2 * n] = moments[:, at + n : at + 2 * n].sum(0)
        out[at + n : at + 2 * n] += (weights[:, None] * apart * apart).sum(0)
        if at == 0 and products:
            between = np.einsum("ci,cj->ij", weights[:, None] * apart, apart)
            out[4 * n :] = moments[:, 4 * n :].sum(0) + between.reshape(-1)
    return count, out


def learned(plan: Plan, n: int, seen: Words, moments: Floats) -> Metric | None:
    """The metric of what chains have seen in a window, a row each; None if that is too little."""
    if seen.sum() < LEAST_SEEN:
        return None
    kind = what_is_learned(plan.metric, n)
    if kind == "low_rank":
        kept = [
            row[4 * n :].reshape(-1, 2 * n)[:count]
            for row, count in zip(moments, seen.tolist(), strict=True)
        ]
        rows = np.concatenate(kept)
        return low_rank(rows[:, :n], rows[:, n:])
    count, together = pooled(seen, moments, n, kind == "dense")
    _, squares, _, slopes = together[: 4 * n].reshape(4, n)
    if kind == "diagonal" or count < DRAWS_A_VALUE * n:
        return diagonal(variances(squares, slopes))
    covariance = together[4 * n :].reshape(n, n) / (count - 1.0)
    covariance *= count / (count + 5.0)
    covariance[np.diag_indices(n)] += np.maximum(squares / (count - 1.0) * 1e-3, LEAST)
    return dense(0.5 * (covariance + covariance.T)) if np.isfinite(covariance).all() else None
