"""Exact element arithmetic on NumPy arrays: what each element type's values and bytes are.

Two representations, chosen once for the whole project:

* **values**: what evaluators compute with. f16, f32, f64 and integers are the NumPy types of the
  same width (integers are signless; they are held as signed ones), i1 is `bool`, and bf16 and
  fp8, which NumPy lacks, are float32 arrays that hold only representable values. A pointer is an
  int64 address.
* **storage**: what lies in memory. Equal to values, except that bf16 is `uint16` and fp8 is
  `uint8` bit patterns, and i1 is a `uint8` that is 0 or 1.

`round_to` makes values of a type from wider ones, `encode` and `decode` go to storage and back.
Rounding is to nearest, ties to even. Conversions to fp8 saturate to the largest finite value and
keep NaN, as `cvt.rn.satfinite` does (PTX ISA, "cvt").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute

from tawa.base.types import PtrType, bits, i1, is_float

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class _Fp8Format:
    """A format with `mantissa` bits, exponent `bias` and largest finite value `largest`."""

    mantissa: int
    bias: int
    largest: float
    infinities: bool

    @property
    def least_exponent(self) -> int:
        return 1 - self.bias


_FP8: dict[type[Attribute], _Fp8Format] = {
    Float8E4M3FNType: _Fp8Format(mantissa=3, bias=7, largest=448.0, infinities=False),
    Float8E5M2Type: _Fp8Format(mantissa=2, bias=15, largest=57344.0, infinities=True),
}

_FLOAT_VALUES: dict[type[Attribute], type[np.generic]] = {
    Float16Type: np.float16,
    BFloat16Type: np.float32,
    Float32Type: np.float32,
    Float64Type: np.float64,
    Float8E4M3FNType: np.float32,
    Float8E5M2Type: np.float32,
}

_SIGNED: dict[int, type[np.generic]] = {
    1: np.bool_,
    8: np.int8,
    16: np.int16,
    32: np.int32,
    64: np.int64,
}
_UNSIGNED: dict[int, type[np.generic]] = {
    1: np.bool_,
    8: np.uint8,
    16: np.uint16,
    32: np.uint32,
    64: np.uint64,
}


def is_fp8(element_type: Attribute) -> bool:
    """Whether the type is one of the two 8-bit floating point types."""
    return type(element_type) in _FP8


def value_dtype(element_type: Attribute) -> np.dtype[Any]:
    """The NumPy type that evaluators hold values of `element_type` in."""
    width = bits(element_type)
    if isinstance(element_type, IntegerType):
        return np.dtype(_SIGNED[width])
    if isinstance(element_type, PtrType):
        return np.dtype(np.int64)
    return np.dtype(_FLOAT_VALUES[type(element_type)])


def poison(dtype: np.dtype[Any]) -> float | int | bool:
    """A value that shows where it is used: NaN, or the largest integer."""
    return np.nan if dtype.kind == "f" else np.iinfo(dtype).max if dtype.kind == "i" else True


def unsigned_dtype(element_type: Attribute) -> np.dtype[Any]:
    """The unsigned NumPy type as wide as an integer (or pointer) element type."""
    return np.dtype(_UNSIGNED[bits(element_type)])


def storage_dtype(element_type: Attribute) -> np.dtype[Any]:
    """The NumPy type of `element_type` in memory."""
    if isinstance(element_type, BFloat16Type):
        return np.dtype(np.uint16)
    if is_fp8(element_type) or element_type == i1:
        return np.dtype(np.uint8)
    return value_dtype(element_type)


def _round_to_odd_f32(values: Array) -> Array:
    """float64 -> float32 rounded to odd, so that a second rounding is as good as one."""
    nearest = values.astype(np.float32)
    back = nearest.astype(np.float64)
    even = (nearest.view(np.uint32) & 1) == 0
    wrong = (back != values) & np.isfinite(back) & even
    towards = np.nextafter(nearest, np.where(values > back, np.inf, -np.inf).astype(np.float32))
    return np.where(wrong, towards, nearest).astype(np.float32)


def _round_bf16(values: Array) -> Array:
    single = _round_to_odd_f32(values) if values.dtype == np.float64 else values.astype(np.float32)
    word = np.ascontiguousarray(single).view(np.uint32)
    tie = (word >> np.uint32(16)) & np.uint32(1)
    rounded = (word + np.uint32(0x7FFF) + tie) & np.uint32(0xFFFF0000)
    rounded = np.where(np.isnan(single), np.uint32(0x7FC00000), rounded).astype(np.uint32)
    return rounded.view(np.float32).reshape(values.shape)


def _round_fp8(values: Array, fmt: _Fp8Format) -> Array:
    wide = values.astype(np.float64)
    finite = np.where(np.isfinite(wide), wide, 0.0)
    exponent = np.maximum(np.frexp(finite)[1] - 1, fmt.least_exponent)
    scale = np.ldexp(1.0, exponent - fmt.mantissa)
    rounded = np.clip(np.rint(finite / scale) * scale, -fmt.largest, fmt.largest)
    rounded = np.where(np.isinf(wide), np.copysign(fmt.largest, wide), rounded)
    return np.where(np.isnan(wide), np.nan, rounded).astype(np.float32)


def round_to(array: Array, element_type: Attribute) -> Array:
    """Values of `element_type` nearest to `array` (integers wrap to the width).

    Floats round to nearest even; fp8 saturates; f16 and bf16 overflow to infinity.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(element_type, BFloat16Type):
            return _round_bf16(np.asarray(array))
        if is_fp8(element_type):
            return _round_fp8(np.asarray(array), _FP8[type(element_type)])
        return np.asarray(array).astype(value_dtype(element_type), copy=False)


