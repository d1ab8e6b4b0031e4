"""Partially dead code: what a loop computes for stores of some programs alone, others skip.

A program that stores row sums only if it has the first column of tiles need not compute them for
the other columns. The source says so by the mask of a store, of which a part is one scalar for the
whole tile, or by a branch around the store. If that scalar is known before a loop, whatever of the
loop's ordinary code only such stores need goes behind a branch on it. Loads and products stay where
they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tawa.base.options import Options
from tawa.base.spans import copy_span, span_of
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import ComputedWhereStored
from tawa.ir.effects import has_effect, is_pure
from tawa.ir.elementwise import Map
from tawa.ir.loops import needed, terminator
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.walking import all_of, every
from tawa.tile.dialect.ops import Dot, Reduce, Splat, Store, spreads
from tawa.tile.passes.fold import constant_of


@dataclass(frozen=True)
class PartialDeadCode:
    """Put what only some programs store behind the condition on which they do."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "partial-dead-code"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops of every kernel."""
        for kernel in [op for op in module.ops if isinstance(op, func.FuncOp)]:
            top = kernel.body.block
            loops = all_of(top, scf.ForOp)
            if not loops:
                continue
            conditions = {op: list(_conditions(op)) for op in every(top) if has_effect(op)}
            for condition in dict.fromkeys(c for found in conditions.values() for c in found):
                open_to_it = [loop for loop in loops if _is_known_before(condition, loop)]
                if open_to_it:  # what the others need is not looked for in vain
                    always = {op for op, found in conditions.items() if condition not in found}
                    self._guard(top, condition, always, open_to_it)

    def _guard(
        self, top: Block, condition: SSAValue, always: set[Operation], loops: list[scf.ForOp]
    ) -> None:
        """Guard what nothing needs that is done `always`."""
        ops, values = needed(top, lambda op: op in always)
        for loop in loops:
            inside = _only_for_others(loop, ops, values)
            if sum(map(_elements, inside)) < self.options.machine.branch_elements:
                continue
            branch = _branch(loop, _copy_before(condition, loop), inside)
            span = span_of(inside[0]) or span_of(loop)
            self.decided.add(ComputedWhereStored(branch.name, span=span))


def _conditions(op: Operation) -> Iterator[SSAValue]:
    """The scalars of which all have to be true for an effect to be seen."""
    if isinstance(op, Store) and op.mask is not None:
        yield from _conjuncts(op.mask)
    inner, parent = op, op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.IfOp) and inner.parent is parent.true_region.block:
            yield from _conjuncts(parent.cond)
        inner, parent = parent, parent.parent_op()


def _conjuncts(mask: SSAValue) -> Iterator[SSAValue]:
    """The scalars without which a mask is false everywhere."""
    owner = mask.owner
    if isinstance(owner, Map) and owner.function.data == "andi":
        for part in owner.arguments:
            yield from _conjuncts(part)
    elif spreads(owner):
        yield from _conjuncts(owner.operands[0])
    elif isinstance(owner, Splat):
        yield from _conjuncts(owner.value)
    elif not shape_of(mask.type) and constant_of(mask) is None:
        yield mask


def _only_for_others(
    loop: scf.ForOp, ops: set[Operation], values: set[SSAValue]
) -> list[Operation]:
    """Ordinary code of a loop's body outside of `ops`, of which nothing but itself is needed."""
    body = loop.body.block
    last = terminator(body)
    found = {
        op: None
        for op in body.ops
        if _computes(op) and op is not last and op not in ops and not isinstance(op, Dot)
    }
    free = {i for i, argument in enumerate(body.args[1:]) if argument not in values}
    if loop not in ops or not free:
        return []
    while outside := [
        op
        for op in found
        for result in op.results
        for use in result.uses
        if use.operation not in found and not (use.operation is last and use.index in free)
    ]:
        for op in outside:
            found.pop(op, None)
    return list(found)


def _computes(op: Operation) -> bool:
    return not op.regions and is_pure(op)


def _elements(op: Operation) -> int:
    """Elements that an op computes; those of what is only repeated cost nothing."""
    if isinstance(op, Reduce):
        return prod(shape_of(op.value.type))
    return prod(shape_of(op.result.type)) if isinstance(op, Map) and shape_of(op.result.type) else 0


def _home(value: SSAValue) -> Block | None:
    return value.owner if isinstance(value, BlockArgument) else value.owner.parent_block()


def _is_known_before(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a scalar can be computed before a loop, which no branch on it already holds."""
    parent = loop.parent_op()
    while parent is not None:
        if isinstance(parent, scf.IfOp) and value in _conjuncts(parent.cond):
            return False
        parent = parent.parent_op()
    return _precedes(value, loop)


def _precedes(value: SSAValue, loop: scf.ForOp) -> bool:
    home = _home(value)
    around = home.find_ancestor_op_in_block(loop) if home is not None else None
    if around is None:
        return False
    op = value.owner
    if isinstance(op, Block) or op.is_before_in_block(around):
        return True
    return _computes(op) and all(_precedes(operand, loop) for operand in op.operands)


def _copy_before(value: SSAValue, loop: scf.ForOp) -> SSAValue:
    """The scalar before a loop: itself, or computed there once more."""
    home, op = _home(value), value.owner
    assert home is not None
    around = home.find_ancestor_op_in_block(loop)
    assert around is not None
    if isinstance(op, Block) or op.is_before_in_block(around):
        return value
    new = op.clone({operand: _copy_before(operand, loop) for operand in op.operands})
    assert loop.parent is not None
    loop.parent.insert_op_before(new, loop)
    return new.results[0]


def _branch(loop: scf.ForOp, condition: SSAValue, inside: list[Operation]) -> scf.IfOp:
    """Move ops of a loop's body behind a condition; what they pass on stays as it is otherwise."""
    body = loop.body.block
    last = terminator(body)
    made = {result for op in inside for result in op.results}
    places = [i for i, value in enumerate(last.operands) if value in made]
    new = [last.operands[i] for i in places]
    old = [body.args[i + 1] for i in places]
    then = Block()
    branch = scf.IfOp(
        condition,
        [value.type for value in new],
        Region(then),
        Region(Block([scf.YieldOp(*old)])),
    )
    body.insert_op_after(branch, inside[-1])
    for op in inside:
        op.detach()
        then.add_op(op)
    then.add_op(scf.YieldOp(*new))
    copy_span(inside[-1], [branch, *(terminator(region.block) for region in branch.regions)])
    for place, value, result in zip(places, new, branch.results, strict=True):
        result.name_hint = value.name_hint
        last.operands[place] = result
    return branch
