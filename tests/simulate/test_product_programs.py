"""Random programs of products, and of tiles of any shape, do at every level what Python and NumPy do.

`scripts/random_programs.py --kind products` (or `shapes`) runs as many as one likes.
"""

from __future__ import annotations

from pathlib import Path

import product_programs
import pytest
import shape_programs
from comparison import Outcome, compared

EACH = 10
"""Programs of one test."""


def wrong(seed: int, outcome: Outcome) -> str:
    """What a failure says."""
    return f"seed {seed}: {outcome.verdict} {outcome.where}\n{outcome.text}"


@pytest.mark.parametrize("first", range(0, 20, EACH))
def test_products_at_all_levels(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + EACH):
        outcome = compared(product_programs.program(seed), tmp_path, (seed,))
        assert not outcome.bad, wrong(seed, outcome)


@pytest.mark.parametrize("first", range(0, 40, EACH))
def test_shapes_at_all_levels(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + EACH):
        outcome = compared(shape_programs.program(seed), tmp_path, (seed,))
        assert not outcome.bad, wrong(seed, outcome)


def test_a_seed_is_one_program() -> None:
    for kind in (product_programs, shape_programs):
        assert kind.program(5).source == kind.program(5).source != kind.program(6).source
