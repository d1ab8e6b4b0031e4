"""A run with given values that notes its observations.

A note is a site, a log density, a number of values (-1 for a value that is a number itself), the
values that were observed, and as many that were drawn from the same distribution.
"""

from __future__ import annotations

from tawa.cuppl.natives.importance import run_main
from tawa.cuppl.natives.tape import NOTE_ROOM, NOTED, NOTES, TAKEN
from tawa.cuppl.numeric.addresses import address_of, int_of
from tawa.cuppl.numeric.primitives import Context, Ints, bits_of
from tawa.cuppl.translation.native import native


@native
def note_begin(ctx: Context, site: int, density: float, count: int) -> int:
    """The address for the values of a note; 0 where there is no room."""
    m = address_of(ctx.trace)
    at = m[NOTED]
    m[NOTED] = at + 3 + 2 * max(count, -count)
    if m[NOTED] > m[NOTE_ROOM]:
        return 0
    note = address_of(m[NOTES] + 8 * at)
    note[0] = site
    note[1] = bits_of(density)
    note[2] = count
    return m[NOTES] + 8 * (at + 3)


@native
def note_words(ctx: Context, site: int, density: float, given: int, drawn: int) -> None:
    """Note a number."""
    address = note_begin(ctx, site, density, -1)
    if address != 0:
        values = address_of(address)
        values[0] = given
        values[1] = drawn


@native
def note_vectors(ctx: Context, site: int, density: float, given: int, drawn: int) -> None:
    """Note a vector, of its address."""
    count = address_of(given)[1]
    address = note_begin(ctx, site, density, count)
    if address != 0:
        values = address_of(address)
        ours = address_of(given + 16)
        others = address_of(drawn + 16)
        for k in range(count):
            values[k] = ours[k]
            values[count + k] = others[k]


@native
def run_noted(ctx: Context, m: Ints, out: int, fuel: int) -> int:
    """Run the program with the given values; what it observes is noted. Returns a status."""
    m[TAKEN] = 0
    m[NOTED] = 0
    ctx.trace = int_of(m)
    ctx.weight = 0.0
    ctx.depth = 0
    ctx.fuel = fuel
    ctx.status = 0
    ctx.memo = 0
    ctx.memo_count = 0
    ctx.heap = ctx.heap_start
    return run_main(ctx, out, 1)
