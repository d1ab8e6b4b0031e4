"""The inner loop of sequential Monte Carlo, as natives that all threads run together.

Weights are compared as integers: w = round(exp(log w - max) * scale), with the scale chosen so
that the sum of all fits in 62 bits. Their sum, and the cumulative sum that systematic resampling
needs, are exact and do not depend on the order or on the number of threads.

`c` is the control block; its words are named below. A thread t has eight words in `part`.
"""

from __future__ import annotations

import math

from tawa.cuppl.natives.frames import restore_draw
from tawa.cuppl.numeric.addresses import address_of, int_of
from tawa.cuppl.numeric.elementary import exp_normal, log
from tawa.cuppl.numeric.philox import GROUP, GROUP_DRAWS, group_draws, next_uniform, philox_group
from tawa.cuppl.numeric.primitives import (
    Context,
    Floats,
    Ints,
    atomic_add,
    bits_of,
    float_of_bits,
    floor,
    int_in_range,
    sleep_while,
    wake,
)
from tawa.cuppl.translation.native import external, native, outlined

INF = math.inf

WAITING = 0  # threads at the barrier
GENERATION = 1
STEP = 2
PARTICLES = 3
THREADS = 4
SEED_LOW = 5
SEED_HIGH = 6
LIMIT = 7  # stack words
HEAP_NEXT = 8
HEAP_END = 9
CHUNK = 10  # bytes
FUEL = 11
DEPTH_LIMIT = 12
FAILED_STATUS = 13
FAILED_SITE = 14
FAILED_PARTICLE = 15
THRESHOLD = 16  # bits of a float: resample below this effective sample size
LOG_Z = 17  # bits of a float
RESAMPLED = 18
STATE = 19  # address
OTHER = 20  # address
INPUTS = 21  # address
TURNS = 22  # steps until the threads come back to the caller
SCALE = 23  # bits of a float
STREAM = 24
RETAINED = 25  # 1: slot 0 replays a given particle and keeps it (conditional SMC)
HEADER = 26  # state words before the stack
PATH = 27  # address of (key, key, particle) of the kept particle at each step
WIDTH = 28  # words of a particle
COPYING = 29  # 1: the particles are still in OTHER, each at its parent's place
PORTION = 30  # particles that a thread takes at a time
SLEEPERS = 57  # threads that wait without running
CONTROL_WORDS = 64  # and eight more for each thread: the first says how many particles were taken
SPINS = 3000
"""Some 50 us: on a machine that is not busy, a step's last portion takes less."""

OWN_STATUS = 3  # words of `part`, of a thread: its first failure, where, and of which particle
OWN_SITE = 6
OWN_PARTICLE = 7

RUNNING = 0
FINISHED = 1
NEED_ROOM = 2
FAILED = 3
DEAD = 4

TOP_MASK = (1 << 38) - 1
ANCESTOR_MASK = -(1 << 38)
FINISHED_FLAG = -(1 << 32)
DRAW_MASK = (1 << 32) - 1
HEAP_FULL = 1
STACK_FULL = 3
REJECTED = 14
NEGLIGIBLE = -700.0
"""The exponential of this, scaled, is 0 as an integer."""


@external
def run_machine(ctx: Context, state: int, stride: int, limit: int) -> int:
    """Run a particle until it suspends (0), ends (-1) or stops with a status (> 0)."""
    raise NotImplementedError


@native
def barrier(c: Ints, threads: int) -> None:
    """Wait until all threads are here."""
    if threads > 1:
        generation = atomic_add(c, GENERATION, 0)
        if atomic_add(c, WAITING, 1) == threads - 1:
            c[WAITING] = 0
            atomic_add(c, GENERATION, 1)
            if atomic_add(c, SLEEPERS, 0) > 0:
                wake(c, GENERATION)
        else:
            spins = 0
            while spins < SPINS and atomic_add(c, GENERATION, 0) == generation:
                spins = spins + 1
            if spins == SPINS:
                atomic_add(c, SLEEPERS, 1)
                while atomic_add(c, GENERATION, 0) == generation:
                    sleep_while(c, GENERATION, generation)
                atomic_add(c, SLEEPERS, -1)


