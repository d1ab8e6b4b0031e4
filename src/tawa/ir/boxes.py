"""Boxes of memory: what one instruction of the copy engine may copy in place of many loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

REGULAR = "box.regular"
"""Attribute of an access that is a box in all programs but those of unusual arguments."""


@dataclass(frozen=True)
class Box:
    """What the copy engine would copy to the same effect as a load, where a condition (i1) holds.

    It is the block of the descriptor at the coordinates, its neighbours along rows.
    """

    desc: SSAValue
    coordinates: Sequence[SSAValue]
    holds: SSAValue


def operands_of(box: Box | None) -> tuple[SSAValue | None, list[SSAValue], SSAValue | None]:
    """The operands of an op that may have a box: descriptor, coordinates, condition."""
    return (box.desc, list(box.coordinates), box.holds) if box else (None, [], None)
