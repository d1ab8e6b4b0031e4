"""Spellings that libraries of kernels use: each means what its plainer form means."""

from __future__ import annotations

import calendar
import fractions
import functools
import math
import operator
import sys

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend.source.errors import (
    BadArgument,
    NotCallable,
    NotSupported,
    TileShapeMismatch,
    UnsupportedSyntax,
    UnusedResult,
    WrongArguments,
)
from tawa.language import standard
from tawa.language.host import must_use_result
from tawa.runtime.autotune import Config, Heuristics
from tawa.triton.kernel import jit
from tawa.triton.modules import contents

N = 16
X = np.arange(1, N + 1, dtype=np.float32)


def halved(n):
    return n // 2


@tl.constexpr
def wider(kind):
    return tl.float32 if kind == tl.float16 else kind


@tawa.jit
def larger(a, b):
    return tl.maximum(a, b)


@tawa.jit
def times(a, b):
    return a * b


def run(kernel, *arrays, **options):
    kernel[(1,)](*arrays, N=N, **options)
    return arrays[-1]


def test_a_tuple_of_one_tensor_is_reduced_and_scanned_to_a_tuple():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        v = tl.load(x + tl.arange(0, N))
        (scanned,) = tl.associative_scan((v,), 0, times)
        (most,) = tl.reduce((scanned,), 0, larger)
        (kept,) = tl.reduce((v,), 0, larger, keep_dims=True)
        tl.store(y + tl.arange(0, N), scanned / most + kept)

    factorials = np.cumprod(X.astype(np.float64))
    found = run(kernel, X, np.zeros_like(X))
    np.testing.assert_allclose(found, factorials / factorials[-1] + N, rtol=1e-6)


def test_a_function_in_a_constexpr_is_called_when_the_kernel_is_compiled():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        kind: tl.constexpr = wider(x.dtype.element_ty)
        v = tl.load(x + tl.arange(0, N)).to(kind)
        tl.store(y + tl.arange(0, N), v + 2048)

    found = run(kernel, X.astype(np.float16), np.zeros(N, np.float32))
    np.testing.assert_array_equal(found, X + 2048)  # odd sums do not fit f16


def test_a_function_of_a_module_computes_with_compile_time_values():
    @tawa.jit
    def kernel(y, N: tl.constexpr):
        tl.store(y + tl.arange(0, N), calendar.leapdays(2000, 2000 + N))

    np.testing.assert_array_equal(run(kernel, np.zeros(N, np.int32)), 4)


def test_what_modules_and_compile_time_values_offer_is_computed_when_compiled():
    @tawa.jit
    def kernel(out, NAME: tl.constexpr, N: tl.constexpr):
        i = tl.arange(0, N)
        value = math.sqrt(N) + functools.reduce(operator.mul, (2, 3, N)) + N.bit_length()
        if NAME.startswith("tw"):
            value += fractions.Fraction(1, 2).denominator
        tl.store(out + i, value + math.log2(N) + calendar.MONDAY + sys.maxunicode + math.pi)

    out = np.zeros(N, np.float32)
    run(kernel, out, NAME="two")
    value = math.sqrt(N) + 6 * N + N.bit_length() + 2 + math.log2(N)
    np.testing.assert_array_equal(out, np.float32(value + sys.maxunicode + math.pi))


def test_what_a_function_of_python_s_raises_is_said_at_the_call():
    @tawa.jit
    def kernel(out, N: tl.constexpr):
        tl.store(out, math.sqrt(-N))

    with pytest.raises(WrongArguments, match=r"call of `sqrt`: .*math"):
        kernel.compile("*f32", N=4)

    @tawa.jit
    def of_a_load(out):
        tl.store(out, math.sqrt(tl.load(out)))

    with pytest.raises(NotCallable, match="`sqrt` can't be called in a kernel") as caught:
        of_a_load.compile("*f32")
    assert "tl.sqrt" in str(caught.value)


