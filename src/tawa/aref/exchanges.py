"""How a tile lies in shared memory while its threads exchange it: as it is, or transposed."""

from __future__ import annotations

import numpy as np

from tawa.base.layout import LANES, Layout

BANKS, BANK_BYTES, WIDEST = 32, 4, 16


def turns(source: Layout, result: Layout, size: int) -> bool:
    """Whether a tile of two dimensions is exchanged in less time if it lies transposed."""
    as_it_is = wavefronts(source, size) + wavefronts(result, size)
    swapped = (layout.permuted((1, 0)) for layout in (source, result))
    return sum(wavefronts(layout, size) for layout in swapped) < as_it_is


def wavefronts(layout: Layout, size: int) -> int:
    """Times that a warp takes the banks to move its part of a tile, rows one after the other.

    Of each access, every bank gives one word at a time; lanes that want the same word share it.
    """
    columns = layout.shape[1]
    width = min(layout.vector(1), max(1, WIDEST // size))
    while layout.vector(1) % width:
        width //= 2
    where = layout.coordinates[:LANES, ::width]
    first = (where[..., 0] * columns + where[..., 1]) * size // BANK_BYTES
    words = first[..., None] + np.arange(max(1, width * size // BANK_BYTES))
    total = 0
    for access in range(words.shape[1]):
        wanted = np.unique(words[:, access])
        total += int(np.bincount(wanted % BANKS).max())
    return total
