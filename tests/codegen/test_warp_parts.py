"""What many warps find of a tile: lanes share the parts, and combine them by shuffles."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.codegen.warp_parts import PARTS_OF_LANE
from tawa.hopper.dialect.fragment import layout_of
from tawa.hopper.dialect.memory import SharedLoad


@tawa.jit
def _longer(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)


@tawa.jit
def rows(x, sums, tops, places, longest, R: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, R)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    row = tl.arange(0, R)
    tl.store(sums + row, tl.sum(v, 1))
    tl.store(tops + row, tl.max(v, 1))
    tl.store(places + row, tl.argmax(v, 1))
    tl.store(longest + row, tl.reduce(v, 1, _longer))


@pytest.mark.parametrize(("count", "warps"), [(1, 16), (1, 32), (2, 16), (4, 32)])
def test_parts_of_many_warps_are_combined(count: int, warps: int) -> None:
    arrays, n = Arrays(), 2048
    x = arrays.random("f32", count, n)
    wide = values(x)
    sums, tops, longest = (arrays.output("f32", count) for _ in range(3))
    places = arrays.output("i32", count)
    far = np.take_along_axis(wide, np.abs(wide).argmax(1)[:, None], 1)[:, 0]
    expected = {1: wide.sum(1), 2: wide.max(1), 3: wide.argmax(1), 4: far}
    compiled = check(
        rows, (1,), [x, sums, tops, places, longest], expected, 1e-4, ("tile", "hopper", "ptx"),
        R=count, N=n, num_warps=warps,
    )  # fmt: skip
    reads = [op for op in compiled.module("hopper").walk() if isinstance(op, SharedLoad)]
    parts = [layout_of(op.results[0]).registers for op in reads]
    assert max(parts) <= PARTS_OF_LANE * count


@tawa.jit
def outer_sums(a, b, sums, found, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    row, inner, column = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    left = tl.load(a + row[:, None] * K + inner[None, :])
    right = tl.load(b + inner[:, None] * N + column[None, :])
    at = row[:, None] * N + column[None, :]
    tl.store(sums + at, tl.sum(left[:, :, None] * right[None, :, :], 1))
    tl.store(found + at, tl.reduce(left[:, :, None] + right[None, :, :], 1, _longer))


def test_warps_leave_a_dimension_whole_whose_parts_shared_memory_does_not_hold() -> None:
    arrays = Arrays()
    m, k, n = 64, 16, 64
    a, b = arrays.random("f32", m, k), arrays.random("f32", k, n)
    sums, found = arrays.output("f32", m, n), arrays.output("f32", m, n)
    both = values(a)[:, :, None] + values(b)[None]
    far = np.take_along_axis(both, np.abs(both).argmax(1)[:, None], 1)[:, 0]
    compiled = check(
        outer_sums, (1,), [a, b, sums, found], {2: values(a) @ values(b), 3: far}, 1e-4,
        ("tile", "hopper"), M=m, K=k, N=n, num_warps=8,
    )  # fmt: skip
    assert compiled.spec.shared_bytes < 65536
