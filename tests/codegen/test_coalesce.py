"""Layouts in which tiles are stored: the sectors that they touch, counted one by one."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.layout import LANES, Layout, accumulator
from tawa.codegen.coalesce import SECTOR, SEGMENT, gathered, sectors, segments

LAYOUTS = {
    "accumulator": accumulator((64, 64), 4),
    "wide accumulator": accumulator((64, 256), 4),
    "two groups": accumulator((128, 32), 8),
    "columns first": accumulator((64, 64), 4).permuted((1, 0)),
}


def touched(layout: Layout, dim: int, vector: int, size: int) -> int:
    """Sectors of rows that lie apart, of each instruction of the first warp."""
    while layout.vector(dim) % vector:
        vector //= 2
    total = 0
    where = layout.coordinates[:LANES]
    for first in range(0, layout.registers, vector):
        seen: set[tuple[int, int]] = set()
        for lane in where[:, first : first + vector]:
            for place in lane:
                begin = int(place[dim]) * size
                seen |= {(int(place[1 - dim]), at // SECTOR) for at in (begin, begin + size - 1)}
        total += len(seen)
    return total


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("vector", [1, 2, 4, 8])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", LAYOUTS)
def test_sectors(name: str, dim: int, vector: int, size: int):
    if vector * size > 16:
        return
    assert sectors(LAYOUTS[name], dim, vector, size) == touched(LAYOUTS[name], dim, vector, size)


def parts(layout: Layout) -> list[set[tuple[int, ...]]]:
    """The elements of each warp."""
    warps = layout.coordinates.reshape(layout.warps, -1, len(layout.shape))
    return [{tuple(place) for place in warp.tolist()} for warp in warps]


@pytest.mark.parametrize("vector", [1, 2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", LAYOUTS)
def test_lanes_give_each_other_neighbours(name: str, size: int, dim: int, vector: int):
    """A warp keeps its elements; a thread gets as many neighbours, unless it holds too few."""
    layout = LAYOUTS[name]
    found = gathered(layout, dim, vector, size)
    if found is None:
        across = sum(m.extent.bit_length() - 1 for m in layout.reg)
        assert vector > 1 << across or vector > layout.vector(dim)
        return
    assert found.verify() is None
    assert found.vector(dim) >= vector
    assert parts(found) == parts(layout)
    assert (found.coordinates[:, :vector, dim] % vector == np.arange(vector)).all()


def test_no_neighbours_where_extents_are_no_powers_of_two():
    assert gathered(accumulator((64, 24), 4), 1, 8, 2) is None
    assert gathered(LAYOUTS["accumulator"], 1, 3, 4) is None


@pytest.mark.parametrize("warps", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(64, 64), (16, 256), (256, 16), (8, 32), (64, 96)], ids=str)
def test_segments(shape: tuple[int, int], dim: int, size: int, warps: int):
    vector = min(16 // size, shape[dim])
    found = segments(shape, warps, dim, vector, size)
    if found is None:
        along = min(shape[dim] // vector, max(1, SEGMENT // (vector * size)), LANES)
        across = min(LANES // along, shape[1 - dim])
        left = shape[dim] // (along * vector), shape[1 - dim] // across
        whole = left[0] * along * vector == shape[dim] and left[1] * across == shape[1 - dim]
        of_rows = math.gcd(warps, left[1])
        assert not whole or along * across < LANES or left[0] % (warps // of_rows)
        return
    assert found.verify() is None
    assert found.warps == warps
    assert found.shape == shape
    whole = {tuple(place) for place in np.ndindex(shape)}
    assert set().union(*parts(found)) == whole
    assert sum(map(len, parts(found))) == len(whole), "each element has one owner"
    assert found.vector(dim) >= vector
    # A warp's access fills the sectors that it touches.
    filled = sectors(found, dim, vector, size) * SECTOR == found.registers * LANES * size
    assert filled or shape[dim] * size < SECTOR


@tawa.jit
def widened(x, y, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + at, tl.load(x + at))


@pytest.mark.parametrize(
    ("loaded", "stored", "vector"),
    [("i8", "f16", 8), ("e5m2", "f32", 4), ("f16", "i8", 8), ("f16", "f16", 8), ("f16", "f32", 4)],
)
def test_what_is_stored_wider_is_loaded_narrower(loaded: str, stored: str, vector: int) -> None:
    compiled = widened.compile(f"*{loaded}:16", f"*{stored}:16", N=4096)
    text = str(compiled.stages["hopper"])
    assert set(re.findall(r"vector = (\d+)", text)) == {str(vector)}
