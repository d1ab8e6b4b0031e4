"""Factors of a running maximum: exponentials of differences, scaled by finite numbers alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, TensorType, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.aref.passes.conditional_rescaling import _factors, _maximum_of_rows, _only_scaling
from tawa.aref.passes.register_prefetch import _Ahead
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Reduce, Splat

ROWS = TensorType(f32, (64,))


def made(kind: Any = ROWS) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def number(value: float) -> SSAValue:
    return Splat(arith.ConstantOp(FloatAttr(value, f32)).result, (64,)).result


class Chain:
    """A difference, what is done with it, and what else uses it."""

    def __init__(self, bound: SSAValue | None = None) -> None:
        self.bound = made() if bound is None else bound
        self.top = Map("maxnumf", [self.bound, made()])
        self.last: Map = Map("subf", [self.bound, self.top.result])
        self.block = Block([self.top, self.last])

    def then(self, function: str, *more: SSAValue, first: bool = True) -> Map:
        given = [self.last.result, *more] if first else [*more, self.last.result]
        self.last = Map(function, given)
        self.block.add_op(self.last)
        return self.last

    def factors(self) -> list[Map]:
        return list(_factors(self.top, self.bound))


@pytest.mark.parametrize(
    ("factor", "known"),
    [
        (number(1.4), True), (number(-2.0), False), (number(math.inf), False), (number(0.0), False),
        (made(), False), (number(1e-40), False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_scales(factor: SSAValue, known: bool, first: bool) -> None:
    """An ordinary number on either side, one after the other; then an exponential."""
    chain = Chain()
    scaled = chain.then("mulf", factor, first=first)
    exponential = chain.then("exp2")
    assert chain.factors() == ([exponential] if known else [])
    difference = next(
        op for op in chain.block.ops if isinstance(op, Map) and op.function.data == "subf"
    )
    assert _only_scaling(difference) is (scaled if known else None)
    assert _only_scaling(exponential) is None
    chain = Chain()
    chain.then("mulf", number(2.0))
    chain.then("mulf", factor, first=first)
    assert bool(chain.factors()) is False
    last = chain.then("exp")
    assert chain.factors() == ([last] if known else [])


@pytest.mark.parametrize("kind", ["plain", "added", "used twice", "elsewhere", "turned", "never"])
def test_which_differences_are_factors(kind: str) -> None:
    """Of the bound, in the maximum's block, used by nothing else on the way."""
    chain = Chain()
    if kind == "turned":
        chain.last = Map("subf", [chain.top.result, chain.bound])
        chain.block.add_op(chain.last)
    if kind == "added":
        chain.then("addf", number(1.0))
    if kind == "used twice":
        Made(operands=[chain.last.result])
    if kind == "elsewhere":
        inner = Map("exp2", [chain.last.result])
        chain.block.add_op(scf.IfOp(made(i1), [], [inner, scf.YieldOp()]))
    elif kind != "never":
        chain.then("exp2")
    assert bool(chain.factors()) is (kind == "plain")


@pytest.mark.parametrize(
    ("kind", "scale", "once", "known"),
    [
        ("maxnumf", None, True, True), ("maxnumf", 2.0, True, True), ("maxnumf", -2.0, True, False),
        ("addf", None, True, False), ("maxnumf", 2.0, False, False), ("minnumf", 2.0, True, False),
    ],
)  # fmt: skip
def test_maxima_of_rows(kind: str, scale: float | None, once: bool, known: bool) -> None:
    """As they are, or a positive multiple of them that alone uses them."""
    reduce = Reduce(made(TensorType(f32, (64, 32))), 1, kind)
    value = reduce.result
    ops: list[Operation] = [reduce]
    if scale is not None:
        ops.append(op := Map("mulf", [value, number(scale)]))
        value = op.result
    if not once:
        Made(operands=[reduce.result])
    found = _maximum_of_rows(value)
    assert (found is not None) is known
    if found is not None:
        assert found[0] is reduce
        assert len(found[1]) == (scale is not None)
        assert found[2] == ops


def test_values_of_outside() -> None:
    """However deep in the loop something stands, it is inside."""
    inner, around = Made(result_types=[i32]), Made(result_types=[i32])
    branch = scf.IfOp(made(i1), [], [inner, scf.YieldOp()])
    body = Block([branch, scf.YieldOp()], arg_types=[i32])
    loop = scf.ForOp(around.results[0], around.results[0], around.results[0], [], body)
    top = Block([around, loop], arg_types=[i32])
    ahead = _Ahead(loop, branch)
    outside = ahead._outside  # pyright: ignore[reportPrivateUsage]
    assert not outside(inner.results[0])
    assert not outside(body.args[0])
    assert outside(around.results[0])
    assert outside(top.args[0])
    assert outside(made())
