"""Importance ratios whose largest are smoothed, and how far they can be trusted."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["smoothed"]

Floats = npt.NDArray[np.float64]
FEWEST = 25
"""Ratios in the tail, below which nothing is fitted to it."""
EQUAL = 1e-10
"""Ratios that differ by less are all alike."""


def smoothed(log_ratios: Floats) -> tuple[Floats, float]:
    """Log ratios with their tail smoothed, and Pareto's k: below 0.7 they may be trusted.

    Vehtari and others, "Pareto smoothed importance sampling" (2024): the largest ratios become the
    quantiles of a generalised Pareto distribution that is fitted to them.
    """
    n = len(log_ratios)
    top = float(log_ratios.max())
    count = min(n // 5, math.ceil(3.0 * math.sqrt(n)))
    if count < FEWEST or not math.isfinite(top):
        return log_ratios, math.inf
    order = np.argsort(log_ratios, kind="stable")
    tail = order[-count:]
    cut = math.exp(float(log_ratios[order[-count - 1]]) - top)
    excess = np.exp(log_ratios[tail] - top) - cut
    if excess[-1] < EQUAL:
        return log_ratios, -math.inf
    k, scale = _fit(np.maximum(excess, excess[-1] * 1e-30))
    shares = (np.arange(count) + 0.5) / count
    away = -np.log1p(-shares) if abs(k) < 1e-12 else np.expm1(-k * np.log1p(-shares)) / k
    out = log_ratios.copy()
    out[tail] = np.minimum(np.log(cut + scale * away), 0.0) + top
    return out, k


def _fit(excess: Floats) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution (Zhang and Stephens 2009).

    `excess` ascends. The shape is drawn a little towards 1/2, as few numbers say little of it.
    """
    n = len(excess)
    grid = 30 + int(math.sqrt(n))
    quarter = excess[max(0, int(n / 4 + 0.5) - 1)]
    steps: Floats = np.arange(1.0, grid + 1.0)
    slopes = 1.0 / excess[-1] + (1.0 - np.sqrt(grid / (steps - 0.5))) / (3.0 * quarter)
    shapes: Floats = np.log1p(-np.outer(slopes, excess)).mean(axis=1)
    with np.errstate(all="ignore"):
        likelihoods = n * (np.log(-slopes / shapes) - shapes - 1.0)
    likelihoods[~np.isfinite(likelihoods)] = -math.inf
    weights = np.exp(likelihoods - likelihoods.max())
    slope = float((slopes * weights).sum() / weights.sum())
    k = float(np.mean(np.log1p(-slope * excess)))
    scale = -k / slope
    return (n * k + 10.0 * 0.5) / (n + 10.0), scale
