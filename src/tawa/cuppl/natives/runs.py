"""Loops over runs of adjoints that LLVM turns into vector instructions."""

from __future__ import annotations

from tawa.cuppl.numeric.primitives import Floats, Ints
from tawa.cuppl.translation.native import native, outlined, vectorised


@vectorised
@outlined
@native
def side_by_side(places: Ints, count: int) -> bool:
    """Whether places follow each other; 0 is none."""
    first = places[0]
    apart = 0
    for k in range(count):
        apart = apart | (places[k] ^ (first + k))
    return apart == 0 and first != 0


@vectorised
@outlined
@native
def spread_run(adjoints: Floats, others: Floats, count: int, own: float) -> None:
    """Add multiples of some numbers to adjoints."""
    for k in range(count):
        adjoints[k] = adjoints[k] + own * others[k]
