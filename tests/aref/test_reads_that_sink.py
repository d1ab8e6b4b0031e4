"""Where a slot is read: before the first op that needs it, behind products, inside of branches."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32, i1
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect.ops import (
    Any as AnyOf,
)
from tawa.aref.dialect.ops import (
    Consumed,
    Create,
    DotIssue,
    GetEnter,
    ViewRead,
    Views,
    ViewTrans,
    WarpGroup,
)
from tawa.aref.passes.sink_reads import SinkReads
from tawa.tile.dialect.ops import Broadcast, Reshape

TILE, SUMS = TensorType(f16, (64, 64)), TensorType(f32, (64, 64))
RING = Create(2, [TILE])


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def product(view: SSAValue) -> DotIssue:
    return DotIssue((view, view, made(SUMS)))


def use(*values: SSAValue) -> Made:
    return Made(operands=list(values))


def branch(
    *inside: Operation, otherwise: list[Operation] | None = None, cond: Any = None
) -> scf.IfOp:
    other = None if otherwise is None else [*otherwise, scf.YieldOp()]
    return scf.IfOp(made(i1) if cond is None else cond, [], [*inside, scf.YieldOp()], other)


class Group:
    """A slot, its tile, and what is read of it."""

    def __init__(self) -> None:
        self.get = GetEnter(RING.ref)
        self.view = self.get.views[0]
        self.read = ViewRead(self.view)
        self.tile = self.read.result
        self.block = Block()

    def sunk(self, *ops: Operation) -> list[str]:
        """Let reads sink; the block in short, reads that meet in capitals."""
        self.block.add_ops([self.get, self.read, *ops])
        module = ModuleOp([WarpGroup("math", 4, 1, Region(self.block))])
        SinkReads().apply(module)
        return [self.name(op) for op in self.block.ops][1:]

    def name(self, op: Operation) -> str:
        if isinstance(op, ViewRead):
            return "READ" if op.meets is not None else "read"
        if isinstance(op, scf.IfOp):
            sides = [[self.name(o) for o in r.block.ops][:-1] for r in op.regions if r.blocks]
            return "if " + " else ".join(",".join(side) for side in sides)
        short = {DotIssue: "product", Consumed: "back", Reshape: "reshape", Broadcast: "broadcast"}
        return short.get(type(op), "use" if op.operands else "other")


def test_reads_stand_behind_products() -> None:
    """Of products that may read the slot, whose warps then meet; at the first op that needs it."""
    g = Group()
    found = g.sunk(product(g.view), use(g.view), use(g.tile), product(g.view), use(g.tile))
    assert found == ["product", "use", "READ", "use", "product", "use"]
    g = Group()
    other = GetEnter(RING.ref)
    g.block.add_op(other)
    assert g.sunk(product(other.views[0]), use(g.tile))[1:] == ["product", "read", "use"]
    g = Group()
    turned = ViewTrans(g.view)
    found = g.sunk(turned, product(turned.result), use(g.tile))
    assert found == ["use", "product", "READ", "use"]


def test_without_products_reads_stay() -> None:
    g = Group()
    assert g.sunk(Made(), use(g.tile), product(g.view)) == ["read", "other", "use", "product"]
    g = Group()
    assert g.sunk(product(g.view)) == ["read", "product"]  # nothing uses it


def test_reads_stay_before_the_slot_s_return() -> None:
    g = Group()
    back = Consumed(RING.ref, g.get.token, "none")
    assert g.sunk(product(g.view), back, use(g.tile)) == ["read", "product", "back", "use"]
    g = Group()
    other = Consumed(RING.ref, GetEnter(RING.ref).token, "none")
    found = g.sunk(product(g.view), other, use(g.tile))
    assert found == ["product", "back", "READ", "use"]


def test_other_shapes_of_a_tile_sink_with_it() -> None:
    g = Group()
    flat = Reshape(g.tile, (4096,))
    wide = Broadcast(Reshape(flat.result, (1, 4096)).result, (2, 4096))
    rows = wide.value.owner
    assert isinstance(rows, Operation)
    found = g.sunk(flat, rows, wide, product(g.view), use(wide.result))
    assert found == ["product", "READ", "reshape", "reshape", "broadcast", "use"]
    g = Group()
    flat = Reshape(g.tile, (4096,))
    found = g.sunk(flat, product(g.view), use(flat.result, g.tile), use(flat.result))
    assert found == ["product", "READ", "reshape", "use", "use"]
    g = Group()
    flat = Reshape(g.tile, (4096,))
    found = g.sunk(product(g.view), branch(flat, use(flat.result)))
    assert found == ["product", "if READ,reshape,use"]


def test_a_tile_that_one_side_needs_is_read_there() -> None:
    g = Group()
    assert g.sunk(Made(), branch(Made(), use(g.tile))) == ["other", "if read,other,use"]
    g = Group()
    found = g.sunk(branch(Made(), otherwise=[use(g.tile), use(g.tile)]))
    assert found == ["if other else read,use,use"]
    g = Group()
    found = g.sunk(product(g.view), branch(branch(use(g.tile))))
    assert found == ["product", "if if READ,use"]


def test_a_tile_that_more_than_one_side_needs_is_read_before() -> None:
    g = Group()
    both = branch(use(g.tile), otherwise=[use(g.tile)])
    assert g.sunk(product(g.view), both) == ["product", "READ", "if use else use"]
    g = Group()
    found = g.sunk(product(g.view), branch(use(g.tile)), use(g.tile))
    assert found == ["product", "READ", "if use", "use"]
    g = Group()
    flat = Reshape(g.tile, (4096,))
    found = g.sunk(flat, product(g.view), branch(use(flat.result)))
    assert found == ["product", "READ", "reshape", "if use"]


def test_no_read_on_a_side_that_warps_take_by_themselves() -> None:
    asked = AnyOf(made(TensorType(i1, (64, 64))))
    g = Group()
    found = g.sunk(product(g.view), asked, branch(use(g.tile), cond=asked.result))
    assert found == ["product", "use", "READ", "if use"]


@pytest.mark.parametrize("multiplied", [True, False])
def test_views_that_others_have_too(multiplied: bool) -> None:
    """Nobody knows which products read them."""
    views = Views(RING.ref, GetEnter(RING.ref).token)
    read = ViewRead(views.views[0])
    ops = [product(GetEnter(RING.ref).views[0])] if multiplied else [Made()]
    block = Block([views, read, *ops, use(read.result)])
    SinkReads().apply(ModuleOp([WarpGroup("math", 4, 1, Region(block))]))
    assert (read.meets is not None) is multiplied
    assert (read.next_op is block.last_op) is multiplied
