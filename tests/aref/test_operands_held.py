"""Which operands of warps' products stay in registers, by their sizes and by what makes them."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64, i8
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.aref.analysis.register_operands import held_operands
from tawa.aref.dialect.ops import ViewRead, ViewType, WarpDot
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Broadcast, Dot, ExpandDims, Splat, Trans


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def tile(*shape: int, of: Any = f16) -> SSAValue:
    """One that is loaded, as threads have it."""
    return made(TensorType(of, shape))


def read(*shape: int, of: Any = f16) -> SSAValue:
    """A slot's."""
    return ViewRead(made(ViewType(TensorType(of, shape)))).result


def computed(*shape: int, of: Any = f16) -> SSAValue:
    """A slot's, changed."""
    return Map("andi" if of is i8 else "addf", [read(*shape, of=of)] * 2).result


KINDS = {"slot": read, "computed": computed, "loaded": tile}


def held(a: SSAValue, b: SSAValue, warps: int, precision: str | None = None) -> Any:
    rows, columns = a.type.get_shape()[0], b.type.get_shape()[1]  # type: ignore[attr-defined]
    return held_operands(Dot(a, b, tile(rows, columns, of=f32), precision), warps)


@pytest.mark.parametrize(
    ("sizes", "warps", "a", "b", "expected"),
    [
        # Words of a thread: 64 fit; 32 of a slot are read for the other's sake.
        ((16, 64, 64), 1, "computed", "computed", (True, True, 16)),
        ((16, 64, 64), 1, "slot", "computed", (True, True, 16)),
        ((32, 64, 64), 1, "slot", "computed", (True, True, 16)),
        ((64, 64, 64), 1, "slot", "computed", (False, True, 0)),
        ((64, 32, 64), 1, "computed", "slot", (True, True, 16)),
        ((16, 64, 64), 1, "computed", "slot", (True, False, 0)),
        ((16, 64, 64), 1, "computed", "loaded", (True, False, 0)),
        ((16, 64, 64), 1, "loaded", "computed", (False, True, 0)),
        ((16, 64, 64), 1, "slot", "slot", (False, False, 0)),
        ((16, 64, 64), 1, "loaded", "loaded", (False, False, 0)),
        ((64, 64, 64), 1, "computed", "computed", (True, True, 16)),
        ((128, 64, 64), 1, "computed", "computed", (False, True, 0)),
        ((64, 128, 64), 1, "computed", "computed", (True, False, 0)),
        # Warps that share rows or columns would all compute them.
        ((16, 64, 64), 4, "computed", "computed", (False, True, 0)),
        ((16, 64, 64), 4, "slot", "computed", (True, True, 16)),
        ((256, 64, 64), 4, "computed", "computed", (True, False, 0)),
        ((64, 64, 64), 4, "computed", "computed", (False, False, 0)),
        # Runs along K are as long as it allows.
        ((16, 64, 32), 1, "computed", "computed", (True, True, 8)),
        ((16, 64, 16), 1, "computed", "computed", (True, True, 4)),
        # Too short for any order but the instruction's own:
        ((16, 64, 8), 1, "computed", "computed", (True, True, 0)),
        ((16, 64, 8), 1, "computed", "loaded", (True, False, 0)),
        ((16, 32, 64), 1, "slot", "slot", (False, False, 0)),
    ],
)
def test_sizes(sizes: tuple[int, int, int], warps: int, a: str, b: str, expected: Any) -> None:
    rows, columns, inner = sizes
    assert held(KINDS[a](rows, inner), KINDS[b](inner, columns), warps) == expected


@pytest.mark.parametrize(
    ("of", "precision", "some"),
    [(f16, None, True), (bf16, None, True), (f32, None, True), (f32, "ieee", False),
     (f32, "tf32x3", False), (f64, None, False)],
)  # fmt: skip
def test_types_that_matrix_instructions_take(of: Any, precision: str | None, some: bool) -> None:
    found = held(computed(16, 32, of=of), computed(32, 16, of=of), 1, precision)
    assert any(found) is some


def test_bytes_that_become_halves_go_through_memory() -> None:
    from tawa.base.types import e4m3

    a, b = (Map("truncf", [read(*shape)], e4m3).result for shape in ((16, 32), (32, 16)))
    assert held(a, b, 1) == (False, False, 0)


def spread(vector: SSAValue, axis: int, *shape: int) -> SSAValue:
    return Broadcast(ExpandDims(vector, axis).result, shape).result


def added(a: SSAValue, b: SSAValue) -> SSAValue:
    return Map("addf", [a, b]).result


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        (lambda: read(16, 64), True), (lambda: tile(16, 64), False),
        (lambda: spread(tile(16), 1, 16, 64), True),  # a number a row
        (lambda: spread(tile(64), 0, 16, 64), True),
        (lambda: Splat(made(f16), (16, 64)).result, True),
        (lambda: Broadcast(tile(1, 64), (16, 64)).result, True),
        (lambda: Broadcast(tile(16, 1), (16, 64)).result, True),
        (lambda: Trans(read(64, 16)).result, True), (lambda: Trans(tile(64, 16)).result, False),
        (lambda: added(read(16, 64), added(read(16, 64), tile(16, 64))), False),
        (lambda: added(read(16, 64), added(read(16, 64), read(16, 64))), True),
        (lambda: Made(operands=[read(16, 64)], result_types=[TensorType(f16, (16, 64))]).results[0],
         False),
    ],
)  # fmt: skip
def test_what_an_operand_is_computed_of(other: Any, stays: bool) -> None:
    """Threads make what others have as numbers of rows, or read it; other tiles they do not have."""
    for pair in ((read(16, 64), other()), (other(), read(16, 64))):
        a = added(*pair)
        assert held(a, tile(64, 64), 1) == (stays, False, 0)


def test_numbers_of_rows_of_eight() -> None:
    """They are an eighth of the elements, and just small enough."""
    a = added(read(16, 8), spread(tile(16), 1, 16, 8))
    assert held(a, tile(8, 64), 1) == (True, False, 0)


@pytest.mark.parametrize(
    ("rows", "columns", "warps", "stays"),
    [(16, 64, 1, True), (64, 64, 4, False), (64, 16, 4, True), (64, 64, 1, True)],
)
def test_what_a_product_left_is_multiplied_where_it_lies(
    rows: int, columns: int, warps: int, stays: bool
) -> None:
    """If its warps have whole rows."""
    first = WarpDot(read(rows, 32), read(32, columns), tile(rows, columns, of=f32), "tf32")
    a = Map("truncf", [first.result], f16).result
    found = held(a, tile(columns, 16), warps)
    assert found == (stays, False, 0)
