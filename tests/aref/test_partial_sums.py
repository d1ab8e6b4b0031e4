"""Where a loop goes on with the parts of a sum that the loop before it has added up."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values
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


@tawa.jit
def softmax_until(q, k, sums, out, n, last):
    """An online softmax whose last columns are masked off: some blocks are, as a whole."""
    rows, within = tl.arange(0, 64), tl.arange(0, 64)
    a = tl.load(q + rows[:, None] * 64 + within[None, :])
    total, top = tl.zeros((64,), tl.float32), tl.full((64,), -100.0, tl.float32)
    acc = tl.zeros((64, 64), tl.float32)
    for block in range(0, n):
        columns = block * 64 + tl.arange(0, 64)
        kept = columns < last
        b = tl.load(k + columns[:, None] * 64 + within[None, :], mask=kept[:, None], other=0.0)
        s = tl.where(columns[None, :] >= last, -float("inf"), tl.dot(a, b.T))
        new = tl.maximum(top, tl.max(s, 1))
        p, scale = tl.exp2(s - new[:, None]), tl.exp2(top - new)
        total = total * scale + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), b, acc * scale[:, None])
        top = new
    tl.store(sums + rows, total * tl.exp2(top))
    tl.store(out + rows[:, None] * 64 + within[None, :], acc / total[:, None])


@pytest.mark.parametrize("last", [64, 100, 128, 256])
def test_parts_of_what_no_product_makes(last: int):
    arrays = Arrays()
    q, k = arrays.random("f16", 64, 64), arrays.random("f16", 256, 64)
    sums, out = arrays.output("f32", 64), arrays.output("f32", 64, 64)
    q[...], k[...] = q / 8, k / 8
    p = np.exp2(values(q) @ values(k).T)[:, :last]
    expected = {2: p.sum(1), 3: p @ values(k)[:last] / p.sum(1)[:, None]}
    compiled = check(softmax_until, (1,), [q, k, sums, out, 4, last], expected, 1e-3)
    assert any(isinstance(op, LanePartials) for op in compiled.module("aref").walk())