def test_a_plain_function_is_still_refused_and_a_run_time_argument_too():
    @tawa.jit
    def plain(y, N: tl.constexpr):
        tl.store(y + tl.arange(0, N), halved(N))

    @tawa.jit
    def at_run_time(y, N: tl.constexpr):
        tl.store(y + tl.arange(0, N), wider(tl.load(y)))

    with pytest.raises(NotCallable, match="plain Python function"):
        run(plain, np.zeros(N))
    with pytest.raises(NotCallable, match="compile-time values only"):
        run(at_run_time, np.zeros(N))


def test_arithmetic_by_name_takes_its_flag():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        i = tl.arange(0, N)
        v = tl.sub(tl.load(x + i), 1, sanitize_overflow=False)
        v = tl.add(v, v, sanitize_overflow=False)
        tl.store(y + i, tl.mul(v, 3, sanitize_overflow=True))

    x = np.arange(N, dtype=np.int32)
    np.testing.assert_array_equal(run(kernel, x, np.zeros_like(x)), (x - 1) * 6)


@pytest.mark.parametrize(("precision", "bits"), [("bf16x3", 15), ("bf16x6", 21)])
def test_products_in_parts_of_16_bits_are_as_exact_as_they_say(precision, bits):
    @tawa.jit
    def kernel(x, y, N: tl.constexpr, HOW: tl.constexpr):
        i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
        v = tl.load(x + i)
        tl.store(y + i, tl.dot(v, v, input_precision=HOW))

    x = np.random.default_rng(1).uniform(0.5, 1, (N, N)).astype(np.float32)
    found = run(kernel, x, np.zeros_like(x), HOW=precision)
    np.testing.assert_allclose(found, x.astype(float) @ x.astype(float), rtol=2.0**-bits)


def test_a_scalar_gets_dimensions_of_one():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        i = tl.arange(0, N)[:, None]
        first = tl.load(x + 1)
        tl.static_assert(first[:, None].shape == (1,))
        tl.static_assert(first[None, None].shape == (1, 1))
        tl.store(y + i, tl.load(x + i) * first[:, None])

    np.testing.assert_array_equal(run(kernel, X, np.zeros_like(X)), X * 2)


def test_tuples_and_random_numbers_by_their_names_in_the_language():
    @tawa.jit
    def kernel(y, N: tl.constexpr):
        i = tl.arange(0, N)
        pair = tl.tuple([i, 2])
        tl.static_assert(isinstance(pair, tl.tuple) and tl.tuple((1, 2)) == (1, 2))
        drawn = tl.random.rand(7, pair[0]) == tl.rand(7, i)
        tl.store(y + i, drawn.to(tl.int32) * pair[1])

    np.testing.assert_array_equal(run(kernel, np.zeros(N, np.int32)), 2)


@pytest.mark.parametrize("kind", [tl.float8e4b15, tl.float8e4b8, tl.float8e5b16])
def test_formats_of_other_chips_have_names_that_kernels_may_not_use(kind):
    @tawa.jit
    def kernel(y, N: tl.constexpr, KIND: tl.constexpr):
        tl.store(y + tl.arange(0, N), tl.zeros((N,), KIND).to(tl.float32))

    with pytest.raises(NotSupported, match="format of other chips"):
        kernel.compile("*fp32", N=N, KIND=kind)


def test_an_element_type_is_made_of_its_name():
    for name in tl.dtype.SINT_TYPES + tl.dtype.UINT_TYPES + tl.dtype.FP_TYPES:
        kind = tl.dtype(name)
        assert str(kind) == name
        assert kind.is_floating() == (name in tl.dtype.FP_TYPES)
        assert kind.is_int_signed() == (name in tl.dtype.SINT_TYPES)
    assert tl.dtype("fp16") == tl.float16
    assert tl.uint8.int_signedness == tl.dtype.SIGNEDNESS.UNSIGNED
    with pytest.raises(ValueError, match="no element type"):
        tl.dtype("fp12")


@tawa.jit
def parities(x, total, running, N: tl.constexpr):
    large = tl.load(x + tl.arange(0, N)) > 2
    tl.store(total, tl.sum(large, dtype=tl.int1).to(tl.int32))
    tl.store(running + tl.arange(0, N), tl.cumsum(large, dtype=tl.int1).to(tl.int32))


