"""Stores to computed places: what is stored is loaded as threads hold the places."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import check, stored, values

import tawa
import tawa.language as tl
from tawa.hopper.dialect.memory import SharedStore

N, BINS = 512, 4
LEVELS = ("tile", "hopper", "ptx")


@tawa.jit
def by_key(keys, numbers, out, ADDED: tl.constexpr, N: tl.constexpr, BINS: tl.constexpr):
    """Numbers in the order of their keys, each key's from its own place on."""
    at = tl.arange(0, N)
    key, number = tl.load(keys + at), tl.load(numbers + at)
    for b in range(BINS):
        same = key == b
        place = b * N + tl.cumsum(same.to(tl.int32), 0) - same
        if ADDED:
            tl.atomic_add(out + place, number, mask=same)
        else:
            tl.store(out + place, number, mask=same)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("element", ["i64", "f16"])
def test_numbers_of_another_size_than_their_keys(element: str, added: bool) -> None:
    random = np.random.default_rng(3)
    keys = stored(random.integers(0, BINS, N).astype(np.int32), "i32")
    numbers = stored(random.integers(-99, 99, N).astype(np.float64), element)
    out = stored(np.zeros((BINS, N)), element)
    expected = np.zeros((BINS, N))
    for b in range(BINS):
        found = values(numbers)[np.asarray(keys) == b]
        expected[b, : len(found)] = found
    sizes = {"ADDED": added, "N": N, "BINS": BINS}
    compiled = check(
        by_key, (1,), [keys, numbers, out], {2: expected}, 1e-9, levels=LEVELS, **sizes
    )
    module = compiled.module("hopper")
    (total,) = [op for op in module.walk() if isinstance(op, SharedStore)]
    assert total.tile.type.extents == (1, 4), "of what is exchanged in the loop: the warps' sums"
