"""Masks behind a branch, in loops that stay whole: tiles of which nothing is masked are not chosen.

What `split_loops` finds of a loop over blocks (the iterations in which a mask holds for every
element of a tile) becomes a question in each iteration:

    if the block is at an edge: scores = where(columns < keys, scores, -inf)

It is one branch for the whole tile. So the pipeline of a persistent kernel's loop, which runs on
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
                for select in chosen:
                    _guard(select, edge, loop.body.block, found.masks)
                self.decided.add(MasksGuarded(len(chosen), span=span_of(loop)))
                simplify(module)


def _chosen(loop: scf.ForOp, masks: list[SSAValue], least: int) -> list[Map]:
    """The choices of so many elements that masks decide on."""
    return [
        op
        for op in loop.body.block.ops
        if isinstance(op, Map)
        and op.function.data == "select"
        and math.prod(shape_of(op.result.type)) >= least
        and any(mask.owner in _arithmetic(op.arguments[0], loop.body.block) for mask in masks)
    ]


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


def _guard(select: Map, edge: SSAValue, block: Block, masks: list[SSAValue]) -> None:
    """Put a choice behind the question; otherwise it is what it is where the masks hold."""
    steps = _arithmetic(select.arguments[0], block)
    branch = scf.IfOp(
        edge,
        [select.result.type],
        Region(Block(_copied(select, steps, []))),
        Region(Block(_copied(select, steps, masks))),
    )
    copy_span(select, [branch])
    block.insert_op_before(branch, select)
    branch.results[0].name_hint = select.result.name_hint
    select.result.replace_all_uses_with(branch.results[0])
    select.detach()
    select.erase()


def _copied(select: Map, steps: list[Operation], holding: list[SSAValue]) -> list[Operation]:
    """A choice with all that its mask is computed by, where some conditions hold; and a yield."""
    values, made = dict[SSAValue, SSAValue](), list[Operation]()
    for op in steps:
        if op.results[0] in holding:
            true = arith.ConstantOp(IntegerAttr(1, i1))
            made += [true, Splat(true.result, shape_of(op.results[0].type))]
            values[op.results[0]] = made[-1].results[0]
        else:
            made.append(op.clone(values))
    copy_span(select, made)
    made.append(select.clone(values))
    return [*made, scf.YieldOp(made[-1].results[0])]
