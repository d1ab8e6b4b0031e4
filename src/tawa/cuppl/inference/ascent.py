"""Climbing a density: the way to a mode, and the curvature that is seen on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.cuppl.inference.density import Density

__all__ = ["Curvature", "Place", "ascent"]

Floats = npt.NDArray[np.float64]
HISTORY = 6
"""Steps of which the curvature is remembered."""
STEPS = 500
HALVINGS = 40
MOST_PROBED = 500
"""Values up to which the curvature along each is looked at before the first step."""
LARGEST = 1e304
"""The largest variance that is believed."""
FARTHER, FARTHEST = 1e8, 1e200
"""How the look along a value goes on where nothing changes."""
ENOUGH = 1e-9
"""A gain of the density, relative to it, that ends the climb."""


@dataclass(slots=True)
class Curvature:
    """The inverse of the negated Hessian: a diagonal, and steps with changes of the gradient."""

    diagonal: Floats
    steps: list[Floats] = field(default_factory=list[Floats])
    changes: list[Floats] = field(default_factory=list[Floats])

    @np.errstate(over="ignore", invalid="ignore")
    def learn(self, step: Floats, change: Floats) -> None:
        """Remember a step, if the density curves downwards along it."""
        along = float(step @ change)
        if not along > 1e-12 * float(change @ change):
            return
        d = self.diagonal
        across = float(change @ (d * change))
        inside = float(step @ (step / d))
        with np.errstate(all="ignore"):
            inverse = across / (along * d) + change**2 / along
            inverse -= across / along * ((step / d) ** 2 / inside)
            diagonal = 1.0 / inverse
        if np.isfinite(diagonal).all() and (diagonal > 0.0).all():
            self.diagonal = diagonal
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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a climb is, with the log density and its gradient."""

    q: Floats
    value: float
    gradient: Floats


def ascent(density: Density) -> Iterator[tuple[Place, Curvature]]:
    """Where a climb by L-BFGS gets to, from the density's start on, with what is known there."""
    q = density.position[: density.dimension].copy()
    here = Place(q, *density(q))
    curvature, looked = Curvature(_first_diagonal(density, here)), True
    yield here, curvature
    for _ in range(STEPS):
        there = _uphill(density, here, curvature)
        gain = 0.0 if there is None else there.value - here.value
        if there is not None:
            curvature.learn(there.q - here.q, here.gradient - there.gradient)
            here = there
            yield here, curvature
        if gain >= ENOUGH * max(1.0, abs(here.value)):
            looked = False
        elif looked:
            return
        else:  # what is known of the curvature may be of somewhere else
            curvature, looked = Curvature(_first_diagonal(density, here)), True


def _first_diagonal(density: Density, here: Place) -> Floats:
    """Variances: where the density curves downwards, those of the normal that curves alike."""
    size = np.clip(1.0 / np.maximum(np.abs(here.gradient), 1.0), 1e-300, 1.0)
    if len(size) > MOST_PROBED:
        return size
    for index, unit in enumerate(np.eye(len(size))):
        step, change = 1e-4 * max(1.0, abs(float(here.q[index]))), 0.0
        while change == 0.0 and step < FARTHEST:
            _, gradient = density(here.q + step * unit)
            change, step = float(here.gradient[index] - gradient[index]), step * FARTHER
        found = step / FARTHER / change if change != 0.0 else np.inf
        if 0.0 < found < LARGEST:
            size[index] = found
    return size


@np.errstate(over="ignore", invalid="ignore")
def _uphill(density: Density, here: Place, curvature: Curvature) -> Place | None:
    """A step along which the density grows enough."""
    gradient = here.gradient
    direction = curvature.times(gradient)
    rise = float(direction @ gradient)
    if not rise > 0.0 or not np.isfinite(direction).all():
        curvature.steps, curvature.changes = [], []
        direction = curvature.diagonal * gradient
        rise = float(direction @ gradient)
    share = 1.0
    for _ in range(HALVINGS):
        there = Place(here.q + share * direction, *density(here.q + share * direction))
        if there.value >= here.value + 1e-4 * share * rise and np.isfinite(there.gradient).all():
            return there
        share *= 0.5
    return None
