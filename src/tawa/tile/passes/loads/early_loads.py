"""Early loads: what a branch loads is on its way before the branch, if the mask says the same.

A program whose last rows may be missing asks twice, by a branch around a block's work and by the
mask of what the block loads. Behind branches, a loop's loads wait for each other: a block's is not
started before the products of the block before it. Before them, all are started together, and may
be loaded an iteration ahead as others of the loop are. Where a branch is not taken the mask is
false everywhere, and nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.effects import ORDER, is_pure, only_reads, touches
from tawa.ir.elementwise import Map
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import every, has
from tawa.tile.analysis.alias import may_be_written, written
from tawa.tile.analysis.linear import margin
from tawa.tile.dialect.ops import Dot, Load, spreads


@dataclass(frozen=True)
class EarlyLoads:
    """Move loads of a loop's branches before them, the innermost branches' first."""

    name: ClassVar[str] = "early-loads"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Look at every branch in a loop around products."""
        branches = [op for op in every(module) if isinstance(op, scf.IfOp) and _multiplies(op)]
        for branch in reversed(branches):
            loop = _loop_around(branch)
            if loop is not None:
                _move(branch, loop)


def _multiplies(branch: scf.IfOp) -> bool:
    return has(branch.true_region, Dot)


def _loop_around(op: Operation) -> scf.ForOp | None:
    parent = op.parent_op()
    while isinstance(parent, scf.IfOp):
        parent = parent.parent_op()
    return parent if isinstance(parent, scf.ForOp) else None


def _move(branch: scf.IfOp, loop: scf.ForOp) -> None:
    """Move what may be moved, with what it is computed from."""
    body = branch.true_region.block
    memory = written([loop])
    for load in [op for op in body.ops if isinstance(op, Load)]:
        needed = _computed_from(load, body)
        ordered = any(touches(op, ORDER) for op in every(loop))
        moves = only_reads(load) and not ordered and not may_be_written(load, memory)
        if needed is not None and moves and _false_without(load.mask, branch.cond):
            for op in [*needed, load]:
                op.detach()
                assert branch.parent is not None
                branch.parent.insert_op_before(op, branch)


def _computed_from(load: Load, body: Block) -> list[Operation] | None:
    """The ops of a block that a load's operands are computed by, in order; None if not alone."""
    found: set[Operation] = set()
    work = list(load.operands)
    while work:
        owner = work.pop().owner
        if isinstance(owner, Operation) and owner.parent is body and owner not in found:
            if owner.regions or not is_pure(owner) or _divides(owner):
                return None
            found.add(owner)
            work += owner.operands
    return [op for op in body.ops if op in found]


def _divides(op: Operation) -> bool:
    """Whether an op divides integers: what the branch may ask first is whether it can."""
    return isinstance(op, Map) and op.function.data.startswith(("div", "rem", "quotient"))


def _false_without(mask: SSAValue | None, condition: SSAValue) -> bool:
    """Whether a mask is false in every element where a condition is."""
    wanted = margin(condition)
    if mask is None or wanted is None or shape_of(condition.type):
        return False
    for part in _conjuncts(mask):
        found = margin(part)
        if found is not None:
            over = found.plus(wanted, -1)
            if not over.terms and over.most <= 0:
                return True
    return False


def _conjuncts(mask: SSAValue) -> Iterator[SSAValue]:
    owner = mask.owner
    if isinstance(owner, Map) and owner.function.data == "andi":
        for part in owner.arguments:
            yield from _conjuncts(part)
    elif isinstance(owner, Operation) and spreads(owner):
        yield from _conjuncts(owner.operands[0])
    else:
        yield mask
