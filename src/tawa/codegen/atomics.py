"""Lowering of atomic operations: fragments of pointers, in the order that the program asks for."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from xdsl.dialects import func, scf
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.dialect.ops import WarpGroup
from tawa.base.layout import Layout, point
from tawa.base.types import element_of, shape_of
from tawa.codegen.fragments import agreed, convert, fragment, team_sync
from tawa.codegen.group_lowering import GroupLowering
from tawa.codegen.tensors import access_width
from tawa.hopper.dialect.atomic import VECTORS, GlobalAtomic, MemoryFence
from tawa.hopper.dialect.fragment import Extract, Fill
from tawa.hopper.dialect.types import FragType
from tawa.ir.effects import GLOBAL, READ, SLOT, WRITE, touches
from tawa.tile.dialect.ops import AtomicCas, AtomicRmw


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
    """A scalar's instruction has the program's order; those of a tile are relaxed, between fences.

    The accesses of all threads before are released once all have arrived; what was acquired is
    acquired for all when they have met again. A program that has written nothing has nothing to
    release by sums of a tile (each element follows from what it was loaded with); a scalar may tell
    others that the program has read. One that does not look at the old values of a tile does not
    know whom it would acquire from.
    """
    order, scope = op.order.data, op.scope.data
    unused = op.result.first_use is None
    layout = _layout(g, op)
    operands = [
        _operand(g, v, layout) if v is not None else None for v in (op.ptr, op.value, mask, compare)
    ]
    pointers, value, *rest = operands
    assert pointers is not None and value is not None
    scalar = not shape_of(op.value.type)
    before = _has_accessed if scalar else _has_written
    if order in ("release", "acq_rel") and (not g.kernel.only_group or _after(op, before)):
        team_sync(g, orders_memory=True)
        if not scalar:
            g.do(MemoryFence(scope))
    count = _width(g, op, layout) if unused else 1
    own = order if scalar else "relaxed"
    new = GlobalAtomic(kind, pointers, value, *rest, scope=scope, order=own, vector=count)
    old = g.add(new, op.result.name_hint)
    if unused:
        return
    acquired = order in ("acquire", "acq_rel") and not scalar
    old = agreed(g, old, scope if acquired else None)
    if shape_of(op.result.type):
        g.fragments[op.result] = convert(g, old, g.layouts.of[op.result])
    else:
        g.scalars[op.result] = g.add(Extract(old), op.result.name_hint)


def _has_written(op: Operation) -> bool:
    """Whether there is something to release after an op."""
    return touches(op, GLOBAL, WRITE)


def _has_accessed(op: Operation) -> bool:
    """Whether an op has to be over before a counter or a lock in memory says that it is."""
    return touches(op, GLOBAL) or touches(op, SLOT, READ)


def _after(op: Operation, wanted: Callable[[Operation], bool]) -> bool:
    """Whether the program may have done an op of some kind before it comes to one."""
    block = op.parent
    while block is not None:
        around = block.parent_op()
        looped = around is not None and not isinstance(around, scf.IfOp | func.FuncOp | WarpGroup)
        before = block.ops if looped else _until(block, op)
        if any(wanted(o) for o in before):
            return True
        if around is None or isinstance(around, func.FuncOp | WarpGroup):
            return False
        op, block = around, around.parent
    return False


def _until(block: Block, op: Operation) -> list[Operation]:
    """The ops of a block before one of them."""
    return list(itertools.takewhile(lambda o: o is not op, block.ops))


def _width(g: GroupLowering, op: AtomicRmw | AtomicCas, layout: Layout) -> int:
    """Consecutive registers that one instruction adds."""
    element = element_of(op.value.type)
    if not shape_of(op.value.type) or isinstance(op, AtomicCas) or op.kind.data != "addf":
        return 1
    return access_width(g, op.ptr, op.mask, layout)[1] if element in VECTORS else 1


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


ATOMICS: dict[type[Operation], Callable[..., None]] = {
    AtomicRmw: lower_atomic_rmw,
    AtomicCas: lower_atomic_cas,
}
"""Lowering of atomic operations."""
