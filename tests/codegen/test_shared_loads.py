"""What many threads load of one row, beside a product, one of them loads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulation import Arrays, check, values
from xdsl.dialects import scf

import tawa
import tawa.language as tl
from tawa.hopper.dialect.global_memory import GlobalLoad
from tawa.hopper.dialect.types import FragType


@tawa.jit
def scaled(a, b, s, places, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Each block of K has a scale a column, somewhere in memory: of two bytes, too few to copy."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    place = tl.load(places + n)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + start + k[None, :])
        y = tl.load(b + n[None, :] * K + start + k[:, None])
        acc += tl.dot(x, y) * tl.load(s + place + start // BK * N).to(tl.float32)[None, :]
    tl.store(c + m[:, None] * N + n[None, :], acc)


@pytest.mark.parametrize("columns", [64, 128])
def test_a_gathered_row_is_loaded_once_and_exchanged(columns: int) -> None:
    arrays, (m, n, k, block) = Arrays(), (64, columns, 128, 32)
    a, b = arrays.random("f16", m, k), arrays.random("f16", n, k)
    s, c = arrays.random("f16", k // block, n), arrays.output("f32", m, n)
    places = arrays.random("i32", n)
    places[:] = np.random.default_rng(1).permutation(n)
    scales = values(s)[:, places.view(np.ndarray)]
    x, y = (values(v).reshape(-1, k // block, block) for v in (a, b))
    expected = np.einsum("mbk,nbk,bn->mn", x, y, scales)
    constants = {"M": m, "N": n, "BK": block, "num_warps": 4}
    compiled = check(
        scaled, (1,), [a, b, s, places, c, k], {4: expected}, 1e-4, ("tile", "hopper", "ptx"),
        **constants,
    )  # fmt: skip
    loops = [op for op in compiled.module("hopper").walk() if isinstance(op, scf.ForOp)]
    loads = [op for loop in loops for op in loop.walk() if isinstance(op, GlobalLoad)]
    kinds = [op.results[0].type for op in loads]
    rows = [k.layout for k in kinds if isinstance(k, FragType) and k.layout.shape == (n,)]
    assert [layout.registers for layout in rows] == [math.ceil(n / 128)]


@tawa.jit
def tapped(x, w, y, T, D, BT: tl.constexpr, BD: tl.constexpr):
    """Four taps of each column, 16 bytes from those of the next."""
    t, d = tl.arange(0, BT), tl.arange(0, BD)
    acc = tl.zeros((BT, BD), tl.float32)
    for k in tl.static_range(4):
        part = tl.load(x + (t[:, None] + k) * D + d).to(tl.float32)
        acc += part * tl.load(w + d * 4 + k)[None, :]
    tl.store(y + t[:, None] * D + d, acc.to(tl.float16))


def test_scattered_rows_beside_a_tile_are_loaded_once() -> None:
    arrays, (t, d) = Arrays(), (16, 128)
    x, w, y = arrays.random("f16", t + 3, d), arrays.random("f32", d, 4), arrays.output("f16", t, d)
    expected = sum(values(x)[k : k + t] * values(w)[:, k] for k in range(4))
    compiled = check(
        tapped, (1,), [x, w, y, t, d], {2: expected}, 1e-2, ("tile", "hopper", "ptx"),
        BT=t, BD=d, num_warps=4,
    )  # fmt: skip
    loads = [op for op in compiled.module("hopper").walk() if isinstance(op, GlobalLoad)]
    kinds = [op.results[0].type for op in loads]
    taps = [k.layout for k in kinds if isinstance(k, FragType) and k.layout.shape == (d,)]
    assert [layout.registers for layout in taps] == [1] * 4
