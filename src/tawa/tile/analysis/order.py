"""Which accesses of a program may come to bytes that it has come to before.

Text and loops say which of two accesses comes first; blocks of one descriptor are told apart by
sums of what their coordinates are computed from (`ir.affine`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation

from tawa.base.types import shape_of
from tawa.ir.affine import affine, apart
from tawa.tile.dialect.ops import DescLoad, DescStore


def may_meet(earlier: Operation, later: Operation) -> bool:
    """Whether an access may come, after another that reaches the same memory, to its bytes."""
    around = _around(earlier)
    loops = [o for o in _around(later) if o in around and isinstance(o, scf.ForOp | scf.WhileOp)]
    rounds: list[tuple[Operation, ...]] = [(loop,) for loop in loops]
    if earlier is not later and not _precedes(later, earlier):
        rounds.append(())
    return not all(_apart(earlier, later, aged) for aged in rounds)


def _apart(earlier: Operation, later: Operation, aged: Sequence[Operation]) -> bool:
    """Whether the blocks never meet, once some loops have gone on to other iterations."""
    if not isinstance(earlier, DescLoad | DescStore) or not isinstance(later, DescLoad | DescStore):
        return False
    if earlier.desc is not later.desc:
        return False
    sizes = zip(shape_of(earlier.block), shape_of(later.block), strict=True)
    places = zip(earlier.coordinates, later.coordinates, strict=True)
    for (before, after), (over, under) in zip(places, sizes, strict=True):
        one, other = affine(before), affine(after)
        assert one is not None and other is not None
        if apart(one, other, 1 - under, over - 1, aged):
            return True
    return False


def _around(op: Operation) -> list[Operation]:
    found: list[Operation] = []
    parent = op.parent_op()
    while parent is not None:
        found.append(parent)
        parent = parent.parent_op()
    return found


def _precedes(first: Operation, second: Operation) -> bool:
    """Whether `first` comes before `second` in the program's text."""
    around: Sequence[Operation] = [second, *_around(second)]
    op: Operation | None = first
    while op is not None:
        block: Block | None = op.parent
        other = next((o for o in around if o.parent is block), None)
        if block is not None and other is not None and other is not op:
            return block.get_operation_index(op) < block.get_operation_index(other)
        op = op.parent_op()
    return True
