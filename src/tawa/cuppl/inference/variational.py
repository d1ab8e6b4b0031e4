"""Variational inference by automatic differentiation: the normal of the least divergence.

Kucukelbir and others (2017), with gradients that have no variance where the normal is exact
(Roeder and others 2017), steps by Adam, and Pathfinder's normal to start from.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tawa.cuppl.inference.approximation import Normal
from tawa.cuppl.inference.density import Density
from tawa.cuppl.inference.pathfinder import find_path

__all__ = ["fit_normal"]

Floats = npt.NDArray[np.float64]
DRAWS = 4
"""Draws of each gradient."""
RATE = 0.05
ELBO_DRAWS = 200


def fit_normal(
    density: Density, random: np.random.Generator, steps: int, full: bool
) -> tuple[Normal, float]:
    """A normal with a whole covariance, or a diagonal one, and its evidence lower bound."""
    start, _ = find_path(density, random)
    n = len(start.mean)
    mean = start.mean.copy()
    root = start.root() if full else np.sqrt(start.variances())
    sizes = [np.zeros(n), np.zeros(n), np.zeros_like(root), np.zeros_like(root)]
    sums: tuple[Floats, Floats] | None = None
    scale = np.sqrt(start.variances())
    for step in range(1, steps + 1):
        noise = random.standard_normal((DRAWS, n))
        by_mean, by_root = _gradients(density, mean, root, noise)
        rate = RATE * (0.5 + 0.5 * math.cos(math.pi * step / steps)) + 0.002
        # The mean moves in units of the scale; the root by parts of itself.
        mean = mean + rate * scale * _adam(sizes[0], sizes[1], by_mean * scale, step)
        unit = scale[:, None] if full else scale
        root = root + rate * unit * _adam(sizes[2], sizes[3], by_root * unit, step)
        root = _positive(root, scale)
        if 2 * step > steps:
            sums = (mean, root) if sums is None else (sums[0] + mean, sums[1] + root)
    if sums is not None:
        count = steps - steps // 2
        mean, root = sums[0] / count, sums[1] / count
    one = _normal(mean, root)
    noise = random.standard_normal((ELBO_DRAWS, n))
    values = np.array([density(q)[0] for q in one.draw(noise)])
    return one, float((values - one.log_density(noise)).mean())


def _gradients(
    density: Density, mean: Floats, root: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Of the evidence lower bound by the mean and by the root of the covariance."""
    full = root.ndim == 2
    by_mean: Floats = np.zeros_like(mean)
    by_root: Floats = np.zeros_like(root)
    for index in range(len(noise)):
        z: Floats = noise[index]
        q = mean + (root @ z if full else root * z)
        value, slope = density(q)
        if not math.isfinite(value) or not np.isfinite(slope).all():
            continue
        pull: Floats = slope + (np.linalg.solve(root.T, z) if full else z / root)
        by_mean += pull / len(noise)
        by_root += (np.tril(np.outer(pull, z)) if full else pull * z) / len(noise)
    return by_mean, by_root


def _adam(first: Floats, second: Floats, gradient: Floats, step: int) -> Floats:
    """The direction of a step; the moments are changed in place."""
    first += 0.1 * (gradient - first)
    second += 0.01 * (gradient**2 - second)
    size = np.sqrt(second / (1.0 - 0.99**step)) + 1e-8
    return first / (1.0 - 0.9**step) / size


def _positive(root: Floats, scale: Floats) -> Floats:
    """The root with a diagonal that is not below a small part of the scale."""
    if root.ndim == 1:
        return np.maximum(root, 1e-3 * scale)
    out = np.tril(root)
    index = np.diag_indices(len(out))
    out[index] = np.maximum(out[index], 1e-3 * scale)
    return out


def _normal(mean: Floats, root: Floats) -> Normal:
    n = len(mean)
    if root.ndim == 1:
        return Normal(mean, root, np.zeros((n, 0)), np.zeros((0, 0)))
    return Normal(mean, np.ones(n), np.eye(n), root)
