"""Ping-pong: the teams of a warp group take turns on the iterations of its loop over tiles.

Team t does iterations t, t + T, t + 2T, ... and moves its cursors past the slots of the others'
tiles. An ordering barrier lets one team at a time issue matrix products. It is needed for
correctness: without it a team could be more than one ring ahead, where parities repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect.ops import (
    Advance,
    DotIssue,
    GetEnter,
    TeamIndex,
    TurnPass,
    TurnWait,
    WarpGroup,
)
from tawa.aref.dialect.types import RefType
from tawa.base.options import RequestUnmet
from tawa.base.spans import span_of
from tawa.ir.contracts import Contract
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.loops import TilesInTurns
from tawa.ir.effects import is_pure
from tawa.ir.elementwise import Map
from tawa.ir.properties import ASYNCHRONOUS, FINAL_RINGS, OPEN_SLOTS, TIDY
from tawa.ir.walking import all_of, every, has


class PingPongNotPossible(RequestUnmet):
    """Consumers cannot take turns on this kernel's tiles."""

    explanation = (
        "Ping-pong gives each consumer every other iteration of the loop over tiles. The kernel "
        "needs such a loop (its own, or `persistent=True`), which carries no value from tile to "
        "tile. How many loads a tile has must follow from the tile's number and the arguments "
        "alone."
    )
    example = """
import tawa
import tawa.language as tl


@tawa.jit
def gemm(a, b, c, K, M: tl.constexpr, N: tl.constexpr):
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a.load([0, k]), b.load([0, k]).T, acc)
    c.store([0, 0], acc.to(tl.float16))


tile = "desc<f16,{}x{}>".format
gemm.compile(tile(128, 64), tile(128, 64), tile(128, 128), "i32", 128, 128, ping_pong=True)
"""


class _Counter:
    """Makes the number of slots of a ring that one tile uses, for any tile number."""

    def __init__(self, loop: scf.ForOp) -> None:
        self.loop = loop
        self.body = loop.body.block

    def count(self, ref: SSAValue, tile: SSAValue, before: Operation) -> SSAValue | None:
        """The number as a value computed before an op; None if the loop has no get of the ring."""
        total: SSAValue | None = None
        for get in [op for op in every(self.body) if isinstance(op, GetEnter) and op.ref is ref]:
            trips = self._trips(get, tile, before)
            total = trips if total is None else self.add(Map("addi", [total, trips]), before)
        return total

    def add(self, op: Operation, before: Operation) -> SSAValue:
        """Insert an op; returns its result."""
        assert before.parent is not None
        before.parent.insert_op_before(op, before)
        return op.results[0]

    def number(self, value: int, before: Operation) -> SSAValue:
        """Insert a constant."""
        return self.add(arith.ConstantOp(IntegerAttr(value, i32)), before)

    def _trips(self, get: GetEnter, tile: SSAValue, before: Operation) -> SSAValue:
        product: SSAValue | None = None
        parent = get.parent_op()
        while parent is not self.loop:
            if not isinstance(parent, scf.ForOp):
                raise PingPongNotPossible(
                    "the number of loads of a tile depends on data",
                    span=span_of(get),
                    expected="a load directly in `for` loops over ranges",
                    found="a load inside an `if` or `while`",
                    hint="leave `ping_pong` unset",
                )
            lb, ub, step = (
                self._again(v, tile, before) for v in (parent.lb, parent.ub, parent.step)
            )
            one = self.number(1, before)
            span = self.add(Map("subi", [ub, lb]), before)
            rounded = self.add(
                Map("addi", [span, self.add(Map("subi", [step, one]), before)]), before
            )
            trips = self.add(Map("divsi", [rounded, step]), before)
            trips = self.add(Map("maxsi", [trips, self.number(0, before)]), before)
            product = trips if product is None else self.add(Map("muli", [product, trips]), before)
            parent = parent.parent_op()
        return product if product is not None else self.number(1, before)

    def _again(self, value: SSAValue, tile: SSAValue, before: Operation) -> SSAValue:
        """The value computed again for another tile."""
        if value is self.body.args[0]:
            return tile
        owner = value.owner
        if not self.loop.is_ancestor(owner):
            return value
        if isinstance(owner, Block) or owner.regions or not is_pure(owner):
            raise PingPongNotPossible(
                "the number of loads of a tile depends on data",
                span=span_of(owner) if isinstance(owner, Operation) else span_of(self.loop),
                expected="loop bounds computed from the tile's number and the arguments",
                found="a bound that needs a loaded or carried value",
                hint="leave `ping_pong` unset",
            )
        operands = [self._again(v, tile, before) for v in owner.operands]
        new = owner.clone()
        new.operands = operands
        return self.add(new, before)


