"""How a tile lies in shared memory while its threads exchange it: which dimension comes last."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import permutations

import numpy as np
import numpy.typing as npt

from tawa.base.layout import LANES, Layout
from tawa.machine.chips import DEFAULT

IntArray = npt.NDArray[np.int64]

BANKS, BANK_BYTES, WIDEST = DEFAULT.banks, DEFAULT.word, DEFAULT.copy_unit


Order = tuple[int, ...]
"""A tile's dimensions, the last one contiguous."""

MANY_DIMENSIONS = 8
"""Dimensions from which on not all orders are looked at, 40320 of them: those of the last three."""


@cache
def layouts_of_exchange(source: Layout, result: Layout, size: int) -> tuple[Order, Layout, Layout]:
    """The order of a tile's dimensions in which it is exchanged in the least time.

    With it come the layouts of both sides in that order, whose registers run along the last
    dimension first if that is quicker. Their own order, unless another one is quicker.
    """
    orders = _orders(len(source.shape))
    times = np.zeros((len(orders), 2), np.int64)
    for last in range(len(source.shape)):
        own = [i for i, order in enumerate(orders) if order[-1] == last]
        steps = np.stack([_steps(source.shape, orders[i]) for i in own], axis=1)
        for layout in (source, result):
            for way, known in enumerate((layout, _along(layout, last))):
                times[own, way] += _wavefronts(known, last, steps, size)
    number, along = divmod(int(times.argmin()), 2)
    order = orders[number]
    write, read = source.permuted(order), result.permuted(order)
    return (order, along_last(write), along_last(read)) if along else (order, write, read)


def _orders(rank: int) -> list[Order]:
    """All orders, their own first; of many dimensions those that differ in the last three."""
    if rank < MANY_DIMENSIONS:
        return list(permutations(range(rank)))
    ends = permutations(range(rank), 3)
    found = [(*(d for d in range(rank) if d not in end), *end) for end in ends]
    return sorted(found)


def _steps(shape: tuple[int, ...], order: Order) -> IntArray:
    """How far apart neighbours along each dimension are, rows one after the other in an order."""
    steps = np.ones(len(shape), np.int64)
    steps[list(order[-2::-1])] = np.cumprod([shape[d] for d in order[:0:-1]])
    return steps


def along_last(layout: Layout) -> Layout:
    """The layout with registers in another order: neighbours along the last dimension first."""
    return _along(layout, len(layout.shape) - 1)


def _along(layout: Layout, dim: int) -> Layout:
    own = sorted((m for m in layout.reg if m.dim == dim), key=lambda m: m.stride)
    return replace(layout, reg=(*own, *(m for m in layout.reg if m.dim != dim)))


def wavefronts(layout: Layout, size: int) -> int:
    """Times that a warp takes the banks to move its part of a tile, rows one after the other.

    Of each access, every bank gives one word at a time; lanes that want the same word share it.
    """
    own = tuple(range(len(layout.shape)))
    return int(_wavefronts(layout, own[-1], _steps(layout.shape, own)[:, None], size)[0])


def _wavefronts(layout: Layout, last: int, steps: IntArray, size: int) -> IntArray:
    """The wavefronts where dimensions lie in other orders: a column of steps for each.

    One after the other in all of them is the dimension `last`.
    """
    width = min(layout.vector(last), max(1, WIDEST // size))
    while layout.vector(last) % width:
        width //= 2
    first: IntArray = (layout.coordinates[:LANES, ::width] @ steps) * size // BANK_BYTES
    words = first + np.arange(max(1, width * size // BANK_BYTES))[:, None, None, None]
    held: IntArray = np.sort(words.reshape(-1, first[0].size), axis=0)
    new = np.ones(held.shape, bool)
    new[1:] = held[1:] != held[:-1]
    number: IntArray = np.arange(held.size) % held.shape[1]
    banks = BANKS * number.reshape(held.shape)[new] + held[new] % BANKS
    wanted = np.bincount(banks, minlength=BANKS * held.shape[1]).reshape(-1, BANKS).max(axis=1)
    return wanted.reshape(first.shape[1:]).sum(axis=0)
