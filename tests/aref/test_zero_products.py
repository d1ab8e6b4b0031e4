"""Zeros times what has a bound are zeros; times what may be infinite they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.base.types import shape_of
from tawa.ir.elementwise import Map
from tawa.simulate.interpret.hopper import run


@tawa.jit
def scaled_zeros(out: Any, x: Any, BOUND: tl.constexpr):
    """Zeros times a factor for each row, which with BOUND is at most one."""
    rows = tl.arange(0, 64)
    factor = tl.exp2(tl.load(x + rows))
    if BOUND:
        factor = tl.minimum(factor, 1.0)
    tile = tl.zeros((64, 64), tl.float32) * factor[:, None]
    tl.store(out + rows[:, None] * 64 + rows[None, :], tile)


@pytest.mark.parametrize("bound", [False, True])
def test_scaled_zeros(bound: bool):
    kernel = scaled_zeros.compile("*f32", "*f32", bound)
    products = [
        op
        for op in kernel.module("aref").walk()
        if isinstance(op, Map) and op.function.data == "mulf" and len(shape_of(op.result.type)) == 2
    ]
    assert len(products) == (not bound)
    out, x = np.ones((64, 64), np.float32), np.linspace(-200, 200, 64, dtype=np.float32)
    x[5] = np.nan
    run(kernel.module("hopper"), (1,), [out, x])
    finite = bound | (x < 128)
    np.testing.assert_array_equal(out, np.where(finite, 0, np.nan)[:, None] * np.ones(64))
