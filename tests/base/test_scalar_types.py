"""Which types the functions of scalars take, how constants are written, and what stays ordinary."""

from __future__ import annotations

import contextlib
import itertools
import math
import re

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.dialects.test import TestOp as Made
from xdsl.ir import Attribute, SSAValue

from tawa.base.types import PtrType, bf16
from tawa.ir.elementwise import Map
from tawa.ir.scalars.scalar_function import ELEMENTS, cpp_constant, cpp_type
from tawa.ir.scalars.table import FUNCTIONS
from tawa.tile.analysis.magnitude import NORMAL, is_ordinary, magnitude

TYPES: tuple[Attribute, ...] = (*ELEMENTS, PtrType(f16))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_what_it_lists_and_nothing_else(name: str):
    signature = FUNCTIONS[name].signature
    legal = {(tuple(operands), result) for operands, result in signature.samples}
    assert all(len(operands) == signature.arity for operands, _ in legal)
    cast = signature.arity == 1 and any(operands[0] != result for operands, result in legal)
    results = TYPES if cast else (None,)
    for operands in itertools.product(TYPES, repeat=signature.arity):
        for wanted in results:
            expected = {r for given, r in legal if given == operands and wanted in (None, r)}
            found: Attribute | None = None
            with contextlib.suppress(ValueError):
                found = FUNCTIONS[name].result_type(list(operands), wanted)
            if any(isinstance(one, PtrType) for one in (*operands, found)):
                continue  # of pointers there is an example only
            assert ({found} <= expected) if found is not None else not expected


def test_another_number_of_operands():
    for name, count in (("addf", 1), ("negf", 2), ("select", 2)):
        with pytest.raises(ValueError, match="takes"):
            FUNCTIONS[name].result_type([f32] * count, f32)


def test_a_cast_needs_its_result():
    with pytest.raises(ValueError, match="needs its result type"):
        FUNCTIONS["sitofp"].signature.rule([i32], None)


def value_of(text: str) -> float:
    """What C++ takes a literal of ours to be."""
    text = re.sub(r"^(from_float<\w+>|[iu]\d+|f64)\((.*)\)$", r"\2", text)
    if text.startswith("-"):
        return -value_of(text[1:])
    if match := re.fullmatch(r"__int_as_float\((0x[0-9a-f]+)\)", text):
        return float(np.uint32(int(match[1], 16)).view(np.float32))
    if match := re.fullmatch(r"__longlong_as_double\((0x[0-9a-f]+)ll\)", text):
        return float(np.uint64(int(match[1], 16)).view(np.float64))
    if match := re.fullmatch(r"\((-\d+)(?:ll)? - 1\)", text):
        return int(match[1]) - 1
    assert re.fullmatch(r"[-+.0-9e]+(f|ll)?", text), text
    number = re.sub(r"(f|ll)$", "", text)
    return float(number) if re.search(r"[.e]", number) else int(number)


FLOAT_VALUES = [0.0, -0.0, 1.0, -2.5, 1e30, 1e-40, 3.0000001, math.inf, -math.inf, math.nan, 1e16]


@pytest.mark.parametrize("type_", [f32, f64, f16, bf16], ids=str)
@pytest.mark.parametrize("value", FLOAT_VALUES)
def test_floats_in_text(value: float, type_: Attribute):
    text = cpp_constant(value, type_)
    expected = value if type_ == f64 else float(np.float32(value))
    found = value_of(text)
    assert np.isnan(found) if np.isnan(value) else found == expected
    assert np.signbit(found) == np.signbit(expected) or np.isnan(value)
    whole = re.fullmatch(r"-?\d+", text)
    assert whole is None, "a float in the text is no integer"
    assert text.startswith("from_float<") == (type_ in (f16, bf16))
    assert type_ == f64 or np.isinf(value) or np.isnan(value) or "f" in text


@pytest.mark.parametrize("type_", [i8, i16, i32, i64], ids=str)
def test_integers_in_text(type_: Attribute):
    width = type_.width.data
    for value in (0, 1, -1, 100, 2 ** (width - 1) - 1, -(2 ** (width - 1)), 2**width - 1):
        text = cpp_constant(value, type_)
        wrapped = (value + 2 ** (width - 1)) % 2**width - 2 ** (width - 1)
        assert value_of(text) == wrapped
        assert ("ll" in text) == (width == 64)


def test_truth_and_pointers_in_text():
    assert [cpp_constant(v, i1) for v in (0, 1)] == ["false", "true"]
    assert cpp_type(PtrType(PtrType(f32))) == f"{cpp_type(f32)}**"


# --- magnitudes ----------------------------------------------------------------------------------


def number(value: float) -> SSAValue:
    return arith.ConstantOp(FloatAttr(value, f32)).result


def computed(function: str, *operands: SSAValue) -> SSAValue:
    return Map(function, list(operands)).result


MEANINGS = {
    "mulf": lambda a, b: a * b, "divf": lambda a, b: a / b, "divf_rn": lambda a, b: a / b,
    "sqrt": math.sqrt, "sqrt_rn": math.sqrt, "rsqrt": lambda a: 1 / math.sqrt(a), "absf": abs,
}  # fmt: skip


@pytest.mark.parametrize("function", MEANINGS)
def test_bounds_hold(function: str):
    """Of numbers that are known, the bounds are their logarithm."""
    meaning = MEANINGS[function]
    count = meaning.__code__.co_argcount if hasattr(meaning, "__code__") else 1
    for values in itertools.product((0.25, 1.0, 3.0, 1024.0), repeat=count):
        found = magnitude(computed(function, *map(number, values)))
        assert found == pytest.approx((math.log2(meaning(*values)),) * 2)
    unknown = Made(result_types=[f32]).results[0]
    assert magnitude(computed(function, unknown, *[number(2.0)] * (count - 1))) is None


@pytest.mark.parametrize("value", [0.0, -0.0, -1.0, math.inf, -math.inf, math.nan])
def test_what_is_not_positive_has_none(value: float):
    assert magnitude(number(value)) is None
    assert magnitude(computed("mulf", number(value), number(2.0))) is None


def test_what_is_ordinary():
    for power, ordinary in ((0, True), (126, True), (127, True), (-126, True), (-127, False)):
        assert is_ordinary(number(2.0**power)) == ordinary, power
    assert not is_ordinary(number(2.0**127 * 1.5))
    assert not is_ordinary(computed("addf", number(1.0), number(1.0)))
    assert is_ordinary(computed("divf", number(1.0), number(2.0**-100)))
    assert not is_ordinary(computed("mulf", number(2.0**100), number(2.0**100)))
    assert NORMAL == (-126.0, 127.0)