@native
def next_chunk(ctx: Context, c: Ints) -> bool:
    """Take a fresh region of the heap for this thread; false if there is none."""
    size = c[CHUNK]
    start = atomic_add(c, HEAP_NEXT, size)
    if start + size > c[HEAP_END]:
        return False
    ctx.heap = start
    ctx.heap_end = start + size
    return True


@native
def run_particle(
    ctx: Context, c: Ints, p: int, made: int, state: Ints, limit: int, weight: float
) -> int:
    """Run one particle, some of whose draws are made, to its next suspension.

    Its weight is then `ctx.weight`.
    """
    ctx.particle = p
    if c[RETAINED] == 1 and p == 0:
        path = address_of(c[PATH])
        ctx.key0 = path[3 * ctx.step]
        ctx.key1 = path[3 * ctx.step + 1]
        ctx.particle = path[3 * ctx.step + 2]
        made = 0
    ctx.weight = weight
    ctx.depth = 0
    ctx.fuel = c[FUEL]
    ctx.status = 0
    fresh = False
    restore_draw(ctx, state[1] & DRAW_MASK)
    if state[1] & DRAW_MASK == 0:
        ctx.made = made
    while True:
        if c[HEADER] > 2:
            ctx.memo = state[2]
            ctx.memo_count = state[3]
        outcome = run_machine(ctx, int_of(state), 1, limit)
        if outcome != HEAP_FULL or fresh or not next_chunk(ctx, c):
            return outcome
        fresh = True
        ctx.depth = 0
        restore_draw(ctx, state[1] & DRAW_MASK)
    return 0


@native
def start_step(ctx: Context, c: Ints, step: int) -> None:
    """The part of a draw's key that particles share."""
    ctx.key0 = c[SEED_LOW]
    ctx.key1 = c[SEED_HIGH]
    ctx.step = step
    ctx.stream = c[STREAM]


@native
def copy_state(c: Ints, p: int, parent: int, words: int) -> None:
    """Give a slot its parent's state. Eight words at a time, though the last may not be in use."""
    old = address_of(c[OTHER] + 8 * c[WIDTH] * parent)
    new = address_of(c[STATE] + 8 * c[WIDTH] * p)
    for word in range(0, words, 8):
        w0 = old[word]
        w1 = old[word + 1]
        w2 = old[word + 2]
        w3 = old[word + 3]
        w4 = old[word + 4]
        w5 = old[word + 5]
        w6 = old[word + 6]
        w7 = old[word + 7]
        new[word] = w0
        new[word + 1] = w1
        new[word + 2] = w2
        new[word + 3] = w3
        new[word + 4] = w4
        new[word + 5] = w5
        new[word + 6] = w6
        new[word + 7] = w7


@native
def used_words(c: Ints, parent: int) -> int:
    """The words of a state in use, of a particle that was not copied yet."""
    return address_of(c[OTHER] + 8 * c[WIDTH] * parent)[0] & TOP_MASK


@native
def settle(
    ctx: Context, c: Ints, p: int, state: Ints, logw: Floats, own: Ints, outcome: int
) -> int:
    """Note how a particle's run ended: a bit of what it waits for, or minus its failure."""
    if outcome <= 0:
        logw[p] = ctx.weight
        state[1] = (ctx.step + 1) << 32 if outcome == 0 else FINISHED_FLAG
        return 0
    if outcome == REJECTED:
        logw[p] = -INF
        state[1] = FINISHED_FLAG
        state[0] = (state[0] & ANCESTOR_MASK) | c[HEADER]
        return 0
    if outcome <= STACK_FULL:
        return 1 << outcome
    own[OWN_SITE] = ctx.site
    own[OWN_PARTICLE] = p
    return -outcome


@native
def taken_of(c: Ints, t: int) -> Ints:
    """Where it is counted how many of a thread's particles are taken."""
    return address_of(int_of(c) + 8 * CONTROL_WORDS + 64 * t)


@native
def prepare_draws(ctx: Context, p: int, slot: int, first: bool, made: int) -> int:
    """Make a group's draws if the particle before drew; returns how many this one has."""
    if slot == 0:
        made = 0
        if first or ctx.draw > 0:
            philox_group(ctx, p)
            made = GROUP_DRAWS
    return made


