"""Reverse-mode differentiation: a tape of elementary operations, and choices without constraints.

A differentiated function carries, for each float, its place on the tape (0 for a constant). A tape
entry is two places and two partial derivatives. `m`, the meter, is an array of words named below;
the words of the tape are in the context while a run records, where nothing else points to.
"""

from __future__ import annotations

from tawa.cuppl.natives.runs import side_by_side, spread_run
from tawa.cuppl.numeric.addresses import address_of, floats_at, int_of
from tawa.cuppl.numeric.elementary import cos, exp, sin
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import (
    Context,
    Floats,
    FloatVector,
    Ints,
    apart,
    bits_of,
    float_of_bits,
    new_floats,
)
from tawa.cuppl.numeric.special import digamma
from tawa.cuppl.translation.native import external, native

USED = 0  # entries on the tape; place 0 is unused
SIZE = 1
ENTRIES = 2  # address; four words an entry
POSITION = 3  # address of the unconstrained values
TAKEN = 4  # values taken by this run
DIMENSION = 5  # -1: take fresh values and store them
ROOM = 6  # size of the array of values
ADJOINTS = 7  # address
NOTES = 8  # address: what is noted of observations (`notes.py`)
NOTED = 9  # how many words of them
NOTE_ROOM = 10
WIDTH = 11  # bits: fresh values lie between this and its negative
RUN = 12  # address of places that are known to follow each other, in this way back
RUN_COUNT = 13  # and how many do
METER_WORDS = 14
LONG_RUN = 8
"""Adjoints that are worth a call."""


@native
def tape_two(ctx: Context, a: int, da: float, b: int, db: float) -> int:
    """Record an operation of two operands; its place."""
    if a == 0 and b == 0:
        return 0
    at = ctx.tape_used + 1
    if at >= ctx.tape_size:
        ctx.tape_used = ctx.tape_size
        return 0
    entry = address_of(ctx.tape_entries + 32 * at)
    entry[0] = a
    entry[1] = bits_of(da)
    entry[2] = b
    entry[3] = bits_of(db)
    address_of(ctx.adjoints)[at] = 0
    ctx.tape_used = at
    return at


@native
def tape_weigh(ctx: Context, place: int, partial: float) -> None:
    """A term of the weight has such a derivative: what becomes of the weight later is known."""
    if place != 0:
        adjoints = address_of(ctx.adjoints)
        adjoints[place] = bits_of(float_of_bits(adjoints[place]) + partial)


@native
def tape_and(ctx: Context, before: int, a: int, da: float) -> int:
    """Record one more operand of the operation that was recorded last."""
    return before if a == 0 else tape_two(ctx, before, 1.0, a, da)


@native
def tape_one(ctx: Context, a: int, da: float) -> int:
    """Record an operation of one operand."""
    return 0 if a == 0 else tape_two(ctx, a, da, 0, 0.0)


DOT = -1
"""In the place of an entry's first operand: a product of vectors. Addresses and a count follow."""


@native
def in_heap(ctx: Context, address: int) -> bool:
    """Whether an address is one of the heap: floats elsewhere are constant."""
    return address >= ctx.heap_start and address < ctx.heap_end


@native
def tape_dot(ctx: Context, v: int, w: int, count: int) -> int:
    """Record the product of so many floats from two addresses on; its place."""
    if count <= 0 or (not in_heap(ctx, v) and not in_heap(ctx, w)):
        return 0
    at = tape_two(ctx, DOT, 0.0, 0, 0.0)
    if at != 0:
        entry = address_of(ctx.tape_entries + 32 * at)
        entry[1] = v
        entry[2] = w
        entry[3] = count
    return at


@native
def spread_product(ctx: Context, adjoints: Ints, v: int, w: int, count: int, own: float) -> None:
    """Add to the adjoints of the floats at `v` what a product with those at `w` tells of them."""
    if not in_heap(ctx, v):
        return
    places = address_of(v + ctx.tape_delta)
    others = floats_at(w)
    for k in range(count):
        place = places[k]
        if place != 0:
            adjoints[place] = bits_of(float_of_bits(adjoints[place]) + own * others[k])


@native
def is_run(ctx: Context, places: Ints, count: int) -> bool:
    """Whether places follow each other; the last that did are remembered."""
    m = address_of(ctx.trace)
    if m[RUN] == int_of(places) and m[RUN_COUNT] == count:
        return True
    found = side_by_side(places, count)
    if found:
        m[RUN] = int_of(places)
        m[RUN_COUNT] = count
    return found


