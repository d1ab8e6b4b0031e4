"""Last-iteration peeling: warp groups leave out iterations that change none of their own rows.

The rows of a tile may need different numbers of iterations, as those of a causal attention do, and
the groups of a team have different rows. `tile.row_ends` says where the iterations of each row end.
So a group may leave out the last iteration, if its own last row has ended, and returns its slots
unread:

    own = max(row_ends[last row of this group], upper - 1)
    for i in lower .. own: the loop
    for i in own .. upper: wait for the slot of iteration i, return it

One iteration and no more: a group that has left still holds the slots of its own last products,
which the next tile's first ones run with. Had it to return slots further on, the loading role could
wait for those that it holds, and it for the loading role.

The rows' ends are arithmetic on row numbers; where it grows with them, the same arithmetic on the
group's last row gives the group's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.transforms.dead_code_elimination import dce

from tawa.aref.analysis.products import from_products
from tawa.aref.analysis.row_numbers import at_edge
from tawa.aref.dialect.ops import (
    Consumed,
    Create,
    EdgeRow,
    GetEnter,
    ViewRead,
    WarpGroup,
)
from tawa.base.spans import copy_span, span_of
from tawa.base.types import shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import GroupsEndApart, GroupsEndTogether
from tawa.ir.effects import SLOT, TAKEN, Collective, CollectiveOfRows, only_on
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant, terminator
from tawa.ir.properties import AS_PARTITIONED, DOTS, FINAL_RINGS, OPEN_SLOTS, OWN_ENDS, TIDY
from tawa.ir.walking import all_of, every
from tawa.machine.chips import SM_90A
from tawa.tile.dialect.ops import (
    Dot,
    Reduce,
    RowEnds,
    ViewLike,
)

LEFT_OUT = "aref.left_out"
"""Marks the loops that return the slots of an iteration that was left out."""


@dataclass(frozen=True)
class LastIterationPeeling:
    """End the loops of warp groups that share a tile's rows where their own rows end."""

    decided: Decisions
    name: ClassVar[str] = "last-iteration-peeling"
    contract: ClassVar[Contract] = Contract(
        requires=(DOTS, FINAL_RINGS, OPEN_SLOTS),
        establishes=(OWN_ENDS,),
        invalidates=(AS_PARTITIONED, TIDY),
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite every loop with a promise; promises are gone afterwards."""
        promises = all_of(module, RowEnds)
        for promise in promises:
            loop, ends = promise.parent_op(), promise.ends
            promise.detach()
            promise.erase()
            group = _group_of(loop)
            if not isinstance(loop, scf.ForOp) or group.warps.value.data <= 4:
                continue
            span = span_of(loop)
            if (why := obstacle(group, loop, shape_of(ends.type)[0])) is not None:
                self.decided.add(GroupsEndTogether(why, span=span))
                continue
            new: list[Operation] = []
            end = at_edge(ends, partial(EdgeRow, shape_of(ends.type)[0], "last"), new)
            if end is None:
                why = "the ends of its rows are not arithmetic that grows with the row"
                self.decided.add(GroupsEndTogether(why, span=span))
                continue
            assert loop.parent is not None
            copy_span(loop, new)
            loop.parent.insert_ops_before(new, loop)
            _end_early(loop, end)
            self.decided.add(GroupsEndApart(span=span))
        if promises:
            dce(module)


def _group_of(op: Operation | None) -> WarpGroup:
    while not isinstance(op, WarpGroup):
        assert op is not None
        op = op.parent_op()
    return op


def obstacle(group: WarpGroup, loop: scf.ForOp, rows: int) -> str | None:
    """Why the groups of a team have to make the same iterations; None if they need not."""
    groups = group.warps.value.data // SM_90A.group_warps
    if group.teams.value.data > 1 or group.split_columns is not None or rows % (64 * groups):
        return "they do not share its tiles' rows"
    if not isinstance(step := loop.step.owner, arith.ConstantOp) or step.value != _one(loop):
        return "its step is not 1"
    for value in terminator(loop.body.block).operands:
        if shape_of(value.type)[:1] != (rows,) or not from_products(value):
            return "it carries more than rows of products"
    found = (shared_work(op, loop) for op in every(loop.body.block))
    return next((why for why in found if why is not None), None)


def shared_work(op: Operation, loop: scf.ForOp) -> str | None:
    """What the groups of a team do together in an op of a loop; None if nothing."""
    together = op.has_trait(Collective) and not op.has_trait(CollectiveOfRows)
    if together or (not op.regions and not only_on(op, (SLOT, TAKEN))):
        return f"they do {op.name} together"
    if isinstance(op, Reduce) and op.axis.value.data == 0:
        return "they reduce along the rows together"
    if isinstance(op, Dot) and _from_registers(op.b):
        return "they store an operand of a product together"
    if isinstance(op, GetEnter):
        ring = op.ref.owner
        if op.parent is not loop.body.block or not isinstance(ring, Create) or ring.multicast:
            return "a cluster, or a branch, shares its slots"
    return None


def _one(loop: scf.ForOp) -> IntegerAttr:
    found = integer_constant(1, loop.lb.type).value
    assert isinstance(found, IntegerAttr)
    return found


def _from_registers(value: SSAValue) -> bool:
    """Whether an operand of a product is computed, not read in a slot."""
    while isinstance(value.owner, ViewLike):
        value = value.owner.value
    return not isinstance(value.owner, ViewRead)


# --- the loop -------------------------------------------------------------------------------------


def _end_early(loop: scf.ForOp, end: SSAValue) -> None:
    """Let the loop end at `end`, not before its first iteration and at most one iteration early."""
    block = loop.parent
    assert block is not None
    upper = loop.ub
    one = integer_constant(1, loop.lb.type)
    first = Map("addi", [loop.lb, one.result])
    last = Map("subi", [upper, one.result])
    late = Map("maxsi", [end, last.result])
    least = Map("maxsi", [late.result, first.result])
    own = Map("minsi", [least.result, upper])
    own.result.name_hint = "own_end"
    rings = [op for op in loop.body.block.ops if isinstance(op, GetEnter)]
    left_out = [_returning(get, own.result, upper, loop.step) for get in rings]
    new: Sequence[Operation] = [one, first, last, late, least, own]
    copy_span(loop, [*new, *left_out])
    block.insert_ops_before(new, loop)
    block.insert_ops_after(left_out, loop)
    loop.operands[1] = own.result


def ring_of(loop: Operation) -> SSAValue:
    """The ring whose slots a loop of those marked LEFT_OUT returns."""
    return next(op.ref for op in every(loop) if isinstance(op, GetEnter))


def _returning(get: GetEnter, start: SSAValue, end: SSAValue, step: SSAValue) -> scf.ForOp:
    """A loop that takes and returns the slots of iterations that nothing reads."""
    body = Block(arg_types=[start.type])
    body.args[0].name_hint = "left_out"
    enter = GetEnter(get.ref)
    enter.token.name_hint = get.token.name_hint
    body.add_ops([enter, Consumed(get.ref, enter.token, "none"), scf.YieldOp()])
    copy_span(get, list(body.ops))
    loop = scf.ForOp(start, end, step, [], Region(body))
    loop.attributes[LEFT_OUT] = UnitAttr()
    return loop
