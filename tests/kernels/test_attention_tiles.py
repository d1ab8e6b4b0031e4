"""Which tiles attention is computed in: rows, heads that share one, and splits along the keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
from tawa.driver.jit import Kernel
from tawa.kernels.attention import attention, configuration


def test_every_head_dimension_has_a_configuration() -> None:
    assert {configuration(d).block_m % 64 for d in range(8, 257, 8)} == {0}


@pytest.mark.parametrize(
    ("d", "queries", "heads", "rows"),
    [
        (96, 777, 21, 192),  # 105 tiles at once, not 147 on 132 multiprocessors
        (128, 1024, 64, 128),
        (64, 1024, 512, 256),
        (64, 1024, 24, 192),  # four consumers' tiles would be too few
        (64, 160, 600, 192),  # which 256 rows would leave mostly empty
    ],
)
def test_tiles_suit_the_number_of_multiprocessors(
    d: int, queries: int, heads: int, rows: int
) -> None:
    tiles = -(-queries // 128) * heads
    assert configuration(d, queries=queries, tiles=tiles).block_m == rows


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
