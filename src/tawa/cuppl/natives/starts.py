"""Where a chain starts, as machine code: what `inference/density.py` looks for first."""

from __future__ import annotations

from tawa.cuppl.natives.nuts import CHANGED, FAILED, FUEL, RESULTS, WORDS, WORK, copy_floats
from tawa.cuppl.natives.tape import (
    DIMENSION,
    POSITION,
    SIZE,
    TAKEN,
    USED,
    WIDTH,
    value_and_gradient,
)
from tawa.cuppl.numeric.addresses import floats_at
from tawa.cuppl.numeric.primitives import Context, Ints, bits_of
from tawa.cuppl.translation.native import native

STARTS = 8
"""The stream of the random numbers of starts."""
WIDEST = 2.0
"""The first start is between this and its negative."""


@native
def find_start(ctx: Context, m: Ints, s: Ints) -> tuple[int, int]:
    """Put a chain at its first start: how that ended, and a status.

    It is not there, and has to be looked for elsewhere, unless both are 0.
    """
    n = m[DIMENSION]
    point = floats_at(s[WORK])
    ctx.key1 = 0
    ctx.stream = STARTS
    ctx.step = 0
    ctx.draw = 0
    ctx.made = 0
    m[WIDTH] = bits_of(WIDEST)
    m[DIMENSION] = -1
    value, status = value_and_gradient(ctx, m, s[RESULTS], point[n:], s[FUEL])
    m[DIMENSION] = n
    if status != 0 or value - value != 0.0 or m[TAKEN] != n or m[USED] >= m[SIZE]:
        return FAILED, status
    value, status = value_and_gradient(ctx, m, s[RESULTS], point[n:], s[FUEL])
    if status != 0 or m[USED] >= m[SIZE]:
        return FAILED, status
    copy_floats(floats_at(m[POSITION]), point, n)
    point[2 * n] = value
    copy_floats(floats_at(s[RESULTS]), point[2 * n + 1 :], s[WORDS])
    return 0 if m[TAKEN] == n else CHANGED, 0
