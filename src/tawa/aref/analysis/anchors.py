"""Addresses and masks that are computed for some registers of a thread, and known of the others.

A thread holds many elements of a tile of addresses, and most of them lie at distances that are
known now: `base + row * stride + column` for its columns 0, 32, 64 ... One sum is enough, and the
distances become immediate offsets of the accesses. Of a mask, elements in a row are often equal:
one comparison answers for all elements that one access moves.
"""

from __future__ import annotations

import numpy as np

from tawa.base.layout import Layout
from tawa.base.numerics import Array
from tawa.tile.analysis.axis_info import AxisInfo


def known_from(info: AxisInfo, layout: Layout) -> tuple[list[int], list[int]]:
    """For each register one that decides it, and how much greater it is than that one."""
    places = layout.offsets(layout.reg)
    key, step = places.copy(), np.zeros_like(places)
    for dim in range(len(layout.shape)):
        grows = info.contiguous[dim] > info.constant[dim]
        run = info.contiguous[dim] if grows else info.constant[dim]
        run &= -run
        if not _stays(layout, dim, run):
            continue
        key[:, dim] //= run
        if grows:
            step[:, dim] = places[:, dim]
    first: dict[tuple[int, ...], int] = {}
    anchors = [first.setdefault(tuple(k), i) for i, k in enumerate(key.tolist())]
    distances = step.sum(axis=1)
    return anchors, [int(d - distances[a]) for d, a in zip(distances, anchors, strict=True)]


def _stays(layout: Layout, dim: int, run: int) -> bool:
    """Whether registers of one run are of one run whatever thread holds them."""
    threads: Array = layout.offsets((*layout.lane, *layout.warp))[:, dim]
    own: Array = layout.offsets(layout.reg)[:, dim]
    return int((threads % run).max()) + int((own % run).max()) < run
