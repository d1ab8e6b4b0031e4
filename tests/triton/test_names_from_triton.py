"""What a kernel's module holds of an installed Triton: constants, their functions, names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tawa

triton: Any = pytest.importorskip("triton")
tl: Any = pytest.importorskip("triton.language")

OFF: tl.constexpr = tl.constexpr(False)
TWO: tl.constexpr = tl.constexpr(2)
MODE: tl.constexpr = tl.constexpr("add")
NOTHING: tl.constexpr = tl.constexpr(None)
HALF: tl.constexpr = tl.constexpr(tl.float16)
TEXT: tl.constexpr = tl.constexpr("add.f32 $0, $1, 0f3F800000;")


@tl.constexpr
def wider(kind):
    return tl.float32 if kind == tl.float16 else kind


FACTOR = 2


@triton.constexpr_function
def doubled(n):
    return n * FACTOR


@triton.constexpr_function
def wider_type(kind):
    return tl.float32 if kind == tl.float16 else kind


def test_functions_computed_while_compiling_give_constants(monkeypatch: pytest.MonkeyPatch):
    @triton.jit
    def kernel(x, N: tl.constexpr):
        M: tl.constexpr = doubled(N)
        kind: tl.constexpr = wider_type(tl.float16)
        tl.store(x + tl.arange(0, M), tl.full((doubled(N),), 1, kind))

    ours = tawa.jit(kernel)
    x = np.zeros(64, np.float32)
    ours[(1,)](x, N=16)
    assert x.sum() == 32
    monkeypatch.setitem(globals(), "FACTOR", 4)
    ours[(1,)](x, N=16)
    assert x.sum() == 64
    assert doubled(3) == 12


def test_annotated_constants_are_what_they_hold():
    @tawa.jit
    def kernel(x, N: tl.constexpr):
        v = tl.zeros((N,), tl.float32)
        if OFF:
            v += 1
        if MODE == "add" and not OFF:
            v += 2
        if NOTHING is None:
            v += 4
        for _ in tl.static_range(TWO):
            v += TWO * 8
        v += tl.full((N,), 1.0, HALF).to(tl.float32) * 64
        tl.store(x + tl.arange(0, N), v)

    x = np.zeros(16, np.float32)
    kernel[(1,)](x, N=16)
    assert set(x) == {2 + 4 + 32 + 64}


def test_a_constant_may_be_a_function_and_a_text_of_assembly():
    @tawa.jit
    def kernel(x, N: tl.constexpr):
        i = tl.arange(0, N)
        kind: tl.constexpr = wider(x.dtype.element_ty.value)
        v = tl.load(x + i).to(kind)
        v = tl.inline_asm_elementwise(TEXT, "=f,f", [v], dtype=kind, is_pure=True, pack=1)
        tl.store(x + i, v)

    x = np.arange(16, dtype=np.float16)
    kernel[(1,)](x, N=16)
    np.testing.assert_array_equal(x, np.arange(1, 17))


def test_a_function_of_triton_may_be_named_by_a_constant():
    @tawa.jit
    def kernel(x, F: tl.constexpr, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(x + i, getattr(tl, F)(tl.load(x + i), 3.0))

    x = np.arange(16, dtype=np.float32)
    kernel[(1,)](x, F="maximum", N=16)
    np.testing.assert_array_equal(x, np.maximum(np.arange(16), 3))


def test_private_names_that_libraries_use():
    """TorchInductor's scans and sorts name these two."""
    from triton.language.standard import _log2

    @tawa.jit
    def kernel(x, KIND: tl.constexpr, N: tl.constexpr):
        KIND = tl.core._unwrap_if_constexpr(KIND)
        n = tl.core._unwrap_if_constexpr(tl.program_id(0)) + _log2(N)
        tl.store(x + tl.arange(0, N), n.to(KIND) + KIND.primitive_bitwidth)

    x = np.zeros(16, np.float32)
    kernel[(1,)](x, KIND=tl.float32, N=16)
    assert set(x) == {4 + 32}
