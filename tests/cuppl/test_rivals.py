"""Chains that start near a mode without weight go on where the posterior is; others stay."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from host_device import HostChains

from tawa import cuppl
from tawa.cuppl.inference.adaptation import Plan
from tawa.cuppl.inference.ascent import ascent, summit
from tawa.cuppl.inference.density import LEVELS, Density
from tawa.cuppl.inference.metrics import dense, diagonal, log_det, low_rank
from tawa.cuppl.inference.nuts import nuts_chain
from tawa.cuppl.inference.rivals import Rivals
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.lowering.continuous import lower_continuous
from tawa.cuppl.natives import climb as k

pytestmark = pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")


def two_modes(weight: str) -> str:
    """A narrow mode at 1.2 with so much log weight, beside a wide one at -3."""
    return (
        "def main () = let x = sample (flat (-infinity) infinity) in\n"
        "  let y = sample (normal 0 1) in\n"
        f"  let a = {weight} + log_density (normal 1.2 0.215) x in\n"
        "  let b = log_density (normal (-3) 0.4) x in\n"
        "  factor (max a b + log1p (exp (-(abs (a - b))))); (x, y)"
    )


FUNNEL = (
    "def main () = let v = sample (normal 0 3) in\n"
    "  let xs = repeat 5 (fn () -> sample (normal 0 (exp (v / 2.0)))) in v"
)
FAILS_FAR_AWAY = (
    "def main () = let x = sample (normal 0 0.01) in\n"
    "  let n = if x > 1.0 then 1 // 0 else 1 in (x, n)"
)
POSTERIORS = {
    "a funnel": FUNNEL,
    "modes of the same weight": two_modes("0.0"),
    "a mode of a part in 100": two_modes("4.6"),
    "a normal": "def main () = sample (normal 3 2)",
}


def started(source: str, seed: int) -> tuple[Density, Rivals]:
    """A density, and rivals that `Model.nuts` compares its chain with."""
    model = cuppl.model(source)
    workers, _block = model.workers(None, 1)
    start = partial(model.density_of, workers.inputs, Limits())
    return start(seed, LEVELS), Rivals(partial(start, seed, LEVELS), 1000)


def test_chains_leave_a_mode_without_weight() -> None:
    model, plan = cuppl.model(two_modes("40.0")), Plan(20, 1000, 0)
    stuck = 0
    for seed in range(12):
        density, _ = model.density({}, seed)
        stuck += bool(nuts_chain(density, replace(plan, seed=seed)).positions[:, 0].mean() < 0.0)
        x = model.nuts(20, chains=1, threads=1, seed=seed)["x"]
        assert abs(x.mean() - 1.2) < 0.2
    assert stuck >= 2


@pytest.mark.parametrize("name", POSTERIORS)
def test_chains_that_see_the_posterior_stay(name: str) -> None:
    for seed in range(3):
        density, rivals = started(POSTERIORS[name], seed)
        plan = Plan(10, 1000, seed)
        alone = nuts_chain(density, plan)
        compared = nuts_chain(started(POSTERIORS[name], seed)[0], plan, rivals=rivals)
        assert rivals.density is not None
        assert np.array_equal(alone.positions, compared.positions)


def test_starts_where_the_program_fails_are_no_rivals() -> None:
    _, rivals = started(FAILS_FAR_AWAY, 3)
    found = rivals.instead(np.array([-1e3]), "auto", [3])
    assert rivals.density is not None
    assert rivals.density.attempts > 1
    assert found is None or abs(found.points[0, 0]) < 0.1


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_chains_on_a_gpu_leave_it_too(pooled: bool, tmp_path: Path) -> None:
    model = cuppl.model(two_modes("40.0"))
    lowered = lower_continuous(model.elaborated)
    assert lowered is not None
    model.use_chains_device(HostChains(lowered, tmp_path))
    given: dict[str, Any] = {"warm_up": 200 if pooled else 1000, "seed": 3, "pooled": pooled}
    given["chains"] = 12 if pooled else 4
    one = model.nuts(8, threads=2, **given)
    other = model.nuts(8, device="gpu", **given)
    assert np.array_equal(one["x"], other["x"])
    assert abs(one["x"] - 1.2).max() < 1.5


@pytest.mark.parametrize("seed", range(4))
def test_directions_are_those_of_the_whole_matrix(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, count = 5, seed + 2
    matrix = random.standard_normal((n, n))
    work = random.random(k.climb_size(n))
    pairs = work[7 * n : (7 + 2 * count) * n].reshape(count, 2, n)
    pairs[:, 1] = pairs[:, 0] @ (matrix @ matrix.T + np.eye(n))
    found = np.zeros(n)
    k.uphill_direction(n, work, count, found)
    inverse = np.diag(work[2 * n : 3 * n])
    for step, change in pairs:
        share = 1.0 / (step @ change)
        left = np.eye(n) - share * np.outer(step, change)
        inverse = left @ inverse @ left.T + share * np.outer(step, step)
    assert np.allclose(found, inverse @ work[n : 2 * n])


def test_a_climb_at_once_ends_where_one_by_steps_does() -> None:
    density, _ = started(two_modes("0.0"), 1)
    q = density.position[: density.dimension].copy()
    *_, (by_steps, curvature) = ascent(density)
    density.position[: len(q)] = q
    at_once, same = summit(density, 1000)
    assert at_once.value == by_steps.value
    assert np.array_equal(curvature.steps, same.steps)
    density.position[: len(q)] = q
    assert np.abs(summit(density, 6)[0].gradient).max() > 1e-11
    assert np.abs(at_once.gradient).max() < 1e-13


def test_determinants_of_metrics() -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((40, 3)) @ (np.eye(3) + 3.0 * random.random((3, 3)))
    covariance = np.cov(x.T)
    assert np.isclose(log_det(dense(covariance), 3), np.linalg.slogdet(covariance)[1])
    assert np.isclose(log_det(diagonal(np.array([0.5, 4.0])), 2), np.log(2.0))
    one = low_rank(x, -x @ np.linalg.inv(covariance))
    assert one.kind < 0
    scales, ratios = one.words[:3], one.words[3 : 3 - one.kind]
    directions = one.words[3 - one.kind :].reshape(-1, 3)
    whole = np.eye(3) + directions.T @ np.diag(ratios) @ directions
    whole = scales[:, None] * whole * scales
    assert np.isclose(log_det(one, 3), np.linalg.slogdet(whole)[1])
