"""Chains of Hamiltonian Monte Carlo as machine code: the no-U-turn sampler, and a fixed length.

`m` is the meter of the tape (`tape.py`); `s`, the sampler, is an array of words named below. A
*point* is a position, the gradient there, its log density and the first words of the results; an
*end* of a trajectory is position, momentum and gradient. The metric is the inverse of the mass: a
variance for each value, the covariance, or of low rank (`KIND`); `inference/metrics.py` has what
its words and its roots are.
"""

from __future__ import annotations

from tawa.cuppl.natives.tape import (
    DIMENSION,
    POSITION,
    SIZE,
    TAKEN,
    USED,
    value_and_gradient,
)
from tawa.cuppl.numeric.addresses import address_of, floats_at
from tawa.cuppl.numeric.elementary import exp, log, power
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import (
    Context,
    Floats,
    Ints,
    apart,
    bits_of,
    float_of_bits,
    sqrt,
)
from tawa.cuppl.numeric.special import normal_quantile
from tawa.cuppl.translation.native import native, outlined, vectorised
from tawa.cuppl.typing.failures import INVALID_PARAMETER, NAN_WEIGHT, REJECTED

RESULTS = 0  # address of the results that the program writes
WORDS = 1  # how many of them a point has
KIND = 2  # of the metric: 0: variances; 1: a covariance; -r: scales and r directions
METRIC = 3  # address
FACTOR = 4  # address
WORK = 5  # address of the floats described at `work_size`
FUEL = 6
LEAPFROGS = 7  # of a fixed length; 0: until the trajectory turns back
DOUBLINGS = 8
STEP = 9  # bits
TARGET = 10  # bits: wanted acceptance
CENTRE = 11  # bits: dual averaging
AVERAGED = 12  # bits
ERROR = 13  # bits
COUNT = 14
MOMENTS = 15  # address: means and squares of positions, then of gradients; what `ROWS` says
SEEN = 16  # positions in the moments
COLUMNS = 17  # address: the kept results, a row each
STRIDE = 18  # kept draws in all
POSITIONS = 19  # address: the kept positions, n floats each
STATISTICS = 20  # address: the rows named below, a number for each kept draw
ROWS = 21  # positions with gradients in the moments; 0: none; -1: the products of positions
STEP_GIVEN = 22  # whether others choose the step size
EVALUATIONS = 23
LEAVES = 24  # of the last transition, and of the piece below: how many, acceptance, weight
SHARE = 25  # bits
ENERGY = 26  # bits
PIECE_WEIGHT = 27  # bits
PIECE_ACCEPTED = 28  # bits
PIECE_VALUE = 29  # bits
DIVERGED = 30  # of the last transitions, those that diverged with steps as draws will have them
SAMPLER_WORDS = 31

MAX_DOUBLINGS = 10
DIVERGENT_ENERGY = -1000.0
SETTLED = 50
"""Transitions after which the average of the step size has left its beginning behind."""
USUAL = 0.35
"""By how much the logarithm of a step may be above the average."""
TURNING = 1
DIVERGENT = 2
CHANGED = 3
FULL = 4
FAILED = 5
"""How a trajectory ended, if not by its length; the last three end the chain."""
KEPT = ("energy", "acceptance_rate", "n_steps", "diverging", "lp")
"""What is kept of each transition, as ArviZ calls it; `lp` is the log density, unconstrained."""
STREAM = 9
"""Of the random numbers; the iteration is the step."""


def work_size(n: int, words: int) -> int:
    """Floats that a chain works with.

    The current point, a candidate and the one of a piece; both ends; sums of momenta of the whole
    and of a piece, three vectors to compute with, and starts of balanced pieces.
    """
    return 3 * (2 * n + 1 + words) + 6 * n + 5 * n + 2 * MAX_DOUBLINGS * n


@native
def ones_in(word: int) -> int:
    """How many bits of a number that is not negative are 1."""
    count = 0
    while word > 0:
        count = count + word % 2
        word = word // 2
    return count


@native
def copy_floats(source: Floats, target: Floats, count: int) -> None:
    """Copy words."""
    for k in apart(count):
        target[k] = source[k]


@native
def dot(n: int, a: Floats, b: Floats) -> float:
    """The scalar product."""
    total = 0.0
    for k in range(n):
        total = total + a[k] * b[k]
    return total


@vectorised
@outlined
@native
def add_column(n: int, column: Floats, factor: float, out: Floats) -> None:
    """Add a multiple of a vector to another."""
    for k in apart(n):
        out[k] = out[k] + factor * column[k]


