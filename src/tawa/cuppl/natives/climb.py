"""Climbing a density by L-BFGS as machine code.

`c`, the climb, is an array of words named below; its floats are vectors of as many values as the
density has: where the climb is and the gradient there, the diagonal of the inverse of the negated
Hessian, where the next step tries to go and the gradient there, a direction, room, and the last
steps with the changes of the gradient along them, the oldest first.
"""

from __future__ import annotations

from tawa.cuppl.natives.nuts import CHANGED, copy_floats, dot, why_ended
from tawa.cuppl.natives.tape import DIMENSION, POSITION, value_and_gradient
from tawa.cuppl.numeric.addresses import address_of, floats_at
from tawa.cuppl.numeric.primitives import Context, Floats, Ints, bits_of, float_of_bits
from tawa.cuppl.translation.native import native

WORK = 0  # address of the floats
VALUE = 1  # bits: the log density here
PAIRS = 2  # steps that are remembered
RESULTS = 3  # address of the results that the program writes
FUEL = 4
LOOKED = 5  # whether the diagonal is of here
LOOK = 6  # whether the next step looks at the curvature instead of going on
PROBED = 7  # values up to which the curvature along each is looked at
EVALUATIONS = 8
MOST = 9  # evaluations after which the climb ends
AT_ONCE = 10  # steps between two looks of the caller
CLIMB_WORDS = 11

HISTORY = 6
"""Steps of which the curvature is remembered."""
HALVINGS = 40
LARGEST = 1e304
"""The largest variance that is believed."""
HUGE = 1e308
FARTHER = 1e8
FARTHEST = 1e200
"""How the look along a value goes on where nothing changes."""
ENOUGH = 1e-9
"""A gain of the density, relative to it, that ends the climb."""
MOVED = 1
OVER = 2
"""What a step has done; both may be."""


def climb_size(n: int) -> int:
    """Floats that a climb works with."""
    return 7 * n + 2 * HISTORY * n + HISTORY


@native
def all_finite(n: int, v: Floats) -> bool:
    """Whether no value is infinite or NaN."""
    for k in range(n):
        if not abs(v[k]) < HUGE:
            return False
    return True


@native
def density_at(
    ctx: Context, m: Ints, c: Ints, q: Floats, gradient: Floats
) -> tuple[float, int, int]:
    """The log density of values, with its gradient; how the run ended if none was, and a status."""
    values = address_of(m[POSITION])
    for k in range(m[DIMENSION]):
        values[k] = bits_of(q[k])
    value, status = value_and_gradient(ctx, m, c[RESULTS], gradient, c[FUEL])
    c[EVALUATIONS] = c[EVALUATIONS] + 1
    if status != 0 or value != value:
        value = 2.0 * -1.0e308
    return value, why_ended(m, status), status


@native
def look(ctx: Context, m: Ints, c: Ints) -> tuple[int, int]:
    """Variances: where the density curves downwards, those of the normal that curves alike."""
    n = m[DIMENSION]
    q = floats_at(c[WORK])
    gradient = q[n:]
    diagonal = q[2 * n :]
    there = q[3 * n :]
    gradient_there = q[4 * n :]
    c[PAIRS] = 0
    copy_floats(q, there, n)
    for k in range(n):
        diagonal[k] = max(1e-300, 1.0 / max(abs(gradient[k]), 1.0))
        step = 1e-4 * max(1.0, abs(q[k]))
        change = 0.0
        going = n <= c[PROBED]
        while going:
            there[k] = q[k] + step
            _value, ended, status = density_at(ctx, m, c, there, gradient_there)
            if ended >= CHANGED:
                return ended, status
            if status == 0:
                change = gradient[k] - gradient_there[k]
            going = status == 0 and change == 0.0 and step * FARTHER < FARTHEST
            if change > 0.0 and step / change < LARGEST:
                diagonal[k] = step / change
            step = step * FARTHER
        there[k] = q[k]
    c[LOOKED] = 1
    c[LOOK] = 0
    return 0, 0


@native
def start_climb(ctx: Context, m: Ints, c: Ints) -> tuple[int, int, int]:
    """Look at the density and its curvature where the climb starts."""
    q = floats_at(c[WORK])
    value, ended, status = density_at(ctx, m, c, q, q[m[DIMENSION] :])
    c[VALUE] = bits_of(value)
    if ended < CHANGED:
        ended, status = look(ctx, m, c)
    return ended, status, MOVED


