"""The inner loop of sequential Monte Carlo, as natives that all threads run together.

Weights are compared as integers: w = round(exp(log w - max) * scale), with the scale chosen so
that the sum of all fits in 62 bits. Their sum, and the cumulative sum that systematic resampling
needs, are exact and do not depend on the order or on the number of threads.

`c` is the control block; its words are named below. A thread t has eight words in `part`.
"""

from __future__ import annotations

import math

from tawa.cuppl.natives.control import (
    ANCESTOR_MASK,
    CHUNK,
    COPYING,
    DEAD,
    DRAW_MASK,
    FAILED,
    FINISHED,
    FINISHED_FLAG,
    FUEL,
    GENERATION,
    HEADER,
    HEAP_END,
    HEAP_FULL,
    HEAP_NEXT,
    INTERRUPTED,
    LEAST_PATIENCE,
    LIMIT,
    LOG_Z,
    MOST_PATIENCE,
    NEED_ROOM,
    OTHER,
    OWN_PARTICLE,
    OWN_SITE,
    PARTICLES,
    PATH,
    PATIENCE,
    PORTION,
    REJECTED,
    RESAMPLED,
    RETAINED,
    RUNNING,
    SCALE,
    SEED_HIGH,
    SEED_LOW,
    SLEEPERS,
    SPINS,
    STACK_FULL,
    STATE,
    STEP,
    STOPPED,
    STREAM,
    THREADS,
    THRESHOLD,
    TOP_MASK,
    TURNS,
    WAITING,
    WIDTH,
)  # fmt: skip
from tawa.cuppl.natives.frames import restore_draw
from tawa.cuppl.natives.groups import run_group, taken_of
from tawa.cuppl.natives.weights import integer_weights, largest_weight, place_ancestors
from tawa.cuppl.numeric.addresses import address_of, int_of, words_of
from tawa.cuppl.numeric.elementary import log
from tawa.cuppl.numeric.philox import GROUP, GROUP_DRAWS, group_draws, next_uniform, philox_group
from tawa.cuppl.numeric.primitives import (
    Context,
    Floats,
    Ints,
    atomic_add,
    bits_of,
    float_of_bits,
    sleep_while,
    wake,
)
from tawa.cuppl.translation.native import external, native, outlined

INF = math.inf


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
        logw[p] = ctx.weight  # it goes on from where it waits
        return 1 << outcome
    own[OWN_SITE] = ctx.site
    own[OWN_PARTICLE] = p
    return -outcome


@native
def advance_alone(
    ctx: Context,
    c: Ints,
    first: int,
    last: int,
    done: int,
    made: int,
    sound: int,
    logw: Floats,
    parents: Ints,
    own: Ints,
) -> tuple[int, int, int]:
    """Run particles of a group that are not done, one after the other, after the copies due.

    Returns how many ran, a bit of what each waits for, or minus the first's failure, and how many
    are to go on.
    """
    copying = c[COPYING] == 1
    waiting = 0
    failed = 0
    ran = 0
    active = 0
    words = used_words(c, parents[first]) if copying else 0
    for p in range(first, last):
        if (done >> (p - first)) & 1 == 0:
            if copying:
                copy_state(c, p, parents[p], words)
                words = used_words(c, parents[min(p + 1, last - 1)])  # soon: it is here then
                logw[p] = 0.0
            state = address_of(c[STATE] + 8 * c[WIDTH] * p)
            if state[1] >> 32 == ctx.step and p < sound and failed == 0:
                ctx.ahead = group_draws(ctx, p - first)
                outcome = run_particle(ctx, c, p, made, state, c[LIMIT], logw[p])
                found = settle(ctx, c, p, state, logw, own, outcome)
                waiting = waiting | max(found, 0)
                failed = max(-found, 0)
                ran = ran + 1
                if p == 0:
                    start_step(ctx, c, ctx.step)  # a kept particle has draws of its own
            active = active + (1 if state[1] >= 0 else 0)
        elif copying:
            words = used_words(c, parents[min(p + 1, last - 1)])
    return ran, -failed if failed > 0 else waiting, active


@native
def advance_group(
    ctx: Context,
    c: Ints,
    mine: Ints,
    first: int,
    last: int,
    sound: int,
    logw: Floats,
    parents: Ints,
    own: Ints,
) -> tuple[int, int]:
    """Run a group's particles, together if that was worth it before.

    Returns a bit of what each waits for, or minus the first's failure, and how many are to go on.
    """
    patience = mine[PATIENCE]
    done = 0
    going = 0
    if patience > 0 and first >= c[RETAINED] and last <= sound:
        done, going = run_group(ctx, c, mine, first, last, logw, parents)
    found = 0
    ran = 0
    if done != (1 << (last - first)) - 1:
        made = 0
        if patience <= 0 and ctx.draw > 0:  # the particle before drew
            philox_group(ctx, first)
            made = GROUP_DRAWS
        ran, found, more = advance_alone(
            ctx, c, first, last, done, made, sound, logw, parents, own
        )  # fmt: skip
        going = going + more
    if patience > 0:  # eight together take as long as about three alone
        mine[PATIENCE] = min(patience + 3 - ran, MOST_PATIENCE)
    return found, going


@native
def advance(ctx: Context, c: Ints, t: int, logw: Floats, parents: Ints, part: Ints) -> None:
    """Run particles to the next suspension, after the copies that are due.

    Threads take portions as they go, when their own are done those of others: how long particles
    take differs a lot.
    """
    n = c[PARTICLES]
    threads = c[THREADS]
    portion = c[PORTION]
    best = -INF
    active = 0
    waiting = 0
    failed = 0
    sound = n  # of the particles before it, none has failed
    own = address_of(int_of(part) + 64 * t)
    mine = taken_of(c, t)
    mine[PATIENCE] = max(mine[PATIENCE], LEAST_PATIENCE)
    start_step(ctx, c, c[STEP])
    for turn in range(threads):
        owner = (t + turn) % threads  # its own first: their states are near
        taken = taken_of(c, owner)
        end = n * (owner + 1) // threads
        low = n * owner // threads + atomic_add(taken, 0, portion)
        while low < end:
            if c[STOPPED] != 0:
                failed = INTERRUPTED
                break
            high = min(low + portion, end)
            ctx.draw = 1  # it is likely that the first draws
            for first in range(low, high, 8):  # a group
                last = min(first + GROUP, high)
                found, going = advance_group(ctx, c, mine, first, last, sound, logw, parents, own)
                waiting = waiting | max(found, 0)
                if found < 0:
                    failed = -found
                    sound = own[OWN_PARTICLE]
                active = active + going
            best = max(best, float_of_bits(largest_weight(words_of(logw), low, high)))
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
    low = n * t // c[THREADS]
    high = n * (t + 1) // c[THREADS]
    scale = float_of_bits(c[SCALE])
    total, squares = integer_weights(logw, weights, low, high, best, scale)
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
    low = n * t // c[THREADS]
    high = n * (t + 1) // c[THREADS]
    place_ancestors(weights, parents, low, high, cumulative, total, n, u)


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
