"""Sums of 16 bits that no instruction has are added up in 32 and rounded at the product's end."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import Arrays, check, values

import tawa
import tawa.language as tl
from tawa.tile.dialect.ops import Dot


@tawa.jit
def short_sums(a, b, c, START: tl.constexpr, TYPE: tl.constexpr):
    few, at = tl.arange(0, 8), tl.arange(0, 16)
    rows, places = few[:, None] * 16 + at[None, :], at[:, None] * 16 + at[None, :]
    start = tl.full((8, 16), START, TYPE)
    found = tl.dot(tl.load(a + rows), tl.load(b + places), start, out_dtype=TYPE)
    tl.store(c + rows, found)


@pytest.mark.parametrize("start", [0.0, 3.0])
@pytest.mark.parametrize(("element", "type_"), [("f16", tl.float16), ("f32", tl.float32)])
def test_short_sums(start: float, element: str, type_: tl.dtype) -> None:
    a = Arrays()
    x, y, out = a.random("f16", 8, 16), a.random("f16", 16, 16), a.output(element, 8, 16)
    exact = start + values(x) @ values(y)
    compiled = check(short_sums, (1,), [x, y, out], {2: exact}, START=start, TYPE=type_)
    levels = {str(op.result.type) for op in compiled.module("aref").walk() if isinstance(op, Dot)}
    assert levels <= {"tensor<8x16xf32>"}
    converted = compiled.stages["aref"].count("extf")
    assert converted == (element == "f16" and start != 0.0)
    assert np.isfinite(values(out)).all()
