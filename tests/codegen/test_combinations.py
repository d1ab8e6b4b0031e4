"""Extremes with their positions, and combinations of several tiles by any function, of any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.driver.compilation import Compilation
from tawa.frontend import lower_to_tile, parse_argument
from tawa.simulate.interpret.hopper import run


def launched(kernel: Any, *arrays: Any, **constants: Any) -> None:
    """Run a kernel of one program at the hopper level; no machine code is made."""
    request = kernel.request(*arrays, **constants)
    types = [parse_argument(text) for text in request.types.values()]
    work = Compilation(request.options)
    module = lower_to_tile(kernel, types, request.constants)
    for level in ("tile", "aref", "hopper"):
        module = work.level(level, module)
    run(module, (1,), list(arrays))


@tawa.jit
def extremes(x, top, at, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr,
             LARGEST: tl.constexpr):  # fmt: skip
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tile = tl.load(x + r[:, None] * COLUMNS + c[None, :])
    if LARGEST:
        value, index = tl.max(tile, AXIS, return_indices=True)
    else:
        value, index = tl.min(tile, AXIS, return_indices=True)
    left = c if AXIS == 0 else r
    tl.store(top + left, value)
    tl.store(at + left, index)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("kind", "rows", "columns", "axis", "warps"),
    [("float32", 4, 256, 1, 4), ("float32", 128, 2, 0, 4), ("int32", 8, 64, 1, 2),
     ("int32", 64, 4, 0, 1), ("uint32", 2, 512, 1, 4), ("float16", 32, 32, 0, 8)],
)  # fmt: skip
def test_the_first_of_those_that_are_extreme(
    kind: str, rows: int, columns: int, axis: int, warps: int, largest: bool
) -> None:
    """Few values, so that many are equal; large ones of unsigned numbers are no negative ones."""
    random = np.random.default_rng(rows)
    x = random.integers(-3, 4, (rows, columns)).astype(kind)
    left = columns if axis == 0 else rows
    if kind.startswith("float"):
        x[0, 0] = np.nan
    top, at = np.zeros(left, kind), np.zeros(left, np.int32)
    launched(extremes, x, top, at, ROWS=rows, COLUMNS=columns, AXIS=axis, LARGEST=largest,
             num_warps=warps)  # fmt: skip
    least = {"f": -np.inf}.get(x.dtype.kind, 0)
    known = np.where(np.isnan(x), least if largest else -least, x) if kind[0] == "f" else x
    exact = (known.argmax if largest else known.argmin)(axis)
    assert at.tolist() == exact.tolist()
    expected = np.take_along_axis(x, np.expand_dims(exact, axis), axis).squeeze(axis)
    np.testing.assert_array_equal(top, expected)


def test_rows_of_no_number_have_their_first_position() -> None:
    x = np.full((4, 64), np.nan, np.float32)
    x[1, 63] = -np.inf
    top, at = np.zeros(4, np.float32), np.full(4, 9, np.int32)
    launched(extremes, x, top, at, ROWS=4, COLUMNS=64, AXIS=1, LARGEST=True, num_warps=2)
    assert at.tolist() == [0, 63, 0, 0]
    assert top[1] == -np.inf
    assert np.isnan(np.delete(top, 1)).all()


@tawa.jit
def follow(a, b, c, d):
    """Affine maps one after the other, in any order of the pairs that commute; and a choice."""
    return a + c, tl.where(b > d, b, d) if True else b


@tawa.jit
def nearer(a, i, b, j):
    if a < b:
        value, place = a, i
    elif a == b:
        value, place = a, min(i, j)
    else:
        value, place = b, j
    return value, place


@tawa.jit
def combined(x, y, sums, most, near, where, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
             AXIS: tl.constexpr):  # fmt: skip
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    place = r[:, None] * COLUMNS + c[None, :]
    a, b = tl.load(x + place), tl.load(y + place)
    total, largest = tl.reduce((a, b), AXIS, follow)
    least, index = tl.reduce((a, place), AXIS, nearer)
    left = c if AXIS == 0 else r
    tl.store(sums + left, total)
    tl.store(most + left, largest)
    tl.store(near + left, least)
    tl.store(where + left, index)


@pytest.mark.parametrize(
    ("rows", "columns", "axis", "warps"),
    [(2, 256, 1, 4), (64, 2, 0, 4), (32, 16, 0, 1), (16, 64, 1, 2), (8, 1, 1, 1), (1, 32, 0, 4)],
)
def test_tiles_that_are_combined_at_once(rows: int, columns: int, axis: int, warps: int) -> None:
    random = np.random.default_rng(columns)
    x = random.integers(-50, 50, (rows, columns)).astype(np.int32)
    y = random.permutation(rows * columns).reshape(rows, columns).astype(np.int32)
    left = columns if axis == 0 else rows
    out = [np.zeros(left, np.int32) for _ in range(4)]
    launched(combined, x, y, *out, ROWS=rows, COLUMNS=columns, AXIS=axis, num_warps=warps)
    first = np.expand_dims(x.argmin(axis), axis)
    place = np.arange(x.size).reshape(x.shape)
    expected = [x.sum(axis), y.max(axis), x.min(axis), np.take_along_axis(place, first, axis)]
    for found, exact in zip(out, expected, strict=True):
        np.testing.assert_array_equal(found, exact.reshape(left))
