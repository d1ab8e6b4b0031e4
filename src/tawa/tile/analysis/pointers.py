"""Which of a kernel's arguments pointers are made from."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects import func
from xdsl.ir import BlockArgument, OpResult, SSAValue

from tawa.base.types import PtrType, element_of
from tawa.ir.elementwise import Map
from tawa.ir.loops import passed_out, passed_to
from tawa.tile.dialect.ops import (
    AtomicCas,
    AtomicRmw,
    Broadcast,
    ExpandDims,
    Reshape,
    Splat,
    Store,
    Trans,
)

WRITES = (Store, AtomicRmw, AtomicCas)
"""Ops that write through pointers, their first operand."""


def may_overlap(read: Collection[SSAValue | None], written: Collection[SSAValue | None]) -> bool:
    """Whether memory that is read may be memory that is written: different arguments are not."""
    if not read or not written:
        return False
    return None in read or None in written or not set(read).isdisjoint(written)


def origins(pointer: SSAValue) -> set[SSAValue | None]:
    """The arguments that a pointer may have been made from; None if it may be any."""
    found: set[SSAValue | None] = set()
    seen: set[SSAValue] = set()
    work = [pointer]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument) and isinstance(value.owner.parent_op(), func.FuncOp):
            found.add(value)
            continue
        sources = _sources(value)
        if not sources:
            found.add(None)
        work += sources
    return found


def _sources(value: SSAValue) -> list[SSAValue]:
    """The pointers that one was computed from, or is passed on from; [] if that is not known."""
    if isinstance(value, BlockArgument):
        return passed_to(value)
    assert isinstance(value, OpResult)
    op = value.op
    if isinstance(op, Map):
        pointers = [v for v in op.operands if isinstance(element_of(v.type), PtrType)]
        return pointers if op.function.data in ("addptr", "select") else []
    if isinstance(op, Splat | Broadcast | ExpandDims | Reshape | Trans):
        return [op.operands[0]]
    return passed_out(value)