@native
def stretch(n: int, count: int, directions: Floats, amounts: Floats, v: Floats) -> None:
    """Lengthen what a vector has along orthonormal directions, by these shares of it."""
    for k in range(count):
        direction = directions[k * n :]
        add_column(n, direction, amounts[k] * dot(n, direction, v), v)


@native
def product(n: int, matrix: Floats, v: Floats, out: Floats) -> None:
    """A matrix times a vector, column after column: many rows are one vector instruction."""
    for k in range(n):
        out[k] = 0.0
    for k in range(n):
        add_column(n, matrix[k * n :], v[k], out)


@native
def product_by_rows(n: int, matrix: Floats, v: Floats, out: Floats) -> None:
    """The same bits, a row for each lane."""
    for row in apart(n):
        total = 0.0
        for k in range(n):
            total = total + matrix[k * n + row] * v[k]
        out[row] = total


@native
def velocity(n: int, kind: int, metric: Floats, p: Floats, out: Floats) -> None:
    """The metric times a momentum."""
    if kind == 1:
        product(n, metric, p, out)
        return
    for k in apart(n):
        out[k] = metric[k] * p[k]
    if kind < 0:
        stretch(n, -kind, metric[n - kind :], metric[n:], out)
        for k in apart(n):
            out[k] = metric[k] * out[k]


@native
def momentum(n: int, kind: int, metric: Floats, factor: Floats, p: Floats) -> None:
    """Make a momentum of independent normal numbers."""
    if kind == 1:
        for i in range(n - 1, -1, -1):
            total = p[i]
            for j in range(i + 1, n):
                total = total - factor[j * n + i] * p[j]
            p[i] = total / factor[i * n + i]
        return
    if kind < 0:
        stretch(n, -kind, metric[n - kind :], factor, p)
        for k in apart(n):
            p[k] = p[k] / metric[k]
        return
    for k in apart(n):
        p[k] = p[k] / factor[k]


@native
def turns_back(
    n: int, kind: int, metric: Floats, first: Floats, last: Floats, room: Floats
) -> bool:
    """Whether a piece of trajectory begins to turn back, from the sum of its momenta in `room`.

    The first and the last momentum count half, as in the trapezoidal rule. With their whole weight
    the turn is often missed where steps are long, and trajectories go around several times.
    """
    for k in apart(n):
        room[k] = room[k] - 0.5 * (first[k] + last[k])
    across = room[n:]
    velocity(n, kind, metric, room, across)
    return dot(n, first, across) <= 0.0 or dot(n, last, across) <= 0.0


