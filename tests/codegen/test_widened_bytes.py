"""Bytes that are read from shared memory become numbers of 16 bits four at a time."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, stored

import tawa
import tawa.language as tl


@tawa.jit
def spread(x, w, y, K, N: tl.constexpr, BK: tl.constexpr):
    """x @ w, whose w is of bytes."""
    n, k = tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((N, N), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(x + n[:, None] * K + (start + k)[None, :])
        b = tl.load(w + n[None, :] * K + (start + k)[:, None])
        acc = tl.dot(a, b.to(a.dtype), acc)
    tl.store(y + n[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("to", ["f16", "bf16"])
@pytest.mark.parametrize("of", ["i8", "u8"])
def test_all_bytes_are_right(of: str, to: str) -> None:
    size = 64
    x = stored(np.eye(size, dtype=np.float32), to)
    y = Arrays().output("f32", size, size)
    w = (np.arange(size * size).reshape(size, size) % 256).astype(np.uint8)
    w = w.view(np.int8) if of == "i8" else w
    expected = w.T.astype(np.float64)
    compiled = check(
        spread, (1,), [x, w, y, size], {2: expected}, 1e-12, ("hopper", "ptx"), N=size, BK=32,
        num_warps=4,
    )  # fmt: skip
    text = compiled.stages["cu"]
    assert isinstance(text, str)
    assert text.count(f"widen_{'unsigned_' * (of == 'u8')}bytes(") > 1  # defined, and called