@lru_cache
def _fp8_decoding_table(kind: type[Attribute]) -> Array:
    fmt = _FP8[kind]
    codes = np.arange(256)
    exponent = (codes & 0x7F) >> fmt.mantissa
    fraction = (codes & ((1 << fmt.mantissa) - 1)) / (1 << fmt.mantissa)
    normal = np.ldexp(1.0 + fraction, exponent - fmt.bias)
    magnitude = np.where(exponent == 0, np.ldexp(fraction, fmt.least_exponent), normal)
    if fmt.infinities:
        top = exponent == (1 << (7 - fmt.mantissa)) - 1
        magnitude = np.where(top, np.where(fraction == 0, np.inf, np.nan), magnitude)
    else:
        magnitude = np.where((codes & 0x7F) == 0x7F, np.nan, magnitude)
    return np.where(codes & 0x80, -magnitude, magnitude).astype(np.float32)


def _encode_fp8(values: Array, fmt: _Fp8Format) -> Array:
    magnitude = np.abs(np.where(np.isfinite(values), values, 0.0)).astype(np.float64)
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, fmt.least_exponent)
    steps = np.ldexp(magnitude, fmt.mantissa - exponent).astype(np.int64)
    normal = steps >= (1 << fmt.mantissa)
    code = np.where(
        normal,
        ((exponent + fmt.bias) << fmt.mantissa) + steps - (1 << fmt.mantissa),
        steps,
    )
    infinite = ((1 << (7 - fmt.mantissa)) - 1) << fmt.mantissa
    code = np.where(np.isinf(values), infinite, code)
    code = np.where(np.isnan(values), 0x7F, code)
    return (code | np.where(np.signbit(values), 0x80, 0)).astype(np.uint8)


def encode(values: Array, element_type: Attribute) -> Array:
    """Bit patterns in memory of `values` (which must be values of `element_type`)."""
    if isinstance(element_type, BFloat16Type):
        contiguous = np.ascontiguousarray(values, dtype=np.float32)
        high = contiguous.view(np.uint32) >> np.uint32(16)
        return high.astype(np.uint16).reshape(np.shape(values))
    if is_fp8(element_type):
        return _encode_fp8(np.asarray(values, dtype=np.float32), _FP8[type(element_type)])
    return np.asarray(values).astype(storage_dtype(element_type), copy=False)


def flush(values: Array) -> Array:
    """Values whose denormals in f32 are zeros of their sign, as instructions with `.ftz` do it."""
    if values.dtype != np.float32:
        return values
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), values), values)


def to_integers(values: Array, dtype: np.dtype[Any]) -> Array:
    """Floats without their fractions, as the nearest integers that `dtype` holds.

    NaN is 0, or the top bit alone where doubles or integers of 64 bits take part (PTX ISA, "cvt").
    """
    width, limits = 8 * dtype.itemsize, np.iinfo(dtype)
    top = 1 << (width - 1) if 8 in (dtype.itemsize, values.dtype.itemsize) else 0
    wide = values.astype(np.float64)
    over, under = wide >= 2.0 ** (width - (dtype.kind == "i")), wide < limits.min
    strange = np.isnan(wide)
    inside = np.where(over | under | strange, 0, wide).astype(dtype)
    whole = np.where(over, limits.max, np.where(under, limits.min, inside))
    return np.where(strange, np.array(top, np.uint64).astype(dtype), whole).astype(dtype)


def decode(storage: Array, element_type: Attribute) -> Array:
    """Values of the bit patterns `storage`, an array of `storage_dtype(element_type)`."""
    if isinstance(element_type, BFloat16Type):
        word = np.asarray(storage).astype(np.uint32) << np.uint32(16)
        return np.ascontiguousarray(word).view(np.float32).reshape(np.shape(storage))
    if is_fp8(element_type):
        return _fp8_decoding_table(type(element_type))[np.asarray(storage)]
    if element_type == i1:
        return np.asarray(storage) != 0
    return np.asarray(storage).astype(value_dtype(element_type), copy=False)


def reinterpret(values: Array, source: Attribute, target: Attribute) -> Array:
    """Values of `target` whose bits are those of `values` of `source`; widths must agree."""
    stored = np.ascontiguousarray(encode(values, source))
    return decode(stored.view(storage_dtype(target)).reshape(np.shape(values)), target)


def constant_attribute(
    value: Array, element: Attribute
) -> IntegerAttr[IntegerType] | FloatAttr[AnyFloat]:
    """A scalar value as the attribute of an `arith.constant`."""
    if is_float(element):
        return FloatAttr(float(value), cast(AnyFloat, element))
    return IntegerAttr(int(value), cast(IntegerType, element))
