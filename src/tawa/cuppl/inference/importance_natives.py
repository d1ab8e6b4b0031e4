"""Likelihood weighting: every run goes straight through, and no thread waits for another."""

from __future__ import annotations

import math

from ..native import external, native
from ..numeric.primitives import Context, Floats, Ints
from .smc_natives import (
    FAILED_PARTICLE,
    FAILED_SITE,
    FAILED_STATUS,
    FUEL,
    HEAP_FULL,
    PARTICLES,
    REJECTED,
    SEED_HIGH,
    SEED_LOW,
    STACK_FULL,
    STATE,
    STREAM,
    THREADS,
    next_chunk,
)

INF = math.inf


@external
def run_main(ctx: Context, out: int, stride: int) -> int:
    """Run the program; its result words go to `out`. Returns a status, 0 if it came to its end."""
    raise NotImplementedError


@native
def run_once(ctx: Context, c: Ints, p: int) -> int:
    """One run from its beginning."""
    n = c[PARTICLES]
    ctx.key0 = c[SEED_LOW]
    ctx.key1 = c[SEED_HIGH]
    ctx.particle = p
    ctx.step = 0
    ctx.stream = c[STREAM]
    ctx.draw = 0
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
    for p in range(n * t // c[THREADS], n * (t + 1) // c[THREADS]):
        if logw[p] != logw[p] and failed == 0:
            start = ctx.heap
            status = run_once(ctx, c, p)
            if status == HEAP_FULL and next_chunk(ctx, c):
                start = ctx.heap
                status = run_once(ctx, c, p)
            if keep_heap == 0:
                ctx.heap = start
            if status == 0:
                logw[p] = ctx.weight
            elif status == REJECTED:
                logw[p] = -INF
            else:
                failed = status
                if status > STACK_FULL:
                    c[FAILED_STATUS] = status
                    c[FAILED_SITE] = ctx.site
                    c[FAILED_PARTICLE] = p
    part[8 * t] = failed
    return failed
