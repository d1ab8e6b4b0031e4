"""NumPy meanings and C++ texts of the conversions between element types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Attribute

from tawa.base.numerics import (
    Array,
    reinterpret,
    round_to,
    to_integers,
    unsigned_dtype,
    value_dtype,
)
from tawa.base.types import (
    PtrType,
    bf16,
    bits,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    i1,
    i8,
    is_float,
    short_name,
)
from tawa.ir.scalars.scalar_function import LOGICAL, WORDS, Types, cpp_type


def is_integer(type_: Attribute) -> bool:
    """Whether the element type is an integer or `i1`."""
    return type_ in LOGICAL


def widens(source: Attribute, target: Attribute) -> bool:
    """Whether every value of the float type `source` is one of the wider float type `target`."""
    fp8 = (e4m3, e5m2)
    if source in fp8:
        return is_float(target) and target not in fp8
    return is_float(source) and is_float(target) and bits(source) < bits(target)


def narrows(source: Attribute, target: Attribute) -> bool:
    """Whether a float conversion can lose precision or range."""
    both = is_float(source) and is_float(target)
    return both and source != target and not widens(source, target)


def extends(source: Attribute, target: Attribute) -> bool:
    """Whether `target` is a wider integer than `source`."""
    return is_integer(source) and is_integer(target) and bits(source) < bits(target)


def same_bits(source: Attribute, target: Attribute) -> bool:
    """Whether the types have the same size, so that one can be seen as the other."""
    return bits(source) == bits(target)


def convert_float(_operands: Types, result: Attribute, value: Array) -> Array:
    """Round the value to the result type."""
    return round_to(value, result)


def convert_float_text(operands: Types, result: Attribute) -> str:
    """C++ of a conversion between float types, by way of f32 for the small ones."""
    source = operands[0]
    if result == f64:
        return "f64({0})" if source == f32 else "f64(to_float({0}))"
    if source == f64:
        return "f32({0})" if result == f32 else f"from_double<{short_name(result)}>({{0}})"
    widened = "{0}" if source == f32 else "to_float({0})"
    return widened if result == f32 else f"from_float<{short_name(result)}>({widened})"


def extend_unsigned(operands: Types, result: Attribute, value: Array) -> Array:
    """Extend integers with zeros."""
    seen = np.asarray(value).view(unsigned_dtype(operands[0]))
    return seen.astype(unsigned_dtype(result)).view(value_dtype(result))


def extend_signed(operands: Types, result: Attribute, value: Array) -> Array:
    """Extend integers with their sign; `i1` is 0 or -1."""
    if operands[0] == i1:
        return -np.asarray(value).astype(value_dtype(result))
    return np.asarray(value).astype(value_dtype(result))


def truncate(_operands: Types, result: Attribute, value: Array) -> Array:
    """Keep the low bits of integers."""
    if result == i1:
        return (np.asarray(value) & 1) != 0
    return np.asarray(value).astype(value_dtype(result))


def int_to_float(is_unsigned: bool) -> Callable[..., Array]:
    """NumPy meaning of a conversion from signed or unsigned integers to floats."""

    def numpy(operands: Types, result: Attribute, value: Array) -> Array:
        seen = np.asarray(value)
        if is_unsigned and operands[0] != i1:
            seen = seen.view(unsigned_dtype(operands[0]))
        # bf16 and fp8 are reached through f32, the others directly.
        first = np.float32 if result in (bf16, e4m3, e5m2) else value_dtype(result)
        return round_to(seen.astype(first), result)

    return numpy


def int_to_float_text(is_unsigned: bool) -> Callable[[Types, Attribute], str]:
    """C++ of a conversion from signed or unsigned integers to floats.

    Of 8 bits all floats but 8-bit ones hold every value, so those go by way of f32.
    """

    def text(operands: Types, result: Attribute) -> str:
        source = operands[0]
        if source == i8 and result in (f32, f16, bf16):
            found = f"{'unsigned_' * is_unsigned}byte_to_float({{0}})"
            return found if result == f32 else f"from_float<{short_name(result)}>({found})"
        seen = "{0}"
        if is_unsigned and source != i1:
            seen = f"u{short_name(source)[1:]}({{0}})"
        if result in (f32, f64):
            return f"{short_name(result)}({seen})"
        if result == f16:
            return f"f16_from_int({seen})"
        return f"from_float<{short_name(result)}>(f32({seen}))"

    return text


def float_to_int(is_unsigned: bool) -> Callable[..., Array]:
    """Truncate towards zero and saturate to 32 or 64 bits; narrower types then wrap."""

    def numpy(_operands: Types, result: Attribute, value: Array) -> Array:
        kind = np.dtype(f"{'u' if is_unsigned else 'i'}{max(32, bits(result)) // 8}")
        return to_integers(np.asarray(value), kind).astype(value_dtype(result))

    return numpy


def float_to_int_text(is_unsigned: bool) -> Callable[[Types, Attribute], str]:
    """C++ of a saturating conversion from floats to signed or unsigned integers."""

    def text(operands: Types, result: Attribute) -> str:
        seen = "{0}" if operands[0] in (f32, f64) else "to_float({0})"
        source = "double" if operands[0] == f64 else "float"
        kind = "ull" if is_unsigned else "ll"
        if bits(result) < 64:
            kind = "uint" if is_unsigned else "int"
        call = f"__{source}2{kind}_rz({seen})"
        plain = result in WORDS and not is_unsigned
        return call if plain else f"{short_name(result)}({call})"

    return text


def bitcast(operands: Types, result: Attribute, value: Array) -> Array:
    """See the same bits as another type."""
    return reinterpret(value, operands[0], result)


def bitcast_text(operands: Types, result: Attribute) -> str:
    """C++ that sees the same bits as another type."""
    return f"bit_cast<{cpp_type(result)}>({{0}})"


def addptr(operands: Types, _result: Attribute, pointer: Array, offset: Array) -> Array:
    """Advance addresses by a number of elements."""
    element = operands[0]
    assert isinstance(element, PtrType)
    size = max(1, bits(element.pointee) // 8)
    return np.asarray(pointer) + np.asarray(offset).astype(np.int64) * size


def convert_int_text(operands: Types, result: Attribute) -> str:
    """C++ of a conversion that keeps the low bits of an integer."""
    if result == i1:
        return "({0} & 1) != 0"
    return f"{short_name(result)}({{0}})"


def extend_unsigned_text(operands: Types, result: Attribute) -> str:
    """C++ of an extension with zeros."""
    seen = "{0}" if operands[0] == i1 else f"u{short_name(operands[0])[1:]}({{0}})"
    return f"{short_name(result)}({seen})"


def extend_signed_text(operands: Types, result: Attribute) -> str:
    """C++ of an extension with the sign."""
    sign = "-" if operands[0] == i1 else ""
    return f"{short_name(result)}({sign}{{0}})"
