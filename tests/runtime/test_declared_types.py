"""Annotations of parameters decide the type that arguments are passed as."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tawa
import tawa.language as tl
from tawa.frontend.source.errors import StaticAssertion, TypeMismatch
from tawa.language.annotations import declaration_of
from tawa.runtime.arguments import (
    IntegerOutOfRange,
    WrongDeclaredArgument,
    classify,
    declared_classifier,
)
from tawa.runtime.launch import bf16_bits


@tawa.jit
def square(x, n: tl.int64):
    tl.store(x, n * n)


@tawa.jit
def halves(x, a: tl.uint32, b: tl.uint16, c: tl.float64, d: int, e: float, f: tl.bfloat16):
    tl.static_assert(f.dtype == tl.bfloat16)
    tl.store(x, (a >> 1).to(tl.float64))
    tl.store(x + 1, (b >> 1).to(tl.float64))
    tl.store(x + 2, c)
    tl.store(x + 3, d / 2)
    tl.store(x + 4, e)
    tl.store(x + 5, f.to(tl.float64))


@tawa.jit
def only_read(p: tl.const, q):
    tl.store(q, tl.load(p))


@tawa.jit
def written(p: tl.const, q):
    tl.store(p + 1, tl.load(q))


@tawa.jit
def seeded(x, seed):
    tl.store(x + tl.arange(0, 4), tl.rand(seed, tl.arange(0, 4)))


@tawa.jit
def far_offsets(x, y):
    offsets = tl.arange(0, 4)
    tl.store(x + offsets, tl.rand(2**40 + 3, offsets.to(tl.int64) << 33))
    tl.store(y + offsets, tl.randint(7, offsets.to(tl.int64) + 5).to(tl.int64))


def test_a_declared_integer_computes_in_its_own_width() -> None:
    out = np.zeros(1, np.int64)
    square[(1,)](out, 100_000)
    assert out[0] == 10**10


@tawa.jit
def strided(x, y, sx: int, sy: tl.int64, n: tl.uint8, B: tl.constexpr):
    tl.static_assert(sx.dtype == tl.int32)
    tl.static_assert(sy.dtype == tl.int64)
    tl.static_assert(n.dtype == tl.uint8)
    i = tl.arange(0, B)
    tl.store(y + i * sy, tl.load(x + i * sx) + (n * 255 + n).to(tl.float32))


@pytest.mark.parametrize(("sx", "sy", "n"), [(1, 1, 1), (2, 1, 1), (1, 2, 3), (2, 2, 1)])
def test_one_keeps_the_type_that_is_declared(sx: int, sy: int, n: int) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    strided[(1,)](x, y, sx, sy, n, B=32)
    np.testing.assert_array_equal(y[::sy][:32], x[::sx][:32] + (n * 255 + n) % 256)


def test_one_is_known_where_the_type_is_declared() -> None:
    """Neighbours are loaded together where a stride is 1, as where nothing declares its type."""
    x = np.zeros(4096, np.float32)
    unit = strided.compile(x, x.copy(), 1, 1, 5, B=512)
    assert unit.sass.count("LDG.E.128") == 1
    assert "LDG.E.128" not in strided.compile(x, x.copy(), 2, 1, 5, B=512).sass
    named = strided.compile("*f32:16", "*f32:16", "i32:=1", "i64:=1", "u8", B=512)
    assert named.sass.count("LDG.E.128") == 1


def test_every_kind_of_number() -> None:
    out = np.zeros(6)
    halves[(1,)](out, 2**32 - 2, 65535, 1 / 3, 7, 0.1, 3.3)
    assert out.tolist() == [2**31 - 1, 32767, 1 / 3, 3.5, np.float32(0.1), 3.296875]


@pytest.mark.parametrize("value", [300, -129])
def test_an_integer_out_of_the_declared_range_is_an_error(value: int) -> None:
    with pytest.raises(IntegerOutOfRange, match="out of the range of i8"):
        declared_classifier("i8", True)(value)


@pytest.mark.parametrize("value", [1.5, None, "8", np.zeros(2)], ids=repr)
def test_what_is_no_integer_is_an_error_that_names_the_parameter(value: Any) -> None:
    with pytest.raises(WrongDeclaredArgument) as caught:
        square[(1,)](np.zeros(1, np.int64), value)
    assert any("`n`" in str(note) for note in caught.value.notes)


@pytest.mark.parametrize("value", [7, 1.5, True], ids=repr)
def test_what_is_no_array_is_no_pointer(value: Any) -> None:
    passed = declared_classifier("*f32", True)
    with pytest.raises(WrongDeclaredArgument, match=r"declares \*f32"):
        passed(value)
    assert passed(np.zeros(2, np.int32))[0] == passed(np.zeros(2, np.float32))[0]


@pytest.mark.parametrize(
    ("annotation", "type", "const"),
    [
        (int, "i32", False),
        (bool, "i1", False),
        ("tl.int64", "i64", False),
        ("double", "f64", False),
        ("uint8_t", "u8", False),
        (tl.pointer_type(tl.float16), "*f16", False),
        ("const bf16*", "*bf16", True),
        ("*kfp32", "*f32", True),
        (tl.const, "", True),
        (np.ndarray, "", False),
        ("Tensor", "", False),
    ],
    ids=repr,
)
def test_what_annotations_declare(annotation: Any, type: str, const: bool) -> None:
    found = declaration_of(annotation)
    assert (found.type, found.const) == (type, const)


def test_a_pointer_that_is_only_read_cannot_be_stored_through() -> None:
    source, target = np.ones(2, np.float32), np.zeros(2, np.float32)
    only_read[(1,)](source, target)
    assert target[0] == 1
    with pytest.raises(TypeMismatch, match="only read"):
        written[(1,)](target, source)


@pytest.mark.parametrize("seed", [2.3, np.zeros(1, np.int32)], ids=["float", "pointer"])
def test_a_seed_is_an_integer(seed: Any) -> None:
    with pytest.raises(StaticAssertion):
        seeded[(1,)](np.zeros(4, np.float32), seed)


def test_offsets_of_64_bits_are_two_counters() -> None:
    """The numbers are those of Triton 3.6's interpreter."""
    x, y = np.zeros(4, np.float32), np.zeros(4, np.int64)
    far_offsets[(1,)](x, y)
    assert x.round(4).tolist() == np.float32([0.6706, 0.0653, 0.0323, 0.4164]).tolist()
    assert y.tolist() == [1454331580, 3447593340, 1162419404, 54523418]


