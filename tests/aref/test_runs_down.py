"""Along which axis the neighbours of a tile lie where it comes from, and how it is copied then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import TensorType, f16, f32
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import SSAValue

from tawa.aref.analysis import staging
from tawa.aref.analysis.staging import copied_turned, runs_down
from tawa.aref.dialect.channel_ops import ViewRead
from tawa.aref.dialect.types import ViewType
from tawa.base.types import PtrType
from tawa.ir.elementwise import Map
from tawa.tile.dialect.ops import Load, Trans

Made_of = Callable[[SSAValue], SSAValue]


def made(kind: Any) -> SSAValue:
    return Made(result_types=[kind]).results[0]


def read(element: Any = f16, *shape: int) -> SSAValue:
    return ViewRead(made(ViewType(TensorType(element, shape or (64, 32))))).result


def turned(value: SSAValue) -> SSAValue:
    return Trans(value, (1, 0)).result


def as_it_is(value: SSAValue) -> SSAValue:
    return Trans(value, (0, 1)).result


def negated(value: SSAValue) -> SSAValue:
    return Map("negf", [value]).result


@pytest.mark.parametrize(
    ("steps", "of_slot", "of_nothing"),
    [
        ((), False, False), ((turned,), True, True), ((turned, turned), False, True),
        ((negated,), False, False), ((negated, turned), True, True),
        ((turned, negated), True, False), ((turned, negated, turned), False, True),
        ((as_it_is,), False, False),
    ],
)  # fmt: skip
def test_a_transpose_on_the_way_turns_a_slot_s_rows(
    steps: tuple[Made_of, ...], of_slot: bool, of_nothing: bool
):
    """Of what comes from nowhere it counts only where it is the last."""
    for source, expected in ((read(), of_slot), (made(TensorType(f16, (64, 32))), of_nothing)):
        value = source
        for step in steps:
            value = step(value)
        assert runs_down(value) is expected


@pytest.mark.parametrize(
    ("element", "shape", "down", "copied"),
    [
        (f16, (64, 64), False, False), (f16, (64, 64), True, True),
        (f16, (64, 8), False, True),  # rows of 16 bytes have no swizzle
        (f16, (8, 64), True, False),  # nor have those of its transpose, then
        (f32, (64, 8), False, False),  # of 32 bytes they have
        (f32, (64, 4), False, True),
    ],
)  # fmt: skip
def test_which_way_a_tile_is_copied(element: Any, shape: tuple[int, ...], down: bool, copied: bool):
    value = turned(read(element, *reversed(shape))) if down else read(element, *shape)
    assert runs_down(value) is down
    assert copied_turned(value) is copied


def test_other_ops_than_functions_of_elements_are_where_tiles_come_from():
    tile = read()
    scanned = Made(operands=[turned(tile)], result_types=[turned(tile).type]).results[0]
    assert runs_down(turned(tile))
    assert not runs_down(scanned)
    assert runs_down(turned(scanned))
    spread = Map("negf", [made(f16)]).result
    assert not runs_down(spread)


@pytest.mark.parametrize(
    ("dim", "count", "down"),
    [(0, 8, True), (0, 2, True), (0, 1, False), (1, 8, False), (1, 2, False), (1, 1, False)],
)
def test_memory_runs_along_its_pointers(
    dim: int, count: int, down: bool, monkeypatch: pytest.MonkeyPatch
):
    """Where neighbours can be loaded together; else rows are taken to be in rows."""
    monkeypatch.setattr(staging, "fastest", lambda axes, pointers: (dim, count))
    tile = Load(made(TensorType(PtrType(f16), (64, 32)))).result
    assert runs_down(tile) is down
    assert runs_down(turned(tile)) is not down
    assert runs_down(negated(turned(tile))) is not down
    assert runs_down(turned(turned(tile))) is down
