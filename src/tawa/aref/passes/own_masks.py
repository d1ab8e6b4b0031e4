"""Warp groups mask tiles only where something of their own rows is masked.

A kernel masks the blocks that some row of its tile does not see whole. Of the warp groups that
share the rows, some see such a block whole, and choose nothing by

    if block is at an edge: scores = where(columns <= last_column_of_row, scores, -inf)

So in loops that groups leave at iterations of their own (`own_turns`) the question is asked for the
group's own rows, too. Columns and ends of rows are arithmetic on numbers, so the largest column and
the group's least end answer it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.analysis.products import from_products
from tawa.aref.analysis.row_numbers import at_edge
from tawa.aref.dialect.ops import EdgeRow, WarpGroup
from tawa.aref.passes.last_iteration_peeling import LEFT_OUT
from tawa.base.spans import copy_span, span_of
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import OwnRowsMasked
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant, terminator
from tawa.ir.properties import DOTS, OWN_ENDS, TIDY
from tawa.ir.walking import all_of, every
from tawa.machine.chips import SM_90A
from tawa.tile.dialect.ops import Broadcast, ExpandDims

OTHERWISE = {
    "cmpi_sle": "cmpi_sgt", "cmpi_slt": "cmpi_sge", "cmpi_sge": "cmpi_slt", "cmpi_sgt": "cmpi_sle",
}  # fmt: skip
"""When a comparison does not hold."""


@dataclass(frozen=True)
class OwnMasks:
    """Ask whether a group has something to mask, where a branch masks a tile."""

    decided: Decisions
    name: ClassVar[str] = "own-masks"
    contract: ClassVar[Contract] = Contract(requires=(DOTS, OWN_ENDS), invalidates=(TIDY,))

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the branches of all groups that share rows."""
        for group in all_of(module, WarpGroup):
            groups = group.warps.value.data // SM_90A.group_warps
            shares = group.computes and groups > 1 and group.split_columns is None
            for branch in [op for op in every(group) if shares and isinstance(op, scf.IfOp)]:
                mask = _mask(branch) if _ends_early(branch) else None
                if mask is not None and _shared(branch, groups) and _ask(branch, mask):
                    self.decided.add(OwnRowsMasked(span=span_of(branch)))


def _ends_early(branch: scf.IfOp) -> bool:
    """Whether the branch is in a loop that groups leave at iterations of their own."""
    loop = branch.parent_op()
    following = loop.next_op if isinstance(loop, scf.ForOp) else None
    return following is not None and LEFT_OUT in following.attributes


def _shared(branch: scf.IfOp, groups: int) -> bool:
    """Whether a branch makes a tile of which each warp group has a part of the rows."""
    (tile,) = branch.results
    return shape_of(tile.type)[0] % (64 * groups) == 0 and from_products(tile)


def _mask(branch: scf.IfOp) -> Map | None:
    """The comparison by which a branch, which does nothing else, chooses elements of a tile."""
    if len(branch.results) != 1 or not branch.false_region.blocks:
        return None
    same = terminator(branch.false_region.block).operands[0]
    chosen = terminator(branch.true_region.block).operands[0].owner
    if not isinstance(chosen, Map) or chosen.function.data != "select":
        return None
    mask, kept, _ = chosen.arguments
    known = isinstance(mask.owner, Map) and mask.owner.function.data in OTHERWISE
    return mask.owner if known and kept is same and isinstance(mask.owner, Map) else None


def _ask(branch: scf.IfOp, mask: Map) -> bool:
    """Let the branch be taken only if the comparison fails somewhere in the group's rows."""
    name = mask.function.data
    grows = name in ("cmpi_sle", "cmpi_slt")
    new: list[Operation] = []
    sides = [_extreme(v, largest=(i == 0) == grows, new=new) for i, v in enumerate(mask.arguments)]
    first, second = sides
    if first is None or second is None:
        return False
    fails = Map(OTHERWISE[name], [first, second])
    both = Map("andi", [branch.cond, fails.result])
    new += [fails, both]
    assert branch.parent is not None
    copy_span(branch, new)
    branch.parent.insert_ops_before(new, branch)
    branch.operands[0] = both.result
    return True


def _extreme(value: SSAValue, largest: bool, new: list[Operation]) -> SSAValue | None:
    """The largest or least element of a tile that repeats a vector, in the group's rows."""
    axis = None
    while isinstance(op := value.owner, Broadcast | ExpandDims):
        if isinstance(op, ExpandDims):
            if axis is not None:
                return None
            axis = op.axis.value.data
        value = op.operands[0]
    if axis is None or len(shape_of(value.type)) != 1 or isinstance(value.owner, Block):
        return None
    count = shape_of(value.type)[0]

    def number() -> Operation:
        if axis == 0:  # one number a column
            return integer_constant(count - 1 if largest else 0, i32)
        return EdgeRow(count, "last" if largest else "first")

    return at_edge(value, number, new)
