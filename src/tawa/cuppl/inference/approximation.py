"""Normal distributions that stand for a posterior of unconstrained values, and draws from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.cuppl.inference.density import Density
from tawa.cuppl.inference.pareto import smoothed
from tawa.cuppl.inference.results import results_of
from tawa.cuppl.typing.failures import ALL_ZERO

__all__ = ["Approximation", "Normal", "weigh"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


@dataclass(slots=True)
class Normal:
    """A mean, and a covariance diag(scale) (I + basis (core core^T - I) basis^T) diag(scale).

    `basis` has orthonormal columns: all of them for a covariance without structure, few for one
    that is diagonal but for as many directions, none for a diagonal one.
    """

    mean: Floats
    scale: Floats
    basis: Floats
    core: Floats
    """Lower triangular."""
    log_det: float = field(init=False)
    """Of the root of the covariance."""

    def __post_init__(self) -> None:
        diagonal = np.diagonal(self.core) if self.core.size else np.ones(0)
        self.log_det = float(np.log(self.scale).sum() + np.log(diagonal).sum())

    def root(self) -> Floats:
        """The Cholesky factor of the covariance."""
        inside = self.core @ self.core.T - np.eye(len(self.core))
        covariance = np.eye(len(self.mean)) + self.basis @ inside @ self.basis.T
        return self.scale[:, None] * np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)

    def variances(self) -> Floats:
        """The diagonal of the covariance."""
        inside = self.core @ self.core.T - np.eye(len(self.core))
        along = np.einsum("ij,jk,ik->i", self.basis, inside, self.basis)
        return np.asarray(self.scale**2 * (1.0 + along), dtype=np.float64)

    def draw(self, noise: Floats) -> Floats:
        """Draws of standard normal `noise`, a row each."""
        inside = noise @ self.basis
        moved = noise + (inside @ self.core.T - inside) @ self.basis.T
        return self.mean + moved * self.scale

    def noise(self, positions: Floats) -> Floats:
        """What became these positions."""
        moved = (positions - self.mean) / self.scale
        inside = moved @ self.basis
        return moved + (np.linalg.solve(self.core, inside.T).T - inside) @ self.basis.T

    def log_density(self, noise: Floats) -> Floats:
        """Log density of the draws that `noise` became."""
        return -0.5 * (noise**2).sum(axis=1) - noise.shape[1] * HALF_LOG_TAU - self.log_det


@dataclass(slots=True)
class Approximation:
    """Draws of normal distributions with what they weigh, and how good the distributions are."""

    columns: Words
    log_weights: Floats
    """Smoothed; the log of their mean estimates the evidence."""
    pareto_k: float
    elbo: float
    """The evidence lower bound of the best of the distributions."""
    memory: list[Words]


def weigh(
    density: Density,
    normals: list[tuple[Normal, float]],
    draws: int,
    random: np.random.Generator,
) -> Approximation:
    """As many draws of each normal, weighed against the mixture of all of them."""
    size = (draws, density.dimension)
    positions = np.concatenate([one.draw(random.standard_normal(size)) for one, _ in normals])
    each = [one.log_density(one.noise(positions)) for one, _ in normals]
    against = np.logaddexp.reduce(each) - math.log(len(normals))
    references = density.references
    rows = np.zeros((len(references), len(positions)), dtype=np.int64)
    values = np.empty(len(positions))
    for index, q in enumerate(positions):
        values[index] = density(q)[0]
        rows[:, index] = density.results[: len(references)]
    ratios = values - against
    ratios[~np.isfinite(ratios)] = -math.inf
    if not (ratios > -math.inf).any():
        raise density.error(ALL_ZERO)
    weights, k = smoothed(ratios)
    memory = list[Words]()
    if any(references):
        rows, memory = results_of(density, positions)
    return Approximation(rows, weights, k, max(elbo for _, elbo in normals), memory)
