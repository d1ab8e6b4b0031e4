"""Ops of the aref level that cannot be: each condition of a verifier refuses, and no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import IntegerAttr, TensorType, f16, f32, i32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from tawa.aref.dialect.ops import (
    CopyInto,
    Create,
    DotIssue,
    GetEnter,
    PutExit,
    StoreInto,
    TransposeInto,
    ViewReshape,
    ViewSlice,
)
from tawa.aref.dialect.types import TokenType, ViewType
from tawa.base.types import PtrType
from tawa.tile.dialect.ops import Repeat


def made(type_: Attribute) -> SSAValue:
    return Made(result_types=[type_]).results[0]


def tile(*shape: int) -> TensorType:
    return TensorType(f16, shape)


def view(*shape: int) -> SSAValue:
    return made(ViewType(tile(*shape)))


def ring(*shapes: tuple[int, ...], depth: int = 2) -> Create:
    return Create(depth, [tile(*shape) for shape in shapes])


def got(*shapes: tuple[int, ...]) -> Operation:
    """Tiles got from a ring of two, as views of these shapes."""
    op = GetEnter(ring((8, 16), (4, 4)).ref)
    views = [ViewType(tile(*shape)) for shape in shapes]
    return GetEnter.create(
        operands=[*op.operands], properties=op.properties, result_types=[TokenType(), *views]
    )


def given(completion: str) -> Operation:
    return PutExit(ring((8, 16)).ref, made(TokenType()), completion)


def copied(pointers: tuple[int, ...], into: SSAValue, *, turned: bool = False) -> Operation:
    where = made(TensorType(PtrType(f16), pointers))
    return CopyInto(where, None, into, (ring((8, 16)).ref, made(TokenType())), turned=turned)


def transposed(source: SSAValue, into: SSAValue) -> Operation:
    return TransposeInto(source, into, ring((8, 16)).ref, made(TokenType()))


def stored(value: tuple[int, ...], into: SSAValue) -> Operation:
    return StoreInto(made(tile(*value)), into, ring((8, 16)).ref, made(TokenType()))


def repeated(after: tuple[int, ...], axis: int) -> Operation:
    op = Repeat(made(tile(8, 16)), 0, 4)
    properties = op.properties | {"axis": IntegerAttr(axis, i32)}
    return Repeat.create(
        operands=[*op.operands], properties=properties, result_types=[tile(*after)]
    )


def reshaped(before: tuple[int, ...], after: tuple[int, ...]) -> Operation:
    return ViewReshape(view(*before), tile(*after))


def sliced(before: tuple[int, ...], after: tuple[int, ...], offsets: int) -> Operation:
    return ViewSlice(view(*before), [made(i32)] * offsets, tile(*after))


def dot(result: tuple[int, ...]) -> Operation:
    op = DotIssue((view(8, 16), view(16, 8), made(TensorType(f32, [8, 8]))))
    return DotIssue.create(
        operands=[*op.operands], properties=op.properties, result_types=[TensorType(f32, result)]
    )


RIGHT: dict[str, Callable[[], Operation]] = {
    "one slot": lambda: ring((8, 16), depth=1),
    "both tiles": lambda: got((8, 16), (4, 4)),
    "a put of copies": lambda: given("copies"),
    "a pointer for each element": lambda: copied((8, 16), view(8, 16)),
    "pointers turned": lambda: copied((16, 8), view(8, 16), turned=True),
    "columns as rows": lambda: transposed(view(2, 4, 16), view(16, 8)),
    "a computed tile": lambda: stored((8, 16), view(8, 16)),
    "rows four times": lambda: repeated((32, 16), 0),
    "extents of one": lambda: reshaped((8, 16), (1, 8, 1, 16)),
    "rows joined": lambda: reshaped((2, 4, 16), (8, 16)),
    "a window": lambda: sliced((8, 16), (4, 16), 2),
    "a product": lambda: dot((8, 8)),
}

WRONG: dict[str, tuple[Callable[[], Operation], str]] = {
    "no slot": (lambda: ring((8, 16), depth=0), "at least one slot"),
    "one tile of two": (lambda: got((8, 16)), "one view for each tile"),
    "tiles exchanged": (lambda: got((4, 4), (8, 16)), "one view for each tile"),
    "no such completion": (lambda: given("luck"), "completion is one of"),
    "pointers of another shape": (lambda: copied((16, 8), view(8, 16)), "one pointer"),
    "pointers turned that are not": (
        lambda: copied((8, 16), view(8, 16), turned=True), "one pointer"),
    "columns as columns": (lambda: transposed(view(8, 16), view(8, 16)), "columns as rows"),
    "fewer rows": (lambda: transposed(view(2, 4, 16), view(16, 4)), "columns as rows"),
    "a tile of another shape": (lambda: stored((16, 8), view(8, 16)), "type of the tile"),
    "other rows repeated": (lambda: repeated((32, 16), 1), "cannot repeat"),
    "a dimension that is not there": (lambda: repeated((32, 16), 2), "cannot repeat"),
    "rows lost": (lambda: reshaped((2, 4, 16), (4, 16)), "keeps rows"),
    "rows cut": (lambda: reshaped((2, 4, 16), (16, 8)), "keeps rows"),
    "rows split": (lambda: reshaped((8, 16), (2, 4, 16)), "keeps rows"),
    "a rank less": (lambda: sliced((2, 8, 16), (8, 16), 2), "a window"),
    "an offset too few": (lambda: sliced((8, 16), (4, 16), 1), "a window"),
    "part of rows": (lambda: sliced((8, 16), (8, 8), 2), "a window"),
    "another result": (lambda: dot((8, 16)), "accumulator's type"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_can_be_is_accepted(name: str):
    RIGHT[name]().verify_()


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_is_refused(name: str):
    build, why = WRONG[name]
    with pytest.raises(VerifyException, match=why):
        build().verify_()
