"""Re-execution with recorded choices: natives of lightweight Metropolis-Hastings and enumeration.

Every random choice has an address: a hash of the calls that lead to it, made unique by a count
where a loop comes to it again. A run is compared with the one before it: where the next choice has
the address that came next then (which is so as long as runs stay aligned), it is found at once,
and otherwise through a table.

`r`, the record, is an array of words that are named below; the choices of the current and of the
accepted run are in arrays of their own (`NEW_...`, `OLD_...`), with vectors in pools of words.
"""

from __future__ import annotations

import math

from tawa.cuppl.natives.control import TOP_MASK
from tawa.cuppl.natives.importance import run_main
from tawa.cuppl.natives.smc import run_machine
from tawa.cuppl.numeric.addresses import address_of, int_of
from tawa.cuppl.numeric.elementary import exp, hash_mix, log
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import (
    Context,
    Floats,
    Ints,
    bits_of,
    float_of_bits,
    floor,
    new_ints,
    new_object,
)
from tawa.cuppl.numeric.special import normal_quantile
from tawa.cuppl.translation.native import native

INF = math.inf

COUNT = 0  # choices of the current run
CAPACITY = 1
OLD_COUNT = 2
PROPOSED = 3  # index of the old choice that is drawn anew, or -1 to draw everything
RATIO = 4  # bits: sum of new minus old log densities of the reused choices
CURSOR = 5
NEW_KEYS = 6
NEW_WORDS = 7
NEW_DENSITY = 8
OLD_KEYS = 9
OLD_WORDS = 10
OLD_DENSITY = 11
TABLE = 12  # address -> index + 1 of the old choices; a power of two of pairs of words
TABLE_MASK = 13
SEEN = 14  # address -> count in the current run; triples of (address, run, count)
RUN = 15
NEW_POOL = 16
OLD_POOL = 17
POOL_USED = 18
POOL_SIZE = 19
SCORE = 20  # bits: sum of log densities of the choices
TOLERANCE = 21  # bits: enumeration drops paths whose log probability is below
PRUNED = 22  # bits: prior probability of the dropped paths
FULL = 23  # set when the arrays are too small
REPLAYED = 24  # choices of a run whose values are given
WALKED = 25  # index of the old choice from which the current one may walk, or -1
SCALES = 26  # address: pairs of an address and the bits of a scale, or 0: choices never walk
SCALES_MASK = 27
RECORD_WORDS = 32

WALKING = 0.8
"""How often a float walks, where it may: else it is drawn anew."""
ORDERS = -5.0
"""Distances are from this exponential of the scale to all of it."""

TRACE_FULL = 15
REJECTED = 14
STACK_FULL = 3
PLAIN_VECTOR = 2  # the header of a vector of plain words
FINAL_POINT = 1
FIRST_STACK = 256  # words


@native
def unique_key(ctx: Context, r: Ints, site: int) -> int:
    """The address of a choice at a site, counted if the same calls led to it before.

    It is odd for a float; so is the number of its site.
    """
    key = hash_mix(ctx.address, site)
    seen = address_of(r[SEEN])
    mask = r[TABLE_MASK]
    at = key & mask
    searching = True
    while searching:
        if seen[3 * at + 1] != r[RUN]:
            seen[3 * at] = key
            seen[3 * at + 1] = r[RUN]
            seen[3 * at + 2] = 0
            searching = False
        elif seen[3 * at] == key:
            searching = False
        else:
            at = (at + 1) & mask
    count = seen[3 * at + 2]
    seen[3 * at + 2] = count + 1
    key = key if count == 0 else hash_mix(key, count + 1000003)
    return (key & -2) | (site & 1)


@native
def old_index(r: Ints, key: int) -> int:
    """Index of the old choice with an address, or -1."""
    keys = address_of(r[OLD_KEYS])
    cursor = r[CURSOR]
    if cursor < r[OLD_COUNT] and keys[cursor] == key:
        r[CURSOR] = cursor + 1
        return cursor
    table = address_of(r[TABLE])
    at = key & r[TABLE_MASK]
    while table[2 * at + 1] != 0:
        if table[2 * at] == key:
            r[CURSOR] = table[2 * at + 1]
            return table[2 * at + 1] - 1
        at = (at + 1) & r[TABLE_MASK]
    return -1


