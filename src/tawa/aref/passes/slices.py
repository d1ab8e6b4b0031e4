"""Slices of K: teams of warps take turns on the iterations of a loop that only adds up products.

An iteration of a small tile is a chain of waits: for its data, for what is computed of them, for
its products. One team goes through one chain at a time, and where the grid has fewer programs than
the device has multiprocessors nothing else runs beside it. With `slice_k` teams, team t takes the
iterations t, t + slice_k, ...; each adds up from zero, and the first adds up what all have found.

    iterations  0  1  2  3  4  5  6  7
    team        0  1  2  3  0  1  2  3     then 1, 2, 3 -> rings -> 0, which does the rest

The slots of a ring belong to one team each (its depth is a multiple of the number of teams): a team
meets a slot again only after it has returned it itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects import func, scf
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, UnitAttr, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.analysis.iteration_slices import loop_to_deal
from tawa.aref.dialect.ops import (
    Advance,
    Create,
    GetEnter,
    PutEnter,
    PutExit,
    StoreInto,
    TeamIndex,
    ViewRead,
    WarpGroup,
)
from tawa.base.numerics import constant_attribute
from tawa.base.options import Options
from tawa.base.spans import copy_span, span_of
from tawa.base.types import element_of, shape_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import IterationsInSlices
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant, terminator
from tawa.ir.properties import AS_PARTITIONED, DOTS, OPEN_SLOTS, TIDY
from tawa.tile.analysis.zero import is_zero
from tawa.tile.dialect.ops import Splat


@dataclass(frozen=True)
class Slices:
    """Deal the iterations of the loop over K to as many teams as were asked for."""

    options: Options
    decided: Decisions
    name: ClassVar[str] = "slices"
    contract: ClassVar[Contract] = Contract(
        requires=(AS_PARTITIONED, DOTS, OPEN_SLOTS), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the computing role."""
        if self.options.slice_k == 1:
            return
        kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
        groups = [op for op in kernel.body.block.ops if isinstance(op, WarpGroup)]
        consumer = next(g for g in groups if g.computes)
        loop = loop_to_deal(consumer, groups, self.options.slice_k)
        _Rewriting(consumer, loop, self.options.slice_k).apply()
        self.decided.add(IterationsInSlices(self.options.slice_k, span=span_of(loop)))


@dataclass
class _Rewriting:
    """One role's loop and what follows it."""

    consumer: WarpGroup
    loop: scf.ForOp
    slices: int

    def apply(self) -> None:
        """Deal the iterations, pass the sums on, and leave the rest to the first team."""
        block = self.consumer.body.block
        team = TeamIndex()
        assert block.first_op is not None
        block.insert_op_before(team, block.first_op)
        rest = [op for op in block.ops if self.loop.is_before_in_block(op)]
        starts = self._starts()
        self._deal(team.result)
        tiles = [TensorType(element_of(r.type), shape_of(r.type)) for r in self.loop.results]
        rings = [self._ring(tiles, number) for number in range(1, self.slices)]
        for number, ring in enumerate(rings, 1):
            self._when(team.result, number, self._put(ring.ref))
        self._when(team.result, 0, [*self._total(rings, starts, rest), *rest])
        self.consumer.properties["teams"] = IntegerAttr(self.slices, i64)
        self.consumer.properties["sliced"] = UnitAttr()

    def _before(self, op: Operation) -> SSAValue:
        assert self.loop.parent is not None
        self.loop.parent.insert_op_before(op, self.loop)
        return op.results[0]

    def _starts(self) -> list[SSAValue | None]:
        """What sums began with, where it is not zero; from now on all begin with zero."""
        found: list[SSAValue | None] = []
        for number, start in enumerate(list(self.loop.iter_args)):
            if is_zero(start):
                found.append(None)
                continue
            element = element_of(start.type)
            zero = self._before(ConstantOp(constant_attribute(np.asarray(0), element)))
            self.loop.operands[3 + number] = self._before(Splat(zero, shape_of(start.type)))
            found.append(start)
        return found

    def _deal(self, team: SSAValue) -> None:
        """Give each team its iterations, and its slots of the rings."""
        loop, body = self.loop, self.loop.body.block
        refs = [op.ref for op in body.ops if isinstance(op, GetEnter)]
        every = self._before(integer_constant(self.slices, i32))
        first = self._before(Map("muli", [team, loop.step]))
        start = self._before(Map("addi", [loop.lb, first]))
        step = self._before(Map("muli", [loop.step, every]))
        others = self._before(integer_constant(self.slices - 1, i32))
        for ref in refs:
            self._before(Advance(ref, team))
            body.insert_op_before(Advance(ref, others), terminator(body))
        loop.operands[0], loop.operands[2] = start, step

    def _ring(self, tiles: Sequence[TensorType], number: int) -> Create:
        """A ring of one slot for what one team has added up."""
        create = Create(1, tiles)
        create.ref.name_hint = f"slice_{number}"
        copy_span(self.loop, [create])
        assert self.consumer.parent is not None
        first = self.consumer.parent.first_op
        assert first is not None
        self.consumer.parent.insert_op_before(create, first)
        return create

    def _when(self, team: SSAValue, number: int, ops: Sequence[Operation]) -> None:
        """Let one team do something at the end of the role."""
        block = Block()
        for op in ops:
            if op.parent is not None:
                op.detach()
            block.add_op(op)
        block.add_op(scf.YieldOp())
        own = integer_constant(number, i32)
        is_own = Map("cmpi_eq", [team, own.result])
        branch = scf.IfOp(is_own.result, [], Region(block))
        copy_span(self.loop, [branch])
        self.consumer.body.block.add_ops([own, is_own, branch])

    def _put(self, ref: SSAValue) -> list[Operation]:
        enter = PutEnter(ref)
        enter.token.name_hint = "slot"
        stores = [
            StoreInto(result, view, ref, enter.token)
            for result, view in zip(self.loop.results, enter.views, strict=True)
        ]
        new: list[Operation] = [enter, *stores, PutExit(ref, enter.token, "none")]
        copy_span(self.loop, new)
        return new

    def _total(
        self,
        rings: Sequence[Create],
        starts: Sequence[SSAValue | None],
        rest: Sequence[Operation],
    ) -> list[Operation]:
        """Get what the other teams have added up; the rest of the program uses the totals."""
        new: list[Operation] = []
        totals: list[SSAValue] = list(self.loop.results)
        users = [[use for use in r.uses if _within(use.operation, rest)] for r in totals]
        for ring in rings:
            get = GetEnter(ring.ref)
            get.token.name_hint = "slot"
            new.append(get)
            for number, view in enumerate(get.views):
                read = ViewRead(view)
                new += [read, _sum(totals[number], read.result)]
                totals[number] = new[-1].results[0]
        for number, start in enumerate(starts):
            if start is not None:
                new.append(_sum(start, totals[number]))
                totals[number] = new[-1].results[0]
        for total, found in zip(totals, users, strict=True):
            for use in found:
                use.operation.operands[use.index] = total
        copy_span(self.loop, new)
        return new


def _within(op: Operation, others: Sequence[Operation]) -> bool:
    return any(other.is_ancestor(op) for other in others)


def _sum(one: SSAValue, other: SSAValue) -> Map:
    return Map("addi" if element_of(one.type) == i32 else "addf", [one, other])
