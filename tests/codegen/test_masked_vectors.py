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


@tawa.jit
def compared(x: Any, y: Any, n: Any, TEST: tl.constexpr, FLIP: tl.constexpr, BLOCK: tl.constexpr):
    """x where its place compares with a number; 5 elsewhere."""
    at = tl.arange(0, BLOCK)
    left, right = (n + tl.zeros_like(at), at) if FLIP else (at, n + tl.zeros_like(at))
    if TEST == "<":
        mask = left < right
    elif TEST == "<=":
        mask = left <= right
    elif TEST == ">":
        mask = left > right
    elif TEST == ">=":
        mask = left >= right
    elif TEST == "==":
        mask = left == right
    else:
        mask = left != right
    tl.store(y + at, tl.load(x + at, mask=mask, other=5.0))


COMPARED: dict[str, Any] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("test", COMPARED)
def test_any_comparison_with_a_multiple(test: str, flip: bool) -> None:
    """Places up to a multiple of the vector's are on one side of it, the multiple itself is not."""
    arrays, at, n = Arrays(), np.arange(256), 128
    x, y = arrays.random("f16", 256), arrays.output("f16", 256)
    mask = COMPARED[test](n, at) if flip else COMPARED[test](at, n)
    expected = np.where(mask, values(x), 5.0)
    compiled = check(compared, (1,), [x, y, n, test, flip, 256], {1: expected}, 1e-6)
    loads = [op for op in compiled.module("hopper").walk() if isinstance(op, GlobalLoad)]
    whole = test in ((">", "<=") if flip else ("<", ">="))
    assert [op.mask_run is None for op in loads] == [whole]
