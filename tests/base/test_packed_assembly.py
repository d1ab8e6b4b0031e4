"""What inline assembly computes of elements that share registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64

from tawa.base.numerics import value_dtype
from tawa.base.types import bits, e4m3, e5m2
from tawa.ir.scalars.assembly import Assembly


def computed(text: str, pack: int, out: Any, *given: tuple[Any, Any]) -> Any:
    """The only result of elements in a row."""
    assembly = Assembly(text, "", pack)
    arrays = [np.asarray(a)[None] for a, _ in given]
    (found,) = assembly.evaluate([out], [element for _, element in given], arrays)
    return found[0]


@pytest.mark.parametrize("count", [4, 8, 7])
def test_bytes_lie_in_words_in_their_order(count: int) -> None:
    """A last word that is not full is filled with the last element."""
    x = np.arange(1, count + 1, dtype=np.int8) * np.int8(-3)
    np.testing.assert_array_equal(computed("not.b32 $0, $1;", 4, i8, (x, i8)), ~x)
    up = computed("shl.b32 $0, $1, 8;", 4, i8, (x, i8))
    expected = np.where(np.arange(count) % 4 == 0, 0, np.roll(x, 1))
    np.testing.assert_array_equal(up, expected)


def test_halves_share_words_and_words_do_not() -> None:
    x = np.array([1.5, -2, 0, 8], np.float16)
    swapped = "shf.l.wrap.b32 $0, $1, $1, 16;"
    np.testing.assert_array_equal(computed(swapped, 2, f16, (x, f16)), [-2, 1.5, 8, 0])
    bits = np.array([1, 2, 3, 4], np.int32)
    both = "mov.b32 $0, $3; mov.b32 $1, $2;"
    np.testing.assert_array_equal(computed(both, 2, i32, (bits, i32)), [2, 1, 4, 3])


def test_widths_may_differ() -> None:
    """Two results of 64 bits of one word of halves."""
    x = np.array([3, -1, 7, 5], np.int16)
    text = "{ .reg .b32 low; and.b32 low, $2, 65535; cvt.u64.u32 $0, low; cvt.u64.u32 $1, $2; }"
    found = computed(text, 2, i64, (x, i16))
    wide = x.view(np.uint16).astype(np.int64)
    assert found.tolist() == [wide[0], wide[0] | wide[1] << 16, wide[2], wide[2] | wide[3] << 16]


@pytest.mark.parametrize(
    ("element", "values"),
    [(f32, np.array([1.5, -0.0], np.float32)), (f64, np.array([1e300, -3])),
     (i64, np.array([-(2**40), 5])), (bf16, np.array([1.5, -2], np.float32))],
)  # fmt: skip
def test_elements_of_every_kind_come_back(element: Any, values: Any) -> None:
    word = "b64" if element in (f64, i64) else "b16" if element is bf16 else "b32"
    found = computed(f"mov.{word} $0, $1;", 1, element, (values, element))
    np.testing.assert_array_equal(found, values)


def test_assembly_without_operands() -> None:
    assert computed("mov.b32 $0, 7;", 1, i32).tolist() == [7]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_rows_are_filled_each_by_itself(count: int) -> None:
    """Halves that are missing in a row's last word are its own last one."""
    x = np.arange(2 * count, dtype=np.float16).reshape(2, count)
    assembly = Assembly("shf.l.wrap.b32 $0, $1, $1, 16;", "", 2)
    (found,) = assembly.evaluate([f16], [f16], [x])
    padded = np.concatenate([x, x[:, -1:]], 1)[:, : count + count % 2]
    swapped = padded.reshape(2, -1, 2)[:, :, ::-1].reshape(2, -1)[:, :count]
    np.testing.assert_array_equal(found, swapped)


@pytest.mark.parametrize("element", [i8, i16, i32, i64, f16, bf16, e4m3, e5m2, f32, f64])
def test_results_have_the_type_of_their_values(element: Any) -> None:
    values = np.array([-1.5, 2, -3, 4]).astype(value_dtype(element))
    pack = {32: 1, 64: 1, 16: 2, 8: 4}[bits(element)]
    word = "b64" if bits(element) == 64 else "b32"
    found = computed(f"mov.{word} $0, $1;", pack, element, (values, element))
    assert found.dtype == value_dtype(element)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize(
    ("element", "pack", "together"),
    [(i1, 64, 32), (i1, 8, 8), (i8, 8, 4), (i8, 2, 2), (f16, 8, 2), (f32, 8, 1), (f64, 8, 1)],
)
def test_how_many_share_a_register(element: Any, pack: int, together: int) -> None:
    assembly = Assembly("", "", pack)
    assert assembly.shared(element) == together
    assert assembly.registers(element) == pack // together
