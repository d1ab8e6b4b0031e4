"""Loops over the weights of particles that LLVM turns into vector instructions."""

from __future__ import annotations

from tawa.cuppl.natives.control import NEGLIGIBLE
from tawa.cuppl.numeric.elementary import exp_normal
from tawa.cuppl.numeric.primitives import Floats, Ints, floor, int_in_range
from tawa.cuppl.translation.native import native, outlined, vectorised

MOST = (1 << 63) - 1


@vectorised
@outlined
@native
def largest_weight(logw: Ints, low: int, high: int) -> int:
    """The bits of the largest of some log weights, none of which is NaN."""
    # The order of floats is that of these integers, whose largest vectors find.
    best = -MOST
    for p in range(low, high):
        bits = logw[p]
        key = bits ^ ((bits >> 63) & MOST)
        best = max(best, key)
    return best ^ ((best >> 63) & MOST)


@vectorised
@outlined
@native
def integer_weights(
    logw: Floats, weights: Ints, low: int, high: int, best: float, scale: float
) -> tuple[int, int]:
    """Weights as integers, relative to the best: their sum, and the sum of their squares."""
    total = 0
    squares = 0
    for p in range(low, high):
        w = exp_normal(max(logw[p] - best, NEGLIGIBLE))
        weight = int_in_range(w * scale + 0.5)
        weights[p] = weight
        total = total + weight
        squares = squares + int_in_range(w * w * scale + 0.5)
    return total, squares


@native
def offspring_before(cumulative: int, total: int, particles: int, u: float) -> int:
    """How many of the points (k + u) / particles lie below a cumulative weight."""
    if cumulative >= total:
        return particles
    at = float(cumulative) * (float(particles) / float(total)) - u
    below = -floor(-at)
    return min(max(int_in_range(below), 0), particles)


@vectorised
@outlined
@native
def place_ancestors(
    weights: Ints,
    parents: Ints,
    low: int,
    high: int,
    before: int,
    total: int,
    particles: int,
    u: float,
) -> None:
    """Systematic resampling: the parents of those whose parents are in a range.

    `before` is the weight of what comes before the range.
    """  # fmt: skip
    after = before
    for p in range(low, high):
        after = after + weights[p]
    start = offspring_before(before, total, particles, u)
    end = offspring_before(after, total, particles, u)
    for child in range(start, end):
        parents[child] = low
    # The place of a parent's first child. One without children is overwritten by those that
    # follow; at the end, where none does, the place does not count.
    child = start
    for p in range(low, high):
        parents[child if child < end else particles] = p
        before = before + weights[p]
        child = offspring_before(before, total, particles, u)
    parent = low
    for child in range(start, end):
        parent = max(parent, parents[child])
        parents[child] = parent
