"""How a tensor lies in memory: whether the copy engine moves boxes of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tawa.base.options import Options

MACHINE = Options().machine
"""The chip of which figures are read."""

MAX_BOX = 256
"""Elements of a box in one dimension (CUDA driver API, tensor map object management)."""


@dataclass(frozen=True)
class Lie:
    """Which dimension is contiguous, and whether rows start where the copy engine wants them.

    - `turned`: a matrix that is contiguous along its first dimension.
    - `describable`: address and strides are multiples of what the engine copies.
    """

    element_bytes: int
    turned: bool = False
    describable: bool = False

    def takes(self, block: tuple[int, ...]) -> bool:
        """Whether the engine copies boxes of a shape."""
        row = block[0] if self.turned else block[-1]
        return (
            self.describable
            and row * self.element_bytes % MACHINE.copy_unit == 0
            and max(block) <= MAX_BOX
            and prod(block) * self.element_bytes <= MACHINE.shared_bytes
        )

    def begins(self, multiple: int) -> bool:
        """Whether the engine copies boxes whose first element in a row is such a multiple's."""
        return multiple * self.element_bytes % MACHINE.copy_unit == 0


def lie_of(
    pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], element_bytes: int
) -> Lie:
    """How an array lies; `strides` count elements, `pointer` is 0 where any address will do."""
    rank = len(shape)
    if not 1 <= rank <= MACHINE.tensor_rank:
        return Lie(element_bytes)
    turned = rank == 2 and strides[1] != 1 and strides[0] == 1
    outer = strides[1:] if turned else strides[:-1]
    inner = strides[0] if turned else strides[-1]
    unit = MACHINE.copy_unit
    aligned = pointer % unit == 0 and all(s > 0 and s * element_bytes % unit == 0 for s in outer)
    return Lie(element_bytes, turned, inner == 1 and aligned and all(shape))
