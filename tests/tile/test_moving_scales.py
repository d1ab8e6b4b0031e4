"""Which scales of a tile move past what: a positive number past a maximum, a mask, another shape."""

from __future__ import annotations

import math
from typing import Any

import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FloatAttr, FunctionType, ModuleOp, TensorType, f32, i1
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Operation, SSAValue

from tawa.base.options import Options
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Reduce, Splat, Trans
from tawa.tile.passes.scaled_exponents import ScaledExponents

SHAPE = (4, 8)
TILE = TensorType(f32, SHAPE)


class Program:
    """A kernel of a tile and a mask; the pass is run on it once its last op is there."""

    def __init__(self) -> None:
        self.kernel = func.FuncOp("kernel", FunctionType.from_lists([], []))
        self.block = self.kernel.body.block
        self.tile, self.mask = self.add(Made(result_types=[TILE])), self.add(
            Made(result_types=[TensorType(i1, SHAPE)]))  # fmt: skip

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def full(self, value: float) -> SSAValue:
        number = self.add(arith.ConstantOp(FloatAttr(value, f32)))
        return self.add(Splat(number, SHAPE))

    def scaled(self, by: float | None = 2.0) -> SSAValue:
        """The tile times a number; of one that is not known, nobody knows the sign."""
        number = self.full(by) if by is not None else self.add(
            Splat(self.add(Made(result_types=[f32])), SHAPE))  # fmt: skip
        return self.add(Map("mulf", [self.tile, number]))

    def moved(self, last: SSAValue) -> bool:
        """Whether the pass puts the scale behind what makes the last value."""
        self.block.add_ops([Made(operands=[last]), func.ReturnOp()])
        ScaledExponents(Options()).apply(ModuleOp([self.kernel]))
        (user,) = (op for op in self.block.ops if isinstance(op, Made) and op.operands)
        made = user.operands[0].owner
        return isinstance(made, Map) and made.function.data == "mulf"


SCALES = {
    2.0: True,
    0.25: True,
    -2.0: False,
    0.0: False,
    math.inf: False,
    1e-40: False,
    1e30: True,
    None: False,
}
"""Whether a number is an ordinary positive one, neither denormal nor infinite."""


@pytest.mark.parametrize("by", SCALES)
@pytest.mark.parametrize("kind", ["maxnumf", "minnumf", "addf"])
def test_maxima_of_rows(kind: str, by: float | None) -> None:
    p = Program()
    moves = p.moved(p.add(Reduce(p.scaled(by), 1, kind)))
    assert moves is (SCALES[by] and kind != "addf")


@pytest.mark.parametrize("by", [2.0, -2.0, None])
@pytest.mark.parametrize("used", [False, True])
def test_turned_tiles(by: float | None, used: bool) -> None:
    """Whatever the number is; unless the product is needed as it was, too."""
    p = Program()
    scaled = p.scaled(by)
    turned = p.add(Trans(scaled, (1, 0)))
    if used:
        p.block.add_op(Made(operands=[]))
        p.add(Map("absf", [scaled]))
    assert p.moved(turned) is not used


CONSTANTS = {-math.inf: True, math.inf: True, 0.0: True, math.nan: True, 1.0: False, -1e9: False}
"""Whether a positive number times a constant is the constant."""


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("first", [False, True])
def test_masks_that_choose(constant: float, first: bool) -> None:
    p = Program()
    sides = [p.scaled(), p.full(constant)]
    assert p.moved(p.add(Map("select", [p.mask, *(sides if first else sides[::-1])]))) is CONSTANTS[
        constant]  # fmt: skip


@pytest.mark.parametrize("by", SCALES)
def test_masks_move_past_positive_numbers(by: float | None) -> None:
    p = Program()
    chosen = p.add(Map("select", [p.mask, p.scaled(by), p.full(-math.inf)]))
    assert p.moved(chosen) is SCALES[by]


def test_a_choice_of_what_is_not_known_stays() -> None:
    p = Program()
    other = p.add(Made(result_types=[TILE]))
    assert not p.moved(p.add(Map("select", [p.mask, p.scaled(), other])))


def added(
    p: Program, *sides: float, by: float = 2.0, used: bool = False, first: bool = False
) -> Any:
    scaled = p.scaled(by)
    mask = p.add(Map("select", [p.mask, *(p.full(side) for side in sides)]))
    summands = [mask, scaled] if first else [scaled, mask]
    if used:
        p.add(Map("absf", [scaled]))
    return p.add(Map("addf", summands))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("sides", "moves"),
    [((0.0, -math.inf), True), ((-math.inf, 0.0), True), ((0.0, 0.0), True), ((0.0, -1e9), False),
     ((1.0, -math.inf), False)],
)  # fmt: skip
def test_masks_that_are_added(sides: tuple[float, float], moves: bool, first: bool) -> None:
    p = Program()
    assert p.moved(added(p, *sides, first=first)) is moves


def test_what_else_keeps_a_scale_before_a_sum() -> None:
    for more in ({"by": -2.0}, {"used": True}):
        p = Program()
        assert not p.moved(added(p, 0.0, -math.inf, **more))
    p = Program()
    assert not p.moved(p.add(Map("addf", [p.scaled(), p.add(Made(result_types=[TILE]))])))


def test_tiles_of_one_dimension_and_other_elements_stay() -> None:
    row = TensorType(f32, (8,))
    p = Program()
    number = p.add(Splat(p.add(arith.ConstantOp(FloatAttr(2.0, f32))), (8,)))
    scaled = p.add(Map("mulf", [p.add(Made(result_types=[row])), number]))
    assert not p.moved(p.add(Reduce(scaled, 0, "maxnumf")))