def test_bits_of_bf16_round_to_even() -> None:
    values = [0.0, 1.0, 3.3, -1e30, float("inf"), 1.00390625, 1.01171875]
    found = [bf16_bits(value) for value in values]
    as_floats = (np.array(found, np.uint32) << 16).view(np.float32)
    assert as_floats.tolist() == [0.0, 1.0, 3.296875, -1.0002555517425873e30,
                                  float("inf"), 1.0, 1.015625]  # fmt: skip
    assert np.isnan((np.array([bf16_bits(float("nan"))], np.uint32) << 16).view(np.float32))


def test_a_float_beyond_the_declared_type_is_infinite() -> None:
    assert declared_classifier("f16", True)(1e9)[1] == float("inf")
    assert declared_classifier("f32", True)(-1e300)[1] == float("-inf")


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("sign", ["i", "u"])
def test_what_integers_of_a_declared_type_are_passed_as(sign: str, bits: int, align: bool) -> None:
    """All of the range and no more, as signed bits; 16 that divides it matters if it is asked."""
    passed = declared_classifier(f"{sign}{bits}", align)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "i" else (0, 2**bits - 1)
    for value in {
        low,
        low + 1,
        low + 16,
        -16,
        -1,
        0,
        1,
        15,
        16,
        17,
        high // 2,
        high // 2 + 1,
        high - 15,
        high,
    }:
        if not low <= value <= high:
            continue
        kind, number = passed(value)
        assert (kind.type, kind.one) == (f"{sign}{bits}", False)
        assert kind.divisible is (align and value % 16 == 0)
        assert -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)
        assert (number - value) % 2**bits == 0
        if bits < 64 or sign == "i":
            assert passed(np.int64(value)) == (kind, number)
    for value in (low - 1, high + 1):
        with pytest.raises(IntegerOutOfRange, match=f"{low} to {high}"):
            passed(value)


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("i1", 2, True), ("i1", 0, False), ("i1", np.bool_(True), True), ("i1", np.int8(0), False),
        ("f32", 2, 2.0), ("f32", True, 1.0), ("f64", np.float32(0.5), 0.5), ("bf16", 1e39, float("inf")),
        ("f16", -0.0, -0.0), ("f16", 65519.0, 65519.0), ("f16", 65520.0, float("inf")),
        ("f32", 1e39, float("inf")), ("bf16", -1e300, float("-inf")), ("f64", -1e300, -1e300),
        ("i32", True, 1), ("i32", np.array(7), 7), ("u8", np.uint8(255), -1),
    ],
)  # fmt: skip
def test_numbers_of_other_kinds(type: str, value: Any, expected: Any) -> None:
    found = declared_classifier(type, True)(value)[1]
    assert (found, str(found)) == (expected, str(expected))


@pytest.mark.parametrize("type", ["i1", "i32", "u64", "f16", "bf16", "f64"])
@pytest.mark.parametrize("value", [None, "1", np.zeros(1), 1j, Fraction(1, 2), 0.5], ids=repr)
def test_what_is_no_number(type: str, value: Any) -> None:
    if value == 0.5 and type[0] in "fb":
        value = np.float32([0.5])
    with pytest.raises(WrongDeclaredArgument, match=f"declares {type}"):
        declared_classifier(type, True)(value)


def test_pointers_keep_where_they_lie() -> None:
    """The declared type, and what is known of the array; nothing of no array."""
    memory = np.zeros(64, np.uint8)
    kind, passed = declared_classifier("*f16", True)(memory)
    assert (kind.text, kind.one, kind.library) == ("*f16:16", False, "numpy")
    assert passed is memory
    assert declared_classifier("*f16", True)(None) == classify(None)
