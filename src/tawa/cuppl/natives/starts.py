"""Where chains start, or go on, as machine code: what `inference/density.py` looks for first.

A *point* is what `nuts.py` calls so.
"""

from __future__ import annotations

from tawa.cuppl.natives.nuts import (
    CHANGED,
    FAILED,
    FUEL,
    RESULTS,
    WORDS,
    WORK,
    copy_floats,
    why_ended,
)
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

POINTS = 0  # address of points, a row each
COUNT = 1  # how many
DONE = 2  # how many of them are complete
POINT_WORDS = 3  # of the results, in each
WRITTEN = 4  # address of the results that the program writes
STEPS = 5  # that a run may take
EVALUATION_WORDS = 6

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


@native
def complete_points(ctx: Context, m: Ints, c: Ints) -> tuple[int, int, int]:
    """What the density and its gradient are at the positions of some points.

    `c` has the words named above. Returns how it ended, a status, and how many are complete.
    """
    n = m[DIMENSION]
    width = 2 * n + 1 + c[POINT_WORDS]
    rows = floats_at(c[POINTS])
    for at in range(c[DONE], c[COUNT]):
        point = rows[width * at :]
        copy_floats(point, floats_at(m[POSITION]), n)
        value, status = value_and_gradient(ctx, m, c[WRITTEN], point[n:], c[STEPS])
        ended = why_ended(m, status)
        if ended != 0:
            return ended, status, c[DONE]
        point[2 * n] = value if status == 0 else 2.0 * -1.0e308
        copy_floats(floats_at(c[WRITTEN]), point[2 * n + 1 :], c[POINT_WORDS])
        c[DONE] = at + 1
    return 0, 0, c[DONE]
