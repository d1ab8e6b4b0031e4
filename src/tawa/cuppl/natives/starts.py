"""Where chains start, or go on, as machine code: what `inference/density.py` looks for first.

A *point* is what `nuts.py` calls so.
"""

from __future__ import annotations

from tawa.cuppl.natives.nuts import (
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
    WIDTH,
    value_and_gradient,
)
from tawa.cuppl.numeric.addresses import floats_at
from tawa.cuppl.numeric.primitives import Context, Floats, Ints, bits_of
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
"""The first starts are between this and its negative."""
WIDE = 100
"""So many are."""
STEEP = 1e6
"""A slope from which a start is looked for elsewhere, or else climbed from."""
ELSEWHERE = 20
"""Places that are looked at for one that is less steep."""


@native
def look_for_start(ctx: Context, m: Ints, s: Ints, attempt: int) -> tuple[float, int]:
    """The log density at the fresh values of an attempt, and a status."""
    n = m[DIMENSION]
    ctx.step = attempt
    ctx.draw = 0
    ctx.made = 0
    m[DIMENSION] = -1
    gradient = floats_at(s[WORK])[n:]
    value, status = value_and_gradient(ctx, m, s[RESULTS], gradient, s[FUEL])
    m[DIMENSION] = n
    return value, status


@native
def is_steep(n: int, gradient: Floats) -> bool:
    """Whether any slope is above `STEEP`, or is no number."""
    found = False
    for k in range(n):
        if not (abs(gradient[k]) <= STEEP):
            found = True
    return found


@native
def find_start(ctx: Context, m: Ints, s: Ints) -> tuple[int, int]:
    """Put a chain where `Density.leave_cliffs` does: how that ended, and a status.

    It is not there, and has to be looked for by the CPU, unless both are 0.
    """
    n = m[DIMENSION]
    point = floats_at(s[WORK])
    key = ctx.key1
    ctx.key1 = 0
    ctx.stream = STARTS
    m[WIDTH] = bits_of(WIDEST)
    places = 0
    for attempt in range(WIDE):
        value, status = look_for_start(ctx, m, s, attempt)
        ended = why_ended(m, status)
        if ended != 0:
            return ended, status
        if status != 0 or value - value != 0.0:
            continue
        ctx.key1 = key
        value, status = value_and_gradient(ctx, m, s[RESULTS], point[n:], s[FUEL])
        if status != 0 or why_ended(m, status) != 0:
            return FAILED, status
        if not is_steep(n, point[n:]):
            copy_floats(floats_at(m[POSITION]), point, n)
            point[2 * n] = value
            copy_floats(floats_at(s[RESULTS]), point[2 * n + 1 :], s[WORDS])
            return 0, 0
        places = places + 1
        if places == ELSEWHERE:
            return FAILED, 0
    return FAILED, 0


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
