"""Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).

The key is the seed; the counter is (block of the draw, particle, step, stream). A draw is a pure
function of the five, so any particle's step can be replayed alone, on any machine.
"""

from __future__ import annotations

from tawa.cuppl.numeric.addresses import address_of
from tawa.cuppl.numeric.primitives import Context, float_of_bits, shru, swap_halves
from tawa.cuppl.translation.native import inlined, native, outlined, vectorised

__all__ = ["next_bits", "next_uniform", "philox"]

MASK = 0xFFFFFFFF
MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85
ONE_BITS = 0x3FF << 52
ONE_MINUS_HALF_CELL = 1.0 - 2.0**-53
LANES = 32
"""Draws that are made ahead lie in two rows of this many: those of low halves of blocks, then those
of high halves."""

AHEAD = 8
"""Blocks that are made ahead for one particle."""

GROUP = 8
"""Particles whose first draws are made together."""

GROUP_DRAWS = 8
"""Draws that each of them gets."""

ROOM_WORDS = 4 * LANES
"""Room for the draws of one particle, and after it for those of a group."""


@inlined
@native
def philox(c0: int, c1: int, c2: int, c3: int, k0: int, k1: int) -> tuple[int, int, int, int]:
    """Ten rounds on four counter words and two key words (each in 0..2^32-1)."""
    for _round in range(10):
        p0 = MULTIPLIER_0 * c0
        p1 = MULTIPLIER_1 * c2
        c0 = ((p1 >> 32) & MASK) ^ c1 ^ k0
        c2 = ((p0 >> 32) & MASK) ^ c3 ^ k1
        c1 = p1 & MASK
        c3 = p0 & MASK
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return c0, c1, c2, c3


@native
def philox_block(ctx: Context, block: int) -> tuple[int, int]:
    """The two 64-bit draws of one block of the current particle, step and stream."""
    # The masks change nothing; they tell compilers that products are of 32-bit words.
    low0, high0, low1, high1 = philox(
        block & MASK, ctx.particle & MASK, ctx.step & MASK, ctx.stream & MASK,
        ctx.key0 & MASK, ctx.key1 & MASK,
    )  # fmt: skip
    return low0 | (high0 << 32), low1 | (high1 << 32)


@native
def next_bits(ctx: Context) -> int:
    """The next 64 random bits of this particle's step."""
    draw = ctx.draw
    ctx.draw = draw + 1
    if draw & 1 == 1:
        return ctx.spare
    first, second = philox_block(ctx, draw >> 1)
    ctx.spare = second
    return first


@inlined
@native
def philox_lane(c0: int, c1: int, c2: int, k0: int, k1: int, c3: int) -> tuple[int, int]:
    """The two draws of a block, as one of many lanes of a vector.

    Products take the lower halves of words, so what is in the upper halves need not be cleared.
    """
    for _round in range(9):
        p0 = MULTIPLIER_0 * (c0 & MASK)
        p1 = MULTIPLIER_1 * (c2 & MASK)
        c0 = shru(p1, 32) ^ c1 ^ k0
        c2 = shru(p0, 32) ^ c3 ^ k1
        c1 = p1
        c3 = p0
        k0 = k0 + WEYL_0
        k1 = k1 + WEYL_1
    # In the last round, what is the lower half of a product becomes the upper half of a draw.
    low = swap_halves(MULTIPLIER_1 * (c2 & MASK)) ^ ((c1 ^ k0) & MASK)
    high = swap_halves(MULTIPLIER_0 * (c0 & MASK)) ^ ((c3 ^ k1) & MASK)
    return low, high


@vectorised
@outlined
@native
def philox_ahead(ctx: Context, draw: int) -> None:
    """Make the draws of sixteen blocks, which vector instructions can make at once."""
    block = draw >> 1
    out = address_of(ctx.room)
    particle = ctx.particle
    step = ctx.step
    stream = ctx.stream
    key0 = ctx.key0
    key1 = ctx.key1
    for lane in range(AHEAD):
        low, high = philox_lane(block + lane, particle, step, key0, key1, stream)
        out[lane] = low
        out[lane + LANES] = high
    ctx.ahead = ctx.room - 8 * block
    ctx.made = 2 * (block + AHEAD)


@vectorised
@outlined
@native
def philox_group(ctx: Context, first: int) -> None:
    """Make the first eight draws of eight particles: no block waits for another."""
    out = address_of(group_draws(ctx, 0))
    step = ctx.step
    stream = ctx.stream
    key0 = ctx.key0
    key1 = ctx.key1
    for lane in range(LANES):
        low, high = philox_lane(lane & 3, first + (lane >> 2), step, key0, key1, stream)
        out[lane] = low
        out[lane + LANES] = high


@native
def group_draws(ctx: Context, slot: int) -> int:
    """Where the draws of a particle of a group lie."""
    return ctx.room + 16 * LANES + 32 * slot


@native
def next_bits_ahead(ctx: Context) -> int:
    """`next_bits`, many draws at a time: for machines on which a lane waits for nobody."""
    draw = ctx.draw
    ctx.draw = draw + 1
    if draw >= ctx.made:
        philox_ahead(ctx, draw)
    return address_of(ctx.ahead)[(draw >> 1) + ((draw & 1) << 5)]


@native
def next_bits_together(ctx: Context) -> int:
    """`next_bits` of eight particles that make their draws at the same time."""
    draw = ctx.draw
    ctx.draw = draw + 1
    if draw & 1 == 1:
        return ctx.spare
    first, second = philox_lane(
        draw >> 1, ctx.particle, ctx.step, ctx.key0, ctx.key1, ctx.stream
    )  # fmt: skip
    ctx.spare = second
    return first


@native
def next_bits_apart(ctx: Context) -> int:
    """`next_bits` of eight particles, of which some may make a draw and others not."""
    draw = ctx.draw
    ctx.draw = draw + 1
    first, second = philox_lane(
        draw >> 1, ctx.particle, ctx.step, ctx.key0, ctx.key1, ctx.stream
    )  # fmt: skip
    return second if draw & 1 == 1 else first


@native
def uniform_of(bits: int) -> float:
    """The middle of the cell that 64 bits choose."""
    # They are the fraction of a float in [1, 2), from which the subtraction is exact.
    return float_of_bits(shru(bits, 12) | ONE_BITS) - ONE_MINUS_HALF_CELL


@native
def next_uniform(ctx: Context) -> float:
    """Uniform on the open interval (0, 1): the middles of 2^52 equal cells, all exact."""
    return uniform_of(next_bits(ctx))
