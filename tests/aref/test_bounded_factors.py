"""Which products of zeros are zeros: those with factors that are finite, not negative, no NaN."""

from __future__ import annotations

import math
from typing import Any

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType, f32, i1
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, Region, SSAValue

from tawa.aref.dialect.ops import WarpGroup
from tawa.aref.passes.zero_products import ZeroProducts, _is_bounded
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Broadcast, ExpandDims, Splat

TILE = TensorType(f32, (16, 8))


def unknown(kind: Any = TILE) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def number(value: float) -> SSAValue:
    return arith.ConstantOp(FloatAttr(value, f32)).result


def splat(value: float, *shape: int) -> SSAValue:
    return Splat(number(value), shape or (16, 8)).result


def of(function: str, *values: SSAValue) -> SSAValue:
    return Map(function, values).result


def chosen(a: SSAValue, b: SSAValue) -> SSAValue:
    """By a branch."""
    return scf.IfOp(unknown(i1), [a.type], [scf.YieldOp(a)], [scf.YieldOp(b)]).results[0]


def selected(a: SSAValue, b: SSAValue) -> SSAValue:
    return Map("select", [unknown(TensorType(i1, (16, 8))), a, b]).result


def rows(value: SSAValue) -> SSAValue:
    return Broadcast(ExpandDims(value, 1).result, (16, 8)).result


X = unknown()
POSITIVE = of("exp2", X)


@pytest.mark.parametrize(
    ("factor", "bounded"),
    [
        (splat(1.0), True), (splat(0.0), True), (splat(-1.0), False), (splat(math.inf), False),
        (splat(math.nan), False), (splat(1e38), True), (X, False), (POSITIVE, False),
        (of("minnumf", POSITIVE, splat(1.0)), True), (of("minnumf", splat(1.0), POSITIVE), True),
        (of("minnumf", X, splat(1.0)), False), (of("minnumf", splat(1.0), X), False),
        (of("minnumf", POSITIVE, splat(math.inf)), False), (of("minnumf", POSITIVE, X), False),
        (of("maxnumf", POSITIVE, splat(1.0)), False),
        (of("minnumf", POSITIVE, of("minnumf", POSITIVE, splat(2.0))), True),
        (selected(splat(1.0), splat(0.5)), True), (selected(splat(1.0), X), False),
        (selected(X, splat(1.0)), False), (chosen(splat(1.0), splat(0.5)), True),
        (chosen(splat(1.0), X), False), (chosen(X, splat(1.0)), False),
        (rows(splat(1.0, 16)), True), (rows(unknown(TensorType(f32, (16,)))), False),
        (of("addf", splat(1.0), splat(1.0)), False),
    ],
)  # fmt: skip
def test_bounds_of_factors(factor: SSAValue, bounded: bool) -> None:
    assert _is_bounded(factor) is bounded


class Program:
    """What a warp group does, and what uses a tile at its end."""

    def __init__(self, value: Any, role: str = "math") -> None:
        self.block = Block()
        self.end = Made(operands=[value])
        collect(self.block, value)
        self.block.add_op(self.end)
        group = WarpGroup(role, 4, 1, Region(self.block), single=role == "load")
        ZeroProducts().apply(ModuleOp([group]))

    @property
    def found(self) -> Any:
        return self.end.operands[0].owner


def collect(block: Block, value: SSAValue) -> None:
    """Ops that make a value, in order."""
    op = value.owner
    if isinstance(op, Operation) and op.parent is None:
        for operand in op.operands:
            collect(block, operand)
        block.add_op(op)


@pytest.mark.parametrize(
    ("make", "zeros"),
    [
        (lambda: of("mulf", splat(0.0), splat(2.0)), True),
        (lambda: of("mulf", splat(2.0), splat(0.0)), True),
        (lambda: of("mulf", splat(0.0), unknown()), False),
        (lambda: of("mulf", splat(-0.0), splat(2.0)), False),
        (lambda: of("mulf", splat(1.0), splat(2.0)), False),
        (lambda: of("addf", splat(0.0), splat(0.0)), False),
        (lambda: of("mulf", number(0.0), number(2.0)), False),  # of numbers it costs nothing
    ],
)
def test_scaled_zeros(make: Any, zeros: bool) -> None:
    program = Program(make())
    assert isinstance(program.found, Splat) is zeros
    assert any(isinstance(op, Map) for op in program.block.ops) is not zeros
    assert isinstance(Program(make(), "load").found, Map)


def either(a: SSAValue, b: SSAValue, *, work: bool = False) -> scf.IfOp:
    """Zeros of one's own on each side."""
    sides = []
    for value in (a, b):
        block = Block()
        collect(block, value)
        block.add_ops([*([Made()] if work else []), scf.YieldOp(value)])
        sides.append(Region(block))
    return scf.IfOp(unknown(i1), [a.type], *sides)


@pytest.mark.parametrize("work", [False, True])
def test_zeros_of_both_branches(work: bool) -> None:
    """They are zeros; a branch that does nothing more is gone."""
    branch = either(splat(0.0), splat(0.0), work=work)
    program = Program(branch.results[0])
    assert isinstance(program.found, Splat)
    assert program.found.parent is program.block
    assert program.found.value.owner.parent is program.block  # type: ignore[union-attr]
    assert any(isinstance(op, scf.IfOp) for op in program.block.ops) is work


@pytest.mark.parametrize(
    ("a", "b"), [(0.0, 1.0), (1.0, 0.0), (0.0, -0.0), (1.0, 1.0), (-0.0, -0.0)]
)
def test_other_branches_stay(a: float, b: float) -> None:
    branch = either(splat(a), splat(b))
    assert Program(branch.results[0]).found is branch


def test_results_that_are_used_keep_their_branch() -> None:
    """Of several, those that are zeros are taken out of it."""
    zero, tile = splat(0.0), unknown()
    kept = scf.IfOp(
        unknown(i1), [TILE, TILE],
        [zero.owner.value.owner, zero.owner, scf.YieldOp(zero, tile)],  # type: ignore[union-attr]
        [(one := splat(0.0)).owner.value.owner, one.owner, scf.YieldOp(one, tile)],  # type: ignore[union-attr]
    )  # fmt: skip
    program = Program(of("addf", *kept.results))
    first, second = program.found.arguments
    assert isinstance(first.owner, Splat)
    assert second is kept.results[1]
    assert kept.parent is program.block


def test_branches_without_results_stay() -> None:
    """What they are for is not this pass's business."""
    empty = scf.IfOp(unknown(i1), [], [scf.YieldOp()])
    group = WarpGroup("math", 4, 1, Region(Block([empty])))
    ZeroProducts().apply(ModuleOp([group]))
    assert empty.parent is group.body.block
