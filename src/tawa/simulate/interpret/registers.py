"""Registers of an actor: arrays with an identity, as the C++ program has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tawa.base.numerics import Array


@dataclass(eq=False)
class Registers:
    """One array of registers; several values may stand for it, one after the other."""

    data: Array
    """`[threads, registers]`, values as in `base.numerics`."""
    version: int = 0
    """Counts the times it was changed in place."""
    written: int = 0
    """When ordinary code last wrote it, on the actor's count of writes."""
    accumulating: int = 0
    """The group of matrix instructions that last used it as accumulator (from 1)."""
    operand_of: int = 0
    """The group of matrix instructions that last read it as A."""
    part_of: Ref | None = None
    """The registers, at one version, that these are a part of."""


class Ref(NamedTuple):
    """A fragment value: registers, as they were at one version."""

    registers: Registers
    version: int
