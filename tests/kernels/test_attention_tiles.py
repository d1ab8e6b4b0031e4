"""Which tiles attention is computed in: rows, heads that share one, and splits along the keys."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tawa
from tawa.driver.jit import Kernel
from tawa.kernels import attention as attention_module
from tawa.kernels import attention_tiles
from tawa.kernels.attention import attention
from tawa.kernels.attention_tiles import TILES

BF16, E4M3 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)


def launched(
    monkeypatch: pytest.MonkeyPatch,
    of_q: tuple[int, ...],
    of_k: tuple[int, ...],
    element: Any = np.float16,
    **options: Any,
) -> list[tuple[tuple[int, ...], dict[str, Any]]]:
    """Grids and named arguments of the launches for arrays of which nothing is read."""
    launches: list[tuple[tuple[int, ...], dict[str, Any]]] = []

    def launch(kernel: Kernel, grid: tuple[int, ...], *arrays: Any, **named: Any) -> None:
        launches.append((grid, named))

    monkeypatch.setattr(Kernel, "_launch", launch)
    q, k = (empty(element, shape) for shape in (of_q, of_k))
    attention(q, k, k, empty(np.float16 if element == np.float16 else BF16, of_q), **options)
    return launches


def empty(element: Any, shape: tuple[int, ...]) -> Any:
    """An array with the strides of one of this shape, and memory for one number."""
    one = np.zeros(1, element)
    strides = [one.itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return np.lib.stride_tricks.as_strided(one, shape, strides)


@pytest.mark.parametrize("d", range(8, 257, 8))
@pytest.mark.parametrize("causal", [False, True])
def test_every_head_dimension_has_a_tile(
    d: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (2, 16, 4096, d)
    ((_, given),) = launched(monkeypatch, shape, shape, causal=causal)
    assert (given["BLOCK_M"], given["BLOCK_N"]) in TILES


SIZES = {
    "wide heads": ((4, 8, 4096, 256), False, {(128, 64)}),
    "many rows": ((4, 16, 8192, 128), False, {(192, 80)}),
    "narrow heads": ((4, 32, 4096, 64), False, {(256, 64)}),
    "narrow heads, a triangle": ((4, 32, 4096, 64), True, {(256, 64)}),
    "a short triangle, where blocks at its edge are most": ((32, 32, 512, 64), True, {(128, 64)}),
    "a row more than a tile of 128": ((1, 600, 160, 64), False, {(192, 80), (192, 112)}),
}


@pytest.mark.parametrize("name", SIZES)
def test_tiles_suit_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, causal, expected = SIZES[name]
    ((_, given),) = launched(monkeypatch, shape, shape, causal=causal)
    assert (given["BLOCK_M"], given["BLOCK_N"]) in expected


@pytest.mark.parametrize("d", [64, 96, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_bytes_are_multiplied_by_whole_instructions(
    d: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = (4, 2048 // d, 8192, d)
    ((_, given),) = launched(monkeypatch, shape, shape, E4M3, causal=causal)
    assert given["NARROW"]
    assert given["BLOCK_N"] % 32 == 0


def test_what_takes_registers_gets_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (4, 32, 4096, 64)
    rows = [
        launched(monkeypatch, shape, shape, **options)[0][1]["BLOCK_M"]
        for options in ({}, {"return_lse": True}, {"softcap": 30.0})
    ]
    assert rows == [256, 192, 128]


def test_sizes_alike_are_ranked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prefix that grows by one at a time asks for a new ranking a few times in a doubling."""
    ranked: list[int] = []
    candidates = Kernel.candidates

    def counted(kernel: Kernel, *arguments: Any, **named: Any) -> Any:
        ranked.append(named["KEYS"])
        return candidates(kernel, *arguments, **named)

    monkeypatch.setattr(Kernel, "candidates", counted)
    for keys in range(3000, 3500, 10):
        launched(monkeypatch, (1, 16, 2048, 120), (1, 16, keys, 120))
    assert len(set(ranked)) <= 2


@pytest.mark.parametrize("causal", [False, True])
def test_a_call_finds_the_same_tile_whatever_came_before(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes of one rounding have one tile, so that every process and every run has the same bits."""
    sizes = (1032, 1500, 1536)
    tiles: set[tuple[int, int, bool]] = set()
    for first in sizes:
        attention_tiles._CHOSEN.clear()
        attention_module._CONFIGURED.clear()
        for rows in (first, *sizes):
            shape = (3, 11, rows, 72)
            ((_, given),) = launched(monkeypatch, shape, shape, causal=causal)
            tiles.add((given["BLOCK_M"], given["BLOCK_N"], given["OWN_ENDS"]))
    assert len(tiles) == 1


SHARING = {
    "a query for each of 4 heads": ((4, 32, 1, 128), (4, 8, 8192, 128), (64, 4, 4)),
    "a query for each of 32 heads": ((1, 32, 1, 128), (1, 1, 8192, 128), (64, 32, 22)),
    "a tile and a half": ((8, 16, 1, 64), (8, 16, 4096, 64), (64, 1, 1)),
    "32 queries of 4 heads": ((1, 8, 32, 128), (1, 2, 65536, 128), (128, 4, 64)),
    "6 heads": ((1, 6, 16, 128), (1, 1, 2048, 128), (64, 2, 8)),
    "wide heads": ((2, 8, 1, 256), (2, 2, 8192, 256), (64, 1, 8)),
    "wide heads, 32 queries": ((2, 8, 32, 256), (2, 2, 8192, 256), (64, 1, 8)),
    "few heads": ((1, 2, 4096, 64), (1, 2, 4096, 64), (128, 1, 2)),
}


@pytest.mark.parametrize("name", SHARING)
def test_few_rows_share_tiles_and_keys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a tile, heads of a tile and splits along the keys that are chosen."""
    of_q, of_k, expected = SHARING[name]
    launches: list[tuple[tuple[int, ...], dict[str, Any]]] = []
    monkeypatch.setattr(Kernel, "_launch", lambda kernel, grid, *a, **k: launches.append((grid, k)))
    q, k = np.empty(of_q, np.float16), np.empty(of_k, np.float16)
    attention(q, k, k)
    grid, given = launches[0]
    block_m, packed, splits = expected
    assert (given["BLOCK_M"], given["PACKED"], given["splits"] or 1) == expected
    heads = of_q[1] // packed
    assert grid == (tawa.cdiv(of_q[2], block_m // packed), heads, of_q[0] * splits)
    assert len(launches) == 1 + (splits > 1)


def test_full_grids_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    launches: list[dict[str, Any]] = []
    monkeypatch.setattr(Kernel, "_launch", lambda kernel, grid, *a, **k: launches.append(k))
    q, k = np.empty((4, 16, 4096, 128), np.float16), np.empty((4, 4, 4096, 128), np.float16)
    attention(q, k, k)
    assert (launches[0]["BLOCK_M"], launches[0]["PACKED"], launches[0]["splits"]) == (192, 1, None)
