"""Copies of tiles in shared memory: where they stand, and which of them go to the same place."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, f16, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.analysis.staging import drop_unread, memory_shared, staged, turned
from tawa.aref.dialect.ops import (
    DotIssue,
    DotWait,
    Stage,
    ViewRead,
    ViewTrans,
    ViewType,
    WarpDot,
    WarpGroup,
)
from tawa.tile.dialect.ops import Splat, Trans

TILE, OTHER, SUMS = (
    TensorType(k, s) for k, s in ((f16, (64, 64)), (f16, (64, 32)), (f32, (64, 64)))
)


def made(kind: Any) -> Operation:
    return Made(result_types=[kind])


def of(op: Operation) -> SSAValue:
    return op.results[0]


def branch(*inside: Operation) -> scf.IfOp:
    return scf.IfOp(of(made(i1)), [], [*inside, scf.YieldOp()])


def names(block: Block) -> list[str]:
    return [op.name.partition(".")[2] for op in block.ops]


@pytest.mark.parametrize("shared", [False, True])
def test_a_tile_of_the_same_block_is_copied_before_its_reader(shared: bool) -> None:
    """Once for all of the block if it is shared, before the first of them."""
    tile, first, second = made(TILE), made(f32), made(f32)
    Block([tile, first, second])
    late = staged(of(tile), second, shared=shared)
    early = staged(of(tile), first, shared=shared)
    again = staged(of(tile), second, shared=shared)
    assert late.type == ViewType(TILE)
    block = first.parent
    assert block is not None
    copies = [op for op in block.ops if isinstance(op, Stage)]
    if shared:
        assert late is early is again
        assert copies[0].next_op is first
        assert len(copies) == 1
    else:
        assert len({late, early, again}) == 3
        assert [op.view for op in copies] == [early, late, again]
        assert copies[0].next_op is first
        assert copies[2].next_op is second


@pytest.mark.parametrize("shared", [False, True])
def test_a_tile_of_outside_is_copied_where_it_is_made(shared: bool) -> None:
    """Once for all ops that read it inside."""
    tile, readers = made(TILE), [made(f32), made(f32)]
    between = Made(operands=[of(tile)])
    inner = branch(*readers)
    Block([tile, between, inner])
    views = {staged(of(tile), reader, shared=shared) for reader in readers}
    assert len(views) == 1
    copy = views.pop().owner
    assert isinstance(copy, Stage)
    assert tile.next_op is copy
    assert copy.next_op is between
    argument = Block([branch(reader := made(f32))], arg_types=[TILE])
    view = staged(argument.args[0], reader, shared=shared)
    assert argument.first_op is view.owner


def warp_product(view: SSAValue) -> WarpDot:
    return WarpDot(view, view, of(made(SUMS)), "tf32")


def issue(view: SSAValue, added: SSAValue | None = None) -> DotIssue:
    return DotIssue((view, view, added or of(made(SUMS))))


class Group:
    """A warp group of copies, and of products that read them."""

    def __init__(self) -> None:
        self.block = Block()
        self.group = WarpGroup("math", 4, 1, Region(self.block))

    def add(self, *ops: Operation) -> None:
        self.block.add_ops(ops)

    def shared(self) -> dict[Stage, Stage]:
        return memory_shared(self.group)


def copy(kind: Any = TILE, buffer: SSAValue | None = None) -> Stage:
    return Stage(of(made(kind)), buffer)


def test_copies_of_products_that_are_over_share_memory() -> None:
    """What has been free for longest is taken first."""
    g = Group()
    copies = [copy() for _ in range(3)]
    for one in copies:
        g.add(one, warp_product(one.view))
    assert g.shared() == {copies[1]: copies[0], copies[2]: copies[0]}
    g = Group()
    a, b, c, d = (copy() for _ in range(4))
    g.add(a, b, warp_product(a.view), warp_product(b.view), c, warp_product(c.view), d)
    assert g.shared() == {c: a, d: b}


def test_products_that_go_on_keep_their_memory() -> None:
    """Products of warp groups of the same block are not done where a later copy stands."""
    g = Group()
    first, second = copy(), copy()
    product = issue(first.view)
    g.add(first, product, DotWait(0, [product.result]), second, warp_product(second.view))
    assert g.shared() == {}
    g = Group()
    first, second = copy(), copy()
    g.add(first, second, warp_product(first.view), warp_product(second.view))
    assert g.shared() == {}
    g = Group()
    first, second = copy(), copy()
    through = ViewTrans(first.view)
    g.add(first, through, second, warp_product(through.result))
    assert g.shared() == {}
    g = Group()
    first, second = copy(), copy()
    through = ViewTrans(first.view)
    g.add(first, through, warp_product(through.result), second)
    assert g.shared() == {second: first}


@pytest.mark.parametrize("waited", [True, False])
def test_products_of_a_block_that_has_ended_are_over_if_they_are_waited_for(waited: bool) -> None:
    g = Group()
    first, second = copy(), copy()
    product = issue(first.view)
    wait = DotWait(0, [product.result])
    g.add(branch(first, product, *([wait] if waited else [])), second)
    if not waited:
        g.add(wait)
    assert g.shared() == ({second: first} if waited else {})
    g = Group()
    first, second = copy(), copy()
    g.add(branch(first, warp_product(first.view)), second)
    assert g.shared() == {}


@pytest.mark.parametrize(("sums", "places"), [(4, 5), (13, 14), (14, 2)])
def test_of_many_copies_those_of_one_sum_make_way(sums: int, places: int) -> None:
    """A sum that goes on is over when it is waited for; that costs a meeting, which few do not."""
    g, copies = Group(), list[Stage]()
    for _ in range(sums):
        first, second = copy(), copy()
        one = issue(first.view)
        two = issue(second.view, one.result)
        g.add(branch(first, second, one, two, DotWait(0, [two.result])))
        copies += first, second
    assert len(copies) - len(g.shared()) == places


def test_copies_inside_of_a_block_do_not_take_what_is_outside() -> None:
    """The next iteration may read it again."""
    g = Group()
    first, second = copy(), copy()
    g.add(first, warp_product(first.view), branch(second))
    assert g.shared() == {}
    g = Group()
    first, second = copy(), copy()
    g.add(first, branch(warp_product(first.view)), second)
    assert g.shared() == {second: first}
    g = Group()
    first, second = copy(), copy()
    g.add(first, second, branch(warp_product(first.view)))
    assert g.shared() == {}


def test_copies_of_other_types_and_of_two_buffers_have_their_own_memory() -> None:
    g = Group()
    first, second, third = copy(), copy(OTHER), copy()
    for one in (first, second, third):
        g.add(one, warp_product(first.view) if one is first else made(f32))
    assert g.shared() == {third: first}
    g = Group()
    first, second = copy(buffer=of(made(i32))), copy(buffer=of(made(i32)))
    g.add(first, warp_product(first.view), second)
    assert g.shared() == {}


def test_a_transpose_is_made_once_where_the_tile_is() -> None:
    tile, between, reader, late = made(TILE), made(f32), made(f32), made(f32)
    inner = branch(reader)
    block = Block([tile, between, inner, late])
    first = turned(of(tile), reader)
    assert isinstance(first.owner, Trans)
    assert tile.next_op is first.owner
    assert turned(of(tile), late) is first
    assert turned(of(tile), between) is first
    assert names(block).count("trans") == 1
    argument = Block([made(f32), reader := made(f32)], arg_types=[TILE])
    found = turned(argument.args[0], reader)
    assert argument.first_op is found.owner


@pytest.mark.parametrize("other", ["as it is", "later", "elsewhere"])
def test_a_transpose_that_is_no_help(other: str) -> None:
    """One that exchanges nothing, one behind the reader, one inside of a branch."""
    tile, reader = made(TILE), made(f32)
    trans = Trans(of(tile), (0, 1) if other == "as it is" else (1, 0))
    if other == "elsewhere":
        Block([tile, branch(trans), reader])
    else:
        Block([tile, *([reader, trans] if other == "later" else [trans, reader])])
    found = turned(of(tile), reader)
    assert found.owner is not trans
    assert tile.next_op is found.owner


def test_what_nobody_reads_is_dropped() -> None:
    """Reads and transposes, one after the other; no computation and nothing that is used."""
    g = Group()
    view = of(made(ViewType(TILE)))
    read, kept, scalar = ViewRead(view), ViewRead(view), made(f16)
    trans, splat = Trans(read.result), Splat(of(scalar), (64, 64))
    user = Made(operands=[kept.result])
    g.add(scalar, read, trans, kept, splat, user)
    drop_unread(g.group)
    assert list(g.block.ops) == [scalar, kept, user]


def test_a_copy_that_a_branch_reads_stands_before_it() -> None:
    """Also if one that comes later has asked for it first."""
    value, inner, later = made(TILE), made(TILE), made(TILE)
    block = Block([value, branch(inner), later])
    view = staged(of(value), later, shared=True)
    assert staged(of(value), inner) is view
    (copy,) = [op for op in block.ops if isinstance(op, Stage)]
    assert [op for op in block.ops if op in (value, copy, inner.parent_op(), later)] == [
        value, copy, inner.parent_op(), later,
    ]  # fmt: skip
