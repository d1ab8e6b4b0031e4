"""Metrics of low rank, by exact covariances."""

from __future__ import annotations

import numpy as np
import pytest

from tawa import cuppl
from tawa.cuppl.inference import metrics
from tawa.cuppl.inference.nuts import Plan, nuts_chain
from tawa.cuppl.natives import nuts as k

NORMAL = """
input whitened : matrix
def main () =
  let x = tabulate (rows whitened) (fn _ -> sample (flat (-infinity) infinity)) in
  let z = whitened @ x in
  factor (-0.5 * dot z z); x
"""
"""A normal density, by what makes its values independent with variance 1."""


def roots(n: int, seed: int, ratios: tuple[float, ...]) -> np.ndarray:
    """A root of a covariance: scales from 0.01 to 100, and a few directions of other variances."""
    random = np.random.default_rng(seed)
    directions = np.linalg.qr(random.normal(size=(n, len(ratios))))[0]
    scales = 10.0 ** random.uniform(-2, 2, n)
    stretched = np.eye(n) + (directions * (np.sqrt(ratios) - 1.0)) @ directions.T
    return scales[:, None] * stretched


def whole(metric: metrics.Metric, n: int) -> np.ndarray:
    """The matrix that a metric stands for."""
    rank = -metric.kind
    scales, more, directions = np.split(metric.words, [n, n + rank])
    directions = directions.reshape(rank, n)
    return scales[:, None] * (np.eye(n) + (directions.T * more) @ directions) * scales


def condition(matrix: np.ndarray) -> float:
    """The largest eigenvalue over the least."""
    found = np.linalg.eigvals(matrix).real
    return float(found.max() / found.min())


@pytest.mark.parametrize("n", [12, 40])
def test_it_is_found_from_positions_and_gradients(n: int) -> None:
    root = roots(n, 1, (400.0, 50.0, 0.02))
    x = np.random.default_rng(2).normal(size=(100, n)) @ root.T
    found = metrics.low_rank(x, -x @ np.linalg.inv(root @ root.T))
    scaled = metrics.diagonal(x.var(0))
    assert 3 <= -found.kind <= n
    assert condition(root @ root.T / scaled.words) > 1e3
    assert condition(np.linalg.solve(whole(found, n), root @ root.T)) < 10.0


def test_independent_values_have_no_directions() -> None:
    x = np.random.default_rng(2).normal(size=(100, 5))
    assert metrics.low_rank(x, -x).kind == 0


def test_it_multiplies_and_draws_as_the_matrix_that_it_stands_for() -> None:
    n, random = 6, np.random.default_rng(5)
    root = roots(n, 3, (90.0, 0.01))
    x = random.normal(size=(50, n)) @ root.T
    metric = metrics.low_rank(x, -x @ np.linalg.inv(root @ root.T))
    matrix = whole(metric, n)
    p, out = random.normal(size=n), np.zeros(n)
    k.velocity(n, metric.kind, metric.words, p, out)
    assert out == pytest.approx(matrix @ p, rel=1e-12)
    drawn = np.eye(n)
    for row in drawn:  # momenta are normal, with the inverse of the matrix as their covariance
        k.momentum(n, metric.kind, metric.words, metric.roots, row)
    assert drawn.T @ drawn @ matrix == pytest.approx(np.eye(n), abs=1e-9)


def test_chains_of_many_values_that_go_together() -> None:
    n = 70
    root = roots(n, 4, (1000.0, 100.0))
    data = {"whitened": np.linalg.inv(root)}
    sd = np.sqrt(np.diag(root @ root.T))
    density, block = cuppl.model(NORMAL).density(data)
    one = nuts_chain(density, Plan(300, 400, 3, metric="low_rank"))
    steps = one.statistics["n_steps"].mean()
    assert steps < 12  # 27 with variances alone
    assert np.abs(one.positions.mean(0) / sd).max() < 0.3
    assert one.positions.std(0) / sd == pytest.approx(np.ones(n), abs=0.25)
    assert one.statistics["lp"].mean() == pytest.approx(-n / 2, abs=3)
    assert block is not None