@native
def turned(
    n: int, kind: int, leaf: int, metric: Floats, sums: Floats, kept: Floats, p: Floats,
    room: Floats,
) -> bool:  # fmt: skip
    """Whether one of the balanced pieces that end at a leaf begins to turn back.

    The start of each is kept where as many slots are before it as its number has ones.
    """
    slot = ones_in(leaf // 2)
    found = False
    while leaf % 2 == 1 and not found:
        start = kept[2 * slot * n :]
        for k in apart(n):
            room[k] = sums[k] - start[n + k]
        found = turns_back(n, kind, metric, start, p, room)
        slot = slot - 1
        leaf = leaf // 2
    return found


@native
def add_momentum(n: int, leaf: int, sums: Floats, kept: Floats, p: Floats) -> None:
    """Add up momenta; keep where balanced pieces may start."""
    if leaf % 2 == 0:
        base = 2 * ones_in(leaf // 2) * n
        for k in apart(n):
            kept[base + k] = p[k]
            kept[base + n + k] = sums[k]
    for k in apart(n):
        sums[k] = sums[k] + p[k]


@native
def why_ended(m: Ints, status: int) -> int:
    """Whether a run of the program ends a trajectory; a density of 0 alone does not."""
    if status == 0:
        if m[USED] >= m[SIZE]:
            return FULL
        return 0 if m[TAKEN] == m[DIMENSION] else CHANGED
    if status == REJECTED:
        return 0
    if status == INVALID_PARAMETER:
        return 0
    return 0 if status == NAN_WEIGHT else FAILED


@native
def log_sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    top = max(a, b)
    return top + log(exp(a - top) + exp(b - top))


@native
def scratch(m: Ints, s: Ints) -> Floats:
    """Room for three vectors."""
    n = m[DIMENSION]
    return floats_at(s[WORK])[3 * (2 * n + 1 + s[WORDS]) + 8 * n :]


@native
def leapfrog(ctx: Context, m: Ints, s: Ints, end: Floats, step: float) -> tuple[float, int]:
    """One step of an end; the log density there, and a status."""
    n = m[DIMENSION]
    p = end[n:]
    gradient = end[2 * n :]
    speed = scratch(m, s)
    values = address_of(m[POSITION])
    for k in apart(n):
        p[k] = p[k] + 0.5 * step * gradient[k]
    velocity(n, s[KIND], floats_at(s[METRIC]), p, speed)
    for k in apart(n):
        end[k] = end[k] + step * speed[k]
        values[k] = bits_of(end[k])
    value, status = value_and_gradient(ctx, m, s[RESULTS], gradient, s[FUEL])
    s[EVALUATIONS] = s[EVALUATIONS] + 1
    for k in apart(n):
        p[k] = p[k] + 0.5 * step * gradient[k]
    return value, status


@native
def kinetic(m: Ints, s: Ints, p: Floats) -> float:
    """Half of the squares of the momenta, by the metric."""
    n = m[DIMENSION]
    speed = scratch(m, s)
    velocity(n, s[KIND], floats_at(s[METRIC]), p, speed)
    return 0.5 * dot(n, p, speed)


@native
def keep_point(m: Ints, s: Ints, end: Floats, value: float, point: Floats) -> None:
    """Remember where an end is, with what the program's run there gave."""
    n = m[DIMENSION]
    copy_floats(end, point, n)
    copy_floats(end[2 * n :], point[n:], n)
    point[2 * n] = value
    copy_floats(floats_at(s[RESULTS]), point[2 * n + 1 :], s[WORDS])


@native
def grow(
    ctx: Context, m: Ints, s: Ints, end: Floats, leaves: int, step: float, start: float, free: int
) -> tuple[int, int]:
    """Some leapfrog steps of an end: how they ended, and a status.

    A point is drawn on the way, by its weight, and momenta are added up; if `free`, only their
    number ends them. Where a scale overflows or a weight is NaN the density is 0.
    """
    n = m[DIMENSION]
    work = floats_at(s[WORK])
    size = 2 * n + 1 + s[WORDS]
    sums = work[3 * size + 7 * n :]
    kept = work[3 * size + 11 * n :]
    room = scratch(m, s)
    metric = floats_at(s[METRIC])
    p = end[n:]
    weight = 0.0
    accepted = 0.0
    done = 0
    for k in apart(n):
        sums[k] = 0.0
    while done < leaves:
        value, status = leapfrog(ctx, m, s, end, step)
        ended = why_ended(m, status)
        if ended != 0:
            return ended, status
        change = value - kinetic(m, s, p) - start
        if status != 0 or change != change:
            value = 2.0 * -1.0e308
            change = value
        weight = change if done == 0 else log_sum(weight, change)
        accepted = accepted + exp(min(0.0, change))
        done = done + 1
        s[LEAVES] = s[LEAVES] + 1
        s[PIECE_WEIGHT] = bits_of(weight)
        s[PIECE_ACCEPTED] = bits_of(accepted)
        s[PIECE_VALUE] = bits_of(value)
        if free == 0:
            if change < DIVERGENT_ENERGY:
                return DIVERGENT, 0
            if done == 1 or log(next_uniform(ctx)) < change - weight:
                keep_point(m, s, end, value, work[2 * size :])
            add_momentum(n, done - 1, sums, kept, p)
            if turned(n, s[KIND], done - 1, metric, sums, kept, p, room):
                return TURNING, 0
    return 0, 0


@native
def begin(ctx: Context, m: Ints, s: Ints) -> float:
    """Put both ends at the current point, with a new momentum; the log density of the two."""
    n = m[DIMENSION]
    work = floats_at(s[WORK])
    size = 2 * n + 1 + s[WORDS]
    end = work[3 * size :]
    p = end[n:]
    copy_floats(work, end, n)
    copy_floats(work[n:], end[2 * n :], n)
    for k in range(n):
        p[k] = normal_quantile(next_uniform(ctx))
    momentum(n, s[KIND], floats_at(s[METRIC]), floats_at(s[FACTOR]), p)
    copy_floats(end, end[3 * n :], 3 * n)
    s[LEAVES] = 0
    return work[2 * n] - kinetic(m, s, p)


@native
def has_turned(m: Ints, s: Ints) -> bool:
    """Whether the whole trajectory begins to turn back."""
    n = m[DIMENSION]
    ends = floats_at(s[WORK])[3 * (2 * n + 1 + s[WORDS]) :]
    room = scratch(m, s)
    copy_floats(ends[6 * n :], room, n)
    return turns_back(n, s[KIND], floats_at(s[METRIC]), ends[n:], ends[4 * n :], room)


@native
def transition(ctx: Context, m: Ints, s: Ints) -> tuple[int, int]:
    """The next point of a chain: how its trajectory ended, and a status."""
    n = m[DIMENSION]
    work = floats_at(s[WORK])
    size = 2 * n + 1 + s[WORDS]
    ends = work[3 * size :]
    total = ends[6 * n :]
    start = begin(ctx, m, s)
    step = float_of_bits(s[STEP])
    copy_floats(work, work[size:], size)
    copy_floats(ends[n:], total, n)
    weight = 0.0
    accepted = 0.0
    depth = 0
    ended = 0
    while depth < s[DOUBLINGS] and ended == 0:
        forward = 1 if next_uniform(ctx) < 0.5 else 0
        signed = step if forward == 1 else -step
        ended, status = grow(ctx, m, s, ends[3 * n * forward :], 1 << depth, signed, start, 0)
        if ended >= CHANGED:
            return ended, status
        accepted = accepted + float_of_bits(s[PIECE_ACCEPTED])
        depth = depth + 1
        if ended == 0:
            new = float_of_bits(s[PIECE_WEIGHT])
            if log(next_uniform(ctx)) < new - weight:
                copy_floats(work[2 * size :], work[size:], size)
            weight = log_sum(weight, new)
            for k in apart(n):
                total[k] = total[k] + ends[7 * n + k]
            if has_turned(m, s):
                ended = TURNING
    copy_floats(work[size:], work, size)
    s[SHARE] = bits_of(accepted / float(s[LEAVES]))
    s[ENERGY] = bits_of(-start)
    return ended, 0


@native
def fixed_transition(ctx: Context, m: Ints, s: Ints) -> tuple[int, int]:
    """The same by so many leapfrog steps, of which the last is accepted or not."""
    n = m[DIMENSION]
    work = floats_at(s[WORK])
    end = work[3 * (2 * n + 1 + s[WORDS]) :]
    start = begin(ctx, m, s)
    ended, status = grow(ctx, m, s, end, s[LEAPFROGS], float_of_bits(s[STEP]), start, 1)
    if ended >= CHANGED:
        return ended, status
    value = float_of_bits(s[PIECE_VALUE])
    change = value - kinetic(m, s, end[n:]) - start
    if change != change:
        change = 2.0 * -1.0e308
    share = exp(min(0.0, change))
    s[SHARE] = bits_of(share)
    s[ENERGY] = bits_of(-start)
    if next_uniform(ctx) < share:
        keep_point(m, s, end, value, work)
    return DIVERGENT if change < DIVERGENT_ENERGY else 0, 0


@native
def start_iteration(ctx: Context, iteration: int) -> None:
    """Random numbers that depend on the iteration alone."""
    ctx.stream = STREAM
    ctx.step = iteration
    ctx.draw = 0
    ctx.made = 0


@native
def one_step_change(ctx: Context, m: Ints, s: Ints, step: float) -> tuple[float, int, int]:
    """The change of the energy in one leapfrog step, how it ended, and a status."""
    n = m[DIMENSION]
    end = floats_at(s[WORK])[3 * (2 * n + 1 + s[WORDS]) :]
    start = begin(ctx, m, s)
    ended, status = grow(ctx, m, s, end, 1, step, start, 1)
    change = float_of_bits(s[PIECE_VALUE]) - kinetic(m, s, end[n:]) - start
    if change != change:
        change = 2.0 * -1.0e308
    return change, ended, status


@native
def find_step(ctx: Context, m: Ints, s: Ints, iteration: int) -> tuple[int, int]:
    """A step size whose first step is accepted about half of the time; dual averaging begins."""
    step = float_of_bits(s[STEP])
    factor = 0.0
    tries = 0
    going = True
    while going and tries < 60:
        start_iteration(ctx, iteration)
        change, ended, status = one_step_change(ctx, m, s, step)
        if ended >= CHANGED:
            return ended, status
        up = change > -0.6931471805599453
        if factor == 0.0:
            factor = 2.0 if up else 0.5
        if up == (factor > 1.0):
            step = step * factor
        else:
            going = False
        tries = tries + 1
    s[STEP] = bits_of(step)
    s[CENTRE] = bits_of(log(10.0 * step))
    s[AVERAGED] = bits_of(log(step))
    s[ERROR] = bits_of(0.0)
    s[COUNT] = 0
    return 0, 0


@native
def adapt(s: Ints) -> None:
    """Dual averaging of the step size (Hoffman and Gelman 2014)."""
    s[COUNT] = s[COUNT] + 1
    count = float(s[COUNT])
    missing = float_of_bits(s[TARGET]) - float_of_bits(s[SHARE])
    error = float_of_bits(s[ERROR])
    error = error + (missing - error) / (count + 10.0)
    logarithm = float_of_bits(s[CENTRE]) - sqrt(count) / 0.05 * error
    keep = power(count, -0.75)
    averaged = keep * logarithm + (1.0 - keep) * float_of_bits(s[AVERAGED])
    s[ERROR] = bits_of(error)
    s[AVERAGED] = bits_of(averaged)
    s[STEP] = bits_of(exp(logarithm))


@native
def count_divergence(s: Ints) -> None:
    """Count a divergent transition, unless its steps were far longer than those on average.

    While a step size is learned it goes up and down; what diverges at its heights says nothing.
    """
    usual = log(float_of_bits(s[STEP])) <= float_of_bits(s[AVERAGED]) + USUAL
    if s[STEP_GIVEN] == 1 or (usual and s[COUNT] >= SETTLED):
        s[DIVERGED] = s[DIVERGED] + 1


@native
def add_moments(n: int, seen: int, values: Floats, mean: Floats, squares: Floats) -> None:
    """Welford's update of means and sums of squares."""
    for k in apart(n):
        change = values[k] - mean[k]
        mean[k] = mean[k] + change / float(seen)
        squares[k] = squares[k] + change * (values[k] - mean[k])


@native
def learn(m: Ints, s: Ints) -> None:
    """Add the current point to the moments: of positions, of gradients, and what `ROWS` says."""
    n = m[DIMENSION]
    work = floats_at(s[WORK])
    moments = floats_at(s[MOMENTS])
    s[SEEN] = s[SEEN] + 1
    change = scratch(m, s)
    for k in apart(n):
        change[k] = work[k] - moments[k]
    add_moments(n, s[SEEN], work, moments, moments[n:])
    add_moments(n, s[SEEN], work[n:], moments[2 * n :], moments[3 * n :])
    more = moments[4 * n :]
    if s[ROWS] > 0:
        copy_floats(work, more[2 * n * ((s[SEEN] - 1) % s[ROWS]) :], 2 * n)
    if s[ROWS] < 0:
        for k in range(n):
            add_column(n, change, work[k] - moments[k], more[k * n :])


@native
def keep_draw(m: Ints, s: Ints, index: int, ended: int) -> None:
    """Keep the current point as a draw, and how the transition to it went."""
    n = m[DIMENSION]
    work = floats_at(s[WORK])
    copy_floats(work, floats_at(s[POSITIONS])[index * n :], n)
    rows = floats_at(s[COLUMNS])
    for k in apart(s[WORDS]):
        rows[k * s[STRIDE] + index] = work[2 * n + 1 + k]
    kept = floats_at(s[STATISTICS])
    kept[index] = float_of_bits(s[ENERGY])
    kept[s[STRIDE] + index] = float_of_bits(s[SHARE])
    kept[2 * s[STRIDE] + index] = float(s[LEAVES])
    kept[3 * s[STRIDE] + index] = 1.0 if ended == DIVERGENT else 0.0
    kept[4 * s[STRIDE] + index] = work[2 * n]


@native
def run_chain(
    ctx: Context, m: Ints, s: Ints, first: int, last: int, learning: int, kept: int
) -> tuple[int, int, int]:
    """Transitions `first` to `last`: how they ended, a status, and the first that is missing.

    If `kept` < 0, the step size is adapted (and, if `learning`, moments are taken); else draws are
    kept from that number on.
    """
    for iteration in range(first, last):
        start_iteration(ctx, iteration)
        if s[LEAPFROGS] > 0:
            ended, status = fixed_transition(ctx, m, s)
        else:
            ended, status = transition(ctx, m, s)
        if ended >= CHANGED:
            return ended, status, iteration
        if kept < 0:
            if ended == DIVERGENT:
                count_divergence(s)
            if s[STEP_GIVEN] == 0:
                adapt(s)
            if learning == 1:
                learn(m, s)
        else:
            keep_draw(m, s, kept + iteration - first, ended)
    return 0, 0, last
