"""Climbing a density: the way to a mode, and the curvature that is seen on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tawa.cuppl.inference.density import Density
from tawa.cuppl.natives import climb as k

__all__ = ["Curvature", "Place", "ascent", "summit"]

Floats = npt.NDArray[np.float64]
STEPS = 500
MOST_PROBED = 500
"""Values up to which the curvature along each is looked at before the first step."""


@dataclass(frozen=True, slots=True)
class Curvature:
    """The inverse of the negated Hessian: a diagonal, and steps with changes of the gradient."""

    diagonal: Floats
    steps: Floats
    """A row each."""
    changes: Floats

    def parts(self) -> tuple[Floats, Floats]:
        """`wide` and `small`: the inverse is diag(diagonal) + wide @ small @ wide^T.

        The compact form of Byrd, Nocedal and Schnabel (1994).
        """
        n, count = len(self.diagonal), len(self.steps)
        if not count:
            return np.zeros((n, 0)), np.zeros((0, 0))
        s, y = self.steps.T, self.changes.T
        products = s.T @ y
        inverse = np.linalg.inv(np.triu(products))
        scaled = self.diagonal[:, None] * y
        corner = inverse.T @ (np.diag(np.diag(products)) + y.T @ scaled) @ inverse
        small: Floats = np.zeros((2 * count, 2 * count))
        small[:count, count:], small[count:, :count] = -inverse, -inverse.T
        small[count:, count:] = corner
        return np.concatenate([scaled, s], axis=1), small


@dataclass(frozen=True, slots=True)
class Place:
    """Where a climb is, with the log density and its gradient."""

    q: Floats
    value: float
    gradient: Floats


def ascent(density: Density) -> Iterator[tuple[Place, Curvature]]:
    """Where a climb by L-BFGS gets to, from the density's start on, with what is known there."""
    climb = _Climb(density, MOST_PROBED)
    yield climb.place()
    for _ in range(STEPS):
        done = climb.go_on(1)
        if done & k.MOVED:
            yield climb.place()
        if done & k.OVER:
            return


def summit(density: Density, evaluations: int) -> tuple[Place, Curvature]:
    """Where a climb from the density's start is when it ends, or after so many evaluations."""
    climb = _Climb(density, min(MOST_PROBED, evaluations // 4), evaluations)
    climb.go_on(evaluations)
    return climb.place()


class _Climb:
    """The words and floats of a climb; up to `probed` values are looked at one by one."""

    def __init__(self, density: Density, probed: int, evaluations: int = 1 << 62) -> None:
        n = density.dimension
        self.density = density
        self.words = words = np.zeros(k.CLIMB_WORDS, dtype=np.int64)
        self.work = work = np.zeros(k.climb_size(n))
        work[:n] = density.position[:n]
        words[k.WORK], words[k.RESULTS] = work.ctypes.data, density.results.ctypes.data
        words[k.FUEL], words[k.PROBED] = density.limits.max_steps, probed
        words[k.MOST] = evaluations
        density.drive("start_climb", words)

    def go_on(self, steps: int) -> int:
        """Take up to so many steps: whether one led upwards, and whether the climb is over."""
        self.words[k.AT_ONCE] = steps
        return self.density.drive("climb_on", self.words)

    def place(self) -> tuple[Place, Curvature]:
        """Where the climb is."""
        n, work = self.density.dimension, self.work
        q, gradient, diagonal = work[: 3 * n].reshape(3, n).copy()
        count, value = int(self.words[k.PAIRS]), float(self.words.view(np.float64)[k.VALUE])
        pairs = work[7 * n : (7 + 2 * count) * n].reshape(count, 2, n).copy()
        return Place(q, value, gradient), Curvature(diagonal, pairs[:, 0], pairs[:, 1])
