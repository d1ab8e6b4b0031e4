"""Ordinary code reads a slot where it needs it, behind the products that read the slot too.

A get gives a tile as a value at once, but products read it where it lies. What else an iteration
does with the tile then stands behind its products, and so should the loads of it into registers:
before them they hold up the first product, and the assembler, which has them at hand, spreads the
code that uses them among the matrix instructions of a product. A tile that only one side of a
branch needs is read there.

Behind a product, nothing says that all warps have read a slot when one of them finds the product
done and returns the slot: so they meet once they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.dialect.ops import (
    Any,
    AnyAbove,
    DotIssue,
    OpensSlot,
    ViewChange,
    ViewRead,
    Views,
    WarpGroup,
)
from tawa.ir.contracts import Contract
from tawa.ir.effects import FREE, SLOT, through
from tawa.ir.loops import users_in
from tawa.ir.properties import ASYNCHRONOUS, OPEN_SLOTS, TIDY
from tawa.ir.walking import all_of, between
from tawa.tile.dialect.ops import Broadcast, ExpandDims, Reshape


@dataclass(frozen=True)
class SinkReads:
    """Move reads of slots behind products, and into branches."""

    name: ClassVar[str] = "sink-reads"
    contract: ClassVar[Contract] = Contract(
        requires=(ASYNCHRONOUS, OPEN_SLOTS), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Move the reads of every computing warp group."""
        for group in all_of(module, WarpGroup):
            for read in all_of(group, ViewRead):
                _sink(read)


def _sink(read: ViewRead) -> None:
    """Move a read to its first user, if products or a branch stand before that."""
    slot = _slot_of(read.view)
    while slot is not None:
        home = read.parent
        assert home is not None
        named = _named_anew(read, home)
        users = {op for value in named for op in users_in(value.results[0], home)} - set(named)
        if not users:
            return
        first = min(users, key=home.get_operation_index)
        passed = between(read, first)
        if any(slot.token in through(op, SLOT, FREE) for op in passed):
            return
        side = _side(first, read) if len(users) == len(named) == 1 else None
        products = any(isinstance(op, DotIssue) for op in passed)
        if products and _multiplied(slot):
            read.meets = UnitAttr()
        if side is None:
            if products:
                for op in named:
                    _move(op, first)
            return
        assert side.first_op is not None
        _move(read, side.first_op)


def _named_anew(read: ViewRead, home: Block) -> list[Operation]:
    """The read, and the ops of its block that only give what was read another shape."""
    found: list[Operation] = [read]
    for op in found:
        for use in op.results[0].uses:
            user = use.operation
            if isinstance(user, Reshape | ExpandDims | Broadcast) and user.parent is home:
                found += [user] if user not in found else []
    return found


def _move(op: Operation, before: Operation) -> None:
    op.detach()
    assert before.parent is not None
    before.parent.insert_op_before(op, before)


def _slot_of(view: SSAValue) -> OpensSlot | None:
    """What gives a slot's views; None for a view of something else."""
    while isinstance(view.owner, ViewChange):
        view = view.owner.view
    return view.owner if isinstance(view.owner, OpensSlot) else None


def _multiplied(slot: OpensSlot) -> bool:
    """Whether products may read the slot, whose end is then what it is returned after."""
    if isinstance(slot, Views):
        return True  # others have views of it, too
    work = list(slot.views)
    while work:
        for use in work.pop().uses:
            if isinstance(use.operation, DotIssue):
                return True
            if isinstance(use.operation, ViewChange):
                work.append(use.operation.result)
    return False


def _side(branch: Operation, read: ViewRead) -> Block | None:
    """The side of a branch that holds all uses of what is read, if all warps of a group take it."""
    if not isinstance(branch, scf.IfOp) or isinstance(branch.cond.owner, Any | AnyAbove):
        return None
    for region in branch.regions:
        if region.blocks and all(
            region.block.find_ancestor_op_in_block(use.operation) for use in read.result.uses
        ):
            return region.block
    return None
