"""Which arrays of a launch may have bytes in common."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tawa
from tawa.runtime.overlaps import meet, overlapping, reach


def may_meet(one: Any, other: Any) -> bool:
    return bool(overlapping([("a", "b")], {"a": one, "b": other}))


def test_ranges() -> None:
    x = np.zeros(100, np.float32)
    assert may_meet(x, x)
    assert may_meet(x[:51], x[50:])
    assert not may_meet(x[:50], x[50:])
    assert not may_meet(x, np.zeros(100, np.float32))
    assert not may_meet(x[:0], x)
    assert not may_meet(x, 3)


def test_columns_of_one_matrix() -> None:
    x = np.zeros((64, 96), np.float16)
    assert not may_meet(x[:, :32], x[:, 32:])
    assert may_meet(x[:, :33], x[:, 32:])
    assert may_meet(x, x.T)


def test_packed_queries_and_keys() -> None:
    packed = np.zeros((2, 16, 3, 4, 32), np.float16)
    q, k, v = (packed[:, :, i] for i in range(3))
    assert not may_meet(q, k)
    assert not may_meet(v, q)
    assert may_meet(packed, v)
    assert not may_meet(q.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3))


def test_descriptors() -> None:
    x = np.zeros((64, 128), np.float16)
    left = tawa.TensorDescriptor(x, [64, 64], [128, 1], [16, 16])
    right = tawa.TensorDescriptor(x[:, 64:], [64, 64], [128, 1], [16, 16])
    assert not may_meet(left, right)
    assert may_meet(left, tawa.TensorDescriptor.from_tensor(x, [16, 16]))


@pytest.mark.parametrize("seed", range(40))
def test_it_never_says_apart_of_arrays_that_are_not(seed: int) -> None:
    rng = np.random.default_rng(seed)
    memory = np.zeros(400, np.int8)
    for _ in range(50):
        views: list[Any] = []
        for _ in range(2):
            shape = tuple(int(n) for n in rng.integers(1, 5, rng.integers(1, 4)))
            strides = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 8, 12, 24], len(shape)))
            start = int(rng.integers(0, 100))
            views.append(np.lib.stride_tricks.as_strided(memory[start:], shape, strides))
        touched = [
            {
                v.__array_interface__["data"][0]
                + sum(map(np.prod, zip(at, v.strides, strict=True)))
                for at in product(*map(range, v.shape))
            }
            for v in views
        ]
        one, other = map(reach, views)
        assert one is not None
        assert other is not None
        assert meet(one, other) or not touched[0] & touched[1]
