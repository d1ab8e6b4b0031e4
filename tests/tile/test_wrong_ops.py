"""Ops of the tile level that cannot be: each condition of a verifier refuses, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, TensorType, f16, f32, i32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from tawa.tile.dialect.value_ops import ExtractSlice, Join, Repeat, RowEnds, Split


def tile(*shape: int, element: Attribute = f32) -> SSAValue:
    return Made(result_types=[TensorType(element, shape)]).results[0]


def number() -> SSAValue:
    return Made(result_types=[i32]).results[0]


def window(source: SSAValue, sizes: tuple[int, ...], offsets: int) -> Operation:
    return ExtractSlice(source, [number() for _ in range(offsets)], sizes)


def repeated(axis: int, times: int, *shape: int) -> Operation:
    """A repetition of a tile of 4 x 8 that claims to have a shape."""
    made = Repeat(tile(4, 8), 0, 1)
    made.properties["axis"] = IntegerAttr(axis, 32)
    made.properties["times"] = IntegerAttr(times, 32)
    result = TensorType(f32, shape)
    return Repeat.create(operands=made.operands, properties=made.properties, result_types=[result])


def promised(ends: SSAValue, counter: Attribute = i32, *, inside: bool = True) -> Operation:
    """A promise of a loop."""
    promise = RowEnds(ends)
    bound = arith.ConstantOp(IntegerAttr(4, counter))
    body = Block([promise, scf.YieldOp()] if inside else [scf.YieldOp()], arg_types=[counter])
    loop = scf.ForOp(bound, bound, bound, [], Region(body))
    Block([bound, loop] if inside else [bound, loop, promise])
    return promise


RIGHT: dict[str, Callable[[], Operation]] = {
    "twice as many rows": lambda: repeated(0, 2, 8, 8),
    "columns as often as once": lambda: repeated(1, 1, 4, 8),
    "a window": lambda: window(tile(8, 8), (2, 8), 2),
    "all of it": lambda: window(tile(8), (8,), 1),
    "two of a type": lambda: Join(tile(4, 8), tile(4, 8)),
    "halves": lambda: Split(tile(4, 2)),
    "ends of rows": lambda: promised(tile(8, element=i32)),
    "long ends of rows": lambda: promised(tile(8, element=i64), i64),
}

WRONG: dict[str, tuple[Callable[[], Operation], str]] = {
    "an axis before the first": (lambda: repeated(-1, 2, 4, 16), "cannot repeat"),
    "an axis behind the last": (lambda: repeated(2, 1, 4, 8), "cannot repeat"),
    "another number of rows": (lambda: repeated(0, 2, 12, 8), "cannot repeat"),
    "the other axis": (lambda: repeated(0, 2, 4, 16), "cannot repeat"),
    "another rank": (lambda: repeated(0, 2, 8, 8, 1), "cannot repeat"),
    "too few offsets": (lambda: window(tile(8, 8), (2, 8), 1), "one rank"),
    "too many offsets": (lambda: window(tile(8, 8), (2, 8), 3), "one rank"),
    "a window of fewer dimensions": (lambda: window(tile(8, 8), (2,), 2), "one rank"),
    "a window that is too wide": (lambda: window(tile(8, 8), (2, 9), 2), "too large"),
    "a window of too many rows": (lambda: window(tile(8, 8), (9, 8), 2), "too large"),
    "two shapes": (lambda: Join(tile(4, 8), tile(8, 4)), "does not verify"),
    "two element types": (lambda: Join(tile(4), tile(4, element=f16)), "does not verify"),
    "three thirds": (lambda: Split(tile(4, 3)), "dimension of 2"),
    "a vector of two": (lambda: Split(tile(2)), "base attribute tensor"),
    "no loop around it": (lambda: promised(tile(8, element=i32), inside=False), "a loop"),
    "rows and columns": (lambda: promised(tile(8, 1, element=i32)), "one number a row"),
    "another counter": (lambda: promised(tile(8, element=i64)), "the counter's type"),
}


@pytest.mark.parametrize("case", RIGHT)
def test_what_can_be_is_accepted(case: str) -> None:
    RIGHT[case]().verify()


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(VerifyException, match=message):
        make().verify()
