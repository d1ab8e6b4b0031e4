"""Tiles that are loaded one way and stored the other: threads hold squares and exchange nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, Recorded, values

import tawa
import tawa.language as tl
from tawa.simulate.interpret.hopper import run


@tawa.jit
def moved(x, y, z, sums, M, N, B: tl.constexpr, KIND: tl.constexpr):
    m, n = tl.arange(0, B), tl.arange(0, B)
    inside = (m[:, None] < M) & (n[None, :] < N)
    v = tl.load(x + m[:, None] * N + n[None, :], mask=inside, other=0.0) * 2
    if KIND == "pointers":
        tl.store(y + m[:, None] + n[None, :] * M, v, mask=inside)
    else:
        tl.store(y + n[:, None] * M + m[None, :], v.T, mask=inside.T)
    if KIND == "both":
        tl.store(z + m[:, None] * N + n[None, :], v, mask=inside)
    if KIND == "summed":
        tl.store(sums + m, tl.sum(v, 1))


def exchanged(kind: str, element: str = "f32", m: int = 64, n: int = 48, tile: int = 64) -> int:
    """Bytes of shared memory that a right launch takes."""
    arrays = Arrays()
    x, y, z = (
        arrays.random(element, m, n),
        *(arrays.output(element, *s) for s in ((n, m), (m, n))),
    )
    args = [x, y, z, arrays.output(element, tile), m, n]
    constants: dict[str, Any] = {"B": tile, "KIND": kind, "num_warps": 8}
    launch = Recorded(moved, (1,), args, constants)
    compiled = launch.compile()
    run(compiled.module("hopper"), (1,), launch.values(compiled))
    np.testing.assert_array_equal(values(y), (2 * values(x)).T)
    if kind == "both":
        np.testing.assert_array_equal(values(z), 2 * values(x))
    return compiled.spec.shared_bytes


@pytest.mark.parametrize("kind", ["turned", "pointers", "both"])
def test_words_that_are_stored_across_are_not_exchanged(kind: str):
    assert exchanged(kind) == 0


@pytest.mark.parametrize(
    ("kind", "others"),
    [("turned", {"element": "f16"}), ("summed", {}), ("turned", {"m": 63, "n": 47})],
    ids=["halves", "summed, too", "rows that begin anywhere"],
)
def test_what_is_exchanged_as_before(kind: str, others: dict[str, Any]):
    """Halves have no squares, sums their own layout, and words that are loaded one by one none."""
    assert exchanged(kind, **others) > 0
