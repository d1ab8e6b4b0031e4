"""What decides whether a `while` loop goes on: the slice of its condition."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from tawa.ir.walking import every


def deciding(loop: scf.WhileOp) -> list[Operation]:
    """The ops in a loop, inner regions included, on which it depends whether it goes on."""
    owners = {value.owner for value in _slice(loop)}
    return [op for op in every(loop) if op in owners and op is not loop]


def deciding_numbers(loop: scf.WhileOp) -> list[int]:
    """Which of the values that a loop carries decide whether it goes on."""
    found, arguments = _slice(loop), loop.before_region.block.args
    return [n for n, argument in enumerate(arguments) if argument in found]


def _slice(loop: scf.WhileOp) -> set[SSAValue]:
    condition = loop.before_region.block.last_op
    assert condition is not None
    open_, found = [condition.operands[0]], set[SSAValue]()
    while open_:
        value = open_.pop()
        if value in found:
            continue
        found.add(value)
        if isinstance(value, BlockArgument):
            open_ += _carried(value, loop)
        elif loop.is_ancestor(value.owner):
            assert isinstance(value.owner, Operation)
            open_ += [v for inner in every(value.owner) for v in inner.operands]
    return found


def _carried(value: BlockArgument, loop: scf.WhileOp) -> list[SSAValue]:
    """What an argument of the loop's blocks, or of one inside of it, may be."""
    around = value.block.parent_op()
    if around is None or not (around is loop or loop.is_ancestor(around)):
        return []
    if around is not loop:
        return list(around.operands)
    other = loop.after_region if value.block is loop.before_region.block else loop.before_region
    last = other.block.last_op
    assert last is not None
    return [last.operands[value.index + isinstance(last, scf.ConditionOp)]]
