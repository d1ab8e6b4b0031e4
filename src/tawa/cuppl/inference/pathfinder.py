"""Pathfinder: the best normal approximation on the way to a mode (Zhang and others, JMLR 2022)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tawa.cuppl.inference.approximation import Normal
from tawa.cuppl.inference.ascent import Curvature, Place, ascent
from tawa.cuppl.inference.density import Density

__all__ = ["find_path", "lower_bound", "normal_at"]

Floats = npt.NDArray[np.float64]
ELBO_DRAWS = 8
PATIENCE = 30
"""Steps after which a climb ends whose normals get no better."""


def find_path(density: Density, random: np.random.Generator) -> tuple[Normal, float]:
    """The normal of the largest evidence lower bound on the way from the density's start uphill."""
    density.leave_cliffs()
    n = density.dimension
    none = np.zeros((n, 0))
    start = Normal(density.position[:n].copy(), np.ones(n), none, np.zeros((0, 0)))
    best, waited = (start, -math.inf), 0
    for here, curvature in ascent(density):
        waited += 1
        one = normal_at(here, curvature)
        elbo = lower_bound(density, one, random) if one is not None else -math.inf
        if one is not None and (elbo > best[1] or best[0] is start):
            best, waited = (one, elbo), 0
        if waited > PATIENCE:
            break
    return best


def normal_at(here: Place, curvature: Curvature) -> Normal | None:
    """The normal approximation around a place; None where it is none."""
    wide, small = curvature.parts()
    scale = np.sqrt(curvature.diagonal)
    basis, right = np.linalg.qr(wide / scale[:, None])
    try:
        core = np.asarray(np.linalg.cholesky(np.eye(len(right)) + right @ small @ right.T), float)
    except np.linalg.LinAlgError:
        return None
    mean = here.q + curvature.diagonal * here.gradient
    mean += wide @ (small @ (wide.T @ here.gradient))
    return Normal(mean, scale, basis, core) if np.isfinite(mean).all() else None


def lower_bound(density: Density, one: Normal, random: np.random.Generator) -> float:
    """The evidence lower bound, by a few draws."""
    noise = random.standard_normal((ELBO_DRAWS, len(one.mean)))
    values = np.array([density(q)[0] for q in one.draw(noise)])
    return float((values - one.log_density(noise)).mean())
