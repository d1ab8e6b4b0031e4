"""What ops say of themselves, and what is said of things that are no ops."""

from __future__ import annotations

import pytest
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, TensorType, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation

from tawa.ir.elementwise import Map
from tawa.ir.traits import is_constant, is_elementwise, is_free, made_anew
from tawa.tile.dialect.ops import Arange, Reduce, Splat

ASKED = {"elementwise": is_elementwise, "anew": made_anew, "constant": is_constant, "free": is_free}


def ops() -> dict[str, tuple[object, set[str]]]:
    """Things, and what they are."""
    number = ConstantOp(IntegerAttr(3, i32))
    tile = Made(result_types=[TensorType(f32, (8, 16))]).results[0]
    return {
        "number": (number, {"constant"}),
        "tile of one number": (Splat(number.result, (4,)), {"anew"}),
        "numbers in a row": (Arange(0, 8), {"anew"}),
        "function": (Map("addf", [tile, tile]), {"elementwise"}),
        "sum": (Reduce(tile, 1, "addf"), set()),
        "unknown": (tile.owner, set()),
        "a block": (Block(), set()),
        "nothing": (None, set()),
    }


@pytest.mark.parametrize("name", ops())
def test_what_an_op_is(name: str):
    thing, expected = ops()[name]
    found = {kind for kind, is_one in ASKED.items() if is_one(thing)}
    if isinstance(thing, Operation) and isinstance(thing, Splat | Arange):
        found -= {"elementwise"}  # of which they have no operands
    assert found == expected
