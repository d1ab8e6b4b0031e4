"""Where a loop goes on with the parts of a sum that the loop before it has added up."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.test import TestOp as Made

from tawa.aref.passes.partial_sums import LanePartials, _parts  # pyright: ignore
from tawa.tile.dialect.ops import Reduce

LANES = LanePartials.LANES


def tile(*shape: int):
    return Made(result_types=[TensorType(f32, shape)]).results[0]


@pytest.mark.parametrize(
    ("shape", "axis", "kind", "users", "found"),
    [
        ((64, LANES), 1, "addf", 1, True), ((64, LANES), 1, "addf", 2, False),
        ((64, LANES), 1, "addf", 0, False), ((64, LANES), 0, "addf", 1, False),
        ((64, LANES), 1, "maxnumf", 1, False), ((64, 2 * LANES), 1, "addf", 1, False),
        ((LANES, 64), 0, "addf", 1, False), ((64, LANES, LANES), 1, "addf", 1, False),
    ],
)  # fmt: skip
def test_what_a_sum_was_added_up_from(
    shape: tuple[int, ...], axis: int, kind: str, users: int, found: bool
):
    parts = tile(*shape)
    whole = Reduce(parts, axis, kind)
    for _ in range(users):
        Made(operands=[whole.result])
    assert _parts(whole.result) is (parts if found else None)


def test_a_sum_that_something_else_begins():
    start = tile(64)
    Made(operands=[start])
    assert _parts(start) is None
