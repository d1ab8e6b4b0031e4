"""Slots and phases: each warp group counts its puts and gets of every ring with a cursor.

The cursors are carried through the group's loops and branches. Slot is `count mod depth` and phase
`count / depth mod 2`; both follow from the cursor when it is lowered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.dialect.ops import Advance, Create, CursorType, GetEnter, PutEnter, Start, WarpGroup
from tawa.ir.contracts import Contract
from tawa.ir.loops import carry, carry_if, carry_while, extend_condition, extend_yield
from tawa.ir.properties import DEPTHS, FINAL_RINGS, OPEN_SLOTS, SLOTS, TIDY
from tawa.ir.walking import all_of, every

Enter = (PutEnter, GetEnter)


def _counts(op: Operation, ref: SSAValue, kinds: tuple[type[Operation], ...]) -> bool:
    """Whether an op uses or moves this cursor: those that have theirs already belong to another."""
    return isinstance(op, kinds) and op.operands[0] is ref and getattr(op, "cursor", None) is None


def _uses(op: Operation, ref: SSAValue, kinds: tuple[type[Operation], ...]) -> bool:
    return any(_counts(inner, ref, kinds) for inner in every(op))


@dataclass(frozen=True)
class Cursors:
    """Give every `put_enter`, `get_enter` and `advance` its cursor."""

    name: ClassVar[str] = "cursors"
    contract: ClassVar[Contract] = Contract(
        requires=(DEPTHS, FINAL_RINGS, OPEN_SLOTS),
        establishes=(SLOTS,),
        invalidates=(OPEN_SLOTS, TIDY),
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every warp group of the module."""
        refs = [op.ref for op in every(module) if isinstance(op, Create)]
        for group in all_of(module, WarpGroup):
            for ref in refs:
                for kind in Enter:
                    if _uses(group, ref, (kind,)):
                        self._ring(group.body.block, ref, kind)

    def _ring(self, block: Block, ref: SSAValue, kind: type[Operation]) -> None:
        start = Start()
        start.cursor.name_hint = f"{ref.name_hint or 'ring'}_{'put' if kind is PutEnter else 'get'}"
        assert block.first_op is not None
        block.insert_op_before(start, block.first_op)
        kinds = (kind,) if kind is PutEnter else (kind, Advance)
        _thread(block, start.cursor, ref, kinds)


def _thread(
    block: Block, cursor: SSAValue, ref: SSAValue, kinds: tuple[type[Operation], ...]
) -> SSAValue:
    """Thread a cursor through a block; returns the cursor at its end."""
    for op in list(block.ops):
        if _counts(op, ref, kinds):
            cursor = _use(op, cursor, ref)
        elif op.regions and _uses(op, ref, kinds):
            cursor = _enter(op, cursor, ref, kinds)
    return cursor


def _use(op: Operation, cursor: SSAValue, ref: SSAValue) -> SSAValue:
    block = op.parent
    assert block is not None
    if isinstance(op, Advance):
        new = Advance(ref, op.count, cursor)
        block.insert_op_before(new, op)
        op.detach()
        op.erase()
        new.result.name_hint = cursor.name_hint
        return new.result
    assert isinstance(op, PutEnter | GetEnter)
    entered = type(op)(ref, cursor)
    entered.attributes |= op.attributes
    one = arith.ConstantOp(IntegerAttr(1, i32))
    step = Advance(ref, one.result, cursor)
    step.result.name_hint = cursor.name_hint
    block.insert_ops_before([entered, one, step], op)
    for old, new in zip(op.results, entered.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()
    return step.result


def _enter(
    op: Operation, cursor: SSAValue, ref: SSAValue, kinds: tuple[type[Operation], ...]
) -> SSAValue:
    if isinstance(op, scf.ForOp):
        loop, (argument,), (result,) = carry(op, [cursor])
        extend_yield(loop.body.block, [_thread(loop.body.block, argument, ref, kinds)])
    elif isinstance(op, scf.IfOp):
        branch, (result,) = carry_if(op, [CursorType()])
        for region in branch.regions:
            extend_yield(region.block, [_thread(region.block, cursor, ref, kinds)])
    elif isinstance(op, scf.WhileOp):
        loop, (first,), (second,), (result,) = carry_while(op, [cursor])
        before, after = loop.before_region.block, loop.after_region.block
        extend_condition(before, [_thread(before, first, ref, kinds)])
        extend_yield(after, [_thread(after, second, ref, kinds)])
    else:
        raise ValueError(f"{op.name} cannot carry a cursor")
    result.name_hint = cursor.name_hint
    return result
