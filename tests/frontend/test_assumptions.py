"""What `tl.assume` and `tl.assume_disjoint` leave in a kernel's tile module."""

from __future__ import annotations

from typing import Any

import pytest

import tawa
import tawa.language as tl
from tawa.base.errors import TawaError


@tawa.jit
def assuming(x, n, m, CASE: tl.constexpr):  # noqa: C901
    k = n * m
    if CASE == "above":
        tl.assume(k > 7)
    elif CASE == "at least":
        tl.assume(k >= 7)
    elif CASE == "below":
        tl.assume(k > 7)
    elif CASE == "at most":
        tl.assume(k >= 7)
    elif CASE == "both":
        tl.assume((k > 2) & (k % 24 == 0))
    elif CASE == "rest":
        tl.assume(k % 24 == 1)
    elif CASE == "unknown":
        tl.assume(k > m)
    elif CASE == "equal":
        tl.assume(k == 24)
    elif CASE == "by a number":
        tl.assume(k % m == 0)
    elif CASE == "not at all":
        tl.assume(k != 3)
    elif CASE == "upper":
        tl.assume(k < 7)
    elif CASE == "plain":
        tl.assume(True)
    elif CASE == "no rest of an argument":
        tl.assume(m == 0)
    elif CASE == "no rest":
        tl.assume(k // 24 == 0)
    elif CASE == "a tile's rest":
        tl.assume(tl.sum(k + tl.arange(0, 8)) == 0)
    tl.store(x, k)


FOUND = {
    "above": "at_least = 8", "at least": "at_least = 7", "below": "at_least = 8",
    "at most": "at_least = 7", "both": "at_least = 3",
}  # fmt: skip


def product_of(case: str) -> str:
    """The line of the product in the tile module."""
    module = str(assuming.compile("*i32", "i32", "i32", case).stages["tile"])
    (line,) = [line for line in module.splitlines() if "muli" in line]
    return line


@pytest.mark.parametrize("case", FOUND)
def test_what_is_known_of_a_number(case: str) -> None:
    line = product_of(case)
    assert FOUND[case] in line
    assert ("multiple" in line) is (case == "both")
    assert ("24" in line.replace(" ", "")) is (case == "both")


@pytest.mark.parametrize(
    "case",
    ["rest", "unknown", "equal", "by a number", "not at all", "upper", "plain",
     "no rest of an argument", "no rest", "a tile's rest"],
)  # fmt: skip
def test_what_says_nothing(case: str) -> None:
    line = product_of(case)
    assert "at_least" not in line
    assert "multiple" not in line


@tawa.jit
def apart(x, y, z, n, CASE: tl.constexpr):
    if CASE == "three":
        tl.assume_disjoint(x, y, z)
    elif CASE == "one":
        tl.assume_disjoint(x)
    elif CASE == "none":
        tl.assume_disjoint(x, None, y)
    elif CASE == "twice":
        tl.assume_disjoint(x, y, x)
    elif CASE == "moved":
        tl.assume_disjoint(x, y + 1)
    elif CASE == "number":
        tl.assume_disjoint(x, n)
    tl.store(x, tl.load(y) + tl.load(z))


WRONG = {
    "one": "of fewer than two arguments",
    "twice": "an argument is not disjoint from itself",
    "moved": "takes arguments of the kernel",
    "number": "takes arguments of the kernel",
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_cannot_be_apart(case: str) -> None:
    with pytest.raises(TawaError, match=WRONG[case]):
        apart.compile("*f32", "*f32", "*f32", "i32", case)


@pytest.mark.parametrize(("case", "pairs"), [("three", 3), ("none", 1)])
def test_arguments_that_are_apart(case: str, pairs: Any) -> None:
    text = str(apart.compile("*f32", "*f32", "*f32", "i32", case).stages["tile"])
    (line,) = [line for line in text.splitlines() if "func.func" in line]
    assert line.count("], [") + 1 == pairs
    assert "tawa.disjoint" in line
