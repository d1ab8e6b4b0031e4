"""Lowering of atomic operations: fragments of pointers, in the order that the program asks for."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from tawa.aref.fragments import convert, exchange, fragment, scratch, scratch_tile, team_sync
from tawa.aref.group_lowering import GroupLowering
from tawa.base.layout import REPLICA, Layout, point
from tawa.base.types import shape_of
from tawa.hopper.ops.atomic import GlobalAtomic, MemoryFence
from tawa.hopper.ops.fragment import Extract, Fill
from tawa.hopper.ops.memory import SharedLoad
from tawa.hopper.types import FragType
from tawa.tile.ops import AtomicCas, AtomicRmw


def lower_atomic_rmw(g: GroupLowering, op: AtomicRmw) -> None:
    """Combine a scalar or a tile into memory."""
    _lower(g, op, op.kind.data, op.mask, None)


def lower_atomic_cas(g: GroupLowering, op: AtomicCas) -> None:
    """Replace a scalar, or the elements of a tile, where memory holds the compared value."""
    _lower(g, op, "cas", None, op.compare)


def _lower(
    g: GroupLowering,
    op: AtomicRmw | AtomicCas,
    kind: str,
    mask: SSAValue | None,
    compare: SSAValue | None,
) -> None:
    """Relaxed instructions between fences.

    The accesses of all threads before are released once all have arrived; what was acquired is
    acquired for all when they have met again.
    """
    order, scope = op.order.data, op.scope.data
    layout = _layout(g, op)
    operands = [
        _operand(g, v, layout) if v is not None else None for v in (op.ptr, op.value, mask, compare)
    ]
    pointers, value, *rest = operands
    assert pointers is not None and value is not None
    if order in ("release", "acq_rel"):
        team_sync(g)
        g.do(MemoryFence(scope))
    old = g.add(GlobalAtomic(kind, pointers, value, *rest, scope=scope), op.result.name_hint)
    if order in ("acquire", "acq_rel"):
        g.do(MemoryFence(scope))
        if op.result.first_use is None or not _copies(layout):
            team_sync(g)
    if op.result.first_use is None:
        return
    if _copies(layout):
        assert isinstance(old.type, FragType)
        place = scratch(g, scratch_tile(layout.shape, old.type.element_type))
        exchange(g, old, place)
        old = g.add(SharedLoad(place, old.type))
    if shape_of(op.result.type):
        g.fragments[op.result] = convert(g, old, g.layouts.of[op.result])
    else:
        g.scalars[op.result] = g.add(Extract(old), op.result.name_hint)


def _layout(g: GroupLowering, op: AtomicRmw | AtomicCas) -> Layout:
    """Where the value lies, or neighbouring elements in neighbouring lanes."""
    if not shape_of(op.value.type):
        return point(g.warps)
    return g.layouts.of.get(op.value) or g.layouts.default(op.value, 1)


def _operand(g: GroupLowering, value: SSAValue, layout: Layout) -> SSAValue:
    if shape_of(value.type):
        return fragment(g, value, layout)
    scalar = g.scalar(value)
    return g.add(Fill(scalar, FragType.of(scalar.type, layout)))


def _copies(layout: Layout) -> bool:
    """Whether several threads hold the same element."""
    return any(m.dim == REPLICA and m.extent > 1 for m in (*layout.lane, *layout.warp))


ATOMICS: dict[type[Operation], Callable[..., None]] = {
    AtomicRmw: lower_atomic_rmw,
    AtomicCas: lower_atomic_cas,
}
"""Lowering of atomic operations."""