def test_sums_of_one_bit_have_no_carry():
    x, total, running = np.arange(8, dtype=np.int32), np.zeros(1, np.int32), np.zeros(8, np.int32)
    parities[(1,)](x, total, running, 8)
    assert total.tolist() == [1]
    assert running.tolist() == [0, 0, 0, 1, 0, 1, 0, 1]
    assert parities.compile(x, total, running, 8).stages["cubin"]


def test_the_element_of_a_tensor_of_one_decides_as_a_scalar_does():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        one = tl.load(x + tl.arange(0, 1))
        many = tl.load(x + 2 + tl.arange(0, 1)[:, None])
        if one == 1:
            tl.store(y, one.item() + many.item())
        tl.store(y + 1, 7.0 if many > 5 else 8.0)
        while tl.condition(many < 10, disable_licm=True):
            many += 1
        tl.store(y + 2, many.item())
        tl.store(y + 3 + tl.arange(0, 2), tl.interleave(one.item(), 5.0))

    found = run(kernel, X, np.zeros_like(X))
    np.testing.assert_array_equal(found[:6], [4, 8, 10, 1, 5, 0])

    @tawa.jit
    def several(x, y, N: tl.constexpr):
        tl.store(y, tl.load(x + tl.arange(0, N)).item())

    with pytest.raises(TileShapeMismatch, match="the element of a tensor that has one"):
        run(several, X, np.zeros_like(X))


def test_a_tensor_of_one_is_a_scalar_without_dimensions():
    """`tl.reshape(x, [])` is what Helion writes for the element of a slice of one."""

    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        one = tl.load(x + tl.arange(0, 1))
        tl.store(y, tl.reshape(one, []))
        tl.store(y + 1, tl.reshape(one[None, :] + 1, ()))
        tl.store(y + 2, tl.load(tl.reshape(x + tl.arange(0, 1), []) + 1))
        tl.store(y + 3, tl.reshape(tl.load(x), []), mask=tl.reshape(tl.arange(0, 1) < 1, []))

    found = run(kernel, X, np.zeros_like(X))
    np.testing.assert_array_equal(found[:4], [X[0], X[0] + 1, X[1], X[0]])
    assert kernel.compile(X, found, N).stages["cubin"]

    @tawa.jit
    def several(x, y, N: tl.constexpr):
        tl.store(y, tl.reshape(tl.load(x + tl.arange(0, N)), []))

    with pytest.raises(TileShapeMismatch, match="can't be reshaped to"):
        run(several, X, np.zeros_like(X))


def test_batches_of_products_may_have_several_dimensions():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        i = tl.arange(0, 4 * N * N)
        a = tl.reshape(tl.load(x + i), (2, 2, N, N))
        z = tl.dot(a, tl.trans(a), acc=tl.dot(a, a))
        tl.store(y + i, tl.reshape(z, (4 * N * N,)))

    x = np.random.default_rng(1).integers(-4, 5, (2, 2, N, N)).astype(np.float16)
    exact = x.astype(np.float32)
    found = run(kernel, x, np.zeros_like(exact))
    np.testing.assert_array_equal(found, exact @ exact.swapaxes(-1, -2) + exact @ exact)


def test_a_tuple_is_built_by_a_list_comprehension():
    @tawa.jit
    def kernel(x, y, _0: tl.constexpr = 1, _1=2, N: tl.constexpr = N):
        v = 3.0 + (_1 - 2)
        parts = [v * 2 for v in (tl.load(x), tl.load(x + 1))]
        tl.store(y, parts[0] + 10 * parts[1] + 100 * v)

    assert run(kernel, X, np.zeros_like(X))[0] == 342

    @tawa.jit
    def chosen(x, y, N: tl.constexpr):
        parts = [i for i in (1.0, 2.0) if i > 1]
        tl.store(y, parts[0])

    with pytest.raises(UnsupportedSyntax, match="no condition"):
        run(chosen, X, np.zeros_like(X))


def test_what_only_gives_a_value_is_no_statement():
    @must_use_result("It only computes.")
    @tawa.jit
    def doubled(x):
        return x + x

    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        doubled(tl.load(x))

    @tawa.jit
    def moved(x, y, N: tl.constexpr):
        pointer = tl.make_block_ptr(x, (N,), (1,), (0,), (4,), (0,))
        tl.advance(pointer, (4,))

    with pytest.raises(UnusedResult, match=r"doubled is not being used\. It only computes\."):
        run(kernel, X, np.zeros_like(X))
    with pytest.raises(UnusedResult, match="leaves its argument where it was"):
        run(moved, X, np.zeros_like(X))


