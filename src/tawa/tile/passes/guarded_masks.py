"""Masks behind a branch, in loops that stay whole: tiles of which nothing is masked are not chosen.

What `split_loops` finds of a loop over blocks (the iterations in which a mask holds for every
element of a tile) becomes a question in each iteration:

    if the block is at an edge: scores = where(columns < keys, scores, -inf)

Nor are zeros and infinities added there, which is another way to write it. It is one branch for
the whole tile. So the pipeline of a persistent kernel's loop, which runs on
from tile to tile, is filled and drained once, as if there were no mask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.base.options import Options
from tawa.base.spans import copy_span, span_of
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import MasksGuarded
from tawa.ir.elementwise import Map
from tawa.ir.properties import ONE_PROGRAM, TIDY
from tawa.ir.traits import is_elementwise, made_anew
from tawa.ir.walking import all_of
from tawa.tile.analysis.masks import is_choice, spread_from
from tawa.tile.analysis.zero import constant_of
from tawa.tile.dialect.ops import Splat, spreads
from tawa.tile.passes.simplify import simplify
from tawa.tile.passes.split_loops import Before, MaskedLoop, runs_on


@dataclass(frozen=True)
class GuardMasks:
    """Choose elements by a mask only in iterations in which some element is masked."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "guard-masks"
    contract: ClassVar[Contract] = Contract(requires=(ONE_PROGRAM,), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the loops that may run on from tile to tile."""
        least = self.options.machine.branch_elements
        loops = all_of(module, scf.ForOp)
        for loop in [op for op in loops if runs_on(op, self.options)]:
            found = MaskedLoop.of(loop, least)
            chosen = [] if found is None else _chosen(loop, found.masks, least)
            if found is not None and chosen:
                edge = _at_an_edge(found)
                for op, mask in chosen:
                    _guard(op, mask, edge, loop.body.block, found.masks)
                self.decided.add(MasksGuarded(len(chosen), span=span_of(loop)))
                simplify(module)


def _chosen(loop: scf.ForOp, masks: list[SSAValue], least: int) -> list[tuple[Map, SSAValue]]:
    """The ops on so many elements that masks decide on, and the operand which says that."""
    found: list[tuple[Map, SSAValue]] = []
    for op in loop.body.block.ops:
        if not isinstance(op, Map) or math.prod(shape_of(op.result.type)) < least:
            continue
        operand = op.arguments[0] if is_choice(op) and not _is_added(op) else _added(op)
        made_of = _arithmetic(operand, loop.body.block) if operand is not None else []
        if operand is not None and any(mask.owner in made_of for mask in masks):
            found.append((op, operand))
    return found


def _is_added(op: Map) -> bool:
    """Whether a choice is a mask that is added to a tile, and nothing else."""
    users = [use.operation for use in op.result.uses]
    return len(users) == 1 and _added(users[0]) is op.result


def _added(op: Operation) -> SSAValue | None:
    """The operand of a sum that is zero where a mask holds: a choice, perhaps by row or column."""
    if not isinstance(op, Map) or op.function.data != "addf":
        return None
    for operand in op.arguments:
        choice = spread_from(operand).owner
        if is_choice(choice) and constant_of(choice.arguments[1]) == 0:
            return operand
    return None


def _arithmetic(value: SSAValue, block: Block) -> list[Operation]:
    """What a block computes a mask by, in order: arithmetic on indices and on scalars."""
    found: set[Operation] = set()
    work = [value]
    while work:
        op = work.pop().owner
        is_made = isinstance(op, Operation) and op.parent is block and op not in found
        if is_made and (is_elementwise(op) or made_anew(op) or spreads(op)):
            found.add(op)
            work += op.operands
    return [op for op in block.ops if op in found]


def _at_an_edge(found: MaskedLoop) -> SSAValue:
    """Whether some mask does not hold for a whole tile, in the iteration that asks."""
    before, body = Before(found.loop), found.loop.body.block
    first, end = found.first(before), found.end(before)
    counter = body.args[0]
    asked = [Map("cmpi_slt", [counter, first])] if first is not None else []
    asked += [Map("cmpi_sge", [counter, end])] if end is not None else []
    if len(asked) > 1:
        asked.append(Map("ori", [op.result for op in asked]))
    assert asked and body.first_op is not None
    body.insert_ops_before(asked, body.first_op)
    copy_span(found.loop, asked)
    return asked[-1].result


def _guard(op: Map, mask: SSAValue, edge: SSAValue, block: Block, masks: list[SSAValue]) -> None:
    """Put an op behind the question; otherwise it is what it is where the masks hold."""
    steps = _arithmetic(mask, block)
    branch = scf.IfOp(
        edge,
        [op.result.type],
        Region(Block(_copied(op, steps, []))),
        Region(Block(_copied(op, steps, masks))),
    )
    copy_span(op, [branch])
    block.insert_op_before(branch, op)
    branch.results[0].name_hint = op.result.name_hint
    op.result.replace_all_uses_with(branch.results[0])
    # What is for the mask alone goes: else its copies behind the branch would be found to be equal.
    for old in (op, *reversed(steps)):
        if all(result.first_use is None for result in old.results):
            old.detach()
            old.erase()


def _copied(masked: Map, steps: list[Operation], holding: list[SSAValue]) -> list[Operation]:
    """An op with all that its mask is computed by, where some conditions hold; and a yield."""
    values, made = dict[SSAValue, SSAValue](), list[Operation]()
    for op in steps:
        if op.results[0] in holding:
            true = arith.ConstantOp(IntegerAttr(1, i1))
            made += [true, Splat(true.result, shape_of(op.results[0].type))]
            values[op.results[0]] = made[-1].results[0]
        else:
            made.append(op.clone(values))
    copy_span(masked, made)
    made.append(masked.clone(values))
    return [*made, scf.YieldOp(made[-1].results[0])]
