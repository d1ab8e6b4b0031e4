"""Random programs of products, tiles and control flow do at every level what Python and NumPy do.

`scripts/random_programs.py --kind products` (or `shapes`, `control`) runs as many as one likes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import control_programs
import product_programs
import pytest
import shape_programs
from comparison import Outcome, compared
from memory_programs import Nest

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


@pytest.mark.parametrize("seed", [95061, 95205, 141566, 142299, 150866, 170072, 320825])
def test_products_that_had_stopped_the_compiler(seed: int, tmp_path: Path) -> None:
    """A copy behind the branch that reads it; a product of sums that are not there yet.

    Products of warps that read slots transposed: before they were, and after their return. A sum
    that another product adds to, before what it was is staged transposed. Teams that take turns, and
    wait for slots of a ring behind their turn. A slot that a product returns where its value is
    read, behind a wait for what the slot has to be free for.
    """
    outcome = compared(product_programs.program(seed), tmp_path)
    assert not outcome.bad, wrong(seed, outcome)


def test_a_program_that_leaves_its_arrays_is_refused_at_every_level(tmp_path: Path) -> None:
    assert compared(product_programs.program(331060), tmp_path).verdict == "outside"


SIZES = product_programs.Sizes((("BM", 64), ("BN", 16), ("BK", 32)), "float16", (1,), (0, 0))

READ_BY_BOTH = [
    "rM, rN = tl.arange(0, BM), tl.arange(0, BN)",
    "acc = tl.zeros((BM, BN), tl.float32)",
    "other = tl.zeros((BN, BM), tl.float32)",
    Nest("for j in range(n):", [
        "acc += tl.dot(clamped(other).to(tl.float16).T, d_BN_BN.load([j * BN, BN]))",
        "left = b_BN_BN.load([j * BN, j * BN])",
        "other = clamped(tl.dot(left, clamped(other).to(tl.float16))) - other + 1",
    ]),
    "tl.store(o + rM[:, None] * BN + rN[None, :], acc)",
]  # fmt: skip
"""A computed tile that a warp group's product reads, and later one of single warps."""

READ_AT_LAST = [
    "rM, rN = tl.arange(0, BM), tl.arange(0, BN)",
    "acc = tl.zeros((BM, BN), tl.float32)",
    "other = tl.zeros((BN, BM), tl.float32)",
    "s = tl.load(c)",
    Nest("for j in range(n):", [
        "start = clamped(chosen(clamped(other).T, clamped(other).T, s))",
        "right = tl.load(b + (j * BN + rN)[:, None] * wide + (j * BN + rN)[None, :])",
        "acc = tl.dot(clamped(other).to(tl.float16).T, right, start)",
    ]),
    "tl.store(o + rM[:, None] * BN + rN[None, :], acc)",
]  # fmt: skip
"""A product of which only the last iteration's is read."""


@pytest.mark.parametrize("turns", [0, 3])
@pytest.mark.parametrize("body", [READ_BY_BOTH, READ_AT_LAST], ids=["read by both", "read at last"])
def test_products_that_were_wrong(body: list[Any], turns: int, tmp_path: Path) -> None:
    outcome = compared(product_programs.Program(1, SIZES, body, {}, turns), tmp_path, (1,))
    assert not outcome.bad, wrong(1, outcome)


@pytest.mark.parametrize("first", range(0, 20, EACH))
def test_shapes_at_all_levels(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + EACH):
        outcome = compared(shape_programs.program(seed), tmp_path, (seed,))
        assert not outcome.bad, wrong(seed, outcome)


@pytest.mark.parametrize("first", range(0, 20, EACH))
def test_control_flow_at_all_levels(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + EACH):
        outcome = compared(control_programs.program(seed), tmp_path, (seed,))
        assert not outcome.bad, wrong(seed, outcome)


def test_a_seed_is_one_program() -> None:
    for kind in (product_programs, shape_programs, control_programs):
        assert kind.program(5).source == kind.program(5).source != kind.program(6).source
