"""Which loads of a branch come before it, with what they are computed from."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.base.types import PtrType
from tawa.ir.elementwise import Map
from tawa.ir.loops import integer_constant
from tawa.tile.dialect.ops import Arange, AtomicRmw, Broadcast, Dot, ExpandDims, Load, Splat, Store
from tawa.tile.passes.loads.early_loads import EarlyLoads

SHAPE = (16, 16)


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def product() -> Dot:
    return Dot(*(made(TensorType(f32, SHAPE)) for _ in range(3)))


class Program:
    """A loop with a branch around a product: `if n > 16`, and a load of rows `16 + r < n`."""

    def __init__(self, **changed: Any) -> None:
        self.ops: list[Operation] = []
        n, limit = made(i32), integer_constant(changed.get("limit", 16), i32)
        self.limit = limit
        asked = Map("cmpi_sgt", [n, limit.result])
        first = changed.get("first", 16)
        rows = Arange(first, first + 16)
        ends = Splat(n, (16,))
        inside = Map("cmpi_slt", [rows.result, ends.result])
        tall = ExpandDims(inside.result, 1)
        mask = Broadcast(tall.result, SHAPE)
        offset = Map(changed.get("offset", "addi"), [made(TensorType(i32, SHAPE))] * 2)
        base = Made(result_types=[TensorType(PtrType(f32), SHAPE)])
        pointers = Map("addptr", [base.results[0], offset.result])
        chain: list[Operation] = [rows, ends, inside, tall, mask, offset, pointers]
        final = mask.result
        if changed.get("and"):
            other = Map("andi", [made(TensorType(i1, SHAPE)), mask.result])
            chain.append(other)
            final = other.result
        if changed.get("made"):
            where = Made(operands=[pointers.result], result_types=[pointers.result.type])
            chain.append(where)
            self.load = Load(where.results[0], final)
        else:
            self.load = Load(pointers.result, None if changed.get("bare") else final,
                             volatile=changed.get("volatile", False))  # fmt: skip
        self.chain = chain
        use = Map("addf", [self.load.result] * 2)
        body = [*chain, self.load, use, *([] if changed.get("no product") else [product()])]
        tile = made(TensorType(PtrType(f32), SHAPE))
        if changed.get("stored"):
            body.append(Store(tile, use.result))
        self.branch = scf.IfOp(asked.result, [], [*body, scf.YieldOp()])
        self.outside: list[Operation] = [limit, asked, self.branch]
        if changed.get("atomic"):
            pointer = made(PtrType(i32))
            self.outside.append(AtomicRmw("add", pointer, made(i32)))
        if changed.get("loop", True):
            block = Block([*self.outside, scf.YieldOp()], arg_types=[i32])
            loop = scf.ForOp(made(i32), made(i32), made(i32), [], block)
            top = Block([scf.IfOp(made(i1), [], [loop, scf.YieldOp()])])
        else:
            block = top = Block(self.outside)
        self.home = block
        self.module = ModuleOp(Region(top))
        EarlyLoads().apply(self.module)

    @property
    def moved(self) -> bool:
        where = {op.parent for op in (*self.chain, self.load)}
        before = where == {self.home}
        assert before or where == {self.branch.true_region.block}
        if before:
            order = [op for op in self.home.ops if op in (*self.chain, self.load)]
            assert order == [*self.chain, self.load]
            assert self.load.next_op is self.branch
        return before


@pytest.mark.parametrize(
    ("changed", "moved"),
    [
        ({}, True), ({"first": 17}, True), ({"first": 15}, False), ({"limit": 15}, True),
        ({"limit": 17}, False), ({"and": True}, True), ({"bare": True}, False),
        ({"volatile": True}, False), ({"offset": "divsi"}, False), ({"offset": "remsi"}, False),
        ({"offset": "muli"}, True), ({"stored": True}, False), ({"atomic": True}, False),
        ({"no product": True}, False), ({"loop": False}, False), ({"made": True}, False),
    ],
    ids=str,
)  # fmt: skip
def test_loads_that_read_nothing_where_the_branch_is_not_taken(
    changed: dict[str, Any], moved: bool
) -> None:
    """Alone, and nothing in the loop writes, orders memory, or divides on the way."""
    assert Program(**changed).moved is moved
