"""A zero is left out of sums where nothing shows the sign of a zero, and there alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

import tawa
import tawa.language as tl
from tawa.frontend import lower_to_tile, parse_argument
from tawa.ir.elementwise import Map
from tawa.ir.scalars.table import FUNCTIONS
from tawa.tile.analysis.zero_signs import HIDING, NEVER_NEGATIVE_ZERO, PASSING
from tawa.tile.passes.simplify import simplify

NUMBERS = np.float32([0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -200.0, 1e-44, np.inf, -np.inf, np.nan])


def applied(name: str, *values: Any) -> Any:
    with np.errstate(all="ignore"):
        return FUNCTIONS[name].evaluate([f32] * len(values), f32, *map(np.float32, values))


@pytest.mark.parametrize("name", sorted(HIDING))
def test_functions_that_hide_a_zeros_sign(name: str) -> None:
    assert applied(name, 0.0).tobytes() == applied(name, -0.0).tobytes()


@pytest.mark.parametrize("name", sorted(NEVER_NEGATIVE_ZERO))
def test_functions_that_give_no_negative_zero(name: str) -> None:
    found = applied(name, NUMBERS)
    assert not np.any((found == 0) & np.signbit(found))


@pytest.mark.parametrize("name", sorted(PASSING - {"extf"}))
def test_functions_that_pass_a_zeros_sign_on_do_nothing_else_with_it(name: str) -> None:
    arity = FUNCTIONS[name].signature.arity
    for index in range(arity):
        for first in NUMBERS:
            for second in NUMBERS if arity == 3 else [None]:
                others = [first, second][: arity - 1]
                a, b = (applied(name, *others[:index], z, *others[index:]) for z in (0.0, -0.0))
                same = a.tobytes() == b.tobytes() or (np.isnan(a) and np.isnan(b))
                assert same or (a == 0 and b == 0)


@tawa.jit
def plus(x: Any, out: Any, HOW: tl.constexpr, ZERO: tl.constexpr):
    """A tile plus zero, and what is made of it."""
    at = tl.arange(0, 8)[:, None] * 16 + tl.arange(0, 16)[None, :]
    row = tl.arange(0, 8)
    tile = tl.load(x + at) + ZERO
    if HOW == "stored":
        tl.store(out + at, tile)
    elif HOW == "exponential":
        tl.store(out + at, tl.exp(tile * 2.0))
    elif HOW == "compared":
        tl.store(out + at, tl.where(tile < 1.0, 1.0, 2.0))
    elif HOW == "reciprocal":
        tl.store(out + at, 1.0 / tile)
    elif HOW == "bits":
        tl.store(out + at, tl.abs(tile).to(tl.int32, bitcast=True).to(tl.float32))
    elif HOW == "maximum":
        tl.store(out + row, tl.max(tile, 1))
    elif HOW == "softmax":
        top, total = tl.full((8,), -float("inf"), tl.float32), tl.zeros((8,), tl.float32)
        for _ in range(3):
            new = tl.maximum(top, tl.max(tile, 1))
            total = total * tl.exp(top - new) + tl.sum(tl.exp(tile - new[:, None]), 1)
            top = new
        tl.store(out + row, top + tl.log(total))


def sums(how: str, zero: float) -> int:
    """Sums of whole tiles that are left of a kernel."""
    types = [parse_argument("*f32:16"), parse_argument("*f32:16")]
    module = lower_to_tile(plus, types, {"HOW": how, "ZERO": zero})
    simplify(module)
    module.verify()
    maps = [op for op in module.walk() if isinstance(op, Map)]
    tiles: list[SSAValue] = [op.result for op in maps if op.function.data == "addf"]
    return sum("8x16" in str(value.type) for value in tiles)


@pytest.mark.parametrize(
    ("how", "left"),
    [("stored", 1), ("reciprocal", 1), ("maximum", 1), ("exponential", 0), ("compared", 0),
     ("softmax", 0), ("bits", 0)],
)  # fmt: skip
def test_zero_is_left_out_where_no_sign_shows(how: str, left: int) -> None:
    assert sums(how, 0.0) == left
    assert sums(how, -0.0) == 0
    assert sums(how, 1.0) == 1


def test_the_stored_zero_is_positive() -> None:
    x, out = np.full((8, 16), -0.0, np.float32), np.ones((8, 16), np.float32)
    plus[(1,)](x, out, "stored", 0.0)
    assert not np.signbit(out).any()
    plus[(1,)](x, out, "stored", -0.0)
    assert np.signbit(out).all()
