"""Masked accesses are vectors wherever a mask lets a whole vector through, whatever it compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, check, stored, values

import tawa
import tawa.language as tl
from tawa.hopper.dialect.global_memory import GlobalLoad, GlobalStore


@tawa.jit
def scaled(x: Any, keep: Any, y: Any, n: Any, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """Twice x where a mask lets it through."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if KIND == "end":
        mask = at < n
    elif KIND == "start":
        mask = at >= n
    elif KIND == "between":
        mask = (at > n) & (at < 3 * n)
    else:
        mask = tl.load(keep + at) != 0
    tl.store(y + at, tl.load(x + at, mask=mask, other=-1.0) * 2, mask=mask)


MASKS = {
    "end": lambda at, n, keep: at < n,
    "start": lambda at, n, keep: at >= n,
    "between": lambda at, n, keep: (at > n) & (at < 3 * n),
    "loaded": lambda at, n, keep: keep != 0,
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("element", ["f16", "f32", "i8", "f64"])
@pytest.mark.parametrize("n", [0, 5, 333])
def test_any_mask(kind: str, element: str, n: int) -> None:
    arrays = Arrays()
    x, y = arrays.random(element, 1024), arrays.output(element, 1024)
    keep = stored(np.random.default_rng(n).integers(0, 4, 1024), "i32")
    before, at = values(y), np.arange(1024)
    mask = MASKS[kind](at, n, values(keep))
    expected = np.where(mask, values(x) * 2, before)
    if np.isnan(expected).any():  # what is left as it was
        y[...] = stored(np.full(1024, -3.0), element)
        expected = np.where(mask, values(x) * 2, -3.0)
    compiled = check(scaled, (2,), [x, keep, y, n, kind, 512], {2: expected}, 1e-6)
    module = compiled.module("hopper")
    accesses = [op for op in module.walk() if isinstance(op, GlobalLoad | GlobalStore) and op.mask]
    widest = 16 // x.dtype.itemsize
    assert [op.vector.value.data for op in accesses] == [min(widest, 4)] * 2
    if n % 16:
        assert [op.mask_run and op.mask_run.value.data for op in accesses] == [1] * 2
