"""Index arithmetic of timing programs is what the table of scalar functions says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i1, i8, i32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute

from tawa.base.numerics import value_dtype
from tawa.base.types import PtrType, bits
from tawa.ir.elementwise import Map
from tawa.simulate.timing.scalars import EXPRESSIONS, OF_BITS, divide, expression, remainder

NUMBERS = (0, 1, 2, 3, 7, 31, 40, 100, 127, -1, -2, -3, -31, -100, -128)
LARGE = (1 << 31) - 1, -(1 << 31), 1 << 20, 12345678
NAMES = {"_div": divide, "_rem": remainder}

SUMS = ("addi", "subi", "muli")
"""Taken not to overflow."""
APART = (*SUMS, "select", "extui", "quotient", "trunci")
OTHERS = [name for name in (*EXPRESSIONS, *OF_BITS) if name not in APART]

CASES: list[tuple[str, tuple[Attribute, ...], Attribute]] = [
    *((name, (i64, i64), i64) for name in SUMS),
    *((n, (k, k), i1 if n.startswith("cmpi") else k) for k in (i8, i32, i64) for n in OTHERS),
    ("extsi", (i8,), i32), ("extsi", (i32,), i64), ("extui", (i1,), i32), ("extsi", (i1,), i32),
    ("trunci", (i64,), i32), ("trunci", (i64,), i8), ("trunci", (i32,), i1),
    ("addptr", (PtrType(i32), i32), PtrType(i32)), ("addptr", (PtrType(i1), i64), PtrType(i1)),
]  # fmt: skip


def value(kind: Attribute) -> Any:
    return Made(result_types=[kind]).results[0]


def held(kind: Attribute, numbers: tuple[int, ...]) -> list[int]:
    """The numbers that a type holds; of a pointer, addresses."""
    if isinstance(kind, PtrType):
        return [4096, 1 << 40]
    if kind == i1:
        return [0, 1]
    most = 1 << bits(kind) - 1
    return [n for n in numbers if -most <= n < most]


@pytest.mark.parametrize(("name", "operands", "result"), CASES)
def test_a_function_of_whole_numbers(
    name: str, operands: tuple[Attribute, ...], result: Attribute
) -> None:
    op = Map(name, [value(kind) for kind in operands], result)
    text = expression(op)
    if operands[0] == i1 and name != "extui":
        assert text is None, "left to the table"
        return
    assert text is not None
    arity = len(operands)
    rights = held(operands[-1], NUMBERS) if arity > 1 else [0]
    for left in held(operands[0], (*NUMBERS, *LARGE, (1 << 40) + 5, -(1 << 33) - 7)):
        for right in rights:
            if name.startswith(("div", "rem")) and not right:
                continue
            if name in ("divui", "remui") and (left < 0 or right < 0):
                continue  # of sizes, which are not negative
            if name == "divsi" and right == -1 and left == -(1 << bits(operands[0]) - 1):
                continue  # overflows
            given = [left, right][:arity]
            found = eval(text.format(*map(repr, given)), dict(NAMES))
            arrays = [
                np.asarray(n, np.int64 if isinstance(k, PtrType) else value_dtype(k))
                for n, k in zip(given, operands, strict=True)
            ]
            assert int(found) == int(op.evaluate(*arrays)), given
