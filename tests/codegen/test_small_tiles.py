"""Tiles of few rows, and of three dimensions, lie in shared memory where copies put them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate import run


@tawa.jit
def moved(x, o, n, N: tl.constexpr):
    for i in range(n):
        o.store([2 * i, 0, 0], x.load([i, 0, 0]) + tl.arange(0, N))


@tawa.jit
def moved_by_both(x, o, n, N: tl.constexpr):
    first = tl.program_id(0) * n
    for i in range(n):
        o.store([2 * (first + i), 0, 0], x.load([i, 0, 0]) + tl.arange(0, N))


@tawa.jit
def moved_rows(x, o, n, N: tl.constexpr):
    for i in range(n):
        o.store([4 * i, 0], x.load([i, 0]) + tl.arange(0, N))


@tawa.jit
def moved_parts(x, o, n, N: tl.constexpr):
    for i in range(n):
        o.store([i * 8], x.load([i * 8]) + tl.arange(0, N))


CASES: dict[str, tuple[tawa.Kernel, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "rows of a swizzle's pattern": (moved_rows, (5, 32), (4, 32), {}),
    "panels of few rows": (moved_rows, (4, 128), (2, 128), {}),
    "rows narrower than a swizzle": (moved_rows, (6, 4), (2, 4), {}),
    "one dimension": (moved_parts, (32,), (8,), {}),
    "slabs of few rows": (moved, (4, 4, 32), (2, 4, 32), {}),
    "slabs of more rows than a box has": (moved, (3, 320, 4), (2, 320, 4), {}),
    "slabs that a cluster shares": (moved_by_both, (6, 32, 16), (2, 32, 16), {"cluster": 2}),
}


@pytest.mark.parametrize("specialize", [None, False], ids=["roles", "one role"])
@pytest.mark.parametrize("name", CASES)
def test_every_slot_of_a_ring_holds_its_tile(name: str, specialize: bool | None) -> None:
    kernel, shape, block, options = CASES[name]
    if specialize is False and "cluster" in options:
        pytest.skip("a cluster shares what a loading role loads")
    programs, turns = options.get("cluster", 1), 3 if kernel is not moved_by_both else 2
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) % 97
    found, expected = (np.zeros((4 * shape[0], *shape[1:]), np.int32) for _ in range(2))
    describe = tawa.TensorDescriptor.from_tensor

    def arguments(out: np.ndarray) -> dict[str, Any]:
        return {
            "x": describe(x, list(block)),
            "o": describe(out, list(block)),
            "n": turns,
            "N": block[-1],
        }

    compiled = kernel.compile(**arguments(found), specialize=specialize, **options)
    kernel[(programs,)](**arguments(expected), specialize=specialize, **options)
    named = arguments(found)
    run(compiled.module("hopper"), (programs,), [named[n] for n in compiled.spec.arguments])
    np.testing.assert_array_equal(found, expected)
