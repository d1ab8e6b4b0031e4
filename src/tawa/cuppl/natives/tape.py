"""Reverse-mode differentiation: a tape of elementary operations, and choices without constraints.

A differentiated function carries, for each float, its place on the tape (0 for a constant). A tape
entry is two places and two partial derivatives. `m`, the meter, is an array of words named below.
"""

from __future__ import annotations

from tawa.cuppl.numeric.addresses import address_of, int_of
from tawa.cuppl.numeric.elementary import exp, log, log1p, sigmoid
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import (
    Context,
    Floats,
    FloatVector,
    Ints,
    bits_of,
    float_of_bits,
    new_floats,
)
from tawa.cuppl.translation.native import external, native
from tawa.cuppl.typing.failures import INVALID_PARAMETER, NAN_WEIGHT, REJECTED

USED = 0  # entries on the tape; place 0 is unused
SIZE = 1
ENTRIES = 2  # address; four words an entry
POSITION = 3  # address of the unconstrained values
TAKEN = 4  # values taken by this run
DIMENSION = 5  # -1: take fresh values and store them
ROOM = 6  # size of the array of values
ADJOINTS = 7  # address
METER_WORDS = 8


@native
def tape_two(ctx: Context, a: int, da: float, b: int, db: float) -> int:
    """Record an operation of two operands; its place."""
    if a == 0 and b == 0:
        return 0
    m = address_of(ctx.trace)
    at = m[USED] + 1
    if at >= m[SIZE]:
        m[USED] = m[SIZE]
        return 0
    entry = address_of(m[ENTRIES] + 32 * at)
    entry[0] = a
    entry[1] = bits_of(da)
    entry[2] = b
    entry[3] = bits_of(db)
    m[USED] = at
    return at


@native
def tape_and(ctx: Context, before: int, a: int, da: float) -> int:
    """Record one more operand of the operation that was recorded last."""
    return before if a == 0 else tape_two(ctx, before, 1.0, a, da)


@native
def tape_one(ctx: Context, a: int, da: float) -> int:
    """Record an operation of one operand."""
    return 0 if a == 0 else tape_two(ctx, a, da, 0, 0.0)


@native
def shadow_load(ctx: Context, address: int) -> int:
    """The place of a float in memory; what is not in the heap is constant."""
    if address < ctx.heap_start or address >= ctx.heap_end:
        return 0
    shadow = address_of(address + ctx.tape_delta)
    return shadow[0]


@native
def shadow_store(ctx: Context, address: int, place: int) -> None:
    """Remember the place of a float in memory."""
    if address >= ctx.heap_start and address < ctx.heap_end:
        shadow = address_of(address + ctx.tape_delta)
        shadow[0] = place


@native
def take_value(ctx: Context) -> float:
    """The next unconstrained value (its place is the next one after the values before it)."""
    m = address_of(ctx.trace)
    taken = m[TAKEN]
    m[TAKEN] = taken + 1
    if taken >= m[ROOM]:
        return 0.0
    values = address_of(m[POSITION])
    if m[DIMENSION] < 0:
        values[taken] = bits_of(4.0 * next_uniform(ctx) - 2.0)
    return float_of_bits(values[taken])


@native
def taken_place(ctx: Context) -> int:
    """The place of the value that was taken last."""
    m = address_of(ctx.trace)
    return m[TAKEN] if m[DIMENSION] >= 0 else 0


@native
def between(low: float, high: float, q: float) -> float:
    """A real number to the interval (low, high)."""
    return low + (high - low) * sigmoid(q)


@native
def between_density(low: float, high: float, q: float) -> float:
    """log of the derivative of `between`."""
    a = abs(q)
    return log(high - low) - a - 2.0 * log1p(exp(-a))


@native
def take_vector(ctx: Context, length: int) -> FloatVector:
    """Some unconstrained values."""
    out = new_floats(ctx, length)
    for k in range(length):
        out[k] = take_value(ctx)
    return out


@native
def stick(ctx: Context, free: FloatVector) -> FloatVector:
    """n - 1 real numbers to a point of the simplex, by breaking a stick."""
    n = len(free) + 1
    out = new_floats(ctx, n)
    rest = 1.0
    for k in range(n - 1):
        share = sigmoid(free[k] - log(float(n - 1 - k)))
        out[k] = rest * share
        rest = rest - out[k]
    out[n - 1] = rest
    return out


@native
def stick_density(free: FloatVector) -> float:
    """log of the determinant of `stick`."""
    n = len(free) + 1
    rest = 0.0
    total = 0.0
    for k in range(n - 1):
        q = free[k] - log(float(n - 1 - k))
        a = abs(q)
        both = -a - 2.0 * log1p(exp(-a))
        total = total + rest + both
        rest = rest - (max(q, 0.0) + log1p(exp(-a)))
    return total


@external
def run_taped(ctx: Context, out: int, stride: int) -> int:
    """Run the differentiated program. Returns a status."""
    raise NotImplementedError


@native
def value_and_gradient(
    ctx: Context, m: Ints, out: int, gradient: Floats, fuel: int
) -> tuple[float, int]:
    """Log density of the values, its gradient, and a status; results go to `out`."""
    dimension = m[DIMENSION]
    m[USED] = max(dimension, 0)
    m[TAKEN] = 0
    ctx.trace = int_of(m)
    ctx.weight = 0.0
    ctx.tape_weight = 0
    ctx.depth = 0
    ctx.fuel = fuel
    ctx.status = 0
    ctx.memo = 0
    ctx.memo_count = 0
    ctx.heap = ctx.heap_start
    status = run_taped(ctx, out, 1)
    if status == 0 and dimension > 0 and m[USED] < m[SIZE]:
        adjoints = address_of(m[ADJOINTS])
        for k in range(m[USED] + 1):
            adjoints[k] = 0
        adjoints[ctx.tape_weight] = bits_of(1.0)
        for at in range(m[USED], dimension, -1):
            own = float_of_bits(adjoints[at])
            if own != 0.0:
                entry = address_of(m[ENTRIES] + 32 * at)
                a = entry[0]
                b = entry[2]
                if a != 0:
                    more = own * float_of_bits(entry[1])
                    adjoints[a] = bits_of(float_of_bits(adjoints[a]) + more)
                if b != 0:
                    more = own * float_of_bits(entry[3])
                    adjoints[b] = bits_of(float_of_bits(adjoints[b]) + more)
        for k in range(dimension):
            gradient[k] = float_of_bits(adjoints[k + 1])
    return ctx.weight, status


