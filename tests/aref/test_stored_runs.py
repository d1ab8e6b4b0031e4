"""What is done with a tile that is loaded: how it is stored, whether it is scanned."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from xdsl.dialects.builtin import TensorType, f16, f32, i8
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.aref.analysis.stored_runs import (
    is_side_by_side,
    most_side_by_side,
    scanned_across,
    stored_run,
)
from tawa.base.types import PtrType, element_of, shape_of
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import ArgReduce, Reduce, Scan, Store

SHAPE = (16, 32)


class Known:
    """What is known of pointers: how many elements run along each dimension, and their multiple."""

    def __init__(self) -> None:
        self.facts: dict[SSAValue, Any] = {}

    def of(self, value: SSAValue) -> Any:
        return self.facts[value]

    def pointers(self, element: Any, contiguous: tuple[int, ...], multiple: int) -> SSAValue:
        kind = TensorType(PtrType(element), SHAPE[: len(contiguous)])
        made = Made(result_types=[kind if contiguous else PtrType(element)]).results[0]
        along = (multiple,) * len(contiguous)
        self.facts[made] = SimpleNamespace(contiguous=contiguous, multiple=along)
        return made


def tile(element: Any = f16, shape: tuple[int, ...] = SHAPE) -> SSAValue:
    return Made(result_types=[TensorType(element, shape)]).results[0]


def negated(value: SSAValue) -> SSAValue:
    return Map("negf", [value]).result


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], None), ([((1, 32), 8)], (1, 8)), ([((16, 1), 4)], (0, 4)), ([((1, 32), 32)], (1, 8)),
        ([((1, 32), 8), ((1, 32), 2)], (1, 2)), ([((1, 32), 2), ((1, 32), 8)], (1, 2)),
        ([((1, 32), 8), ((16, 1), 8)], None), ([((1, 1), 8)], (1, 1)),
    ],
)  # fmt: skip
def test_how_stores_run(runs: list[tuple[tuple[int, ...], int]], expected: Any) -> None:
    axes: Any = Known()
    value = tile()
    for number, (contiguous, multiple) in enumerate(runs):
        stored = value if number % 2 else negated(negated(value))
        Store(axes.pointers(f16, contiguous, multiple), stored)
    assert stored_run(axes, value) == expected


def test_stores_of_tiles_of_another_shape_do_not_count() -> None:
    axes: Any = Known()
    value = tile()
    row = Reduce(value, 0, "addf").result
    Store(axes.pointers(f16, (16,), 8), row)
    assert stored_run(axes, value) is None


def store(axes: Any, value: SSAValue, contiguous: tuple[int, ...], multiple: int) -> None:
    Store(axes.pointers(element_of(value.type), contiguous, multiple), value)


@pytest.mark.parametrize(
    ("element", "contiguous", "multiple", "dim", "beside"),
    [
        (f16, (1, 32), 4, 1, True), (f16, (1, 32), 8, 1, False), (f16, (1, 32), 4, 0, False),
        (f16, (16, 1), 1, 0, True), (f16, (1, 1), 1, 1, False), (f16, (1, 2), 1, 1, True),
        (f32, (1, 32), 2, 1, True), (f32, (1, 32), 4, 1, False), (i8, (1, 32), 1, 1, False),
        (f16, (1, 32), 24, 1, False), (f16, (1, 32), 12, 1, True),
    ],
)  # fmt: skip
def test_stores_that_begin_anywhere(
    element: Any, contiguous: tuple[int, ...], multiple: int, dim: int, beside: bool
) -> None:
    """Where rows begin inside of what a thread stores at once, neighbours belong to one warp."""
    axes: Any = Known()
    value = tile(element)
    store(axes, value if element is i8 else negated(value), contiguous, multiple)
    assert is_side_by_side(axes, value, dim) is beside
    (ArgReduce if element is i8 else Reduce)(value, 0, "max" if element is i8 else "addf")
    assert not is_side_by_side(axes, value, dim)  # warps meet, and store together


def test_a_scan_runs_through_a_row() -> None:
    axes: Any = Known()
    value = tile()
    Reduce(value, 0, "addf")
    scanned = Scan(negated(value), 1, "addf").result
    assert is_side_by_side(axes, value, 1)
    assert not is_side_by_side(axes, value, 0)
    assert (scanned_across(value, 0), scanned_across(value, 1)) == (1, None)
    Scan(scanned, 0, "addf")
    assert scanned_across(value, 0) is None
    assert is_side_by_side(axes, value, 0)
    assert scanned_across(tile(), 0) is None


def test_a_scalar_s_store_begins_nowhere() -> None:
    axes: Any = Known()
    value = Made(result_types=[f16]).results[0]
    Store(axes.pointers(f16, (), 1), value)
    assert not is_side_by_side(axes, value, 0)


@pytest.mark.parametrize(
    ("loaded", "stored", "most"),
    [(i8, None, 16), (f16, None, 8), (f32, None, 4), (i8, f16, 8), (f16, i8, 8), (f16, f32, 4)],
)
def test_what_a_thread_accesses_at_once(loaded: Any, stored: Any, most: int) -> None:
    value = tile(loaded)
    if stored is not None:
        kind = {(i8, f16): "sitofp", (f16, i8): "fptosi", (f16, f32): "extf"}[loaded, stored]
        made = Map(kind, [value], stored).result
        Store(
            Made(result_types=[TensorType(PtrType(stored), shape_of(made.type))]).results[0], made
        )
    assert most_side_by_side(value) == most
    Store(Made(result_types=[TensorType(PtrType(f32), SHAPE[:1])]).results[0],
          Map("extf", [Reduce(tile(f16), 1, "addf").result], f32).result)  # fmt: skip
    assert most_side_by_side(value) == most
