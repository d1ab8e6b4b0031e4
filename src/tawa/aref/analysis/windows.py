"""How the rows of a window lie among the rows of the tile that it is cut from.

A tile lies in shared memory as rows of its last dimension. Matrix instructions read groups of 8
neighbouring rows, all at one distance, from any row on: the swizzle goes by the address, so no
other field of a descriptor changes (measured for operands with either dimension contiguous).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tawa.machine.chips import SM_90A

GROUP = SM_90A.swizzle_alignment // SM_90A.swizzles[0]
"""Rows that an instruction takes as neighbours: those of one period of the swizzle."""


def row_pitches(tile: Sequence[int]) -> list[int]:
    """How many rows of shared memory a step along each dimension but the last takes."""
    found = [1]
    for extent in reversed(tile[1:-1]):
        found.insert(0, found[0] * extent)
    return found


def group_pitch(tile: Sequence[int], window: Sequence[int]) -> int | None:
    """Rows of the tile from one group of 8 rows of a window to the next.

    None if the window is none of whole rows in such groups: an instruction can't read it there.
    """
    if len(tile) < 2 or tile[-1] != window[-1]:
        return None
    pitches = row_pitches(tile)
    places = itertools.product(*(range(n) for n in window[:-1]))
    rows = [sum(p * i for p, i in zip(pitches, at, strict=True)) for at in places]
    pitch = rows[GROUP] if len(rows) > GROUP else GROUP
    even = all(row == r // GROUP * pitch + r % GROUP for r, row in enumerate(rows))
    return pitch if even and len(rows) % GROUP == 0 else None
