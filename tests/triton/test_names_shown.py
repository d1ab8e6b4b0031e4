"""`triton.jit(repr=)`: the name of a compiled kernel is made of what it was compiled for."""

from __future__ import annotations

import numpy as np

import tawa.language as tl
from tawa.triton.hooked import Specialization
from tawa.triton.kernel import jit


def shown(specialization: Specialization) -> str:
    types = specialization.signature
    return f"fill_{types['x']}_{types['n']}_{types['B']}_{sorted(specialization.constants)}"


@jit(repr=shown)
def fill(x, n, B: tl.constexpr):  # pyright: ignore
    i = tl.arange(0, B)
    tl.store(x + i, 1.0, mask=i < n)


def test_each_compilation_has_its_own_name() -> None:
    x = np.zeros(16, np.float32)
    assert fill[(1,)](x, 5, B=16).name == "fill_*fp32_i32_constexpr_['B']"
    assert x.sum() == 5
    assert fill.compile("*f64", 1, B=16).name == "fill_*fp64_constexpr_constexpr_['B', 'n']"
    assert fill.compile("*i8", 2**63, B=16).name == "fill_*i8_u64_constexpr_['B']"