@native
def trace_find(ctx: Context, site: int) -> tuple[int, int]:
    """The next choice's address, and the index of the old choice to reuse, or -1."""
    r = address_of(ctx.trace)
    if r[COUNT] >= r[CAPACITY]:
        return 0, -2
    key = unique_key(ctx, r, site)
    if r[PROPOSED] == -1:
        return key, -1
    index = old_index(r, key)
    r[WALKED] = index if index == r[PROPOSED] else -1
    return key, (-1 if index == r[PROPOSED] else index)


@native
def scale_of(r: Ints, key: int) -> float:
    """How far the values of a choice lie apart in a population, or 0 if that is not known."""
    scales = address_of(r[SCALES])
    at = key & r[SCALES_MASK]
    while scales[2 * at] != 0:
        if scales[2 * at] == key:
            return float_of_bits(scales[2 * at + 1])
        at = (at + 1) & r[SCALES_MASK]
    return 0.0


@native
def trace_walk(ctx: Context, key: int) -> int:
    """Index of the old choice near which the next value is drawn, or -1 to draw it anew."""
    r = address_of(ctx.trace)
    index = r[WALKED]
    if index < 0 or r[SCALES] == 0:
        return -1
    if scale_of(r, key) == 0.0:
        return -1
    return index if next_uniform(ctx) < WALKING else -1


@native
def walk_from(ctx: Context, index: int, key: int) -> float:
    """A value near an old one, at a distance of any order: the same the other way round."""
    r = address_of(ctx.trace)
    words = address_of(r[OLD_WORDS])
    distance = scale_of(r, key) * exp(ORDERS * next_uniform(ctx))
    return float_of_bits(words[index]) + distance * normal_quantile(next_uniform(ctx))


@native
def trace_word(ctx: Context, index: int) -> int:
    """The word of an old choice."""
    r = address_of(ctx.trace)
    words = address_of(r[OLD_WORDS])
    return words[index]


@native
def trace_add(ctx: Context, key: int, word: int, density: float, index: int) -> None:
    """Record a choice; `index` is the old one that it reuses, or -1."""
    r = address_of(ctx.trace)
    count = r[COUNT]
    keys = address_of(r[NEW_KEYS])
    words = address_of(r[NEW_WORDS])
    densities = address_of(r[NEW_DENSITY])
    keys[count] = key
    words[count] = word
    densities[count] = bits_of(density)
    r[COUNT] = count + 1
    r[SCORE] = bits_of(float_of_bits(r[SCORE]) + density)
    if index >= 0:
        old = address_of(r[OLD_DENSITY])
        change = density - float_of_bits(old[index])
        r[RATIO] = bits_of(float_of_bits(r[RATIO]) + change)


@native
def trace_vector(ctx: Context, index: int) -> Ints:
    """A copy of the vector of an old choice."""
    r = address_of(ctx.trace)
    words = address_of(r[OLD_WORDS])
    pool = address_of(r[OLD_POOL])
    start = words[index]
    length = pool[start]
    out = new_ints(ctx, length)
    for k in range(length):
        out[k] = pool[start + 1 + k]
    return out


@native
def pool_vector(ctx: Context, vector: Ints) -> int:
    """Copy a vector into the pool; its place there, or -1 if the pool is full."""
    r = address_of(ctx.trace)
    pool = address_of(r[NEW_POOL])
    length = vector[1]
    start = r[POOL_USED]
    if start + length + 1 > r[POOL_SIZE]:
        return -1
    pool[start] = length
    for k in range(length):
        pool[start + 1 + k] = vector[2 + k]
    r[POOL_USED] = start + length + 1
    return start


@native
def begin_run(ctx: Context, r: Ints, proposed: int) -> None:
    """Clear the record of the current run."""
    r[COUNT] = 0
    r[CURSOR] = 0
    r[PROPOSED] = proposed
    r[RATIO] = 0
    r[SCORE] = 0
    r[POOL_USED] = 0
    r[RUN] = r[RUN] + 1
    ctx.trace = int_of(r)
    ctx.address = 0


