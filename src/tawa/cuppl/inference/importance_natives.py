"""Likelihood weighting: every run goes straight through, and no thread waits for another."""

from __future__ import annotations

import math

from ..native import external, native
from ..numeric.philox import GROUP, group_draws
from ..numeric.primitives import Context, Floats, Ints
from .smc_natives import (
    FUEL,
    HEAP_FULL,
    OWN_PARTICLE,
    OWN_SITE,
    PARTICLES,
    REJECTED,
    STATE,
    THREADS,
    next_chunk,
    prepare_draws,
    start_step,
)

INF = math.inf


@external
def run_main(ctx: Context, out: int, stride: int) -> int:
    """Run the program; its result words go to `out`. Returns a status, 0 if it came to its end."""
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
def importance_thread(
    ctx: Context, c: Ints, t: int, logw: Floats, part: Ints, keep_heap: int
) -> int:
    """Run this thread's particles that are not done (their weight is NaN)."""
    n = c[PARTICLES]
    failed = 0
    start_step(ctx, c, 0)
    made = 0
    low = n * t // c[THREADS]
    for p in range(low, n * (t + 1) // c[THREADS]):
        slot = (p - low) % GROUP
        made = prepare_draws(ctx, p, slot, p == low, made)
        if logw[p] != logw[p] and failed == 0:
            start = ctx.heap
            ctx.ahead = group_draws(ctx, slot)
            status = run_with_draws(ctx, c, p, made)
            if status == HEAP_FULL and next_chunk(ctx, c):
                start = ctx.heap
                status = run_with_draws(ctx, c, p, 0)
            if keep_heap == 0:
                ctx.heap = start
            if status == 0:
                logw[p] = ctx.weight
            elif status == REJECTED:
                logw[p] = -INF
            else:
                failed = status
                part[8 * t + OWN_SITE] = ctx.site
                part[8 * t + OWN_PARTICLE] = p
    part[8 * t] = failed
    return failed
