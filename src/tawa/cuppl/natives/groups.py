"""Particles of SMC that run eight at a time, from one suspension to the next.

Their words are put side by side, run together (`lowering/machine.py`, segments), and go back into a
row of each particle's own. Whatever can't go on together runs alone, from where it was: nothing of
it was changed.
"""

from __future__ import annotations

from tawa.cuppl.natives.control import (
    CONTROL_WORDS,
    COPYING,
    FINISHED_FLAG,
    FUEL,
    HEADER,
    NOBODY,
    OTHER,
    PARTICLES,
    ROOM,
    SPARE_ROW,
    STACKS,
    STATE,
    STEP,
    TOP_MASK,
    WIDTH,
)
from tawa.cuppl.natives.rows import (
    ALL,
    ROWS,
    TOP_OUT,
    WEIGHTS,
    expect_rows,
    gather_block,
    going_lanes,
    own_rows,
    parents_rows,
    ready_lanes,
    scatter_block,
    settle_lanes,
)  # fmt: skip
from tawa.cuppl.numeric.addresses import address_of, int_of
from tawa.cuppl.numeric.philox import GROUP
from tawa.cuppl.numeric.primitives import Context, Floats, Ints, bits_of, float_of_bits
from tawa.cuppl.translation.native import external, native

AHEAD = 4 * GROUP
"""How far ahead of those that run particles' words are asked for."""


@external
def run_segment(ctx: Context, stacks: int, top: int, limit: int) -> int:
    """Run eight particles to their next suspension (0), or their end (-1).

    Weights of those that have to run alone are NaN then: all, if it returns a status (> 0).
    """
    raise NotImplementedError


@native
def taken_of(c: Ints, t: int) -> Ints:
    """Where it is counted how many of a thread's particles are taken."""
    return address_of(int_of(c) + 8 * CONTROL_WORDS + 64 * t)


@native
def note_rows(ctx: Context, c: Ints, stacks: Ints, first: int, last: int, parents: Ints) -> None:
    """Note where the words of a group's particles are; places that are left have the last's."""
    width = 8 * c[WIDTH]
    count = last - first
    if c[COPYING] == 1:
        if count == GROUP:
            own = int_of(parents) + 8 * first
            parents_rows(ctx, int_of(stacks), own, c[OTHER], width)
            later = min(first + AHEAD, c[PARTICLES] - GROUP)
            expect_rows(ctx, int_of(parents) + 8 * later, c[OTHER], width)
        else:
            for slot in range(GROUP):
                parent = parents[first + min(slot, count - 1)]
                stacks[ROWS + slot] = c[OTHER] + width * parent
    else:
        own_rows(ctx, int_of(stacks), c[STATE] + width * first, width)
        for slot in range(count, GROUP):
            stacks[ROWS + slot] = stacks[ROWS + count - 1]


@native
def note_weights(c: Ints, stacks: Ints, first: int, last: int, logw: Floats) -> None:
    """The weights of a group's particles."""
    for slot in range(GROUP):
        stacks[WEIGHTS + slot] = 0
    if c[COPYING] == 0:
        for slot in range(last - first):
            stacks[WEIGHTS + slot] = bits_of(logw[first + slot])


@native
def choose_lanes(ctx: Context, c: Ints, stacks: Ints, count: int) -> tuple[int, int]:
    """A bit for each particle that can run with the first that is ready, and their top.

    The first words of all are side by side then. Those that can't get the words of that first.
    """
    start = c[STEP] << 32
    lead = 0
    while lead < count and stacks[GROUP + lead] != start:
        lead = lead + 1
    if lead == count:
        return 0, 0
    top = stacks[lead] & TOP_MASK
    ready = ready_lanes(ctx, int_of(stacks), start, top) & ((1 << count) - 1)
    if ready != ALL:
        for slot in range(GROUP):
            if (ready >> slot) & 1 == 0:
                stacks[ROWS + slot] = stacks[ROWS + lead]
        gather_block(ctx, int_of(stacks) + 8 * ROWS, int_of(stacks), 0)
    return ready, top


@native
def put_back(
    ctx: Context, c: Ints, mine: Ints, first: int, done: int, top: int, logw: Floats
) -> None:
    """Put words and weights where they belong; those of particles that are not done nowhere."""
    stacks = address_of(mine[STACKS])
    width = 8 * c[WIDTH]
    own_rows(ctx, int_of(stacks), c[STATE] + width * first, width)
    if done == ALL:
        for slot in range(GROUP):
            logw[first + slot] = float_of_bits(stacks[WEIGHTS + slot])
    else:
        for slot in range(GROUP):
            if (done >> slot) & 1 == 1:
                logw[first + slot] = float_of_bits(stacks[WEIGHTS + slot])
            else:
                stacks[ROWS + slot] = mine[SPARE_ROW]
    for block in range(0, 8 * top, 64):
        scatter_block(ctx, int_of(stacks) + 8 * ROWS, int_of(stacks), block)


@native
def run_group(
    ctx: Context, c: Ints, mine: Ints, first: int, last: int, logw: Floats, parents: Ints
) -> tuple[int, int]:
    """Run particles together as far as they can.

    Returns a bit for each that is done, and how many of those are to go on.
    """
    stacks = address_of(mine[STACKS])
    note_rows(ctx, c, stacks, first, last, parents)
    gather_block(ctx, int_of(stacks) + 8 * ROWS, int_of(stacks), 0)
    ready, top = choose_lanes(ctx, c, stacks, last - first)
    if ready == 0 or top > mine[ROOM]:
        return 0, 0
    for block in range(64, 8 * top, 64):
        gather_block(ctx, int_of(stacks) + 8 * ROWS, int_of(stacks), block)
    note_weights(c, stacks, first, last, logw)
    ctx.particle = first
    ctx.draw = 0
    ctx.fuel = c[FUEL]
    ctx.status = 0
    outcome = run_segment(ctx, mine[STACKS], GROUP * top, GROUP * mine[ROOM])
    if outcome > 0:
        return 0, 0
    height = c[HEADER] if outcome == NOBODY else stacks[TOP_OUT] // GROUP
    following = FINISHED_FLAG if outcome < 0 else (c[STEP] + 1) << 32
    done = settle_lanes(ctx, mine[STACKS], ready, c[HEADER], height, following)
    going = going_lanes(ctx, mine[STACKS], done)
    put_back(ctx, c, mine, first, done, height, logw)
    return done, going
