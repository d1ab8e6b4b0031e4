"""Loops that wait for other programs, and what they wait by."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tawa.ir.effects import GLOBAL, ORDER, WRITE, is_pure, touches
from tawa.tile.dialect.ops import Load


def waiting_loop(kernel: Operation) -> scf.WhileOp | None:
    """A loop that may go on until another program has written; None without one."""
    loops = (op for op in kernel.walk() if isinstance(op, scf.WhileOp))
    return next((loop for loop in loops if any(map(_asks_others, deciding(loop)))), None)


def _asks_others(op: Operation) -> bool:
    return touches(op, ORDER) or touches(op, GLOBAL, WRITE)


def polls(loop: scf.WhileOp) -> list[Load]:
    """Loads by which a loop decides whether it goes on, from addresses that stay the same."""
    return [op for op in deciding(loop) if isinstance(op, Load) and _stays(op.ptr, loop)]


def deciding(loop: scf.WhileOp) -> Iterator[Operation]:
    """The ops in a loop, innermost regions included, on which it depends whether it goes on."""
    condition = loop.before_region.block.last_op
    assert condition is not None
    open_, seen = [condition.operands[0]], set[SSAValue]()
    while open_:
        value = open_.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            open_ += _carried(value)
        elif loop.is_ancestor(value.owner):
            op = value.owner
            assert isinstance(op, Operation)
            yield op
            open_ += [v for inner in op.walk() for v in inner.operands]


def _carried(value: BlockArgument) -> list[SSAValue]:
    """What an argument of a `while` loop's block may be, from inside of the loop."""
    loop = value.block.parent_op()
    if not isinstance(loop, scf.WhileOp):
        return []
    other = loop.after_region if value.block is loop.before_region.block else loop.before_region
    last = other.block.last_op
    assert last is not None
    return [last.operands[value.index + isinstance(last, scf.ConditionOp)]]


def _stays(value: SSAValue, loop: Operation) -> bool:
    """Whether a value is the same in all iterations of a loop, unless others write memory."""
    owner = value.owner
    if isinstance(owner, Block):
        around = owner.parent_op()
        return around is None or not loop.is_ancestor(around)
    if not loop.is_ancestor(owner):
        return True
    known = isinstance(owner, Load) or (is_pure(owner) and not owner.regions)
    return known and all(_stays(v, loop) for v in owner.operands)
