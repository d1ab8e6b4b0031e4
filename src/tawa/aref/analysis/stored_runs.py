"""What is done with the elements of a tile that is loaded: whether they are scanned, how stored."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from tawa.base.types import byte_size, element_of, shape_of
from tawa.ir.elementwise import Map
from tawa.machine.chips import SM_90A
from tawa.tile.analysis.axis_info import AxisAnalysis, fastest
from tawa.tile.dialect.ops import (
    ArgReduce,
    Load,
    Reduce,
    ReduceWith,
    Scan,
    ScanWith,
    Store,
)

WIDEST = SM_90A.copy_unit
"""Bytes of a thread's widest access, and the most that are known of where an array begins."""


def stored_run(axes: AxisAnalysis, value: SSAValue) -> tuple[int, int] | None:
    """How all stores of what is computed of a tile run whose own elements lie apart.

    Such elements are loaded one by one in any layout. None if stores run in several ways.
    """
    stores = [u for u in _reached(value) if isinstance(u, Store)]
    same = [u for u in stores if shape_of(u.ptr.type) == shape_of(value.type)]
    runs = {fastest(axes, store.ptr) for store in same}
    dims = {dim for dim, _ in runs}
    return (dims.pop(), min(width for _, width in runs)) if len(dims) == 1 else None


def is_side_by_side(axes: AxisAnalysis, value: SSAValue, dim: int) -> bool:
    """Whether what a warp has of a tile's rows along `dim` should be side by side.

    They are scanned, or stored from anywhere: of a sector that two warps write at different times,
    memory may have to be read in between. Where a tile is reduced, warps meet and write at the same
    time; a row that ends early is then shared better if they take turns.
    """
    ops = list(_reached(value))
    if any(isinstance(op, Scan | ScanWith) and op.axis.value.data == dim for op in ops):
        return True
    meet = any(isinstance(op, Reduce | ArgReduce | ReduceWith) for op in ops)
    stores = (op for op in ops if isinstance(op, Store))
    return not meet and any(_begins_anywhere(axes, op, dim) for op in stores)


def scanned_across(value: SSAValue, dim: int) -> int | None:
    """Along which other dimension than `dim` a tile is scanned."""
    scans = [op for op in _reached(value) if isinstance(op, Scan | ScanWith)]
    axes = {op.axis.value.data for op in scans}
    return axes.pop() if len(axes) == 1 and dim not in axes else None


def most_side_by_side(value: SSAValue) -> int:
    """Elements of a thread side by side, so that it accesses no more at once than it can.

    What is loaded as bytes and stored as halves would be stored in two parts of each sector.
    """
    stored = (op.value for op in _reached(value) if isinstance(op, Store))
    same = (v for v in stored if shape_of(v.type) == shape_of(value.type))
    return WIDEST // max(byte_size(element_of(v.type)) for v in (value, *same))


def bytes_at_once(axes: AxisAnalysis, load: Load, dim: int) -> int:
    """Elements of what is loaded that are stored at once as bytes, where they are reduced before.

    A thread that has as many side by side loads them by two accesses, but takes part in half of
    the shuffles, and computes half of the addresses. Zero where nothing is stored so.
    """
    ops = list(_reached(load.result))
    same = [
        op
        for op in ops
        if isinstance(op, Store) and shape_of(op.ptr.type) == shape_of(load.ptr.type)
    ]
    reduced = any(isinstance(op, Reduce) for op in ops)
    if not reduced or any(byte_size(element_of(op.value.type)) > 1 for op in same):
        return 0
    info, runs = axes.of(load.ptr), [fastest(axes, op.ptr) for op in same]
    stored = min((width if along == dim else 0 for along, width in runs), default=0)
    return math.gcd(stored, info.contiguous[dim]) if stored else 0


def _begins_anywhere(axes: AxisAnalysis, op: Store, dim: int) -> bool:
    if not shape_of(op.ptr.type):
        return False
    info, size = axes.of(op.ptr), byte_size(element_of(op.value.type))
    along = fastest(axes, op.ptr)[0]
    begins = math.gcd(info.multiple[along], WIDEST) * size
    return along == dim and info.contiguous[along] > 1 and size > 1 and begins < WIDEST


def _reached(value: SSAValue) -> Iterator[Operation]:
    """What uses the elements of a tile, as they are, computed one by one or scanned."""
    work, seen = [value], {value}
    while work:
        for use in work.pop().uses:
            op = use.operation
            yield op
            if isinstance(op, Map | Scan) and op.result not in seen:
                seen.add(op.result)
                work.append(op.result)
