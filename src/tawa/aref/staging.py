"""Computed tiles that products read from shared memory: copied where they are made, once."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.ops import Stage, ViewRead, WarpGroup
from tawa.base.spans import copy_span
from tawa.tile.ops import Reshape, Splat, Trans


def staged(value: SSAValue, before: Operation) -> SSAValue:
    """The view of a copy of a tile in shared memory, for an op that reads it.

    A tile that is made outside of the op's loop (or branch) is copied there, once for all ops that
    read it inside.
    """
    owner = value.owner
    home = owner if isinstance(owner, Block) else owner.parent
    assert home is not None
    outside = home is not before.parent
    if outside:
        for use in value.uses:
            op = use.operation
            if isinstance(op, Stage) and op.parent is home:
                return op.view
    new = Stage(value)
    copy_span(before, [new])
    new.view.name_hint = value.name_hint
    if not outside:
        home.insert_op_before(new, before)
    elif isinstance(owner, Block):
        assert home.first_op is not None
        home.insert_op_before(new, home.first_op)
    else:
        home.insert_op_after(new, owner)
    return new.view


def drop_unread(group: WarpGroup) -> None:
    """Remove reads, transposes and reshapes that nothing uses any more."""
    tiles = (ViewRead, Trans, Reshape, Splat)
    for op in reversed([op for op in group.walk() if isinstance(op, tiles)]):
        if op.results[0].first_use is None:
            op.detach()
            op.erase()
