"""How many CTAs the timing model puts on a multiprocessor, and of how many launches are made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.machine.chips import H200
from tawa.simulate.timing.launch import Launch


def of(threads: int, shared: int, cluster: int = 1, asked: int = 0) -> Any:
    first = SimpleNamespace(threads=threads, shared_bytes=shared)
    return SimpleNamespace(first=first, cluster=cluster, asked=asked, target=H200, grid=(3, 5, 2))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((128, 1024), 2),  # 256 registers a thread
        ((32, 1024), 8),
        ((32, 60 * 1024), 3),
        ((64, 100 * 1024), 2),
        ((384, 1024), 1),  # at least one, though 98,304 registers are more than there are
        ((1024, 1024), 1),
        ((128, 1024, 2), 1),  # of a cluster
        ((128, 1024, 1, 3), 3),  # as many as were asked for
        ((128, 1024, 2, 3), 1),
        ((128, 1024, 1, 1), 2),
    ],
)
def test_ctas_of_a_multiprocessor(given: tuple[int, ...], expected: int):
    assert Launch.resident.fget(of(*given)) == expected  # pyright: ignore
    assert Launch.ctas.fget(of(*given)) == 30  # pyright: ignore
