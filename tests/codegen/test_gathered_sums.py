"""Sums of products that lanes exchange before they are stored: the values, and the instructions."""

from __future__ import annotations

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.simulate.interpret.hopper import run as run_hopper


@tawa.jit
def product(x, y, z, row, column, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + rows[:, None] * K + inner[None, :])
    b = tl.load(y + inner[:, None] * N + columns[None, :])
    c = tl.dot(a, b).to(z.dtype.element_ty)
    at = rows[:, None] * row + columns[None, :] * column
    tl.store(z + at, c, mask=(columns < n)[None, :])


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("shape", [(64, 64), (64, 16), (32, 32), (32, 64)], ids=str)
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_sums_are_stored_where_they_belong(shape: tuple[int, int], turned: bool, kind: str) -> None:
    rows, columns = shape
    rng = np.random.default_rng(rows + columns)
    x = rng.integers(-4, 5, (rows, 32)).astype(np.float16)
    y = rng.integers(-4, 5, (32, columns)).astype(np.float16)
    z = np.zeros((columns, rows) if turned else shape, kind)
    strides = (1, rows) if turned else (columns, 1)
    sizes = {"M": rows, "N": columns, "K": 32}
    compiled = product.compile(x, y, z, *strides, columns - 8, **sizes)
    given = [s for s in strides if s != 1]
    run_hopper(compiled.module("hopper"), (1,), [x, y, z, *given, columns - 8])
    expected = x.astype(float) @ y.astype(float)
    expected[:, columns - 8 :] = 0
    np.testing.assert_array_equal(z.T if turned else z, expected)


@pytest.mark.parametrize("shape", [(64, 64), (64, 16), (32, 32), (32, 64)], ids=str)
def test_they_are_stored_16_bytes_at_once(shape: tuple[int, int]) -> None:
    sizes = {"M": shape[0], "N": shape[1], "K": 32}
    for kind in ("f32", "f16"):
        types = ["*f16:16", "*f16:16", f"*{kind}:16", "i32:16", 1, "i32:16"]
        text = str(product.compile(*types, **sizes).asm["ptx"])
        assert "st.global.v4.b32" in text
        assert "st.global.v2.b32" not in text
