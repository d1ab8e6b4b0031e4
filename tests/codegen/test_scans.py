"""Scans in the layout in which a tile was loaded: rows of lanes one behind the other in a warp."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.base.layout import Mode, blocked
from tawa.codegen.scans import LONGEST, as_it_lies, chosen, spread


@tawa.jit
def running_sums(x, y, n, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    v = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, tl.cumsum(v * 2, 0, reverse=REVERSE), mask=inside)


@tawa.jit
def affine(a, x, b, y):
    """Affine maps, one after the other."""
    return a * b, x * b + y


@tawa.jit
def states(a, x, y, BLOCK: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    f, v = tl.load(a + at), tl.load(x + at)
    _, h = tl.associative_scan((f, v), 0, affine, reverse=REVERSE)
    tl.store(y + at, h)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("n", "warps", "element"), [
    (512, 1, "f32"), (1000, 2, "f32"), (4096, 4, "f32"), (2048, 4, "bf16"), (1024, 8, "f32"),
    (999, 2, "f32"),
])  # fmt: skip
def test_sums(n: int, warps: int, element: str, reverse: bool) -> None:
    a = Arrays()
    x = a.random(element, 2, n)
    y = a.output("f32", 2, n)
    exact = 2 * values(x)
    exact = exact[:, ::-1].cumsum(1)[:, ::-1] if reverse else exact.cumsum(1)
    block = 1 << (n - 1).bit_length()
    check(running_sums, (2,), [x, y, n], {1: exact}, 1e-5, levels=["tile", "hopper", "ptx"],
          BLOCK=block, REVERSE=reverse, num_warps=warps)  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("warps", [1, 4])
def test_functions_whose_order_counts(warps: int, reverse: bool) -> None:
    a = Arrays()
    f, x, y = a.random("f32", 1, 1024), a.random("f32", 1, 1024), a.output("f32", 1, 1024)
    exact, state = np.zeros((1, 1024)), 0.0
    for i in reversed(range(1024)) if reverse else range(1024):
        state = state * values(f)[0, i] + values(x)[0, i]
        exact[0, i] = state
    check(states, (1,), [f, x, y], {2: exact}, 1e-4, levels=["tile", "hopper", "ptx"],
          BLOCK=1024, REVERSE=reverse, num_warps=warps)  # fmt: skip


def test_a_row_of_vectors_is_not_exchanged() -> None:
    x, y = np.zeros((2, 4096), np.float32), np.zeros((2, 4096), np.float32)
    compiled = running_sums.compile(x, y, 4096, BLOCK=4096, REVERSE=False, num_warps=4)
    assert compiled.spec.shared_bytes <= 64, "more than the warps' sums go through shared memory"
    assert str(compiled.stages["hopper"]).count("hopper.shared_store") == 1


@tawa.jit
def down(x, y, R, C, ROWS: tl.constexpr, COLUMNS: tl.constexpr, REVERSE: tl.constexpr):
    """Sums down the columns of a tile."""
    r, c = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    inside = (r < R) & (c < C)
    v = tl.load(x + r * C + c, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + r * C + c, tl.cumsum(v, 0, reverse=REVERSE) * 0.5, mask=inside)


@pytest.mark.parametrize(
    ("rows", "columns", "warps", "element"),
    [(64, 64, 4, "bf16"), (61, 24, 2, "f32"), (16, 256, 4, "f16"), (128, 32, 8, "f32"),
     (33, 5, 1, "f32"), (4, 64, 8, "bf16")],
)  # fmt: skip
@pytest.mark.parametrize("reverse", [False, True])
def test_columns(rows: int, columns: int, warps: int, element: str, reverse: bool) -> None:
    a = Arrays()
    x, y = a.random(element, rows, columns), a.output("f32", rows, columns)
    exact = values(x) * 0.5
    exact = exact[::-1].cumsum(0)[::-1] if reverse else exact.cumsum(0)
    tile = {"ROWS": 1 << (rows - 1).bit_length(), "COLUMNS": 1 << (columns - 1).bit_length()}
    check(down, (1,), [x, y, rows, columns], {1: exact}, 1e-5, levels=["tile", "hopper", "ptx"],
          REVERSE=reverse, num_warps=warps, **tile)  # fmt: skip


def test_a_tile_is_loaded_as_its_columns_are_scanned() -> None:
    types = "*bf16:16", "*f32:16", "i32", "i32:16"
    sizes = {"ROWS": 64, "COLUMNS": 64, "REVERSE": False, "num_warps": 4}
    compiled = down.compile(*types, **sizes)
    assert compiled.spec.shared_bytes <= 4 * 64 * 4, "the warps' sums of columns, and nothing else"
    text = str(compiled.stages["hopper"])
    assert "vector = 4" in text, "what is stored is 16 bytes wide"
    assert "vector = 8" not in text


def test_rows_of_columns_are_exchanged() -> None:
    tile = blocked((64, 64), 4, 4)
    assert as_it_lies(tile, 0) is None
    assert chosen(tile, (64, 64), 0, 4).layout != tile


def test_what_lies_as_a_scan_goes() -> None:
    row = blocked((4096,), 4, 4)
    assert as_it_lies(row, 0) is None, "warps take turns there"
    found = as_it_lies(blocked((4096,), 4, 4, apart=True), 0)
    assert found is not None
    assert (found.chunk, found.lanes, found.blocks, found.warps) == (4, 32, 8, 4)
    assert found.registers(3, 2) == [14]
    assert found.layout.warp == (Mode(4, 0, 1024),)
    assert chosen(row, (4096,), 0, 4).blocks == 1


@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((64,), 0), ((4096,), 0), ((8,), 0), ((64, 64), 0), ((64, 64), 1), ((4, 128), 0),
        ((4, 128), 1), ((2, 1024), 1), ((1024, 2), 0), ((4, 8, 16), 1), ((16, 2, 64), 2),
    ],
)  # fmt: skip
def test_how_a_tile_is_spread(shape: tuple[int, ...], axis: int, warps: int) -> None:
    """Every element once, or as often as threads are left; chunks of the axis are no longer than
    they may be while other dimensions have lanes."""
    found = spread(shape, axis, warps)
    layout = found.layout
    assert layout.verify() is None
    assert (layout.warps, layout.threads) == (warps, 32 * warps)
    assert found.chunk * found.lanes * found.blocks * found.warps == shape[axis]
    held = [tuple(where) for thread in layout.coordinates.tolist() for where in thread]
    elements = math.prod(shape)
    assert len(set(held)) == elements
    assert len(held) == max(elements, 32 * warps)
    assert found.chunk <= LONGEST or found.below == 1


@tawa.jit
def peaks_of_sums(x, y, ROWS: tl.constexpr, COLUMNS: tl.constexpr, FLAT: tl.constexpr):
    """Sums down a matrix, or the largest sums along the middle of a tile of three dimensions."""
    if FLAT:
        at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        tl.store(y + at, tl.cumsum(tl.load(x + at), 0))
    else:
        i, j = tl.arange(0, 4)[:, None, None], tl.arange(0, ROWS)[None, :, None]
        v = tl.load(x + (i * ROWS + j) * COLUMNS + tl.arange(0, COLUMNS)[None, None, :])
        largest = tl.max(tl.cumsum(v, 1), 1)
        at = tl.arange(0, 4)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        tl.store(y + at, largest)


@pytest.mark.parametrize(
    ("rows", "columns", "flat", "warps"),
    [(4, 128, False, 4), (8, 64, False, 2), (16, 512, True, 4), (2, 128, False, 1)],
)
def test_lines_that_threads_hold_are_scanned_without_an_exchange(
    rows: int, columns: int, flat: bool, warps: int
) -> None:
    """Where the other dimensions have room for all threads."""
    a = Arrays()
    x = a.random("f32", *(() if flat else (4,)), rows, columns)
    y = a.output("f32", rows if flat else 4, columns)
    sums = values(x).cumsum(0 if flat else 1)
    exact = sums if flat else sums.max(1)
    constants = {"ROWS": rows, "COLUMNS": columns, "FLAT": flat, "num_warps": warps}
    check(peaks_of_sums, (1,), [x, y], {1: exact}, 1e-5, levels=["tile", "hopper", "ptx"],
          **constants)  # fmt: skip
    compiled = peaks_of_sums.compile("*f32:16", "*f32:16", **constants)
    assert compiled.spec.shared_bytes == 0
