"""Integers of every width become halves by one instruction, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulation import Arrays, check

import tawa
import tawa.language as tl

LEVELS = ("tile", "hopper", "ptx")
EDGES = [0, 1, -1, 7, 2047, 2049, 2051, 65503, 65504, 65519, 65520, -65519, -65520, 70000, -(2**31)]


@tawa.jit
def halves(x, y, N: tl.constexpr, UNSIGNED: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if UNSIGNED is not None:
        v = v.to(UNSIGNED, bitcast=True)
    tl.store(y + i, v.to(tl.float16).to(tl.int16, bitcast=True))


@pytest.mark.parametrize(
    ("element", "unsigned", "instruction"),
    [("i16", None, "s32"), ("i16", tl.uint16, "s32"), ("i32", None, "s32"),
     ("i32", tl.uint32, "u32"), ("i64", None, "s64"), ("i64", tl.uint64, "u64")],
)  # fmt: skip
def test_integers(arrays: Arrays, element: str, unsigned: Any, instruction: str) -> None:
    x, y = arrays.random(element, 64), arrays.output("i16", 64)
    plain = x.view(np.ndarray)
    edges = np.array(EDGES, np.int64).astype(plain.dtype)
    plain[: len(edges)] = edges
    seen = plain.astype(f"u{plain.dtype}") if unsigned is not None else plain
    with np.errstate(over="ignore"):
        expected = seen.astype(np.float64).astype(np.float16).view(np.int16)
    constants = {"N": 64, "UNSIGNED": unsigned, "num_warps": 1}
    compiled = check(halves, (1,), [x, y], {1: expected}, 1e-9, LEVELS, **constants)
    assert f"cvt.rn.f16.{instruction}" in str(compiled.stages["ptx"])
