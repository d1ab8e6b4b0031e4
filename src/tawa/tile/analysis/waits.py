"""Loops that wait for other programs, and what they wait by."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from tawa.ir.effects import GLOBAL, ORDER, WRITE, is_pure, touches
from tawa.ir.waits import deciding
from tawa.ir.walking import every
from tawa.tile.dialect.ops import Load


def waiting_loop(kernel: Operation) -> scf.WhileOp | None:
    """A loop that may go on until another program has written; None without one."""
    loops = (op for op in every(kernel) if isinstance(op, scf.WhileOp))
    return next((loop for loop in loops if any(map(_asks_others, deciding(loop)))), None)


def _asks_others(op: Operation) -> bool:
    return touches(op, ORDER) or touches(op, GLOBAL, WRITE)


def polls(loop: scf.WhileOp) -> list[Load]:
    """Loads by which a loop decides whether it goes on, from addresses that stay the same."""
    return [op for op in deciding(loop) if isinstance(op, Load) and _stays(op.ptr, loop)]


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
