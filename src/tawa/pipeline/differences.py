"""What integer variables are at least above one another, closed under what follows.

A matrix of longest paths: if `c` is at least 3 above `b`, and `b` at least 4 above `a`, then `c` is
at least 7 above `a`. So the least values of all variables, their most, and whether there are any
values at all can be read off, and one more difference is a maximum of two matrices.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

NEVER = -(10**9)
"""A difference that nothing says anything of; sums of a few are still whole numbers."""

ORIGIN = 0
"""The variable that is zero."""


class Contradiction(Exception):
    """No values have these differences."""


class Differences:
    """The least differences of some variables."""

    def __init__(self, count: int) -> None:
        self.above: Numbers = np.full((count, count), NEVER, dtype=np.int64)
        np.fill_diagonal(self.above, 0)

    def copy(self) -> Differences:
        """The same differences, to which others may be added."""
        made = object.__new__(Differences)
        made.above = self.above.copy()
        return made

    def raises(self, low: int, high: int, least: int) -> bool:
        """Let `high` be at least so much above `low`; whether that was not known.

        Raises `Contradiction`, after which the differences are of no use.
        """
        if self.above[low, high] >= least:
            return False
        if self.above[high, low] + least > 0:
            raise Contradiction
        through = (self.above[:, low] + least)[:, None] + self.above[high]
        np.maximum(self.above, through, out=self.above)
        return True

    @property
    def values(self) -> Numbers:
        """The least values of all variables; together they are values that the differences allow.

        Sums of these with coefficients that are not negative are least, too.
        """
        return self.above[ORIGIN]

    def least(self, variable: int) -> int:
        """The least value of a variable."""
        return int(self.above[ORIGIN, variable])

    def most(self, variable: int) -> int:
        """The greatest value of a variable."""
        return -int(self.above[variable, ORIGIN])