@native
def accept_run(r: Ints) -> None:
    """Make the current run the old one, and index it."""
    for k in range(3):
        swap = r[NEW_KEYS + k]
        r[NEW_KEYS + k] = r[OLD_KEYS + k]
        r[OLD_KEYS + k] = swap
    pool = r[NEW_POOL]
    r[NEW_POOL] = r[OLD_POOL]
    r[OLD_POOL] = pool
    table = address_of(r[TABLE])
    mask = r[TABLE_MASK]
    if 4 * r[OLD_COUNT] < mask:
        before = address_of(r[NEW_KEYS])
        for k in range(r[OLD_COUNT]):
            clear_entry(table, mask, before[k])
    else:
        for at in range(mask + 1):
            table[2 * at + 1] = 0
    r[OLD_COUNT] = r[COUNT]
    keys = address_of(r[OLD_KEYS])
    for k in range(r[COUNT]):
        at = keys[k] & mask
        while table[2 * at + 1] != 0:
            at = (at + 1) & mask
        table[2 * at] = keys[k]
        table[2 * at + 1] = k + 1


@native
def clear_entry(table: Ints, mask: int, key: int) -> None:
    """Clear the cells that a key may have led to (all keys are cleared together)."""
    at = key & mask
    while table[2 * at + 1] != 0:
        table[2 * at + 1] = 0
        at = (at + 1) & mask


@native
def new_stack(ctx: Context, words: int) -> Ints:
    """Room for some words of state."""
    vector = new_object(ctx, PLAIN_VECTOR, words + 2)
    vector[1] = words
    return address_of(int_of(vector) + 16)


@native
def run_stacked(ctx: Context, out: int, stride: int, header: int, results: int, slack: int) -> int:
    """Run a program that uses `shift` to its end, on a stack in the heap, which grows."""
    words = FIRST_STACK + header + results + 2 * slack
    state = new_stack(ctx, words)
    for index in range(header):
        state[index] = 0
    state[0] = header + 2
    state[header] = FINAL_POINT
    state[header + 1] = 0
    outcome = run_machine(ctx, int_of(state), 1, words - slack)
    while outcome == STACK_FULL:
        words = 2 * words
        larger = new_stack(ctx, words)
        for index in range(state[0] & TOP_MASK):
            larger[index] = state[index]
        state = larger
        ctx.status = 0
        outcome = run_machine(ctx, int_of(state), 1, words - slack)
    if outcome > 0:
        return outcome
    rows = address_of(out)
    for row in range(results):
        rows[row * stride] = state[header + row]
    return 0


SEED_LOW = 0  # words of a chain's control block
SEED_HIGH = 1
CHAIN = 2
ITERATION = 3
LAST = 4  # iteration before which to stop
WEIGHT = 5  # bits: log weight of the accepted run
ACCEPTED = 6
OUT = 7  # address of the rows of kept results
KEPT = 8  # columns of the rows
BURN = 9
THIN = 10
CURRENT = 11  # address of the accepted run's result words
SCRATCH = 12  # address of the current run's
RESULTS = 13  # number of result words
FUEL = 14
WEIGHTS = 15  # address of the kept runs' log weights
POWER = 16  # bits: of the weight, in what the chain goes to
CHAIN_WORDS = 17

CHOICES = 4  # words of an enumeration's control block: choices on all paths so far,
MOST_CHOICES = 5  # and from how many on it ends


@native
def traced_run(ctx: Context, c: Ints, r: Ints, proposed: int) -> int:
    """Run the program once; its choices are recorded."""
    ctx.key0 = c[SEED_LOW]
    ctx.key1 = c[SEED_HIGH]
    ctx.particle = c[CHAIN]
    ctx.step = c[ITERATION] & 4294967295
    ctx.stream = 16 + (c[ITERATION] >> 32)
    ctx.weight = 0.0
    ctx.depth = 0
    ctx.fuel = c[FUEL]
    ctx.status = 0
    ctx.memo = 0
    ctx.memo_count = 0
    begin_run(ctx, r, proposed)
    return run_main(ctx, c[SCRATCH], 1)


@native
def accept(ctx: Context, c: Ints, r: Ints) -> None:
    """Keep the current run and its result."""
    accept_run(r)
    c[WEIGHT] = bits_of(ctx.weight)
    swap = c[CURRENT]
    c[CURRENT] = c[SCRATCH]
    c[SCRATCH] = swap


@native
def keep_result(c: Ints) -> None:
    """Store the accepted run's result, if this iteration is one to keep."""
    past = c[ITERATION] - c[BURN]
    if past >= 0 and past % c[THIN] == 0 and past // c[THIN] < c[KEPT]:
        column = past // c[THIN]
        words = address_of(c[CURRENT])
        out = address_of(c[OUT])
        for k in range(c[RESULTS]):
            out[k * c[KEPT] + column] = words[k]
        weights = address_of(c[WEIGHTS])
        weights[column] = c[WEIGHT]


