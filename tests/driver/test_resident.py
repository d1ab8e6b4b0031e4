"""How many CTAs of a kernel share a multiprocessor: what the first of four limits leaves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.driver.choice.profile import Sizes
from tawa.driver.prediction.launches import resident
from tawa.machine.chips import H200


def compiled(registers: int = 32, threads: int = 128, shared: int = 1024, **spec: Any) -> Any:
    """What the prediction reads of a compiled kernel."""
    of = {"entry": "k", "cluster": (1, 1, 1), "grid": "plain", **spec}
    log = [SimpleNamespace(name="helper", registers=255), SimpleNamespace(name="k",
                                                                          registers=registers)]  # fmt: skip
    return SimpleNamespace(
        spec=SimpleNamespace(threads=threads, shared_bytes=shared, **of),
        assembled=SimpleNamespace(functions=log),
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 16),  # 2048 threads
        ({"threads": 32}, 32),  # CTAs
        ({"registers": 33}, 12),  # 40 registers each
        ({"registers": 128}, 4),
        ({"registers": 129}, 3),
        ({"registers": 255, "threads": 384}, 1),
        ({"registers": 255, "threads": 1024}, 1),  # at least one
        ({"shared": 100 * 1024}, 2),
        ({"shared": 200 * 1024}, 1),
        ({"cluster": (2, 1, 1)}, None),
        ({"grid": "persistent"}, None),
        ({"entry": "other"}, None),  # nothing is known of it
    ],
)
def test_ctas_that_share_a_multiprocessor(given: dict[str, Any], expected: int | None):
    assert resident(compiled(**given), H200) == expected


@pytest.mark.parametrize(
    ("grid", "programs"), [((7,), 7), ((2, 3), 6), ((2, 3, 4), 24), ((), 1), ((5, 0), 0)]
)
def test_programs_of_a_grid(grid: tuple[int, ...], programs: int) -> None:
    assert Sizes(grid).programs == programs


def test_numbers_of_arguments_in_order() -> None:
    sizes = Sizes((1,), (("n", 5), ("m", 0), ("k", -3)))
    assert sizes.values(["k", "x", "n", "m", "n"]) == [-3, 0, 5, 0, 5]
    assert sizes.values([]) == []


@pytest.mark.parametrize(
    ("number", "rounded"),
    [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (6, 6), (7, 8), (8, 8), (9, 12), (12, 12),
     (13, 16), (16, 16), (17, 24), (1000, 1024), (1025, 1536), (-5, -4), (-9, -8), (-3, -3)],
)  # fmt: skip
def test_sizes_that_stand_for_others(number: int, rounded: int) -> None:
    """Rounded up to two leading bits; the grid is as it is."""
    found = Sizes((5, 9), (("n", number), ("m", 9))).rounded
    assert found == Sizes((5, 9), (("n", rounded), ("m", 12)))