@native
def advance(ctx: Context, c: Ints, t: int, logw: Floats, parents: Ints, part: Ints) -> None:
    """Run particles to the next suspension, after the copies that are due.

    Threads take portions as they go, when their own are done those of others: how long particles
    take differs a lot.
    """
    n = c[PARTICLES]
    threads = c[THREADS]
    step = c[STEP]
    portion = c[PORTION]
    copying = c[COPYING] == 1
    best = -INF
    active = 0
    waiting = 0
    failed = 0
    sound = n  # of the particles before it, none has failed
    own = address_of(int_of(part) + 64 * t)
    start_step(ctx, c, step)
    for turn in range(threads):
        owner = (t + turn) % threads  # its own first: their states are near
        taken = taken_of(c, owner)
        end = n * (owner + 1) // threads
        low = n * owner // threads + atomic_add(taken, 0, portion)
        while low < end:
            high = min(low + portion, end)
            made = 0
            words = used_words(c, parents[low]) if copying else 0
            for p in range(low, high):
                slot = (p - low) % GROUP
                made = prepare_draws(ctx, p, slot, p == low, made)
                if copying:
                    copy_state(c, p, parents[p], words)
                    words = used_words(c, parents[min(p + 1, high - 1)])  # soon: it is here then
                    logw[p] = 0.0
                state = address_of(c[STATE] + 8 * c[WIDTH] * p)
                if state[1] >> 32 == step and p < sound:
                    ctx.ahead = group_draws(ctx, slot)
                    outcome = run_particle(ctx, c, p, made, state, c[LIMIT], logw[p])
                    found = settle(ctx, c, p, state, logw, own, outcome)
                    waiting = waiting | max(found, 0)
                    if found < 0:
                        failed = -found
                        sound = p
                    if p == 0:
                        start_step(ctx, c, step)  # a kept particle has draws of its own
                active = active + (1 if state[1] >= 0 else 0)
                best = max(best, logw[p])
            low = n * owner // threads + atomic_add(taken, 0, portion)
    part[8 * t] = bits_of(best)
    part[8 * t + 1] = active
    part[8 * t + 2] = waiting
    part[8 * t + 3] = failed


@native
def verdict(c: Ints, part: Ints) -> int:
    """How the step ended, from what all threads saw."""
    best = -INF
    active = 0
    waiting = 0
    failed = 0
    for t in range(c[THREADS]):
        best = max(best, float_of_bits(part[8 * t]))
        active = active + part[8 * t + 1]
        waiting = waiting | part[8 * t + 2]
        failed = max(failed, part[8 * t + 3])
    if failed != 0:
        return FAILED
    if waiting != 0:
        return NEED_ROOM
    if best == -INF:
        return DEAD
    return RUNNING if active > 0 else FINISHED


@native
def largest(c: Ints, part: Ints) -> float:
    """The largest log weight."""
    best = -INF
    for t in range(c[THREADS]):
        best = max(best, float_of_bits(part[8 * t]))
    return best


