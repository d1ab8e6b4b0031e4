"""Rows beside a larger tile: loaded by each thread that needs them, or once and exchanged.

A row's elements may lie anywhere in memory, so that each takes a line of the cache to itself. Lanes
that want the same element share it; registers and warps do not.
"""

from __future__ import annotations

import math

import numpy as np

from tawa.base.layout import LANES, Layout
from tawa.machine.chips import DEFAULT

WIDEST = DEFAULT.copy_unit
BARRIER = DEFAULT.costs.barrier


def pays_to_share(wanted: Layout, own: Layout, size: int) -> bool:
    """Whether a row of elements of `size` bytes is loaded in `own` and exchanged to be `wanted`.

    Counted in accesses to the cache and to shared memory, of all warps, and a barrier's cycles.
    """
    reads = wanted.registers / math.gcd(wanted.vector(0), WIDEST // size)
    shared = (lines(own) + own.registers + reads) * own.warps + BARRIER
    return lines(wanted) * wanted.warps > shared


def lines(layout: Layout) -> int:
    """Lines of the cache that a warp's loads of a row touch, if no two elements share one."""
    where = layout.coordinates[:LANES, :, 0]
    return sum(len(np.unique(where[:, i])) for i in range(where.shape[1]))
