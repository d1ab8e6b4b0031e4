"""Pathfinder and variational inference where the answer is known, and Pareto's k."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.inference.approximation import Normal
from tawa.cuppl.inference.pareto import smoothed

REGRESSION = """
input x : matrix
input y : vector[float]
def main () =
  let b = repeat 3 (fn () -> sample (normal 0 2)) in
  let m = x @ b in
  iteri (fn i v -> observe (normal m.[i] 1) v) y; (b.[0], b.[1], b.[2])
"""


@pytest.fixture(scope="module")
def regression() -> tuple[cuppl.Model, dict[str, np.ndarray], np.ndarray, np.ndarray, float]:
    random = np.random.default_rng(0)
    x = np.concatenate([np.ones((30, 1)), random.normal(size=(30, 2))], axis=1)
    y = x @ [1, 2, -1] + random.normal(size=30)
    precision = x.T @ x + np.eye(3) / 4
    whole = np.eye(30) + 4 * x @ x.T
    evidence = -0.5 * (y @ np.linalg.solve(whole, y) + np.linalg.slogdet(whole)[1])
    evidence -= 15 * math.log(2 * math.pi)
    mean, covariance = np.linalg.solve(precision, x.T @ y), np.linalg.inv(precision)
    return cuppl.model(REGRESSION), {"x": x, "y": y}, mean, covariance, float(evidence)


@pytest.mark.parametrize("method", ["pathfinder", "advi"])
def test_a_normal_posterior_is_found(method: str, regression: tuple) -> None:  # type: ignore[type-arg]
    model, data, mean, covariance, evidence = regression
    more = {} if method == "pathfinder" else {"steps": 600}
    posterior = getattr(model, method)(2000, data=data, seed=2, **more)
    assert abs(posterior.log_evidence - evidence) < 0.01
    assert posterior.diagnostics["pareto_k"] < 0.5
    for index in range(3):
        found, error = posterior.expectation(index)
        assert abs(found - mean[index]) < 4 * error
        assert posterior.std(index) == pytest.approx(math.sqrt(covariance[index, index]), rel=0.06)


@pytest.mark.filterwarnings("ignore:advi. effective:tawa.cuppl.InferenceWarning")
def test_independent_parts_are_not_enough_for_a_strong_correlation() -> None:
    text = (
        "def main () = let a = sample (normal 0 1) in let b = sample (normal 0 1) in\n"
        "  observe (normal (a - b) 0.05) 0.3; (a, b)"
    )
    with pytest.warns(cuppl.InferenceWarning, match="Pareto's k"):
        posterior = cuppl.model(text).advi(1000, steps=300, full_rank=False, seed=2)
    assert posterior.diagnostics["pareto_k"] > 0.7
    whole = cuppl.model(text).advi(1000, steps=300, seed=1)
    assert whole.diagnostics["pareto_k"] < 0.5
    assert abs(whole.mean("a") - 0.15) < 0.1


def test_vectors_are_results_too() -> None:
    text = "def main () = let v = repeat 2 (fn () -> sample (normal 1 1)) in v"
    posterior = cuppl.model(text).pathfinder(500, paths=1, seed=1)
    assert posterior["v"].shape == (500, 2)
    assert abs(float((posterior.weights @ posterior["v"]).mean()) - 1.0) < 0.15


def test_draws_and_noise_are_inverse() -> None:
    random = np.random.default_rng(1)
    basis, _ = np.linalg.qr(random.normal(size=(5, 2)))
    core = np.array([[1.5, 0.0], [0.4, 0.7]])
    one = Normal(random.normal(size=5), np.array([1.0, 2.0, 0.5, 1.0, 3.0]), basis, core)
    noise = random.normal(size=(7, 5))
    assert one.noise(one.draw(noise)) == pytest.approx(noise)
    root = one.draw(np.eye(5)) - one.mean
    assert np.linalg.slogdet(root)[1] == pytest.approx(one.log_det)


def test_the_smoothing_is_that_of_arviz() -> None:
    arviz = pytest.importorskip("arviz")
    random = np.random.default_rng(3)
    for tail in (0.3, 0.9):
        ratios = random.pareto(1.0 / tail, size=1000)
        found, k = smoothed(np.log(ratios))
        expected, other = arviz.psislw(np.log(ratios))
        assert k == pytest.approx(float(other), abs=1e-3)
        assert found - np.logaddexp.reduce(found) == pytest.approx(expected, abs=2e-3)


@pytest.mark.filterwarnings("ignore::tawa.cuppl.InferenceWarning")
@pytest.mark.parametrize("method", ["nuts", "pathfinder"])
@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_values_of_any_size(method: str, scale: float) -> None:
    text = (
        f"def main () = let x = sample (normal 0 {scale}) in let y = sample (normal 0 1) in\n"
        f"  observe (normal x {scale}) {scale}; (x, y)"
    )
    posterior = getattr(cuppl.model(text), method)(800, seed=1)
    assert abs(posterior.mean("x") / scale - 0.5) < 0.1
    assert posterior.std("x") / scale == pytest.approx(math.sqrt(0.5), rel=0.1)
