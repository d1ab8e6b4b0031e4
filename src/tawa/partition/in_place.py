"""Blocks that a kernel may load through a descriptor after it has stored to them.

A loading role, and rings that are filled ahead, load before the rest of the program has come so
far. So a block must not be stored before it is loaded: not in the same iteration of a loop, and not
in an earlier one. Where that may be, one role does all in the order of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.base.types import shape_of
from tawa.ir.effects import GLOBAL, WRITE, through, touches
from tawa.ir.elementwise import Map
from tawa.tile.analysis.alias import may_alias
from tawa.tile.dialect.ops import DescLoad, DescStore


def load_after_store(kernel: func.FuncOp) -> DescLoad | None:
    """A load through a descriptor of what the program may have written before; None without one."""
    loads = [op for op in kernel.walk() if isinstance(op, DescLoad)]
    writes = [op for op in kernel.walk() if not op.regions and touches(op, GLOBAL, WRITE)]
    for load in loads:
        for write in writes:
            if not _in_order(load, write) and _may_meet(load, write):
                return load
    return None


def _may_meet(load: DescLoad, write: Operation) -> bool:
    return any(may_alias(load.desc, value) for value in through(write, GLOBAL, WRITE))


def _in_order(load: DescLoad, store: Operation) -> bool:
    """Whether no iteration stores what a later load reads."""
    common = [op for op in _around(load) if op in _around(store)]
    loops = [op for op in common if isinstance(op, scf.ForOp | scf.WhileOp)]
    if not loops:
        return _precedes(load, store)
    if not isinstance(store, DescStore) or load.desc is not store.desc:
        return False
    if list(load.coordinates) != list(store.coordinates) or not _precedes(load, store):
        return False
    free = list(zip(load.coordinates, shape_of(load.block), strict=True))
    for loop in loops:
        step = next((c for c in free if _advances(c[0], loop, c[1])), None)
        if step is None:
            return False
        free.remove(step)
    return True


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


def _advances(value: SSAValue, loop: Operation, extent: int) -> bool:
    """Whether a coordinate moves on by a whole block, or more, from iteration to iteration."""
    if not isinstance(loop, scf.ForOp):
        return False
    step = _constant(loop.step) or 1
    return _slope(value, loop) * step >= extent


def _slope(value: SSAValue, loop: scf.ForOp) -> int:
    """How much a value grows at least for each step of the loop's counter; 0 if not known."""
    if isinstance(value, BlockArgument):
        return int(value is loop.body.block.args[0])
    op = value.owner
    if not isinstance(op, Map) or len(op.operands) != 2:
        return 0
    a, b = op.operands
    if op.function.data == "muli":
        return max(_slope(a, loop) * (_constant(b) or 0), _slope(b, loop) * (_constant(a) or 0), 0)
    if op.function.data == "addi":
        for varying, fixed in ((a, b), (b, a)):
            if not _inside(fixed, loop):
                return _slope(varying, loop)
    return 0


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None


def _inside(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a value is made in the loop."""
    owner = value.owner
    op = owner.parent_op() if isinstance(owner, Block) else owner
    return op is not None and (op is loop or loop in _around(op)) and _constant(value) is None
