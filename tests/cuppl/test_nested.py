"""SMC within SMC, by Kalman's exact answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.inference import pmcmc
from tawa.cuppl.numeric.special import normal_cdf
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.failures import AllWeightsZero

YS = np.array([0.3, 1.0, 2.2, 1.7])
STEPS = np.minimum.outer(np.arange(1, 5), np.arange(1, 5)).astype(float)
WALK = """
input ys : vector[float]
input theta : {type}
def prior () = {prior}
def step s y = let n = sample (normal s {sd}) in observe (normal n 0.5) y; n
def main () = fold step ({start}) ys
"""
START = WALK.format(type="float", prior="sample (normal 0 2)", sd="1", start="theta")


def log_density(covariance: np.ndarray) -> float:
    """Of `YS` under a normal with mean 0."""
    log_det = np.linalg.slogdet(2.0 * math.pi * covariance)[1]
    return float(-0.5 * (YS @ np.linalg.solve(covariance, YS) + log_det))


COVARIANCE = 4.0 + STEPS + 0.25 * np.eye(4)
GAIN = 4.0 * np.linalg.solve(COVARIANCE, np.ones(4))
MEAN, SD = float(GAIN @ YS), math.sqrt(4.0 - 4.0 * float(GAIN.sum()))
"""Of where the walk starts."""


@pytest.mark.parametrize("kind", ["float", "vector[float]"])
def test_where_a_walk_starts(kind: str) -> None:
    prior, start = "sample (normal 0 2)", "theta"
    if kind != "float":
        prior, start = f"[{prior}, 1.0]", "theta.[0] * theta.[1]"
    model = cuppl.model(WALK.format(type=kind, prior=prior, sd="1", start=start))
    found = model.smc2(120, particles=20, ess_threshold=0.9, data={"ys": YS}, seed=2)
    assert abs(found.log_evidence - log_density(COVARIANCE)) < 4.0 * found.log_evidence_error < 0.8
    starts = np.array([v if kind == "float" else v[0] for v in found.values])
    assert found.weights @ starts == pytest.approx(MEAN, abs=0.3 * SD)
    assert found.runs[0].resampled > 0
    assert found.diagnostics["accepted"] > 0.3


def test_two_models() -> None:
    model = cuppl.model(
        WALK.format(type="bool", prior="flip 0.3", sd="(if theta then 2.0 else 0.5)", start="0.0")
    )
    found = model.smc2(150, particles=30, data={"ys": YS}, seed=1)
    both = [p * math.exp(log_density(sd**2 * STEPS + 0.25 * np.eye(4)))
            for p, sd in ((0.3, 2.0), (0.7, 0.5))]  # fmt: skip
    assert found.probabilities()[True] == pytest.approx(both[0] / sum(both), abs=0.12)
    error = max(found.log_evidence_error, 0.05)
    assert abs(found.log_evidence - math.log(sum(both))) < 4.0 * error < 1.0


def test_what_the_prior_rejects_has_no_weight() -> None:
    prior = "let t = sample (normal 0 2) in condition (t > 0.0); t"
    source = WALK.format(type="float", prior=prior, sd="1", start="theta")
    found = cuppl.model(source).smc2(150, particles=20, data={"ys": YS}, seed=3)
    exact = log_density(COVARIANCE) + math.log(normal_cdf(MEAN / SD))
    assert abs(found.log_evidence - exact) < 4.0 * found.log_evidence_error < 1.2
    assert all(w == 0.0 or v > 0.0 for w, v in zip(found.weights, found.values, strict=True))
    never = source.replace("t > 0.0", "false")
    with pytest.raises(AllWeightsZero):
        cuppl.model(never).smc2(5, particles=5, data={"ys": YS})


def test_the_heap_of_the_parameters_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pmcmc, "FIRST_HEAP", 64)
    source = WALK.format(
        type="vector[float]", prior="repeat 20 (fn () -> sample (normal 0 2))", sd="1",
        start="theta.[19]",
    )  # fmt: skip
    found = cuppl.model(source).pmmh(30, particles=5, data={"ys": YS})
    assert len({tuple(v) for v in found.values}) > 1
    assert all(len(v) == 20 for v in found.values)


def test_it_needs_observations() -> None:
    model = cuppl.model("input theta : float\ndef prior () = 1.0\ndef main () = theta")
    with pytest.raises(UnsupportedMethod):
        model.smc2(5)
