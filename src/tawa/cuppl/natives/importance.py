"""Likelihood weighting: every run goes straight through, and no thread waits for another."""

from __future__ import annotations

import math

from tawa.cuppl.natives.control import (
    FUEL,
    HEAP_FULL,
    OWN_PARTICLE,
    OWN_SITE,
    PARTICLES,
    REJECTED,
    STATE,
    STOPPED,
    THREADS,
)
from tawa.cuppl.natives.smc import next_chunk, start_step
from tawa.cuppl.numeric.addresses import address_of, int_of
from tawa.cuppl.numeric.philox import GROUP, GROUP_DRAWS, group_draws, philox_group
from tawa.cuppl.numeric.primitives import Context, Floats, Ints
from tawa.cuppl.translation.native import external, native

INF = math.inf
PATIENCE = 64
"""How long particles that had to run alone make it worth no more to run them together."""


@external
def run_main(ctx: Context, out: int, stride: int) -> int:
    """Run the program; its result words go to `out`. Returns a status, 0 if it came to its end."""
    raise NotImplementedError


@external
def run_lanes(ctx: Context, out: int, stride: int, logw: Floats) -> int:
    """Run the programs of `ctx.particle` and the seven that follow; -1 if that can't be done.

    The weights of those that have to run alone stay NaN.
    """
    raise NotImplementedError


@native
def run_once(ctx: Context, c: Ints, p: int) -> int:
    """One run from its beginning."""
    start_step(ctx, c, 0)
    return run_with_draws(ctx, c, p, 0)


@native
def run_with_draws(ctx: Context, c: Ints, p: int, made: int) -> int:
    """One run from its beginning, for which some draws are made already."""
    n = c[PARTICLES]
    ctx.particle = p
    ctx.draw = 0
    ctx.made = made
    ctx.weight = 0.0
    ctx.depth = 0
    ctx.fuel = c[FUEL]
    ctx.status = 0
    ctx.memo = 0
    ctx.memo_count = 0
    return run_main(ctx, c[STATE] + 8 * p, n)


@native
def unfinished(logw: Floats, first: int, last: int) -> int:
    """How many of some particles are not done: their weight is NaN."""
    count = 0
    for p in range(first, last):
        count = count + (1 if logw[p] != logw[p] else 0)
    return count


@native
def run_together(ctx: Context, c: Ints, first: int, logw: Floats) -> int:
    """Run a group's particles at once; returns how many of them have to run alone, or -1."""
    ctx.particle = first
    ctx.draw = 0
    ctx.fuel = c[FUEL]
    if run_lanes(ctx, c[STATE], c[PARTICLES], logw) < 0:
        return -1
    return unfinished(logw, first, first + GROUP)


@native
def run_alone(
    ctx: Context, c: Ints, p: int, made: int, logw: Floats, own: Ints, keep_heap: int
) -> int:
    """Run one particle, some of whose draws are made; returns its failure, or 0."""
    start = ctx.heap
    status = run_with_draws(ctx, c, p, made)
    if status == HEAP_FULL and next_chunk(ctx, c):
        start = ctx.heap
        status = run_with_draws(ctx, c, p, 0)
    if keep_heap == 0:
        ctx.heap = start
    if status == 0:
        logw[p] = ctx.weight
        return 0
    if status == REJECTED:
        logw[p] = -INF
        return 0
    own[OWN_SITE] = ctx.site
    own[OWN_PARTICLE] = p
    return status


@native
def importance_thread(
    ctx: Context, c: Ints, t: int, logw: Floats, part: Ints, keep_heap: int
) -> int:
    """Run this thread's particles that are not done (their weight is NaN)."""
    n = c[PARTICLES]
    failed = 0
    start_step(ctx, c, 0)
    own = address_of(int_of(part) + 64 * t)
    first = n * t // c[THREADS]
    high = n * (t + 1) // c[THREADS]
    patience = PATIENCE
    while first < high and failed == 0 and c[STOPPED] == 0:
        last = min(first + GROUP, high)
        left = unfinished(logw, first, last)
        made = 0
        if patience > 0 and left == GROUP:
            start = ctx.heap
            left = run_together(ctx, c, first, logw)
            # Eight together take as long as about three alone.
            patience = min(patience + 3 - left, PATIENCE) if left >= 0 else 0
            if keep_heap == 0:
                ctx.heap = start
        if left != 0 and patience == 0:
            philox_group(ctx, first)
            made = GROUP_DRAWS
        for p in range(first, last if left != 0 else first):
            if logw[p] != logw[p] and failed == 0:
                ctx.ahead = group_draws(ctx, p - first)
                failed = run_alone(ctx, c, p, made, logw, own, keep_heap)
        first = last
    own[0] = failed
    return failed
