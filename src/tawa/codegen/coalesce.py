"""Stores whose registers lie across memory: exchanged first, so that they fill whole sectors.

A tile that was loaded along its rows and transposed has neighbours of memory in different lanes and
registers, and every element would be a store of its own. Through shared memory it gets a layout in
which each row of memory takes whole sectors of 32 bytes, and a warp's lanes lie in several rows:
what they read of shared memory is then spread over its banks. Sums of products fill sectors as they
are, by pairs of f32 in four lanes; lanes exchange them all the same, since half as many stores, of
16 bytes a thread, look half as many lines up.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tawa.base.layout import LANES, REPLICA, Layout, Mode
from tawa.base.types import byte_size, element_of, shape_of
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.lane_swaps import PAIRED, lane_swaps, modes, steps
from tawa.machine.chips import SM_90A
from tawa.tile.analysis.axis_info import fastest
from tawa.tile.dialect.ops import Store

SECTOR = SM_90A.sector
"""Bytes that memory moves at least."""
LINE = SM_90A.line
"""Bytes that are looked up at once."""
SEGMENT = 2 * SECTOR
"""Bytes of a row of memory that a warp stores at once."""
WORTH = SM_90A.thresholds.exchange_gain
"""How many times as many sectors a store has to touch before an exchange pays."""
WORTH_OF_SHUFFLES = SM_90A.thresholds.shuffle_gain
"""The same for exchanges between the lanes of a warp."""
WORTH_OF_LINES = SM_90A.thresholds.line_gain
"""The same for lines of memory, of stores that touch no sector more than they have to."""
MOST_BYTES = SM_90A.thresholds.exchange_bytes
"""Shared memory that an exchange may take."""


def store_layout(g: GroupLowering, op: Store, layout: Layout) -> Layout:
    """The layout in which to store a tile that has another one: its own, or one of whole sectors.

    Only tiles whose pointers and mask are made in any layout change theirs. A thread's registers
    take another order; tiles of two dimensions are exchanged: through shared memory in kernels of
    one role (rings need that of others), else by shuffles.
    """
    shape, size = shape_of(op.value.type), byte_size(element_of(op.value.type))
    others = [v for v in (op.ptr, op.mask) if v is not None]
    if not all(g.layouts.lazy(v) for v in others):
        return layout
    dim, vector = fastest(g.layouts.axes, op.ptr)
    layout = in_order(layout, dim, vector)
    if len(shape) != 2:
        return layout
    own = sectors(layout, dim, vector, size)
    if g.kernel.only_group and math.prod(shape) * size <= MOST_BYTES:
        wanted = segments(shape, g.warps, dim, vector, size)
        if wanted is not None and own >= WORTH * sectors(wanted, dim, vector, size):
            return wanted
    while vector > layout.vector(dim):
        near = gathered(layout, dim, vector, size)
        if near is not None and lane_swaps(layout, near, size) is not None:
            enough = own >= WORTH_OF_SHUFFLES * sectors(near, dim, vector, size)
            fewer = own >= sectors(near, dim, vector, size) and lines(
                layout, dim, vector, size
            ) >= WORTH_OF_LINES * lines(near, dim, vector, size)
            return near if enough or fewer else layout
        vector //= 2  # a warp's share of a row may be too short for the widest store
    return layout


def in_order(layout: Layout, dim: int, vector: int) -> Layout:
    """The layout with up to `vector` neighbours that a thread holds anyway one after the other."""
    registers = steps(layout.reg)
    if registers is None:
        return layout
    first: list[tuple[int, int]] = []
    while 2 << len(first) <= vector and (dim, 1 << len(first)) in registers:
        first.append((dim, 1 << len(first)))
    if 1 << len(first) <= layout.vector(dim):
        return layout
    return replace(layout, reg=modes([*first, *(s for s in registers if s not in first)]))


def gathered(layout: Layout, dim: int, vector: int, size: int) -> Layout | None:
    """The layout whose threads hold `vector` neighbours, by bits that lanes and registers exchange.

    Registers along the dimension are given first, then others; of words that hold two elements
    across memory, the neighbour in the word before all. None if the extents are no powers of two,
    or if a thread holds too little.
    """
    registers, lanes = steps(layout.reg), steps(layout.lane)
    if registers is None or lanes is None or vector & (vector - 1):
        return None
    first = [(dim, 1 << bit) for bit in range(vector.bit_length() - 1)]
    for step in first:
        if step in registers:
            continue
        turned = size == PAIRED and step == first[0]
        along = [s for s in registers if s[0] == dim and s[1] >= vector]
        spare = registers[:1] if turned else along or [s for s in registers if s[0] != dim]
        if step not in lanes or not spare:
            return None
        given = min(spare)
        lanes[lanes.index(step)], registers[registers.index(given)] = given, step
    registers = [*first, *(s for s in registers if s not in first)]
    return replace(layout, reg=modes(registers), lane=modes(lanes))


def segments(shape: tuple[int, ...], warps: int, dim: int, vector: int, size: int) -> Layout | None:
    """A layout of `vector` elements a thread and a few lanes along `dim`; None if none fits."""
    other = 1 - dim
    along = min(shape[dim] // vector, max(1, SEGMENT // (vector * size)), LANES)
    across = min(LANES // along, shape[other])
    left = {dim: shape[dim] // (vector * along), other: shape[other] // across}
    if vector * along * left[dim] != shape[dim] or across * left[other] != shape[other]:
        return None
    if along * across != LANES or left[dim] * left[other] % warps:
        return None
    of_rows = math.gcd(warps, left[other])
    of_columns = warps // of_rows
    if left[dim] % of_columns:
        return None
    lane = (Mode(along, dim, vector), Mode(across, other, 1))
    warp = (Mode(of_rows, other, across), Mode(of_columns, dim, vector * along))
    rest = (
        Mode(left[other] // of_rows, other, across * of_rows),
        Mode(left[dim] // of_columns, dim, vector * along * of_columns),
    )
    reg = tuple(m for m in (Mode(vector, dim, 1), *rest) if m.extent > 1)
    return Layout(
        shape,
        reg,
        tuple(m for m in lane if m.extent > 1),
        tuple(m for m in warp if m.extent > 1) or (Mode(warps, REPLICA, 0),),
    )


def sectors(layout: Layout, dim: int, vector: int, size: int) -> int:
    """Sectors that the stores of a warp touch, each instruction for itself."""
    vector = _stored_at_once(layout, dim, vector)
    return max(1, vector * size // SECTOR) * _parts(layout, dim, vector, size, SECTOR)


def lines(layout: Layout, dim: int, vector: int, size: int) -> int:
    """Lines that the stores of a warp touch, each instruction for itself."""
    return _parts(layout, dim, _stored_at_once(layout, dim, vector), size, LINE)


def _stored_at_once(layout: Layout, dim: int, vector: int) -> int:
    held = layout.vector(dim)
    while vector > 1 and held % vector:
        vector //= 2
    return vector


def _parts(layout: Layout, dim: int, vector: int, size: int, part: int) -> int:
    """Runs of `part` bytes in which the stores of a warp begin."""
    where = layout.coordinates[:LANES, ::vector].astype(np.int64)
    keys = where[..., 1 - dim] * (1 << 32) + where[..., dim] * size // part
    return sum(len(np.unique(keys[:, i])) for i in range(keys.shape[1]))
