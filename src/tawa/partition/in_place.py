"""Tensors that a kernel both loads and stores through one descriptor.

Loads run ahead of what computes, so a block must not be stored before it is loaded: not in the
same iteration of a loop, and not in an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.base.errors import TawaError
from tawa.base.spans import span_of
from tawa.base.types import shape_of
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import DescLoad, DescStore


class LoadAfterStore(TawaError):
    """A block may be loaded through a descriptor after the kernel has stored to it."""

    explanation = (
        "Loads through descriptors are asynchronous and run ahead of the rest of the program, so a "
        "program may not load what it has itself stored before. Loading a block and storing it "
        "afterwards at the same coordinates is fine, also in loops whose iterations have blocks of "
        "their own. Keep the tile in a variable of the loop, or store to another tensor."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def recurrence(x, n, B: tl.constexpr):
    for i in range(n):
        x.store([(i + 1) * B], x.load([i * B]) * 0.5)


recurrence.compile("desc<f32,64>", "i32", 64)
"""


def check_in_place(kernel: func.FuncOp) -> None:
    """Raise LoadAfterStore if a block that a program has stored may be loaded by it."""
    loads = [op for op in kernel.walk() if isinstance(op, DescLoad)]
    stores = [op for op in kernel.walk() if isinstance(op, DescStore)]
    for load in loads:
        for store in stores:
            if load.desc is store.desc and not _in_order(load, store):
                raise LoadAfterStore(
                    "this block may be loaded after the kernel has stored to it",
                    span=span_of(load),
                    expected="loads of blocks that the program has not stored before",
                    found="a store through the same descriptor",
                    hint="keep the tile in a variable, or store to another tensor",
                ).with_note("it is stored here", span_of(store))


def _in_order(load: DescLoad, store: DescStore) -> bool:
    """Whether no iteration stores what a later load reads."""
    common = [op for op in _around(load) if op in _around(store)]
    loops = [op for op in common if isinstance(op, scf.ForOp | scf.WhileOp)]
    if not loops:
        return _precedes(load, store)
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