@native
def mh_chain(ctx: Context, c: Ints, r: Ints, keep_heap: int) -> int:
    """Single-site Metropolis-Hastings: draw one choice anew, reuse the others, accept or not.

    Until a run with positive weight is found, everything is drawn anew.
    """
    while c[ITERATION] < c[LAST]:
        start = ctx.heap
        ctx.draw = 0
        ctx.made = 0
        ctx.key0 = c[SEED_LOW]
        ctx.key1 = c[SEED_HIGH]
        ctx.particle = c[CHAIN]
        ctx.step = c[ITERATION] & 4294967295
        ctx.stream = 16 + (c[ITERATION] >> 32)
        count = r[OLD_COUNT]
        found = float_of_bits(c[WEIGHT]) > -INF
        pick = next_uniform(ctx)
        level = log(next_uniform(ctx))
        proposed = -1
        if found and count > 0:
            proposed = min(int(floor(pick * float(count))), count - 1)
        status = traced_run(ctx, c, r, proposed)
        if status != 0 and status != REJECTED:
            return status
        if status == 0:
            change = INF
            if found:
                change = float_of_bits(c[POWER]) * (ctx.weight - float_of_bits(c[WEIGHT]))
                change = change + float_of_bits(r[RATIO])
                if count > 0 and r[COUNT] > 0:
                    change = change + log(float(count)) - log(float(r[COUNT]))
            if level < change:
                accept(ctx, c, r)
                c[ACCEPTED] = c[ACCEPTED] + 1
        if keep_heap == 0:
            ctx.heap = start
        keep_result(c)
        c[ITERATION] = c[ITERATION] + 1
    return 0


@native
def enumerate_choice(ctx: Context, count: int) -> int:
    """Which value the next choice takes on this path: as recorded, or else the first."""
    r = address_of(ctx.trace)
    depth = r[COUNT]
    if depth >= r[CAPACITY]:
        return -2
    chosen = address_of(r[NEW_WORDS])
    sizes = address_of(r[NEW_KEYS])
    if depth >= r[REPLAYED]:
        chosen[depth] = 0
        sizes[depth] = count
    r[COUNT] = depth + 1
    return chosen[depth]


@native
def enumerate_weigh(ctx: Context, density: float) -> bool:
    """Add a choice's log probability to the path; false if the path is to be dropped.

    What has probability 0 is.
    """
    r = address_of(ctx.trace)
    total = float_of_bits(r[SCORE]) + density
    r[SCORE] = bits_of(total)
    if not total > -INF or total < float_of_bits(r[TOLERANCE]):
        r[PRUNED] = bits_of(float_of_bits(r[PRUNED]) + exp(total))
        return False
    return True


@native
def next_path(r: Ints) -> bool:
    """Go to the next path, in the order of a depth-first search; false after the last."""
    chosen = address_of(r[NEW_WORDS])
    sizes = address_of(r[NEW_KEYS])
    depth = r[COUNT] - 1
    while depth >= 0:
        if chosen[depth] + 1 < sizes[depth]:
            chosen[depth] = chosen[depth] + 1
            r[REPLAYED] = depth + 1
            return True
        depth = depth - 1
    return False


@native
def enumerate_paths(
    ctx: Context, c: Ints, r: Ints, weights: Floats, rows: int, limit: int
) -> tuple[int, int, int]:
    """Run paths until `rows` results are stored or all are done.

    Returns how many were stored, a status, and whether all is done.
    """
    stored = 0
    done = 0
    tried = 0
    while stored < rows and done == 0 and tried < limit and c[CHOICES] < c[MOST_CHOICES]:
        tried = tried + 1
        ctx.weight = 0.0
        ctx.depth = 0
        ctx.fuel = c[FUEL]
        ctx.status = 0
        ctx.memo = 0
        ctx.memo_count = 0
        r[COUNT] = 0
        r[SCORE] = 0
        ctx.trace = int_of(r)
        status = run_main(ctx, c[OUT] + 8 * stored, rows)
        c[CHOICES] = c[CHOICES] + r[COUNT]
        if status == 0:
            weights[stored] = ctx.weight + float_of_bits(r[SCORE])
            stored = stored + 1
        elif status != REJECTED:
            return stored, status, tried
        if not next_path(r):
            done = 1
    c[ITERATION] = tried
    return stored, 0, done