@dataclass(frozen=True)
class PingPong:
    """Distribute the loop over tiles among the teams of every warp group that has several."""

    decided: Decisions
    name: ClassVar[str] = "ping-pong"
    contract: ClassVar[Contract] = Contract(
        requires=(ASYNCHRONOUS, FINAL_RINGS, OPEN_SLOTS), invalidates=(TIDY,)
    )

    def apply(self, module: ModuleOp) -> None:
        """Rewrite the warp groups with several teams."""
        for group in all_of(module, WarpGroup):
            if group.teams.value.data > 1 and group.sliced is None:
                self._group(group)

    def _group(self, group: WarpGroup) -> None:
        loop = self._tile_loop(group)
        teams, block = group.teams.value.data, group.body.block
        refs = list(dict.fromkeys(op.ref for op in every(loop) if isinstance(op, GetEnter)))
        team = TeamIndex()
        first = block.first_op
        assert first is not None and loop.parent is block
        block.insert_op_before(team, first)
        self._order(loop, [ref for ref in refs if not _apart(loop, ref, teams)])
        self._skip(loop, refs, team.result, teams)
        self._first_turn(block, team, teams)
        self.decided.add(TilesInTurns(teams, span=span_of(loop)))

    def _tile_loop(self, group: WarpGroup) -> scf.ForOp:
        for op in group.body.block.ops:
            if isinstance(op, scf.ForOp) and has(op, DotIssue):
                inner = [o for o in op.body.block.ops if isinstance(o, scf.ForOp)]
                if inner and not op.results:
                    return op
        raise PingPongNotPossible(
            "these consumers have no loop over tiles to take turns on",
            span=span_of(group),
            expected="a loop over tiles that carries no value, with a loop over K inside",
            found="no such loop",
            hint="pass persistent=True, or write the loop over tiles in the kernel",
        )

    def _order(self, loop: scf.ForOp, shared: list[SSAValue]) -> None:
        """Wait for the iteration before a tile's first product, pass it on after its last.

        Waits for slots that other teams wait for, too, come in between: without an order, a team
        could be a round ahead there as well.
        """
        body = loop.body.block
        ordered = [op for op in body.ops if has(op, DotIssue) or _gets(op, shared)]
        body.insert_op_before(TurnWait(), ordered[0])
        body.insert_op_after(TurnPass(), ordered[-1])

    def _skip(self, loop: scf.ForOp, refs: list[SSAValue], team: SSAValue, teams: int) -> None:
        counter, outer = _Counter(loop), loop.parent
        assert outer is not None
        lb, step = loop.lb, loop.step

        def outside(op: Operation) -> SSAValue:
            assert outer is not None
            outer.insert_op_before(op, loop)
            return op.results[0]

        for t in range(teams - 1):
            number = outside(arith.ConstantOp(IntegerAttr(t, i32)))
            tile = outside(Map("addi", [lb, outside(Map("muli", [number, step]))]))
            skipped = outside(Map("cmpi_sgt", [team, number]))
            zero = outside(arith.ConstantOp(IntegerAttr(0, i32)))
            for ref in refs:
                count = counter.count(ref, tile, loop)
                assert count is not None
                outside(Advance(ref, outside(Map("select", [skipped, count, zero]))))
        body = loop.body.block
        last = body.last_op
        assert last is not None
        for t in range(1, teams):
            number = counter.number(t, last)
            offset = counter.add(Map("muli", [number, step]), last)
            tile = counter.add(Map("addi", [body.args[0], offset]), last)
            for ref in refs:
                count = counter.count(ref, tile, last)
                assert count is not None
                body.insert_op_before(Advance(ref, count), last)
        start = outside(Map("addi", [lb, outside(Map("muli", [team, step]))]))
        every = outside(arith.ConstantOp(IntegerAttr(teams, i32)))
        loop.operands[0] = start
        loop.operands[2] = outside(Map("muli", [step, every]))

    def _first_turn(self, block: Block, team: TeamIndex, teams: int) -> None:
        """The last team passes the turn to the first once, at the start."""
        last = arith.ConstantOp(IntegerAttr(teams - 1, i32))
        is_last = Map("cmpi_eq", [team.result, last.result])
        inner = Block([TurnPass(), scf.YieldOp()])
        branch = scf.IfOp(is_last.result, [], Region(inner))
        block.insert_ops_after([last, is_last, branch], team)


def _gets(op: Operation, refs: list[SSAValue]) -> list[GetEnter]:
    """Where an op waits for slots of some rings."""
    return [get for get in every(op) if isinstance(get, GetEnter) and get.ref in refs]


def _apart(loop: scf.ForOp, ref: SSAValue, teams: int) -> bool:
    """Whether teams never wait for the same slots of a ring: each tile has as many, in turn."""
    gets = _gets(loop, [ref])
    assert isinstance(ref.type, RefType)
    each = all(get.parent is loop.body.block for get in gets)
    return each and ref.type.depth.data % (teams * len(gets)) == 0