# Trajectories of Hamiltonian Monte Carlo.

DIVERGENT_ENERGY = -1000.0
TURNING = 1
DIVERGENT = 2
CHANGED = 3
FULL = 4
FAILED = 5
"""How a trajectory ended, if not by its length."""


@native
def ones_in(word: int) -> int:
    """How many bits of a number that is not negative are 1."""
    count = 0
    while word > 0:
        count = count + word % 2
        word = word // 2
    return count


@native
def turns_back(n: int, metric: Floats, sums: Floats, kept: Floats, slot: int, p: Floats) -> bool:
    """Whether the piece of trajectory from a kept point to the last one begins to turn back."""
    first = 0.0
    last = 0.0
    base = 2 * slot * n
    for k in range(n):
        across = metric[k] * (sums[k] - kept[base + n + k])
        first = first + kept[base + k] * across
        last = last + p[k] * across
    return first <= 0.0 or last <= 0.0


@native
def turned(n: int, leaf: int, metric: Floats, sums: Floats, kept: Floats, p: Floats) -> bool:
    """Whether one of the balanced pieces that end at a leaf begins to turn back.

    The start of each is kept where as many slots are before it as its number has ones.
    """
    slot = ones_in(leaf // 2)
    found = False
    while leaf % 2 == 1 and not found:
        found = turns_back(n, metric, sums, kept, slot, p)
        slot = slot - 1
        leaf = leaf // 2
    return found


@native
def leapfrog(
    ctx: Context,
    m: Ints,
    out: int,
    gradient: Floats,
    q: Floats,
    p: Floats,
    metric: Floats,
    step: float,
    fuel: int,
) -> tuple[float, int]:
    """One step of the position and the momentum; the log density, and a status."""
    n = m[DIMENSION]
    values = address_of(m[POSITION])
    for k in range(n):
        p[k] = p[k] + 0.5 * step * gradient[k]
        q[k] = q[k] + step * metric[k] * p[k]
        values[k] = bits_of(q[k])
    value, status = value_and_gradient(ctx, m, out, gradient, fuel)
    for k in range(n):
        p[k] = p[k] + 0.5 * step * gradient[k]
    return value, status


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
def kinetic(n: int, metric: Floats, p: Floats) -> float:
    """Half of the squares of the momenta, by the metric."""
    total = 0.0
    for k in range(n):
        total = total + metric[k] * p[k] * p[k]
    return 0.5 * total


@native
def log_sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    top = max(a, b)
    return top + log(exp(a - top) + exp(b - top))


@native
def draw_point(n: int, draw: Floats, q: Floats, gradient: Floats, value: float) -> None:
    """Remember a point: position, gradient, log density."""
    for k in range(n):
        draw[k] = q[k]
        draw[n + k] = gradient[k]
    draw[2 * n] = value


@native
def add_momentum(n: int, leaf: int, sums: Floats, kept: Floats, p: Floats) -> None:
    """Add up momenta; keep where balanced pieces may start."""
    if leaf % 2 == 0:
        base = 2 * ones_in(leaf // 2) * n
        for k in range(n):
            kept[base + k] = p[k]
            kept[base + n + k] = sums[k]
    for k in range(n):
        sums[k] = sums[k] + p[k]


@native
def grow_trajectory(
    ctx: Context, m: Ints, out: int, gradient: Floats, q: Floats, p: Floats, metric: Floats,
    draw: Floats, sums: Floats, kept: Floats, chances: Floats, report: Floats, leaves: int,
    step: float, start: float, fuel: int,
) -> tuple[int, int]:  # fmt: skip
    """Some leapfrog steps from a point, which ends up at their end: how it ended, and a status.

    A point is drawn on the way, by its weight, into `draw`: position, gradient, log density. `sums`
    adds up momenta. `report` gets the log of the total weight, the sum of acceptance
    probabilities, how many steps were made, and the log density at the end. If `chances[0] < 0`
    only the length ends it. Where a scale overflows or a weight is NaN the density is 0.
    """
    n = m[DIMENSION]
    weight = 0.0
    accepted = 0.0
    done = 0
    while done < leaves:
        value, status = leapfrog(ctx, m, out, gradient, q, p, metric, step, fuel)
        ended = why_ended(m, status)
        if ended != 0:
            return ended, status
        change = value - kinetic(n, metric, p) - start
        if status != 0 or change != change:
            value = 2.0 * -1.0e308
            change = value
        weight = change if done == 0 else log_sum(weight, change)
        accepted = accepted + exp(min(0.0, change))
        done = done + 1
        report[0] = weight
        report[1] = accepted
        report[2] = float(done)
        report[3] = value
        if chances[0] >= 0.0:
            if change < DIVERGENT_ENERGY:
                return DIVERGENT, 0
            if done == 1 or log(chances[done - 1]) < change - weight:
                draw_point(n, draw, q, gradient, value)
            add_momentum(n, done - 1, sums, kept, p)
            if turned(n, done - 1, metric, sums, kept, p):
                return TURNING, 0
    return 0, 0
