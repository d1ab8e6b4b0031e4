"""Tiles one behind the other, in turns and taken apart again, as threads and memory hold them."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret.hopper import run


@tawa.jit
def joined(x, y, out, M: tl.constexpr, N: tl.constexpr, L: tl.constexpr, AXIS: tl.constexpr):
    m, n, c = tl.arange(0, M), tl.arange(0, N), tl.arange(0, L)
    if L == 1:
        both = tl.cat(tl.load(x + m), tl.load(y + n))
        tl.store(out + tl.arange(0, M + N), both)
    elif AXIS == 0:
        a = tl.load(x + m[:, None] * L + c[None, :])
        b = tl.load(y + n[:, None] * L + c[None, :])
        both = tl.cat(a, b)
        tl.store(out + tl.arange(0, M + N)[:, None] * L + c[None, :], both)


@tawa.jit
def turns(x, y, out, first, second, N: tl.constexpr):
    at = tl.arange(0, N)
    pairs = tl.join(tl.load(x + at), tl.load(y + at))
    tl.store(out + at[:, None] * 2 + tl.arange(0, 2)[None, :], pairs)
    again = tl.load(out + at[:, None] * 2 + tl.arange(0, 2)[None, :]) * 2
    a, b = tl.split(again)
    tl.store(first + at, a)
    tl.store(second + at, b)


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [((32, 96, 1), np.float32), ((96, 32, 1), np.int16), ((64, 64, 1), np.float32),
     ((8, 24, 16), np.int16), ((16, 16, 8), np.float32)],
)  # fmt: skip
def test_one_behind_the_other(sizes: tuple[int, int, int], kind: type) -> None:
    m, n, length = sizes
    rng = np.random.default_rng(0)
    x, y = (rng.integers(1, 1000, (rows, length)).astype(kind) for rows in (m, n))
    out = np.zeros((m + n, length), kind)
    text = {np.float32: "*f32", np.int16: "*i16"}[kind]
    found = joined.compile(text, text, text, m, n, length, 0)
    run(found.module("hopper"), (1,), [x, y, out])
    np.testing.assert_array_equal(out, np.concatenate([x, y]))


@pytest.mark.parametrize(("n", "warps"), [(8, 1), (8, 4), (256, 4)])
def test_in_turns_and_apart(n: int, warps: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    out, first, second = np.zeros((n, 2), np.float32), np.zeros_like(x), np.zeros_like(x)
    found = turns.compile(*["*f32"] * 5, n, num_warps=warps)
    run(found.module("hopper"), (1,), [x, y, out, first, second])
    np.testing.assert_array_equal(out, np.stack([x, y], 1))
    np.testing.assert_array_equal(first, 2 * x)
    np.testing.assert_array_equal(second, 2 * y)
