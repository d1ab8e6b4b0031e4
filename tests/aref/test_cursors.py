"""Cursors of rings: a group's puts count with one, its gets with another, from the first slot."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr, f16, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect.ops import Advance, Create, GetEnter, PutEnter, Start, WarpGroup
from tawa.aref.passes.cursors import Cursors
from tawa.ir.loops import integer_constant

TILE = TensorType(f16, (64, 64))


class Program:
    """Two rings and a warp group; the cursors of its ops are counted by running it."""

    def __init__(self) -> None:
        self.rings = [Create(2, [TILE]), Create(3, [TILE])]
        self.body = Block()
        self.module = ModuleOp([*self.rings, WarpGroup("math", 4, 1, Region(self.body))])

    def get(self, ring: int = 0) -> GetEnter:
        return GetEnter(self.rings[ring].ref)

    def put(self, ring: int = 0) -> PutEnter:
        return PutEnter(self.rings[ring].ref)

    def advance(self, by: int, ring: int = 0) -> list[Operation]:
        count = integer_constant(by, i32)
        return [count, Advance(self.rings[ring].ref, count.result)]

    def counted(self, *ops: Operation, taken: bool = True) -> list[tuple[str, int, int]]:
        """Each enter with its ring and its number, as the program runs."""
        self.body.add_ops(ops)
        Cursors().apply(self.module)
        numbers = {ring.ref: number for number, ring in enumerate(self.rings)}
        run = Run(numbers, taken)
        run.block(self.body)
        return run.found


class Run:
    """Runs a group: loops three times, branches always or never."""

    def __init__(self, rings: dict[SSAValue, int], taken: bool) -> None:
        self.rings, self.taken = rings, taken
        self.values: dict[SSAValue, Any] = {}
        self.found: list[tuple[str, int, int]] = []

    def block(self, block: Block, arguments: Any = ()) -> Any:
        """Run a block; what its last op gives on."""
        first = len(block.args) - len(arguments)
        self.values |= dict(zip(block.args[first:], arguments, strict=True))
        for op in block.ops:
            if isinstance(op, Start | Advance):
                self.moved(op)
            elif isinstance(op, PutEnter | GetEnter):
                assert op.cursor is not None
                kind = "put" if isinstance(op, PutEnter) else "get"
                self.found.append((kind, self.rings[op.ref], self.values[op.cursor]))
            elif isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
                self.values |= dict(zip(op.results, self.inside(op), strict=True))
        last = block.last_op
        skip = 1 if isinstance(last, scf.ConditionOp) else 0
        ends = isinstance(last, scf.YieldOp | scf.ConditionOp)
        return [self.values[v] for v in last.operands[skip:]] if ends and last else []

    def moved(self, op: Start | Advance) -> None:
        if isinstance(op, Start):
            self.values[op.cursor] = 0
            return
        assert op.cursor is not None
        count: Any = op.count.owner
        self.values[op.result] = self.values[op.cursor] + count.value.value.data

    def inside(self, op: scf.ForOp | scf.IfOp | scf.WhileOp) -> Any:
        """Run what is in an op; its results."""
        if isinstance(op, scf.IfOp):
            region = op.true_region if self.taken else op.false_region
            return self.block(region.block) if region.blocks else []
        carried = [
            self.values[v] for v in (op.iter_args if isinstance(op, scf.ForOp) else op.operands)
        ]
        for turn in range(3):
            if isinstance(op, scf.ForOp):
                carried = self.block(op.body.block, carried)
                continue
            carried = self.block(op.before_region.block, carried)
            if turn < 2:
                carried = self.block(op.after_region.block, carried)
        return carried


def loop(*inside: Operation) -> scf.ForOp:
    bound = Made(result_types=[i32]).results[0]
    return scf.ForOp(bound, bound, bound, [], Block([*inside, scf.YieldOp()], arg_types=[i32]))


def branch(*inside: Operation, otherwise: list[Operation] | None = None) -> scf.IfOp:
    other = None if otherwise is None else [*otherwise, scf.YieldOp()]
    return scf.IfOp(Made(result_types=[i1]).results[0], [], [*inside, scf.YieldOp()], other)


def test_enters_of_a_ring_count_one_after_the_other() -> None:
    p = Program()
    found = p.counted(p.get(), p.put(), p.get(1), p.get(), p.put())
    assert found == [("get", 0, 0), ("put", 0, 0), ("get", 1, 0), ("get", 0, 1), ("put", 0, 1)]


def test_only_gets_are_skipped() -> None:
    p = Program()
    found = p.counted(p.get(), p.put(), *p.advance(3), *p.advance(2, 1), p.put(), p.get(), p.get(1))
    assert found == [("get", 0, 0), ("put", 0, 0), ("put", 0, 1), ("get", 0, 4), ("get", 1, 2)]


def test_loops_carry_cursors() -> None:
    p = Program()
    found = p.counted(p.get(), loop(p.get(), *p.advance(1)), loop(p.put()), p.get(), p.put())
    assert [number for kind, _, number in found if kind == "get"] == [0, 1, 3, 5, 7]
    assert [number for kind, _, number in found if kind == "put"] == [0, 1, 2, 3]
    inner = Program()
    found = inner.counted(loop(loop(inner.get()), inner.get()), inner.get())
    assert [number for _, _, number in found] == list(range(13))


@pytest.mark.parametrize("taken", [True, False])
def test_branches_give_cursors(taken: bool) -> None:
    """A side that takes no slot, or that is not there, leaves the cursor where it was."""
    for otherwise, count in ((None, 0), ([], 0), ("get", 1)):
        p = Program()
        other: Any = [p.get()] if otherwise == "get" else otherwise
        found = p.counted(branch(p.get(), p.get(), otherwise=other), p.get(), taken=taken)
        assert [number for _, _, number in found] == list(range((2 if taken else count) + 1))


def test_loops_while_something_holds_carry_cursors() -> None:
    p = Program()
    flag = Made(result_types=[i1])
    before = Block([p.get(), flag, scf.ConditionOp(flag.results[0])])
    after = Block([p.get(), p.put(), scf.YieldOp()])
    found = p.counted(scf.WhileOp([], [], Region(before), Region(after)), p.get())
    assert [number for kind, _, number in found if kind == "get"] == [0, 1, 2, 3, 4, 5]
    assert [number for kind, _, number in found if kind == "put"] == [0, 1]


def test_loops_that_take_no_slot_carry_nothing() -> None:
    p = Program()
    idle, other = loop(Made()), loop(p.get(1))
    p.counted(p.get(), idle, branch(Made()), other, p.get())
    carried = [len(op.results) for op in p.body.ops if isinstance(op, scf.ForOp | scf.IfOp)]
    assert carried == [0, 0, 1]


def test_other_ops_carry_none() -> None:
    p = Program()
    with pytest.raises(ValueError, match="cannot carry a cursor"):
        p.counted(Made(regions=[Region(Block([p.get()]))]))


def test_attributes_and_names_stay() -> None:
    p = Program()
    get = p.get()
    get.attributes["mark"] = UnitAttr()
    get.token.name_hint, get.views[0].name_hint = "slot", "tile"
    p.rings[0].ref.name_hint = "ring_of_a"
    user = Made(operands=[get.token, get.views[0]])
    p.counted(get, p.put(1), user)
    (entered,) = (op for op in p.body.ops if isinstance(op, GetEnter))
    assert list(user.operands) == [entered.token, entered.views[0]]
    assert "mark" in entered.attributes
    assert (entered.token.name_hint, entered.views[0].name_hint) == ("slot", "tile")
    starts = [op.cursor.name_hint for op in p.body.ops if isinstance(op, Start)]
    assert sorted(filter(None, starts)) == ["ring_of_a_get", "ring_put"]
