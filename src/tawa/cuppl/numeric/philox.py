"""Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011).

The key is the seed; the counter is (block of the draw, particle, step, stream). A draw is a pure
function of the five, so any particle's step can be replayed alone, on any machine.
"""

from __future__ import annotations

from ..native import inlined, native, outlined
from .addresses import address_of
from .primitives import Context, Ints, float_of_bits, shru

__all__ = ["next_bits", "next_uniform", "philox"]

MASK = 0xFFFFFFFF
MULTIPLIER_0 = 0xD2511F53
MULTIPLIER_1 = 0xCD9E8D57
WEYL_0 = 0x9E3779B9
WEYL_1 = 0xBB67AE85
ONE_BITS = 0x3FF << 52
ONE_MINUS_HALF_CELL = 1.0 - 2.0**-53


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


@outlined
@native
def philox_ahead(ctx: Context, first: int, out: Ints) -> None:
    """The draws of four blocks, which vector instructions can make at once: low, then high."""
    particle = ctx.particle & MASK
    step = ctx.step & MASK
    stream = ctx.stream & MASK
    key0 = ctx.key0 & MASK
    key1 = ctx.key1 & MASK
    for lane in range(4):
        low0, high0, low1, high1 = philox((first + lane) & MASK, particle, step, stream, key0, key1)
        out[lane] = low0 | (high0 << 32)
        out[lane + 4] = low1 | (high1 << 32)


@native
def next_bits_ahead(ctx: Context) -> int:
    """`next_bits`, eight draws at a time: for machines on which a lane waits for nobody."""
    draw = ctx.draw
    ctx.draw = draw + 1
    ahead = address_of(ctx.ahead)
    if draw & 7 == 0:
        philox_ahead(ctx, draw >> 1, ahead)
    return ahead[((draw & 1) << 2) | ((draw >> 1) & 3)]


@native
def uniform_of(bits: int) -> float:
    """The middle of the cell that 64 bits choose."""
    # They are the fraction of a float in [1, 2), from which the subtraction is exact.
    return float_of_bits(shru(bits, 12) | ONE_BITS) - ONE_MINUS_HALF_CELL


@native
def next_uniform(ctx: Context) -> float:
    """Uniform on the open interval (0, 1): the middles of 2^52 equal cells, all exact."""
    return uniform_of(next_bits(ctx))
