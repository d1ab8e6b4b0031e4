"""Which products warps do by themselves, and where their operands lie."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32, i1
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect.ops import (
    DotIssue,
    Stage,
    ViewRead,
    ViewTrans,
    ViewType,
    WarpDot,
    WarpGroup,
)
from tawa.aref.passes.warp_products import WarpProducts, multiplies_by_warps
from tawa.base.options import Options
from tawa.ir.decisions.decision import Decisions
from tawa.ir.decisions.roles import MultipliedByWarps
from tawa.tile.dialect.ops import Dot, Trans


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def tile(*shape: int, of: Any = f16) -> SSAValue:
    return made(TensorType(of, shape))


def makers(op: Operation) -> list[Operation]:
    """What makes an op's operands, in order."""
    found: list[Operation] = []
    for value in op.operands:
        assert isinstance(value.owner, Operation)
        found += [*makers(value.owner), value.owner]
    return found


def lowered(
    *ops: Operation, warps: int = 4, columns: bool = False
) -> tuple[list[Operation], Decisions, WarpGroup]:
    decided = Decisions()
    ops = tuple(dict.fromkeys(made for op in ops for made in [*makers(op), op]))
    group = WarpGroup("math", warps, 1, Region(Block(ops)), split_columns=columns)
    WarpProducts(Options(), decided).apply(ModuleOp([group]))
    return list(group.body.block.ops), decided, group


def product(
    rows: int, columns: int, a: Any = None, b: Any = None, precision: str | None = None
) -> Dot:
    a = tile(rows, 64) if a is None else a
    b = tile(64, columns) if b is None else b
    return Dot(a, b, tile(rows, columns, of=f32), precision)


@pytest.mark.parametrize(
    ("rows", "columns", "warps", "by_columns", "by_warps"),
    [
        (64, 64, 4, False, False), (32, 64, 4, False, True), (64, 64, 8, False, True),
        (128, 64, 8, False, False), (64, 128, 8, True, False), (128, 8, 8, True, True),
        (64, 64, 2, False, True), (64, 12, 4, False, True),
    ],
)  # fmt: skip
def test_who_multiplies(
    rows: int, columns: int, warps: int, by_columns: bool, by_warps: bool
) -> None:
    dot = product(rows, columns)
    user = Made(operands=[dot.result])
    dot.result.name_hint = "sums"
    ops, decided, group = lowered(dot, user, warps=warps, columns=by_columns)
    products = [op for op in ops if isinstance(op, WarpDot | Dot)]
    assert [type(op) for op in products] == [WarpDot if by_warps else Dot]
    assert user.operands[0] is products[0].result
    assert products[0].result.name_hint == "sums"
    assert len(decided.of(MultipliedByWarps)) == by_warps
    assert multiplies_by_warps(group) is by_warps
    if isinstance(products[0], WarpDot):
        assert products[0].precision.data == "tf32"


@pytest.mark.parametrize("precision", ["ieee", "tf32x3", None])
def test_precisions_stay(precision: str | None) -> None:
    dot = Dot(tile(16, 16, of=f32), tile(16, 16, of=f32), tile(16, 16, of=f32), precision)
    (found,) = (op for op in lowered(dot)[0] if isinstance(op, WarpDot))
    assert found.precision.data == (precision or "tf32")


def test_a_slot_s_tile_is_read_where_it_lies() -> None:
    view = made(ViewType(TensorType(f16, (32, 64))))
    read = ViewRead(view)
    ops, _, _ = lowered(product(32, 64, a=read.result))
    (found,) = (op for op in ops if isinstance(op, WarpDot))
    assert found.a is view
    assert read not in ops  # nothing uses it any more
    other = ViewRead(made(ViewType(TensorType(f16, (32, 64)))))
    ops, _, _ = lowered(other, product(64, 64, a=tile(64, 64)))
    assert other in ops  # a group whose products stay is left as it is


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_computed_tiles_are_copied_as_they_are_made(order: tuple[int, int]) -> None:
    """Of a transpose what it is made of, whose view is turned; another one is copied itself."""
    source = Made(result_types=[TensorType(f16, (64, 64))])
    trans = Trans(source.results[0], order)
    ops, _, _ = lowered(product(32, 64, a=tile(32, 64), b=trans.result))
    (found,) = (op for op in ops if isinstance(op, WarpDot))
    copies = [op for op in ops if isinstance(op, Stage)]
    assert found.a is copies[0].view or found.a is copies[1].view
    turned = isinstance(found.b.owner, ViewTrans)
    assert turned is (order == (1, 0))
    copy = found.b.owner.view.owner if isinstance(found.b.owner, ViewTrans) else found.b.owner
    assert isinstance(copy, Stage)
    assert copy.value is (source.results[0] if turned else trans.result)


def test_groups_without_products_of_warps() -> None:
    assert not multiplies_by_warps(WarpGroup("math", 4, 1))
    issue = DotIssue((made(ViewType(TensorType(f16, (64, 64)))),) * 2 + (tile(64, 64, of=f32),))
    warp = WarpDot(tile(16, 16), tile(16, 16), tile(16, 16, of=f32), "tf32")
    both = WarpGroup("math", 4, 1, Region(Block([issue, warp])))
    assert not multiplies_by_warps(both)
    nested = scf.IfOp(made(i1), [], [warp.clone(), scf.YieldOp()])
    assert multiplies_by_warps(WarpGroup("math", 4, 1, Region(Block([nested]))))