@native
def quantise(c: Ints, t: int, best: float, logw: Floats, weights: Ints, part: Ints) -> None:
    """Integer weights of this thread's particles, their sum and the sum of their squares."""
    n = c[PARTICLES]
    scale = float_of_bits(c[SCALE])
    total = 0
    squares = 0
    for p in range(n * t // c[THREADS], n * (t + 1) // c[THREADS]):
        w = exp_normal(max(logw[p] - best, NEGLIGIBLE))
        weight = int_in_range(w * scale + 0.5)
        weights[p] = weight
        total = total + weight
        squares = squares + int_in_range(w * w * scale + 0.5)
    part[8 * t + 4] = total
    part[8 * t + 5] = squares


@native
def sum_parts(c: Ints, part: Ints, word: int, threads: int) -> int:
    """Sum of a word over the first threads."""
    total = 0
    for t in range(threads):
        total = total + part[8 * t + word]
    return total


@native
def offspring_before(cumulative: int, total: int, particles: int, u: float) -> int:
    """How many of the points (k + u) / particles lie below a cumulative weight."""
    if cumulative >= total:
        return particles
    at = float(cumulative) * (float(particles) / float(total)) - u
    below = -floor(-at)
    return min(max(int_in_range(below), 0), particles)


@native
def choose_ancestors(
    ctx: Context, c: Ints, t: int, step: int, weights: Ints, parents: Ints, part: Ints
) -> None:
    """Systematic resampling: the children of this thread's particles."""
    n = c[PARTICLES]
    total = sum_parts(c, part, 4, c[THREADS])
    cumulative = sum_parts(c, part, 4, t)
    start_step(ctx, c, step)
    ctx.stream = c[STREAM] + 1
    ctx.particle = 0
    ctx.draw = 0
    ctx.made = 0
    u = next_uniform(ctx)
    child = offspring_before(cumulative, total, n, u)
    for p in range(n * t // c[THREADS], n * (t + 1) // c[THREADS]):
        cumulative = cumulative + weights[p]
        last = offspring_before(cumulative, total, n, u)
        # Whether there is a first child is as good as random: no branch asks for it.
        parents[child if child < last else n] = p
        child = child + 1
        while child < last:
            parents[child] = p
            child = child + 1
        child = last


@outlined
@native
def choose_conditionally(
    ctx: Context, c: Ints, t: int, step: int, weights: Ints, parents: Ints, part: Ints
) -> None:
    """Multinomial resampling in which slot 0 keeps its particle (conditional SMC).

    Multinomial, because given that one child is fixed the others are still independent draws
    (Andrieu, Doucet and Holenstein 2010, section 4.3).
    """
    n = c[PARTICLES]
    low = n * t // c[THREADS]
    high = n * (t + 1) // c[THREADS]
    cumulative = sum_parts(c, part, 4, t)
    for p in range(low, high):
        cumulative = cumulative + weights[p]
        weights[p] = cumulative
    barrier(c, c[THREADS])
    total = float(weights[n - 1])
    start_step(ctx, c, step)
    ctx.stream = c[STREAM] + 1
    for child in range(low, high):
        ctx.particle = child
        ctx.draw = 0
        ctx.made = 0
        point = next_uniform(ctx) * total
        first = 0
        last = n - 1
        while first < last:
            middle = (first + last) // 2
            if float(weights[middle]) > point:
                last = middle
            else:
                first = middle + 1
        parents[child] = first if child > 0 else 0


@native
def copy_states(c: Ints, t: int, logw: Floats, parents: Ints) -> None:
    """Make the copies that are due."""
    n = c[PARTICLES]
    for p in range(n * t // c[THREADS], n * (t + 1) // c[THREADS]):
        copy_state(c, p, parents[p], used_words(c, parents[p]))
        logw[p] = 0.0


@native
def smc_thread(
    ctx: Context, c: Ints, t: int, logw: Floats, weights: Ints, parents: Ints, part: Ints
) -> int:
    """Run all steps (or `TURNS` of them), together with the other threads."""
    threads = c[THREADS]
    n = c[PARTICLES]
    turns = c[TURNS]
    while turns > 0:
        turns = turns - 1
        advance(ctx, c, t, logw, parents, part)
        barrier(c, threads)
        step = c[STEP]
        taken_of(c, t)[0] = 0
        if t == 0:
            c[COPYING] = 0
        outcome = verdict(c, part)
        if outcome != RUNNING:
            return outcome
        best = largest(c, part)
        quantise(c, t, best, logw, weights, part)
        barrier(c, threads)
        scale = float_of_bits(c[SCALE])
        total = float(sum_parts(c, part, 4, threads)) / scale
        squares = float(sum_parts(c, part, 5, threads)) / scale
        resample = total * total < float_of_bits(c[THRESHOLD]) * squares
        if resample:
            if c[RETAINED] == 1:
                choose_conditionally(ctx, c, t, step, weights, parents, part)
            else:
                choose_ancestors(ctx, c, t, step, weights, parents, part)
        if t == 0:  # words that no thread reads between these barriers
            if resample:
                evidence = float_of_bits(c[LOG_Z]) + best + log(total / float(n))
                c[LOG_Z] = bits_of(evidence)
                swap = c[STATE]
                c[STATE] = c[OTHER]
                c[OTHER] = swap
                c[RESAMPLED] = c[RESAMPLED] + 1
                c[COPYING] = 1
            c[STEP] = step + 1
        barrier(c, threads)
        if resample and turns == 0:
            # The caller looks at the particles.
            copy_states(c, t, logw, parents)
            barrier(c, threads)
            if t == 0:
                c[COPYING] = 0
            barrier(c, threads)
    return RUNNING
