"""Where a loop goes on with the parts of a sum that the loop before it has added up."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.test import TestOp as Made

import tawa
import tawa.language as tl
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


@tawa.jit
def sums(q, k, out, n, KIND: tl.constexpr):
    """Sums of rows of products: plain, scaled before, or what looks like it."""
    a = q.load([0, 0])
    total = tl.zeros((128,), tl.float32)
    for block in range(0, n):
        p = tl.exp2(tl.dot(a, k.load([block * 64, 0]).T))
        if KIND == "plain":
            total += tl.sum(p, 1)
        elif KIND == "scaled":
            total = total * 0.5 + tl.sum(p, 1)
        elif KIND == "scaled by a factor":
            total = tl.sum(p, 1) + tl.max(p, 1) * total
        elif KIND == "squared":
            total = total * total + tl.sum(p, 1)
        elif KIND == "read":
            total = total * 0.5 + tl.sum(p * total[:, None], 1)
        elif KIND == "greatest":
            total += tl.max(p, 1)
        else:
            total = total * 0.5 - tl.sum(p, 1)
    tl.store(out + tl.arange(0, 128), total)


@pytest.mark.parametrize(
    ("kind", "spread"),
    [
        ("plain", True), ("scaled", True), ("scaled by a factor", True), ("squared", False),
        ("read", False), ("greatest", False), ("difference", False),
    ],
)  # fmt: skip
def test_which_sums_lanes_keep_parts_of(kind: str, spread: bool):
    compiled = sums.compile("desc<f16,128x64>", "desc<f16,64x64>", "*f32", "i32", kind)
    found = any(isinstance(op, LanePartials) for op in compiled.module("aref").walk())
    assert found is spread
