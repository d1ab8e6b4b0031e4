"""Pathfinder: the best normal approximation on the way to a mode (Zhang and others, JMLR 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.cuppl.inference.approximation import Normal
from tawa.cuppl.inference.density import Density

__all__ = ["find_path"]

Floats = npt.NDArray[np.float64]
HISTORY = 6
"""Steps of which the curvature is remembered."""
STEPS = 500
ELBO_DRAWS = 8
HALVINGS = 40


@dataclass(slots=True)
class _Curvature:
    """The inverse of the negated Hessian: a diagonal, and steps with changes of the gradient."""

    diagonal: Floats
    steps: list[Floats] = field(default_factory=list[Floats])
    changes: list[Floats] = field(default_factory=list[Floats])

    def learn(self, step: Floats, change: Floats) -> None:
        """Remember a step, if the density curves downwards along it."""
        along = float(step @ change)
        if not along > 1e-12 * float(change @ change):
            return
        d = self.diagonal
        across = float(change @ (d * change))
        inside = float(step @ (step / d))
        inverse = across / (along * d) + change**2 / along
        inverse -= across * step**2 / (along * inside * d**2)
        if np.isfinite(inverse).all() and (inverse > 0.0).all():
            self.diagonal = 1.0 / inverse
        self.steps = [*self.steps, step][-HISTORY:]
        self.changes = [*self.changes, change][-HISTORY:]

    def parts(self) -> tuple[Floats, Floats]:
        """`wide` and `small`: the inverse is diag(diagonal) + wide @ small @ wide^T.

        The compact form of Byrd, Nocedal and Schnabel (1994).
        """
        n, count = len(self.diagonal), len(self.steps)
        if not count:
            return np.zeros((n, 0)), np.zeros((0, 0))
        s, y = np.stack(self.steps, axis=1), np.stack(self.changes, axis=1)
        products = s.T @ y
        inverse = np.linalg.inv(np.triu(products))
        scaled = self.diagonal[:, None] * y
        corner = inverse.T @ (np.diag(np.diag(products)) + y.T @ scaled) @ inverse
        small: Floats = np.zeros((2 * count, 2 * count))
        small[:count, count:], small[count:, :count] = -inverse, -inverse.T
        small[count:, count:] = corner
        return np.concatenate([scaled, s], axis=1), small

    def times(self, vector: Floats) -> Floats:
        """The inverse times a vector."""
        wide, small = self.parts()
        return self.diagonal * vector + wide @ (small @ (wide.T @ vector))

    def normal(self, at: Floats, gradient: Floats) -> Normal | None:
        """The normal approximation around a point; None where it is none."""
        wide, small = self.parts()
        scale = np.sqrt(self.diagonal)
        basis, right = np.linalg.qr(wide / scale[:, None])
        try:
            core = np.asarray(
                np.linalg.cholesky(np.eye(len(right)) + right @ small @ right.T), float
            )
        except np.linalg.LinAlgError:
            return None
        mean = at + self.diagonal * gradient + wide @ (small @ (wide.T @ gradient))
        return Normal(mean, scale, basis, core) if np.isfinite(mean).all() else None


def find_path(density: Density, random: np.random.Generator) -> tuple[Normal, float]:
    """The normal of the largest evidence lower bound on the way from the density's start uphill."""
    q = density.position[: density.dimension].copy()
    value, gradient = density(q)
    curvature = _Curvature(np.clip(1.0 / np.maximum(np.abs(gradient), 1.0), 1e-12, 1.0))
    best: tuple[Normal, float] | None = None
    for _ in range(STEPS):
        found = _uphill(density, q, value, gradient, curvature)
        if found is None:
            break
        moved, higher, slope = found
        curvature.learn(moved - q, gradient - slope)
        gain = higher - value
        q, value, gradient = moved, higher, slope
        one = curvature.normal(q, gradient)
        elbo = _elbo(density, one, random) if one is not None else -math.inf
        if one is not None and (best is None or elbo > best[1]):
            best = one, elbo
        if gain < 1e-9 * max(1.0, abs(value)):
            break
    if best is None:
        size = np.sqrt(curvature.diagonal)
        none = Normal(q, size, np.zeros((len(q), 0)), np.zeros((0, 0)))
        best = none, _elbo(density, none, random)
    return best


def _uphill(
    density: Density, q: Floats, value: float, gradient: Floats, curvature: _Curvature
) -> tuple[Floats, float, Floats] | None:
    """A step along which the density grows enough, with the density there and its gradient."""
    direction = curvature.times(gradient)
    rise = float(direction @ gradient)
    if not rise > 0.0 or not np.isfinite(direction).all():
        curvature.steps, curvature.changes = [], []
        direction = curvature.diagonal * gradient
        rise = float(direction @ gradient)
    share = 1.0
    for _ in range(HALVINGS):
        moved = q + share * direction
        higher, slope = density(moved)
        if higher >= value + 1e-4 * share * rise and np.isfinite(slope).all():
            return moved, higher, slope
        share *= 0.5
    return None


def _elbo(density: Density, one: Normal, random: np.random.Generator) -> float:
    """The evidence lower bound, by a few draws."""
    noise = random.standard_normal((ELBO_DRAWS, len(one.mean)))
    values = np.array([density(q)[0] for q in one.draw(noise)])
    return float((values - one.log_density(noise)).mean())
