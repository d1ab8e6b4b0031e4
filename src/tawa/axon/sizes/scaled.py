"""A size times a number with a point, rounded down, as resizing operators compute it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tawa.axon.sizes.dims import Dim
from tawa.axon.sizes.interned import once
from tawa.axon.sizes.monomials import Atom, Replace

EXACT = 1 << 8
"""Scales with a numerator and a denominator up to this are exact in single precision."""


@dataclass(frozen=True, eq=False, init=False)
class Scaled(Atom):
    """`floor(scale * dim)`. Known for a number if it doesn't depend on how products round."""

    dim: Dim
    scale: float

    @once
    def key(self) -> tuple[object, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Orders factors."""
        return (6, self.scale, self.dim.key)

    def parts(self) -> tuple[Dim, ...]:
        """The size."""
        return (self.dim,)

    def substitute(self, replace: Replace) -> Dim:
        """The substituted size, scaled."""
        dim = self.dim.substitute(replace)
        return Dim.of(self) if dim is self.dim else scaled(dim, self.scale)

    def least(self) -> int | None:
        """0 for what isn't negative."""
        low = self.dim.least()
        return 0 if low is not None and low >= 0 else None


def scaled(dim: Dim, scale: float) -> Dim:
    """A size times a scale (a number in single precision), rounded down."""
    exact = Fraction(scale)
    by_two = exact.denominator & (exact.denominator - 1) == 0
    if by_two and exact.numerator < EXACT and exact.denominator < EXACT:
        return dim * exact.numerator // exact.denominator
    number = dim.constant
    if number is None:
        return Dim.of(Scaled(dim, scale))
    found = {
        math.floor(exact * number),
        math.floor(scale * number),
        math.floor(float(np.float32(scale) * np.float32(number))),
        math.floor(float(str(np.float32(scale))) * number),
    }
    return Dim.of(found.pop()) if len(found) == 1 else Dim.of(Scaled(dim, scale))
