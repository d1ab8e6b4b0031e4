"""Tuples whose parts have names: as arguments, made in kernels, through control flow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend.source.errors import UnknownAttribute, WrongArguments


class Matrix(NamedTuple):
    ptr: Any
    shape: tuple
    scale: float


class Applied(NamedTuple):
    function: Any
    captured: tuple


class Reordered(NamedTuple):
    scale: float
    ptr: Any
    shape: tuple


@tawa.jit
def times(x, a):
    return x * a


@tawa.jit
def plus(x, a):
    return x + a


@tawa.jit
def of_parts(ptr, rows, columns):
    return Matrix(ptr, shape=(rows, columns), scale=2.0)


@tawa.jit
def scaled(source, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < source.shape[0]
    tl.store(out + i, tl.load(source.ptr + i, mask=inside) * source.scale, mask=inside)


@tawa.jit
def through_a_loop(out, n, x):
    m = of_parts(out, n, n)
    for _ in range(n):
        m = Matrix(m.ptr, m.shape, m.scale * 2)
    if n > 2:
        m = Matrix(m.ptr, m.shape, m.scale + 1)
    tl.store(m.ptr, m.scale + m.shape[1] + x)


@tawa.jit
def applied(out, closure, x):
    tl.store(out, closure.function(x, *closure.captured))


@tawa.jit
def misnamed(out, m):
    tl.store(out, m.stride)


@tawa.jit
def incomplete(out):
    m = Matrix(out, scale=1.0)
    tl.store(m.ptr, m.scale)


X = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize("kind", [Matrix, Reordered])
def test_parts_are_found_by_name_whatever_their_order(kind):
    out = np.zeros(8, np.float32)
    scaled[(1,)](kind(ptr=X, shape=(5, 1), scale=3.0), out, 8)
    np.testing.assert_array_equal(out, np.where(np.arange(8) < 5, X * 3, 0))


def test_names_last_through_calls_loops_and_branches():
    out = np.zeros(1, np.float32)
    through_a_loop[(1,)](out, 3, 0.5)
    assert out[0] == 2 * 2**3 + 1 + 3 + 0.5


def test_a_function_may_be_a_part():
    out = np.zeros(1, np.float32)
    results = []
    for function in (times, plus):
        applied[(1,)](out, Applied(function, (10.0,)), 4.0)
        results.append(float(out[0]))
    assert results == [40, 14]


def test_names_are_part_of_what_a_kernel_is_compiled_for():
    named = scaled.request(Matrix(X, (5, 1), 3.0), X, 8)
    assert list(named.types) == ["source.0_ptr", "source.1_shape.0", "source.2_scale", "out"]
    assert named.constants["source.1_shape.1"] == 1
    plain = applied.request(X, (times, (1.0,)), 2.0)
    assert "closure.1.0" in plain.types


def test_a_part_that_is_not_there_is_an_error():
    with pytest.raises(UnknownAttribute, match="stride"):
        misnamed[(1,)](np.zeros(1, np.float32), Matrix(X, (1, 2), 1.0))
    with pytest.raises(WrongArguments, match="shape"):
        incomplete[(1,)](np.zeros(1, np.float32))
