"""Layouts of loads that follow what is done with them: odd rows, elements that lie apart, addresses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from simulation import Arrays, check, stored, values

import tawa
import tawa.language as tl
from tawa.base.layout import blocked, parse_layout
from tawa.driver.compiled import Compiled

LEVELS = ["tile", "hopper", "ptx"]


@tawa.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(y + row * n + at, v * 2, mask=at < n)


@tawa.jit
def doubled_tiles(x, y, m, n, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    c = tl.arange(0, BN)[None, :]
    inside = (r < m) & (c < n)
    tl.store(y + r * n + c, tl.load(x + r * n + c, mask=inside) * 2, mask=inside)


@tawa.jit
def picked(x, ids, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.load(ids + at, mask=at < n, other=0)
    tl.store(y + at, tl.load(x + i, mask=at < n), mask=at < n)


@tawa.jit
def nibbles(q, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b = tl.load(q + at // 2, mask=at < n, other=0)
    tl.store(y + at, ((b >> ((at % 2) * 4)) & 15).to(tl.float32) - 8, mask=at < n)


def accesses(compiled: Compiled, op: str) -> list[tuple[int, str]]:
    """The widths and layouts of a kernel's loads or stores."""
    lines = [x for x in str(compiled.stages["hopper"]).splitlines() if f'"hopper.{op}"' in x]
    return [
        (int(re.search(r"vector = (\d+)", x)[1]), re.findall(r'frag<[^"]*"([^"]*)"', x)[0])
        for x in lines
    ]


@pytest.mark.parametrize(("n", "apart"), [(1001, True), (1004, True), (1024, False)])
def test_a_warp_has_an_odd_row_side_by_side(n: int, apart: bool) -> None:
    a = Arrays()
    x, y = a.random("f32", 2, n), a.output("f32", 2, n)
    compiled = check(doubled, (2,), [x, y, n], {1: 2 * values(x)}, levels=LEVELS, BLOCK=1024)
    ((width, layout),) = accesses(compiled, "global_store")
    assert parse_layout(layout) == blocked((1024,), 4, width, apart=apart)
    warps = parse_layout(layout).coordinates.reshape(4, -1)
    assert all(np.ptp(w) == 255 for w in warps) == apart


@tawa.jit
def shifted(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    tl.store(y + tl.program_id(0) * n + at, v - tl.max(v, 0), mask=at < n)


def test_warps_that_meet_take_turns_in_a_row() -> None:
    compiled = shifted.compile("*f32", "*f32", "i32", BLOCK=1024)
    ((_, layout),) = accesses(compiled, "global_store")
    assert parse_layout(layout) == blocked((1024,), 4, 1)


def test_rows_of_a_tile_are_not_divided_among_warps() -> None:
    a = Arrays()
    x, y = a.random("f32", 19, 101), a.output("f32", 19, 101)
    expected = {1: 2 * values(x)}
    compiled = check(doubled_tiles, (3,), [x, y, 19, 101], expected, levels=LEVELS, BM=8, BN=128)
    ((_, layout),) = accesses(compiled, "global_store")
    rows = parse_layout(layout).coordinates[..., 0].reshape(4, -1)
    assert all(len(np.unique(r)) == 2 for r in rows)


def test_a_load_follows_its_loaded_addresses() -> None:
    a = Arrays()
    x, y = a.random("f32", 300), a.output("f32", 1000)
    ids = stored(np.random.default_rng(0).integers(0, 300, 1000), "i32")
    expected = {2: values(x)[values(ids).astype(int)]}
    compiled = check(picked, (2,), [x, ids, y, 1000], expected, levels=LEVELS, BLOCK=512)
    assert "shared_store" not in str(compiled.stages["hopper"])
    assert compiled.spec.shared_bytes == 0


def test_elements_apart_are_loaded_as_they_are_stored() -> None:
    a = Arrays()
    q, y = stored(np.random.default_rng(0).integers(0, 128, 512), "i8"), a.output("f32", 1024)
    both = np.stack([values(q).astype(int) & 15, values(q).astype(int) >> 4], 1).reshape(-1)
    compiled = check(nibbles, (2,), [q, y, 1024], {1: both - 8.0}, levels=LEVELS, BLOCK=512)
    assert [width for width, _ in accesses(compiled, "global_store")] == [4]
