"""Rows and numbers that a body loads beside what it copies: which come along, which stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import TensorType, f16, f32, i1, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Block, Operation, SSAValue

from tawa.base.types import PtrType, shape_of
from tawa.ir.elementwise import Map
from tawa.partition.rows_beside import rows_beside
from tawa.tile.dialect.ops import Load, Reduce, Splat


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def load(*shape: int, of: Any = f32, mask: bool = False, **more: Any) -> Load:
    pointer: Any = TensorType(PtrType(of), shape) if shape else PtrType(of)
    flags = made(TensorType(i1, shape) if shape else i1) if mask else None
    other = made(TensorType(of, shape) if shape else of) if mask else None
    return Load(made(pointer), flags, other, **more)


ALL: Callable[[Load], bool] = lambda row: True  # noqa: E731
NONE: Callable[[Load], bool] = lambda row: False  # noqa: E731


def body(*ops: Operation) -> Block:
    return Block(ops)


def test_rows_come_along_and_tiles_do_not() -> None:
    copied, row, tile = load(64, 64, of=f16), load(64), load(64, 64)
    body(copied, row, tile)
    elsewhere = load(32)
    body(elsewhere)
    assert rows_beside([copied], ALL) == [row]
    assert rows_beside([copied], NONE) == []
    assert rows_beside([], ALL) == []


def test_what_addresses_are_computed_from_is_loaded_by_who_copies() -> None:
    index = load(64, of=i32)
    far = Map("addi", [index.result, index.result])
    pointer = Made(operands=[far.result], result_types=[TensorType(PtrType(f16), (64,))])
    copied, row = Load(pointer.results[0]), load(64)
    body(index, far, pointer, copied, row)
    assert rows_beside([copied], ALL) == [row]


@pytest.mark.parametrize(
    ("number", "along"),
    [(load(of=f32), True), (load(of=f16), False), (load(of=i32), False)],
)
def test_numbers_that_are_copied_by_themselves(number: Load, along: bool) -> None:
    """Of four bytes, and no integers: those may be addresses."""
    number = number.clone()
    copied = load(64, 64, of=f16)
    block = body(copied, number, Made(operands=[number.result]))
    found = rows_beside([copied], ALL)
    assert bool(found) is along
    assert (number.parent is block) is not along


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("taken", [True, False])
def test_a_number_is_a_row_of_one_element(mask: bool, taken: bool) -> None:
    """Its sum stands for it; a number again where it is not copied, and nothing is left."""
    number = load(mask=mask, cache=".cg", eviction="evict_last", volatile=True)
    number.result.name_hint = "decay"
    copied = load(64, 64, of=f16)
    user = Made(operands=[number.result])
    block = body(copied, number, user)
    asked: list[Load] = []

    def may(row: Load) -> bool:
        asked.append(row)
        return taken

    found = rows_beside([copied], may)
    (row,) = asked
    assert shape_of(row.result.type) == (1,)
    if not taken:
        assert found == []
        assert list(block.ops) == [copied, number, user]
        assert user.operands[0] is number.result
        return
    assert found == [row]
    total = user.operands[0].owner
    assert isinstance(total, Reduce)
    assert (total.value, total.axis.value.data, total.kind.data) == (row.result, 0, "addf")
    assert total.result.name_hint == "decay"
    spread = [v.owner for v in (row.ptr, row.mask, row.other) if v is not None]
    assert [type(op) for op in spread] == [Splat] * (3 if mask else 1)
    assert [op.value for op in spread] == list(number.operands) or not mask  # type: ignore[union-attr]
    assert (row.cache.data, row.eviction.data) == (".cg", "evict_last")  # type: ignore[union-attr]
    assert row.volatile is not None
    assert list(block.ops) == [copied, *spread, row, total, user]