@native
def go_there(n: int, c: Ints) -> None:
    """Go there, and learn from the step if the density curves downwards along it.

    The diagonal is that of the BFGS update of a diagonal matrix.
    """
    q = floats_at(c[WORK])
    diagonal = q[2 * n :]
    step = q[5 * n :]
    change = q[6 * n :]
    across = 0.0
    inside = 0.0
    for k in range(n):
        step[k] = q[3 * n + k] - q[k]
        change[k] = q[n + k] - q[4 * n + k]
        across = across + change[k] * (diagonal[k] * change[k])
        inside = inside + step[k] * (step[k] / diagonal[k])
    copy_floats(q[3 * n :], q, 2 * n)
    along = dot(n, step, change)
    if not along > 1e-12 * dot(n, change, change):
        return
    found = q[3 * n :]  # where the climb tried to go is not needed any more
    for k in range(n):
        before = diagonal[k]
        share = step[k] / before
        inverse = across / (along * before) + change[k] * change[k] / along
        inverse = inverse - across / along * (share * share / inside)
        found[k] = 1.0 / inverse if inverse > 1e-300 else 2.0 * HUGE
        if not inverse < 1e300:
            found[k] = 2.0 * HUGE
    if all_finite(n, found):
        copy_floats(found, diagonal, n)
    pairs = q[7 * n :]
    if c[PAIRS] == HISTORY:
        copy_floats(pairs[2 * n :], pairs, 2 * n * (HISTORY - 1))
        c[PAIRS] = HISTORY - 1
    copy_floats(step, pairs[2 * n * c[PAIRS] :], 2 * n)
    c[PAIRS] = c[PAIRS] + 1


@native
def uphill_direction(n: int, q: Floats, count: int, out: Floats) -> None:
    """The inverse of the negated Hessian, as the last steps show it, times the gradient."""
    pairs = q[7 * n :]
    shares = pairs[2 * n * HISTORY :]
    copy_floats(q[n:], out, n)
    for k in range(count - 1, -1, -1):
        step = pairs[2 * n * k :]
        change = pairs[2 * n * k + n :]
        shares[k] = dot(n, step, out) / dot(n, step, change)
        for i in range(n):
            out[i] = out[i] - shares[k] * change[i]
    for i in range(n):
        out[i] = q[2 * n + i] * out[i]
    for k in range(count):
        step = pairs[2 * n * k :]
        change = pairs[2 * n * k + n :]
        share = shares[k] - dot(n, change, out) / dot(n, step, change)
        for i in range(n):
            out[i] = out[i] + share * step[i]


@native
def go_uphill(ctx: Context, m: Ints, c: Ints) -> tuple[float, int, int]:
    """A step along which the density grows enough: the log density there (or -inf if none does).

    Second is how it ended if it could not be taken, third a status.
    """
    n = m[DIMENSION]
    q = floats_at(c[WORK])
    there = q[3 * n :]
    direction = q[5 * n :]
    uphill_direction(n, q, c[PAIRS], direction)
    rise = dot(n, direction, q[n:])
    if not rise > 0.0 or not all_finite(n, direction):
        c[PAIRS] = 0
        uphill_direction(n, q, c[PAIRS], direction)
        rise = dot(n, direction, q[n:])
    share = 1.0
    for _ in range(HALVINGS):
        for k in range(n):
            there[k] = q[k] + share * direction[k]
        value, ended, status = density_at(ctx, m, c, there, q[4 * n :])
        if ended >= CHANGED:
            return value, ended, status
        enough = float_of_bits(c[VALUE]) + 1e-4 * share * rise
        if status == 0 and value >= enough and all_finite(n, q[4 * n :]):
            return value, 0, 0
        share = share * 0.5
    return 2.0 * -1.0e308, 0, 0


@native
def one_step(ctx: Context, m: Ints, c: Ints) -> tuple[int, int, int]:
    """One step uphill, or a new look at the curvature: how it ended, a status, what was done."""
    n = m[DIMENSION]
    if c[LOOK] == 1:  # what is known of the curvature may be of somewhere else
        ended, status = look(ctx, m, c)
        return ended, status, 0
    value, ended, status = go_uphill(ctx, m, c)
    if ended >= CHANGED:
        return ended, status, 0
    before = float_of_bits(c[VALUE])
    gain = value - before
    done = 0
    if value >= before:
        go_there(n, c)
        c[VALUE] = bits_of(value)
        done = MOVED
    if gain >= ENOUGH * max(1.0, abs(max(value, before))):
        c[LOOKED] = 0
        return 0, 0, done
    if c[LOOKED] == 1:
        return 0, 0, done + OVER
    c[LOOK] = 1
    return 0, 0, done


@native
def climb_on(ctx: Context, m: Ints, c: Ints) -> tuple[int, int, int]:
    """Steps of a climb: how they ended, a status, and whether it moved, or is over."""
    all_done = 0
    for _ in range(c[AT_ONCE]):
        ended, status, done = one_step(ctx, m, c)
        if ended >= CHANGED:
            return ended, status, 0
        all_done = all_done | done
        if c[EVALUATIONS] >= c[MOST]:
            all_done = all_done | OVER
        if all_done >= OVER:
            break
    return 0, 0, all_done
