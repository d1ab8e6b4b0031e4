"""Two comparisons of a distance that become one, however they are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.hopper import run


@tawa.jit
def joined(m, n, CASE: tl.constexpr):
    if CASE == "window":
        mask = (n <= m) & (m - n < 9)
    elif CASE == "at least":
        mask = (m >= n) & (m - n <= 8)
    elif CASE == "below":
        mask = (n - m > -9) & (n <= m)
    elif CASE == "of the distance":
        mask = (m - n >= 0) & (m - n < 9)
    elif CASE == "the other order":
        mask = (m - n < 9) & (n <= m)
    elif CASE == "with more":
        mask = (n <= m) & (n > 3) & (m - n < 9)
    elif CASE == "outside":
        mask = (n > m) | (m - n >= 9)
    elif CASE == "beyond":
        mask = (m < n) | (m - n > 8)
    return mask


@tawa.jit
def left_apart(m, n, CASE: tl.constexpr):
    if CASE == "one alone":
        mask = (n <= m) & (n > 3)
    elif CASE == "from one on":
        mask = (n < m) & (m - n < 9)
    elif CASE == "either":
        mask = (n <= m) | (m - n < 9)
    elif CASE == "the other way":
        mask = (m <= n) & (m - n < 9)
    elif CASE == "no distance":
        mask = (n <= m) & (n < 9)
    elif CASE == "never":
        mask = (n <= m) & (m - n < 0)
    return mask


@tawa.jit
def chosen(out, first, CASE: tl.constexpr, JOINED: tl.constexpr):
    m = (first + tl.arange(0, 32))[:, None]
    n = (first + tl.arange(0, 64))[None, :]
    if JOINED:
        mask = joined(m, n, CASE)
    else:
        mask = left_apart(m, n, CASE)
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(out + at, tl.where(mask, 1.0, 0.0))


MASKS: dict[str, Any] = {
    "window": lambda m, n: (n <= m) & (m - n < 9),
    "at least": lambda m, n: (m >= n) & (m - n <= 8),
    "below": lambda m, n: (n - m > -9) & (n <= m),
    "of the distance": lambda m, n: (m - n >= 0) & (m - n < 9),
    "the other order": lambda m, n: (m - n < 9) & (n <= m),
    "with more": lambda m, n: (n <= m) & (n > 3) & (m - n < 9),
    "outside": lambda m, n: (n > m) | (m - n >= 9),
    "beyond": lambda m, n: (m < n) | (m - n > 8),
    "one alone": lambda m, n: (n <= m) & (n > 3),
    "from one on": lambda m, n: (n < m) & (m - n < 9),
    "either": lambda m, n: (n <= m) | (m - n < 9),
    "the other way": lambda m, n: (m <= n) & (m - n < 9),
    "no distance": lambda m, n: (n <= m) & (n < 9),
    "never": lambda m, n: (n <= m) & (m - n < 0),
}
APART = ("one alone", "from one on", "either", "the other way", "no distance", "never")


def unsigned(found: Any) -> int:
    """Comparisons without a sign at the level of roles."""
    ops = [op for op in found.module("aref").walk() if isinstance(op, Map)]
    return sum(op.function.data in ("cmpi_ult", "cmpi_uge") for op in ops)


@pytest.mark.parametrize("case", MASKS)
def test_the_same_elements_are_chosen(case: str) -> None:
    found = chosen.compile("*f32", "i32", case, case not in APART)
    assert unsigned(found) == (case not in APART)
    m, n = np.ogrid[100:132, 100:164]
    out = np.empty((32, 64), np.float32)
    run(found.module("hopper"), (1,), [out, 100])
    np.testing.assert_array_equal(out, MASKS[case](m, n))


@tawa.jit
def loaded(x, out, first):
    m = (first + tl.arange(0, 32))[:, None]
    n = (first + tl.arange(0, 64))[None, :]
    at = tl.arange(0, 32)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(out + at, tl.load(x + at, mask=(n <= m) & (m - n < 9), other=0))


def test_masks_of_loads_stay_as_they_say_most() -> None:
    assert unsigned(loaded.compile("*f32", "*f32", "i32")) == 0
