"""Which tiles lie in registers as products left them, through loops and branches."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType, f16, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Region, SSAValue

from tawa.aref.analysis.products import from_products
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Dot, Trans

TILE = TensorType(f32, (64, 64))


def made(kind: object = TILE) -> SSAValue:
    return Made(result_types=[kind]).results[0]  # pyright: ignore


def product() -> SSAValue:
    operands = [made(TensorType(f16, (64, 64))) for _ in range(2)]
    return Dot(*operands, made()).result


def negated(value: SSAValue) -> SSAValue:
    return Map("negf", [value]).results[0]


def test_functions_of_elements_keep_where_they_lie() -> None:
    assert from_products(product())
    assert from_products(negated(negated(product())))
    assert from_products(Map("addf", [made(), product()]).results[0])
    assert not from_products(made())
    assert not from_products(negated(made()))
    assert not from_products(Trans(product(), (1, 0)).result)


def test_branches_and_loops_are_looked_through() -> None:
    """Each result by what is handed on for it, not what is handed on beside it."""
    ways = [Block([scf.YieldOp(*values)]) for values in ((made(), product()), (made(), made()))]
    branch = scf.IfOp(made(i1), [TILE, TILE], [ways[0]], [ways[1]])
    assert [from_products(r) for r in branch.results] == [False, True]
    body = Block(arg_types=[i32, TILE, TILE, TILE])
    body.add_op(scf.YieldOp(negated(product()), made(), body.args[1]))
    loop = scf.ForOp(made(i32), made(i32), made(i32), [made(), made(), made()], body)
    assert [from_products(r) for r in loop.results] == [True, False, True]
    assert [from_products(a) for a in body.args[1:]] == [True, False, True]


def test_loops_with_a_condition_hand_on_what_stands_at_it() -> None:
    before, after = Block(arg_types=[TILE, TILE]), Block(arg_types=[TILE, TILE, TILE])
    before.add_op(scf.ConditionOp(made(i1), product(), made(), before.args[1]))
    after.add_op(scf.YieldOp(made(), made()))
    loop = scf.WhileOp([made(), made()], [TILE] * 3, Region(before), Region(after))
    assert [from_products(r) for r in loop.results] == [True, False, False]
