"""Loads of a loop's branches that come before them: where the branch isn't taken, none is read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from simulation import Arrays, check, values
from xdsl.ir import Operation

import tawa
import tawa.language as tl

BLOCK, STEP, D = 16, 32, 64


@tawa.jit
def grams(x, out, T, KIND: tl.constexpr, B: tl.constexpr, BK: tl.constexpr, K: tl.constexpr):
    """Products of two blocks of rows with the first, of rows that may be missing."""
    r = tl.arange(0, B)
    first, second, third = r, B + r, 2 * B + r
    one = tl.zeros((B, B), tl.float32)
    two = tl.zeros((B, B), tl.float32)
    for k in range(0, K, BK):
        o = k + tl.arange(0, BK)
        a = tl.load(x + first[:, None] * K + o[None, :], mask=first[:, None] < T, other=0.0)
        if B < T:
            if KIND == "whole":
                b = tl.load(x + second[:, None] * K + o[None, :])
            elif KIND == "less":
                b = tl.load(x + second[:, None] * K + o[None, :], mask=r[:, None] < T, other=0.0)
            elif KIND == "one more":
                b = tl.load(x + second[:, None] * K + o[None, :], mask=second[:, None] <= T,
                            other=0.0)  # fmt: skip
            else:
                b = tl.load(x + second[:, None] * K + o[None, :], mask=second[:, None] < T,
                            other=0.0)  # fmt: skip
            one = tl.dot(a, b.T, one)
            if KIND == "stored":
                tl.store(x + second[:, None] * K + o[None, :], b * 2, mask=second[:, None] < T)
            if 2 * B < T:
                c = tl.load(x + third[:, None] * K + o[None, :],
                            mask=(third[:, None] < T) & (o[None, :] < K), other=0.0)  # fmt: skip
                two = tl.dot(a, c.T, two)
    tl.store(out + r[:, None] * B + r[None, :], one)
    tl.store(out + B * B + r[:, None] * B + r[None, :], two)


def behind_branches(compiled: tawa.Compiled) -> int:
    """Loads that are left in branches around products."""
    loads = [op for op in compiled.module("aref").walk() if op.name == "tile.load"]
    return sum(any(map(_multiplies, _around(op))) for op in loads)


def _around(op: Operation | None) -> Iterator[Operation]:
    while op is not None:
        yield op
        op = op.parent_op()


def _multiplies(op: Operation) -> bool:
    return op.name == "scf.if" and any("dot" in inner.name for inner in op.walk())


CONSTANTS = {"B": BLOCK, "BK": STEP, "K": D, "num_warps": 1}


@pytest.mark.parametrize("rows", [9, 16, 23, 32, 33, 48])
def test_rows_that_are_missing_are_not_read(rows: int) -> None:
    arrays = Arrays()
    x, out = arrays.random("f16", rows, D), arrays.output("f32", 2, BLOCK, BLOCK)
    whole = np.zeros((3 * BLOCK, D))
    whole[:rows] = values(x)
    a, b, c = np.split(whole, 3)
    check(
        grams, (1,), [x, out, rows], {1: np.stack([a @ b.T, a @ c.T])}, 1e-3,
        ("tile", "hopper", "ptx"), KIND="masked", **CONSTANTS,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "left"), [("masked", 0), ("whole", 1), ("less", 1), ("one more", 1), ("stored", 2)]
)
def test_only_loads_whose_mask_says_the_same_come_early(kind: str, left: int) -> None:
    compiled = grams.compile("*f16:16", "*f32:16", "i32", KIND=kind, **CONSTANTS)
    assert behind_branches(compiled) == left
