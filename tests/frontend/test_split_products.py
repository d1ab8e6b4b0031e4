"""Products of f32 by parts of 16 bits: how exact they are, and what infinities become."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend.builtins.split_products import is_of_parts
from tawa.simulate.interpret.hopper import run as run_hopper


@tawa.jit
def product(x, y, z, steps, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, HOW: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for step in range(steps):
        at = step * K + inner
        a = tl.load(x + rows[:, None] * (steps * K) + at[None, :])
        b = tl.load(y + at[:, None] * N + columns[None, :])
        total = tl.dot(a, b, total, input_precision=HOW)
    tl.store(z + rows[:, None] * N + columns[None, :], total)


def arguments(rows: int, columns: int, inner: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows + columns)
    x = rng.normal(size=(rows, inner)).astype(np.float32)
    y = rng.normal(size=(inner, columns)).astype(np.float32)
    return [x, y, np.zeros((rows, columns), np.float32)]


@pytest.mark.parametrize("shape", [(16, 16), (64, 64)])
@pytest.mark.parametrize(("how", "bits"), [("bf16x3", 15), ("bf16x6", 21)])
def test_products_keep_as_many_bits_as_their_parts(
    shape: tuple[int, int], how: str, bits: int
) -> None:
    x, y, z = arguments(*shape, 64)
    options = {"steps": 2, "M": shape[0], "N": shape[1], "K": 32, "HOW": how}
    exact = x.astype(float) @ y.astype(float)
    scale = np.abs(x).astype(float) @ np.abs(y).astype(float)
    product[(1,)](x, y, z, **options)
    assert (np.abs(z - exact) < scale * 2.0**-bits).all()
    compiled = product.compile(x, y, z, **options)
    again = np.zeros_like(z)
    run_hopper(compiled.module("hopper"), (1,), [x, y, again, 2])
    assert (np.abs(again - exact) < scale * 2.0**-bits).all()


@pytest.mark.parametrize("how", ["bf16x3", "bf16x6"])
def test_infinities_and_what_is_no_number_stay_what_they_are(how: str) -> None:
    x, y, z = arguments(16, 16, 32)
    x[0, 3], x[1, 4], x[2, 5], y[:, 7] = np.inf, -np.inf, np.nan, 1 + 2.0**-20
    x[3, 6], y[6, 9] = np.inf, 0
    product[(1,)](x, y, z, 1, M=16, N=16, K=32, HOW=how)
    with np.errstate(invalid="ignore"):
        exact = x @ y
    np.testing.assert_array_equal(np.isnan(z), np.isnan(exact))
    np.testing.assert_array_equal(z[np.isinf(exact)], exact[np.isinf(exact)])
    assert np.isfinite(z[4:]).all()


def test_the_instructions_are_those_of_16_bits_where_they_take_the_shape() -> None:
    def text(rows: int) -> str:
        types = ["*f32:16", "*f32:16", "*f32:16", "i32"]
        return str(product.compile(*types, M=rows, N=64, K=64, HOW="bf16x3").asm["ptx"])

    assert text(64).count("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16") % 3 == 0
    assert "f32.bf16.bf16" in text(64)
    assert "m16n8k16.row.col.f32.bf16.bf16" in text(32)
    assert "bf16" not in text(8)


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "taken"),
    [(16, 16, 8, True), (48, 80, 24, True), (8, 16, 8, False), (24, 16, 8, False),
     (16, 8, 8, False), (16, 24, 8, False), (16, 16, 4, False), (16, 16, 12, False)],
)  # fmt: skip
def test_shapes_that_are_taken_apart(rows: int, inner: int, columns: int, taken: bool) -> None:
    left: Any = SimpleNamespace(shape=(3, rows, inner))
    right: Any = SimpleNamespace(shape=(3, inner, columns))
    assert is_of_parts("bf16x3", left, right) is taken
    assert is_of_parts("bf16x6", left, right) is taken
    assert not is_of_parts("tf32", left, right)
