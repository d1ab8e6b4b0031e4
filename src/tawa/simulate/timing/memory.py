"""Which loads come from device memory: those of what no multiprocessor has loaded before.

All CTAs that run at first begin at once, so that their loads go through the arrays side by side:
what one of them loads first comes from device memory, the same box of its neighbours from L2. Boxes
are listed in that order, as far as `MOST` goes; the loads after it miss as often as is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from tawa.simulate.timing.code import Box

MOST = 80_000
"""Loads of all CTAs that are looked at one by one: at most half a second."""


@dataclass(frozen=True)
class Misses:
    """Of each load of a CTA, the part of its bytes that no other CTA has loaded before.

    `moved` counts also what L2 has to write back for it: it is full of what was written before the
    launch. Both are means over the CTAs; `rest` is that of later loads.
    """

    fresh: tuple[float, ...] = ()
    moved: tuple[float, ...] = ()
    rest: float = 0.0


def misses(
    ctas: Sequence[Sequence[Box]],
    loaded: float,
    read: float,
    replaced: float,
) -> Misses:
    """Of loads side by side, and of those that follow.

    `loaded` are the bytes of all loads, `read` those of the arrays, and `replaced` what is written
    back for them. Multiprocessors load in step.
    """
    seen: set[Box] = set()
    fresh: list[float] = []
    moved: list[float] = []
    touched = written = looked = 0.0
    for boxes in zip_longest(*ctas):
        size = sum(box[1] for box in boxes if box is not None)
        new = {box for box in boxes if box is not None} - seen
        first = sum(box[1] for box in new)
        seen |= new
        back = min(first, replaced - written)
        touched, written, looked = touched + first, written + back, looked + size
        fresh.append(first / size)
        moved.append((first + back) / size)
    left = max(0.0, read - touched) + max(0.0, replaced - written)
    return Misses(tuple(fresh), tuple(moved), left / max(1.0, loaded - looked))