@native
def spread_product_wide(
    ctx: Context, adjoints: Ints, v: int, w: int, count: int, own: float
) -> None:
    """`spread_product`, many adjoints at a time if they lie side by side."""
    if not in_heap(ctx, v):
        return
    places = address_of(v + ctx.tape_delta)
    others = floats_at(w)
    if count >= LONG_RUN and is_run(ctx, places, count):
        spread_run(floats_at(int_of(adjoints) + 8 * places[0]), others, count, own)
        return
    for k in range(count):
        place = places[k]
        if place != 0:
            adjoints[place] = bits_of(float_of_bits(adjoints[place]) + own * others[k])


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
        width = float_of_bits(m[WIDTH])
        values[taken] = bits_of(2.0 * width * next_uniform(ctx) - width)
    return float_of_bits(values[taken])


@native
def taken_place(ctx: Context) -> int:
    """The place of the value that was taken last."""
    m = address_of(ctx.trace)
    return m[TAKEN] if m[TAKEN] <= m[DIMENSION] else 0


@native
def take_vector(ctx: Context, length: int) -> FloatVector:
    """Some unconstrained values."""
    out = new_floats(ctx, length)
    for k in range(length):
        out[k] = take_value(ctx)
    return out


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
    m[TAKEN] = 0
    ctx.tape_used = max(dimension, 0)
    ctx.tape_size = m[SIZE]
    ctx.tape_entries = m[ENTRIES]
    ctx.adjoints = m[ADJOINTS]
    ctx.trace = int_of(m)
    ctx.weight = 0.0
    ctx.depth = 0
    ctx.fuel = fuel
    ctx.status = 0
    ctx.memo = 0
    ctx.memo_count = 0
    ctx.heap = ctx.heap_start
    adjoints = address_of(m[ADJOINTS])
    for k in apart(dimension + 1):
        adjoints[k] = 0
    status = run_taped(ctx, out, 1)
    m[USED] = ctx.tape_used
    m[RUN] = 0
    if status == 0 and dimension > 0 and m[USED] < m[SIZE]:
        for at in range(m[USED], dimension, -1):
            own = float_of_bits(adjoints[at])
            if own != 0.0:
                entry = address_of(ctx.tape_entries + 32 * at)
                a = entry[0]
                b = entry[2]
                if a == DOT:
                    spread_product(ctx, adjoints, entry[1], b, entry[3], own)
                    spread_product(ctx, adjoints, b, entry[1], entry[3], own)
                    continue
                if a != 0:
                    more = own * float_of_bits(entry[1])
                    adjoints[a] = bits_of(float_of_bits(adjoints[a]) + more)
                if b != 0:
                    more = own * float_of_bits(entry[3])
                    adjoints[b] = bits_of(float_of_bits(adjoints[b]) + more)
        for k in apart(dimension):
            gradient[k] = float_of_bits(adjoints[k + 1])
    return ctx.weight, status


@native
def detached(x: float) -> float:
    """The same number, as if it depended on nothing."""
    return float_of_bits(bits_of(x))


# Derivatives of natives of one float: `slope_f(x, y)` is that of `f` at x, where it is y.


@native
def slope_log(x: float, y: float) -> float:
    """1 / x."""
    return 1.0 / x


@native
def slope_log1p(x: float, y: float) -> float:
    """1 / (1 + x)."""
    return 1.0 / (1.0 + x)


@native
def slope_exp(x: float, y: float) -> float:
    """The value itself."""
    return y


@native
def slope_expm1(x: float, y: float) -> float:
    """exp x."""
    return y + 1.0


@native
def slope_lgamma(x: float, y: float) -> float:
    """The digamma function."""
    return digamma(x)


@native
def slope_sigmoid(x: float, y: float) -> float:
    """y (1 - y), without loss where y is near 1."""
    small = exp(-abs(x))
    return small / ((1.0 + small) * (1.0 + small))


@native
def slope_tanh(x: float, y: float) -> float:
    """1 - y^2."""
    return (1.0 - y) * (1.0 + y)


@native
def slope_sin(x: float, y: float) -> float:
    """cos x."""
    return cos(x)


@native
def slope_cos(x: float, y: float) -> float:
    """-sin x."""
    return -sin(x)


@native
def slope_tan(x: float, y: float) -> float:
    """1 + y^2."""
    return 1.0 + y * y


@native
def slope_atan(x: float, y: float) -> float:
    """1 / (1 + x^2)."""
    return 1.0 / (1.0 + x * x)


@native
def slope_erf(x: float, y: float) -> float:
    """2 / sqrt(pi) exp(-x^2)."""
    return 1.1283791670955126 * exp(-x * x)


@native
def slope_erfc(x: float, y: float) -> float:
    """-2 / sqrt(pi) exp(-x^2)."""
    return -1.1283791670955126 * exp(-x * x)


@native
def slope_normal_cdf(x: float, y: float) -> float:
    """The density of a standard normal."""
    return 0.3989422804014327 * exp(-0.5 * x * x)


@native
def slope_normal_quantile(x: float, y: float) -> float:
    """1 / the density there."""
    return 2.5066282746310002 * exp(0.5 * y * y)
