"""Which conversions keep every value, and what conversions mean, beside the types' own fields."""

from __future__ import annotations

import math

import numpy as np
import pytest
from xdsl.ir import Attribute

from tawa.base.types import PtrType, bf16, e4m3, e5m2, f16, f32, f64, i1, i8, i16, i32, i64
from tawa.ir.scalars import casts
from tawa.ir.scalars.cpp_names import entry_name

FIELDS = {e4m3: (4, 3), e5m2: (5, 2), f16: (5, 10), bf16: (8, 7), f32: (8, 23), f64: (11, 52)}
"""Bits of a float's exponent and of its fraction."""
WIDTHS = {i1: 1, i8: 8, i16: 16, i32: 32, i64: 64}
ALL: list[Attribute] = [*FIELDS, *WIDTHS]


def size(kind: Attribute) -> int:
    return 1 + sum(FIELDS[kind]) if kind in FIELDS else WIDTHS[kind]


@pytest.mark.parametrize("source", ALL, ids=str)
def test_which_conversions_keep_every_value(source: Attribute) -> None:
    for target in ALL:
        floats = source in FIELDS and target in FIELDS
        holds = floats and all(a <= b for a, b in zip(FIELDS[source], FIELDS[target], strict=True))
        assert casts.widens(source, target) == (holds and source != target), target
        assert casts.narrows(source, target) == (floats and not holds), target
        integers = source in WIDTHS and target in WIDTHS
        wider = integers and WIDTHS[source] < WIDTHS[target]
        assert casts.extends(source, target) == wider, target
        alike = source == target if i1 in (source, target) else size(source) == size(target)
        assert casts.same_bits(source, target) == alike, target
    assert casts.is_integer(source) == (source in WIDTHS)


def python(value: float, width: int, is_unsigned: bool, top: bool) -> int:
    """A float as an integer, by Python's, in `width` bits."""
    if math.isnan(value):
        return ((1 << (width - 1)) if is_unsigned else -(1 << (width - 1))) if top else 0
    low = 0 if is_unsigned else -(1 << (width - 1))
    high = (1 << (width - (not is_unsigned))) - 1
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(math.trunc(value), low), high)


EDGES = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, *(sign * np.nextafter(2.0**n, to) for n in
         (7, 8, 15, 16, 31, 32, 62, 63, 64) for to in (0, 2.0**n, np.inf) for sign in (1, -1)),
         math.inf, -math.inf, math.nan]  # fmt: skip


@pytest.mark.parametrize("is_unsigned", [False, True])
@pytest.mark.parametrize("target", [i8, i16, i32, i64], ids=str)
@pytest.mark.parametrize("source", [f32, f64], ids=str)
def test_floats_become_the_nearest_integers(
    source: Attribute, target: Attribute, is_unsigned: bool
) -> None:
    values = np.array(EDGES).astype(np.float32 if source == f32 else np.float64)
    with np.errstate(all="ignore"):
        found = casts.float_to_int(is_unsigned)((source,), target, values)
    width = max(32, WIDTHS[target])
    top = source == f64 or width == 64
    wanted = [python(float(v), width, is_unsigned, top) for v in values]
    mask = (1 << WIDTHS[target]) - 1
    assert [int(v) & mask for v in found] == [v & mask for v in wanted]


@pytest.mark.parametrize("is_unsigned", [False, True])
@pytest.mark.parametrize("source", [i1, i8, i32, i64], ids=str)
def test_integers_become_floats(source: Attribute, is_unsigned: bool) -> None:
    if source == i1:
        values, wanted = np.array([False, True]), [0, 1]
    else:
        values = np.array([0, 1, -1, 5], f"i{WIDTHS[source] // 8}")
        wanted = [0, 1, 2.0 ** WIDTHS[source] - 1 if is_unsigned else -1, 5]
    found = casts.int_to_float(is_unsigned)((source,), f64, values)
    assert found.tolist() == np.array(wanted, np.float64).tolist()


def test_bits_are_kept_or_doubled_as_the_sign_says() -> None:
    one = np.array([False, True])
    assert casts.extend_signed((i1,), i32, one).tolist() == [0, -1]
    assert casts.extend_unsigned((i1,), i32, one).tolist() == [0, 1]
    byte = np.array([1, -1, -128], np.int8)
    assert casts.extend_signed((i8,), i32, byte).tolist() == [1, -1, -128]
    assert casts.extend_unsigned((i8,), i32, byte).tolist() == [1, 255, 128]
    wide = np.array([0, 1, 2, 3, -1, 256], np.int32)
    assert casts.truncate((i32,), i1, wide).tolist() == [False, True, False, True, True, False]
    assert casts.truncate((i32,), i8, wide).tolist() == [0, 1, 2, 3, -1, 0]


@pytest.mark.parametrize(("element", "bytes_"), [(i1, 1), (i8, 1), (f16, 2), (i32, 4), (f64, 8)])
def test_pointers_advance_by_elements(element: Attribute, bytes_: int) -> None:
    offsets = np.array([0, 1, 3, -2], np.int32)
    found = casts.addptr((PtrType(element), i32), PtrType(element), np.int64(1000), offsets)
    assert found.tolist() == [1000 + bytes_ * int(n) for n in offsets]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("matmul", "matmul"), ("double", "double_kernel"), ("powf", "powf_kernel"),
     ("pow", "pow_kernel"), ("f", "f"), ("doublef", "doublef"), ("_kernel", "_kernel"),
     ("__fused", "fused_kernel"), ("half", "half"), ("hal", "hal")],
)  # fmt: skip
def test_entries_have_no_name_of_the_language(name: str, expected: str) -> None:
    assert entry_name(name) == expected
