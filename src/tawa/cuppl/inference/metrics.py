"""Metrics of Hamiltonian Monte Carlo: variances, a covariance, or variances and a few directions.

The metric is the inverse of the mass. Of low rank it is S (1 + U (L - 1) U') S: the scales S of all
values, and orthonormal directions U, along which the scaled values vary L times as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "METRICS", "MOST_DIRECTIONS", "Metric", "dense", "diagonal", "log_det", "low_rank", "sizes",
    "variances", "what_is_learned",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
METRICS = ("auto", "dense", "diagonal", "low_rank")
MOST_DENSE = 64
"""Values from which a covariance is not learned unless it is asked for: it costs their square."""
MOST_DIRECTIONS = 64
RIDGE = 1e-5
"""What variances along directions that no draw knows differ by from those in all directions."""
STRIKING = 2.0
"""Directions along which scaled values vary less than so many times more, or less, are left out."""
LEAST = 1e-300
"""The least variance of a value."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What the machine code multiplies with (`velocity` and `begin` in `natives/nuts.py`)."""

    kind: int
    """0: variances; 1: a covariance; -r: scales and r directions."""
    words: Floats
    """The variances; the covariance; or scales, L - 1 for each direction, and the directions."""
    roots: Floats
    """Their roots; the Cholesky factor; or 1 / sqrt(L) - 1 for each direction."""


def what_is_learned(metric: str, n: int) -> str:
    """Which metric a setting asks for, of so many values."""
    if metric != "auto":
        return metric
    return "dense" if n <= MOST_DENSE else "diagonal"


def sizes(metric: str, n: int) -> tuple[int, int]:
    """How many floats a metric and its roots may have."""
    kind = what_is_learned(metric, n)
    if kind == "dense":
        return n * n, n * n
    if kind == "diagonal":
        return n, n
    most = min(n, MOST_DIRECTIONS)
    return n + most + most * n, max(n, most)


def diagonal(found: Floats) -> Metric:
    """Of variances."""
    return Metric(0, found, np.sqrt(found))


def dense(covariance: Floats) -> Metric:
    """Of a covariance."""
    factor: Floats = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    return Metric(1, covariance.reshape(-1), factor.reshape(-1))


def log_det(metric: Metric, n: int) -> float:
    """Of a metric of so many values."""
    if metric.kind == 1:
        return 2.0 * float(np.log(np.diagonal(metric.roots.reshape(n, n))).sum())
    if metric.kind == 0:
        return float(np.log(metric.words).sum())
    scales, ratios = metric.words[:n], metric.words[n : n - metric.kind]
    return float(2.0 * np.log(scales).sum() + np.log1p(ratios).sum())


def variances(squares: Floats, slopes: Floats) -> Floats:
    """Of each value, from the sums of squares of positions and of gradients."""
    with np.errstate(all="ignore"):
        found = np.sqrt(squares / slopes)
    found[~np.isfinite(found) | (found <= 0.0)] = 1.0
    return np.clip(found, LEAST, 1.0 / LEAST)


def low_rank(positions: Floats, gradients: Floats) -> Metric:
    """Of positions that a chain has seen, with the gradients there (a row each).

    It is the metric with which positions and gradients vary alike, as they do for a normal density
    with variance 1 (that is where the Fisher divergence from such a density is least): in the span
    of both, the geometric mean of the covariance of positions and the inverse of that of gradients.
    """
    x, g = (v - v.mean(0) for v in (positions, gradients))
    found = variances((x * x).sum(0), (g * g).sum(0))
    scales = np.sqrt(found)
    with np.errstate(all="ignore"):
        x, g = x / scales, g * scales
    if not (np.isfinite(x).all() and np.isfinite(g).all()):
        return diagonal(found)
    span, _ = np.linalg.qr(np.concatenate([x, g]).T)
    ratios, inside = np.linalg.eigh(_between(_spread(x @ span), _spread(g @ span)))
    ratios = np.clip(ratios, RIDGE, 1.0 / RIDGE)
    apart = np.abs(np.log(ratios))
    chosen = [int(k) for k in np.argsort(-apart)[:MOST_DIRECTIONS] if apart[k] > np.log(STRIKING)]
    if not chosen:
        return diagonal(found)
    ratios, directions = ratios[chosen], (span @ inside[:, chosen]).T
    words = np.concatenate([scales, ratios - 1.0, directions.reshape(-1)])
    return Metric(-len(chosen), words, 1.0 / np.sqrt(ratios) - 1.0)


def _spread(rows: Floats) -> Floats:
    """The covariance of rows around 0, never singular."""
    found: Floats = rows.T @ rows / len(rows) + RIDGE * np.eye(rows.shape[1])
    return found


def _between(positions: Floats, gradients: Floats) -> Floats:
    """The positive matrix M with M gradients M = positions."""
    values, vectors = np.linalg.eigh(gradients)
    root = (vectors * np.sqrt(values)) @ vectors.T
    back = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ positions @ root)
    middle = (vectors * np.sqrt(np.maximum(values, LEAST))) @ vectors.T
    found: Floats = back @ middle @ back
    return 0.5 * (found + found.T)
