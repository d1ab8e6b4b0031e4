"""All slices of a tensor at once: what `vmap` computes with in the place of one of them.

A `Slices` has the shape of a slice; the axis that counts them is in front of its value's. As with
the tapes of differentiations, of several layers around each other the innermost has the highest
level, and operators go through it first.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

levels = itertools.count()
"""Counts tapes and batches in the order in which they begin."""


@dataclass(eq=False)
class Batch:
    """How many slices there are."""

    count: int
    level: int = field(default_factory=lambda: next(levels))


class Apart(Exception):
    """Slices that have to be computed one by one: a number of theirs decides what happens next."""

    def __init__(self, batch: Batch) -> None:
        super().__init__("slices have to be computed one by one")
        self.batch = batch


@dataclass(frozen=True, eq=False, slots=True)
class Slices:
    """All slices of `value` along its leading axis."""

    batch: Batch
    value: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """A slice's shape."""
        return tuple(self.value.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of a slice's axes."""
        return len(self.value.shape) - 1

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.value.dtype

    def __bool__(self) -> bool:
        raise Apart(self.batch)