def test_rows_of_a_descriptor_s_block_have_16_bytes():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        desc = tl.make_tensor_descriptor(x, (4, 4), (4, 1), (4, 2))
        tl.store(y, tl.sum(desc.load([0, 0])))

    with pytest.raises(BadArgument, match="at least 16 bytes"):
        run(kernel, X, np.zeros_like(X))


def test_names_of_triton_s_modules_that_libraries_import():
    modules = contents()
    assert standard.sort is tl.sort
    assert standard.sum is tl.sum
    assert modules["triton"]["must_use_result"] is must_use_result
    assert modules["triton.errors"]["TritonError"] is modules["triton"]["TritonError"]
    widths = {"float8e4nv": 3, "float8e5": 2, "float16": 10, "bfloat16": 7, "float64": 52}
    assert {name: getattr(tl, name).fp_mantissa_width for name in widths} == widths
    tuned = modules["triton"]["autotune"]([Config({})], ["N"])(Heuristics(jit(times.fn), {}))
    assert tuned.base_fn is times.fn
    with pytest.raises(AttributeError):
        _ = standard.nothing


def test_an_attribute_may_be_named_by_a_constant():
    @tawa.jit
    def kernel(x, y, F: tl.constexpr, N: tl.constexpr):
        i = tl.arange(0, N)
        v = getattr(tl, F)(tl.load(x + i), 3.0)
        tl.static_assert(not hasattr(tl, "no_such_function"))
        tl.static_assert(getattr(v, "no_such_method", 7) == 7)
        tl.store(y + i, v)

    np.testing.assert_array_equal(run(kernel, X, np.zeros(N, np.float32), F="maximum"), X.clip(3))


def test_a_choice_may_be_of_calls_or_of_tuples():
    @tawa.jit
    def kernel(x, n, N: tl.constexpr):
        tl.store(x, 1.0) if n > 3 else tl.store(x, 2.0)
        a, b = (n, 3.0) if n > 3 else (n + 1, 4.0)
        tl.store(x + 1, a + b)

    found = []
    for n in (2, 5):
        x = np.zeros(N, np.float32)
        kernel[(1,)](x, n, N=N)
        found.append(x[:2].tolist())
    assert found == [[2, 3 + 4], [1, 5 + 3]]


def test_nothing_may_be_written_out_in_a_slice():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        i = tl.arange(0, N)
        v = tl.load(x + i)[None, None:None:None, None]
        tl.static_assert(v.shape == (1, N, 1))
        tl.store(y + i[None, :None, None], v)

    np.testing.assert_array_equal(run(kernel, X, np.zeros(N, np.float32)), X)


def test_the_type_of_a_compile_time_value_holds_the_value():
    @tawa.jit
    def kernel(x, y, N: tl.constexpr):
        tl.static_assert(N.type == tl.core.constexpr_type(16))
        tl.static_assert(isinstance((N, 2)[1].type, tl.core.constexpr_type))
        tl.store(y, tl.load(x))

    assert run(kernel, X, np.zeros(N, np.float32))[0] == 1


def test_ties_that_are_left_open_are_broken_to_the_left():
    @tawa.jit
    def kernel(x, out, N: tl.constexpr):
        v = tl.load(x + tl.arange(0, N))
        _, where = tl.max(v, 0, return_indices=True, return_indices_tie_break_left=False)
        tl.store(out, where)
        tl.store(out + 1, tl.argmin(v, 0, tie_break_left=False))

    found = run(kernel, np.float32([2, 5, 1, 5] + [1] * (N - 4)), np.zeros(2, np.int32))
    np.testing.assert_array_equal(found, [1, 2])


def test_the_assembler_has_a_version_that_libraries_ask_for():
    tool = contents()["triton.backends.nvidia.compiler"]["get_ptxas"](100)
    major, minor = map(int, tool.version.split("."))
    assert (major, minor) >= (12, 0)
