"""Loops over runs of adjoints that LLVM turns into vector instructions."""

from __future__ import annotations

from tawa.cuppl.numeric.primitives import Floats, Ints
from tawa.cuppl.translation.native import native, outlined, vectorised


@vectorised
@outlined
@native
def spread_run(adjoints: Floats, places: Ints, others: Floats, count: int, own: float) -> bool:
    """Add multiples of some numbers to adjoints that follow each other; false if they don't."""
    first = places[0]
    apart = 0
    for k in range(count):
        apart = apart | (places[k] ^ (first + k))
    if apart != 0 or first == 0:
        return False
    for k in range(count):
        adjoints[first + k] = adjoints[first + k] + own * others[k]
    return True
