"""Divisions by what a row shares: the same numbers by fewer instructions, out to the last ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.hopper import run

TINY = float(np.float32(2.0**-149))


@tawa.jit
def quotients(x, d, out, BY: tl.constexpr):
    rows, columns = tl.arange(0, 16), tl.arange(0, 64)
    at = rows[:, None] * 64 + columns[None, :]
    v = tl.load(x + at)
    if BY == "rows":
        y = v / tl.load(d + rows)[:, None]
    elif BY == "columns":
        y = v / tl.load(d + columns)[None, :]
    elif BY == "one":
        y = v / tl.load(d)
    elif BY == "number":
        y = v / 3.0
    elif BY == "tiny":
        y = v / 1e-40
    elif BY == "each":
        y = v / tl.load(d + at)
    elif BY == "turned":
        y = v / tl.trans(tl.load(d + columns[:, None] * 16 + rows[None, :]))
    else:
        y = 3.0 / tl.load(d + rows)[:, None] + v * 0
    tl.store(out + at, y)


def functions(found: Any) -> list[str]:
    return [op.function.data for op in found.module("aref").walk() if isinstance(op, Map)]


def divisors(by: str) -> np.ndarray:
    """Numbers of all sizes, of both signs, with zero, infinity and NaN."""
    hard = [1, -3, 0, -0.0, np.inf, -np.inf, np.nan, TINY, -1e-40, 2.0**-126, 2.0**-127, 2.0**126,
            2.0**127, 3.4e38, -1.5e38, 7e-39]  # fmt: skip
    count = {"rows": 16, "columns": 64, "one": 1}[by]
    return np.resize(np.array(hard, np.float32)[5:] if by == "one" else hard, count).astype("f4")


def dividends() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(16, 64)).astype(np.float32)
    x[:, :8] = 0, np.inf, np.nan, TINY, 1e-40, 3.4e38, -1e38, -0.0
    return x


@pytest.mark.parametrize("by", ["rows", "columns", "one"])
def test_all_numbers_are_divided_as_one_by_one(by: str) -> None:
    found = quotients.compile("*f32", "*f32", "*f32", by)
    assert "divf" not in functions(found)
    assert functions(found).count("recip") == 1
    x, d, out = dividends(), divisors(by), np.empty((16, 64), np.float32)
    run(found.module("hopper"), (1,), [x, d, out])
    with np.errstate(all="ignore"):
        exact = x / (d[:, None] if by == "rows" else d[None, :])
    np.testing.assert_allclose(out, exact, 3e-7, 2 * TINY)
    np.testing.assert_array_equal(np.signbit(out[exact == 0]), np.signbit(exact[exact == 0]))


def test_by_a_number_it_is_one_product() -> None:
    found = quotients.compile("*f32", "*f32", "*f32", "number")
    assert not {"divf", "recip"} & set(functions(found))
    x, out = dividends(), np.empty((16, 64), np.float32)
    run(found.module("hopper"), (1,), [x, np.ones(1, np.float32), out])
    np.testing.assert_allclose(out, x / np.float32(3), 2e-7, TINY)


@pytest.mark.parametrize("by", ["tiny", "each", "turned", "three"])
def test_what_stays_a_division(by: str) -> None:
    found = quotients.compile("*f32", "*f32", "*f32", by)
    assert "divf" in functions(found)


@tawa.jit
def in_a_loop(x, d, out, n):
    rows, columns = tl.arange(0, 16), tl.arange(0, 64)
    divisor = tl.load(d + rows)
    for i in range(n):
        at = (i * 16 + rows)[:, None] * 64 + columns[None, :]
        tl.store(out + at, tl.load(x + at) / divisor[:, None])


def test_a_reciprocal_is_taken_where_the_divisor_is_made() -> None:
    found = in_a_loop.compile("*f32", "*f32", "*f32", "i32")
    text = str(found.module("aref"))
    assert text.index("recip") < text.index("scf.for")
    x = np.tile(dividends(), (3, 1))
    d, out = divisors("rows"), np.empty_like(x)
    run(found.module("hopper"), (1,), [x, d, out, 3])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(out, x / np.tile(d, 3)[:, None], 3e-7, 2 * TINY)
