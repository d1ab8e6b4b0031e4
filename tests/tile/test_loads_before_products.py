"""Loads of straight-line code that come before its first product, and those that may not."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl

N = 32


@tawa.jit
def chain(x, y, z, out, T, KIND: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """`(x y) z`, of which rows of z may be missing."""
    rows, columns = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    whole = tl.arange(0, N)
    a = tl.load(x + rows * N + whole[None, :])
    b = tl.load(y + rows * N + whole[None, :])
    first = tl.dot(a, b).to(tl.float16)
    if KIND == "stored":
        tl.store(x + rows * N + whole[None, :], first)
        c = tl.load(x + rows * D + columns)
    elif KIND == "counted":
        tl.atomic_add(out, 0.0)
        c = tl.load(z + rows * D + columns, mask=rows < T, other=0)
    elif KIND == "asked for":
        far = (tl.sum(first.to(tl.float32)).to(tl.int32) & 1) * N
        c = tl.load(z + far + rows * D + columns, mask=rows < T, other=0)
    elif KIND == "shared":
        start = T // 64 * 64
        c = tl.load(z + start + rows * D + columns)
        first += tl.load(y + start + rows * N + whole[None, :])
    elif KIND == "again":
        c = tl.zeros((N, D), tl.float16)
        for i in range(T):
            c = tl.load(z + i * 0 + rows * D + columns, mask=rows < T, other=0)
            first = tl.dot(first, a).to(tl.float16)
    else:
        if KIND == "chosen":
            first = tl.where(rows >= whole[None, :], first, 0.0)
        c = tl.load(z + rows * D + columns, mask=rows < T, other=0)
    tl.store(out + rows * D + columns, tl.dot(first, c))


def after_a_product(compiled: tawa.Compiled) -> int:
    """Loads that come after a product was begun."""
    found, begun = 0, False
    for op in compiled.module("aref").walk():
        begun = begun or "dot" in op.name
        found += begun and op.name == "tile.load"
    return found


TYPES = ("*f16:16", "*f16:16", "*f16:16", "*f32:16", "i32")


@pytest.mark.parametrize(
    ("kind", "wide", "left"),
    [("plain", 32, 0), ("chosen", 32, 0), ("plain", 256, 1), ("stored", 32, 1), ("counted", 32, 1),
     ("asked for", 32, 1), ("again", 32, 1), ("shared", 32, 0)],
)  # fmt: skip
def test_which_loads_come_first(kind: str, wide: int, left: int):
    compiled = chain.compile(*TYPES, KIND=kind, N=N, D=wide, num_warps=1)
    assert after_a_product(compiled) == left


@pytest.mark.parametrize("kind", ["plain", "chosen"])
@pytest.mark.parametrize("rows", [1, 17, 32])
def test_what_comes_first_is_the_same(kind: str, rows: int):
    arrays = Arrays()
    x, y, z = (arrays.random("f16", n, N) for n in (N, N, rows))
    out = arrays.output("f32", N, N)
    first = (values(x) @ values(y)).astype(np.float16).astype(float)
    first = np.tril(first) if kind == "chosen" else first
    wanted = first[:, :rows] @ values(z)
    check(
        chain, (1,), [x, y, z, out, rows], {3: wanted}, 2e-2, ("tile", "hopper", "ptx"),
        KIND=kind, N=N, D=N, num_warps=1,
    )  # fmt: skip


def test_loads_that_share_where_they_begin():
    """What the second of them needs has moved with the first."""
    arrays = Arrays()
    x, y, z = (arrays.random("f16", N, N) for _ in range(3))
    out = arrays.output("f32", N, N)
    first = (values(x) @ values(y)).astype(np.float16) + values(y).astype(np.float16)
    check(
        chain, (1,), [x, y, z, out, N], {3: first.astype(float) @ values(z)}, 2e-2,
        ("tile", "hopper", "ptx"), KIND="shared", N=N, D=N, num_warps=1,
    )  # fmt: skip
