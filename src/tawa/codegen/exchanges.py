"""How a tile lies in shared memory while its threads exchange it: which dimension comes last."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np

from tawa.base.layout import LANES, Layout
from tawa.machine.chips import DEFAULT

BANKS, BANK_BYTES, WIDEST = DEFAULT.banks, DEFAULT.word, DEFAULT.copy_unit


def layouts_of_exchange(
    source: Layout, result: Layout, size: int
) -> tuple[tuple[int, ...], Layout, Layout]:
    """The order of a tile's dimensions in which it is exchanged in the least time.

    With it come the layouts of both sides in that order, whose registers run along the last
    dimension first if that is quicker. Their own order, unless another one is quicker.
    """
    found: list[tuple[tuple[int, ...], Layout, Layout]] = []
    for order in permutations(range(len(result.shape))):
        write, read = source.permuted(order), result.permuted(order)
        found += [(order, write, read), (order, along_last(write), along_last(read))]
    return min(found, key=lambda way: wavefronts(way[1], size) + wavefronts(way[2], size))


def along_last(layout: Layout) -> Layout:
    """The layout with registers in another order: neighbours along the last dimension first."""
    last = len(layout.shape) - 1
    of_last = sorted((m for m in layout.reg if m.dim == last), key=lambda m: m.stride)
    others = tuple(m for m in layout.reg if m.dim != last)
    return replace(layout, reg=(*of_last, *others))


def wavefronts(layout: Layout, size: int) -> int:
    """Times that a warp takes the banks to move its part of a tile, rows one after the other.

    Of each access, every bank gives one word at a time; lanes that want the same word share it.
    """
    last = len(layout.shape) - 1
    width = min(layout.vector(last), max(1, WIDEST // size))
    while layout.vector(last) % width:
        width //= 2
    where = layout.coordinates[:LANES, ::width]
    steps = np.cumprod([1, *reversed(layout.shape[1:])])[::-1]
    first = (where @ steps) * size // BANK_BYTES
    words = first[..., None] + np.arange(max(1, width * size // BANK_BYTES))
    total = 0
    for access in range(words.shape[1]):
        wanted = np.unique(words[:, access])
        total += int(np.bincount(wanted % BANKS).max())
    return total
