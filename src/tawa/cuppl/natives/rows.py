"""Loops over the eight particles of a group that LLVM turns into vector instructions."""

from __future__ import annotations

import math

from tawa.cuppl.natives.control import ANCESTOR_MASK, FINISHED_FLAG, TOP_MASK
from tawa.cuppl.numeric.philox import GROUP
from tawa.cuppl.numeric.primitives import Ints, float_of_bits
from tawa.cuppl.translation.native import native, outlined, vectorised

INF = math.inf
ALL = (1 << GROUP) - 1
ROWS = -2 * GROUP  # words from the stacks: addresses of rows,
WEIGHTS = -GROUP  # weights,
TOP_OUT = -3 * GROUP  # and the top of the stacks in the end, in words of all lanes


@vectorised
@outlined
@native
def own_rows(stacks: Ints, start: int, width: int) -> None:
    """The rows of eight particles that follow each other, of so many bytes."""
    for slot in range(GROUP):
        stacks[ROWS + slot] = start + width * slot


@vectorised
@outlined
@native
def parents_rows(stacks: Ints, parents: Ints, start: int, width: int) -> None:
    """The rows of eight particles' parents."""
    for slot in range(GROUP):
        stacks[ROWS + slot] = start + width * parents[slot]


@vectorised
@outlined
@native
def ready_lanes(stacks: Ints, start: int, top: int) -> int:
    """A bit for each particle that waits for this step and has a stack of that height."""
    ready = 0
    for slot in range(GROUP):
        good = stacks[GROUP + slot] == start and stacks[slot] & TOP_MASK == top
        ready = ready + ((1 << slot) if good else 0)
    return ready


@vectorised
@outlined
@native
def settle_lanes(stacks: Ints, ready: int, header: int, top: int, following: int) -> int:
    """The first two words of particles that ran; returns a bit for each that is done."""
    done = 0
    for slot in range(GROUP):
        weight = float_of_bits(stacks[WEIGHTS + slot])
        lost = weight == -INF
        ancestor = stacks[slot] & ANCESTOR_MASK
        stacks[slot] = ancestor | (header if lost else top)
        stacks[GROUP + slot] = FINISHED_FLAG if lost else following
        done = done + ((1 << slot) if weight == weight else 0)
    return done & ready


@vectorised
@outlined
@native
def going_lanes(stacks: Ints, done: int) -> int:
    """How many of some particles are to go on."""
    going = 0
    for slot in range(GROUP):
        going = going + (((done >> slot) & 1) if stacks[GROUP + slot] >= 0 else 0)
    return going
