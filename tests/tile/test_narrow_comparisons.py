"""64-bit comparisons that become 32-bit ones, and choose the same elements wherever blocks begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i64

import tawa
import tawa.language as tl
from tawa.base.types import element_of, shape_of
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.hopper import run
from tawa.tile.passes.narrow_comparisons import COMPARISONS


@tawa.jit
def of_blocks(m, n, far, bound, CASE: tl.constexpr):
    if CASE == "causal":
        mask = m[:, None] >= n[None, :]
    elif CASE == "ends":
        mask = (m < bound)[:, None] & (n[None, :] < bound)
    elif CASE == "both":
        mask = (m[:, None] > n[None, :]) & ((m < bound)[:, None] & (n < bound))
    elif CASE == "other blocks":
        mask = m[:, None] <= far[None, :]
    elif CASE == "bound first":
        mask = (bound > n)[None, :] | (bound == m)[:, None]
    elif CASE == "the same":
        mask = m[:, None] == n[None, :]
    elif CASE == "others":
        mask = m[:, None] != far[None, :]
    return mask


@tawa.jit
def of_sums(first, other, bound, rows, columns, CASE: tl.constexpr):
    m, n, far = first + rows, first + columns, other + columns
    if CASE == "shifted":
        mask = (m + 3)[:, None] > (n - 2)[None, :]
    elif CASE == "twice":
        mask = (m + first)[:, None] < (far + other)[None, :]
    elif CASE == "sum of elements":
        mask = (n[None, :] + rows[:, None]) < bound
    elif CASE == "difference of elements":
        mask = (m[:, None] - columns[None, :]) < bound
    elif CASE == "product":
        mask = (m * 3)[:, None] < n[None, :]
    return mask


@tawa.jit
def chosen(out, first, other, bound, CASE: tl.constexpr, SUMS: tl.constexpr):
    rows, columns = tl.arange(0, 32), tl.arange(0, 64)
    if SUMS:
        mask = of_sums(first, other, bound, rows, columns, CASE)
    else:
        mask = of_blocks(first + rows, first + columns, other + columns, bound, CASE)
    at = rows[:, None] * 64 + columns[None, :]
    tl.store(out + at, tl.where(mask, 1.0, 0.0))


def expected(case: str, first: int, other: int, bound: int) -> Any:
    rows, columns = np.ogrid[0:32, 0:64]
    m, n, far = first + rows, first + columns, other + columns
    masks = {
        "causal": m >= n, "ends": (m < bound) & (n < bound),
        "both": (m > n) & (m < bound) & (n < bound), "other blocks": m <= far,
        "bound first": (bound > n) | (bound == m), "the same": m == n, "others": m != far,
        "shifted": m + 3 > n - 2, "twice": m + first < far + other,
        "sum of elements": n + rows < bound, "difference of elements": m - columns < bound,
        "product": m * 3 < n,
    }  # fmt: skip
    return np.broadcast_to(masks[case], (32, 64))


LEFT = ("sum of elements", "difference of elements", "product")
"""What is a sum of several elements, or a multiple, stays."""
NEAR = [(0, 0, 40), (1 << 40, (1 << 40) - 20, (1 << 40) + 17), (-(1 << 35), -(1 << 35) + 9, 0),
        (100, 1 << 50, -(1 << 50)), (-5, -(1 << 50), 1 << 62), (-5, 0, (1 << 63) - 1),
        (7, -3, -(1 << 63))]  # fmt: skip


def wide(compiled: tawa.Compiled) -> int:
    """Comparisons of tiles of 64 bits."""
    ops = [op for op in compiled.module("aref").walk() if isinstance(op, Map)]
    named = [op for op in ops if op.function.data in COMPARISONS and shape_of(op.result.type)]
    return sum(element_of(op.arguments[0].type) == i64 for op in named)


BLOCKS = ("causal", "ends", "both", "other blocks", "bound first", "the same", "others")


@pytest.mark.parametrize("case", [*BLOCKS, "shifted", "twice", *LEFT])
def test_the_same_elements_are_chosen(case: str):
    found = chosen.compile("*f32", "i64", "i64", "i64", case, case not in BLOCKS)
    assert (wide(found) > 0) == (case in LEFT)
    for numbers in NEAR:
        out = np.empty((32, 64), np.float32)
        run(found.module("hopper"), (1,), [out, *numbers])
        np.testing.assert_array_equal(out, expected(case, *numbers), err_msg=str(numbers))


@tawa.jit
def loaded(x, out, first, bound):
    columns = tl.arange(0, 64)
    at = first + columns
    values = tl.load(x + columns, mask=at < bound, other=0)
    tl.store(out + columns, tl.where(at < bound, values, 1.0), mask=at < bound)


def test_masks_of_memory_stay_and_choices_whose_runs_are_known():
    for bound, narrowed in (("i64", True), ("i64:16", False)):
        compiled = loaded.compile("*f32:16", "*f32:16", bound, bound)
        assert wide(compiled) == 1
        assert ("trunci" in str(compiled.module("aref"))) == narrowed


@tawa.jit
def short(out, first, bound):
    m, n = first + tl.arange(0, 32), tl.arange(0, 64)
    at = tl.arange(0, 32)[:, None] * 64 + n[None, :]
    tl.store(out + at, tl.where((m < bound)[:, None] & (m[:, None] >= n[None, :]), 1.0, 0.0))


def test_what_has_32_bits_stays():
    compiled = short.compile("*f32", "i32", "i32")
    assert "trunci" not in str(compiled.module("aref"))
