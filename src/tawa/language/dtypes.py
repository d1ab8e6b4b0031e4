"""Element types of the tile language, with their sign; `constexpr`; descriptions of values' types.

These are what a kernel sees: `tl.float16`, `x.dtype`, `ptr.dtype.element_ty`. The IR has signless
integers; the sign lives here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar


class Kind(IntEnum):
    """Orders the kinds of numbers for promotion of weak scalars."""

    BOOLEAN = 0
    INTEGRAL = 1
    FLOATING = 2


class Signedness(IntEnum):
    """Whether the integers of a type are signed."""

    SIGNED = 0
    UNSIGNED = 1


@dataclass(frozen=True)
class dtype:
    """An element type: `name` is the one Triton prints (`fp16`, `uint8`, `int1`, ...).

    `dtype(name)` is the type of that name. Raises `ValueError` if there is none.
    """

    name: str
    primitive_bitwidth: int = 0
    kind_: Kind = Kind.INTEGRAL
    signed: bool = True

    SINT_TYPES: ClassVar = ["int8", "int16", "int32", "int64"]
    UINT_TYPES: ClassVar = ["int1", "uint8", "uint16", "uint32", "uint64"]
    FP_TYPES: ClassVar = [
        "fp8e4b15", "fp8e4nv", "fp8e4b8", "fp8e5", "fp8e5b16", "fp16", "bf16", "fp32", "fp64",
    ]  # fmt: skip
    STANDARD_FP_TYPES: ClassVar = ["fp16", "bf16", "fp32", "fp64"]
    OTHER_TYPES: ClassVar = ["void"]

    SIGNEDNESS: ClassVar = Signedness
    KIND: ClassVar = Kind

    def __post_init__(self) -> None:
        if self.primitive_bitwidth:
            return
        found = next((t for t in (*DTYPES.values(), *ELSEWHERE) if t.name == self.name), None)
        if found is None:
            raise ValueError(f"no element type is called {self.name!r}")
        for part in ("primitive_bitwidth", "kind_", "signed"):
            object.__setattr__(self, part, getattr(found, part))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"tl.{LONG_NAMES.get(self.name, self.name)}"

    def kind(self) -> Kind:
        """Boolean, integral or floating."""
        return self.kind_

    @property
    def scalar(self) -> dtype:
        """The type itself: it has no shape."""
        return self

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return max(1, self.primitive_bitwidth // 8)

    @property
    def fp_mantissa_width(self) -> int:
        """Bits of the fraction of a floating point type. Raises `AttributeError` for others."""
        if self.name not in MANTISSAS:
            raise AttributeError(f"{self.name} has no mantissa")
        return MANTISSAS[self.name]

    @property
    def exponent_bias(self) -> int:
        """What is added to exponents of a floating point type. Raises `AttributeError`."""
        if self.name not in BIASES:
            raise AttributeError(f"{self.name} has no exponent")
        return BIASES[self.name]

    @property
    def int_bitwidth(self) -> int:
        """The width."""
        return self.primitive_bitwidth

    @property
    def int_signedness(self) -> Signedness:
        """Whether an integer type is signed; `int1` is not."""
        return Signedness.SIGNED if self.signed else Signedness.UNSIGNED

    def is_floating(self) -> bool:
        """Whether this is any floating point type."""
        return self.kind_ is Kind.FLOATING

    def is_standard_floating(self) -> bool:
        """Whether this is f16, bf16, f32 or f64."""
        return self.is_floating() and self.primitive_bitwidth >= 16

    def is_fp8(self) -> bool:
        """Whether this is an 8-bit floating point type."""
        return self.is_floating() and self.primitive_bitwidth == 8

    def is_fp16(self) -> bool:
        """Whether this is `float16`."""
        return self.name == "fp16"

    def is_bf16(self) -> bool:
        """Whether this is `bfloat16`."""
        return self.name == "bf16"

    def is_fp32(self) -> bool:
        """Whether this is `float32`."""
        return self.name == "fp32"

    def is_fp64(self) -> bool:
        """Whether this is `float64`."""
        return self.name == "fp64"

    def is_int(self) -> bool:
        """Whether this is an integer or `int1`."""
        return self.kind_ is not Kind.FLOATING

    def is_int_signed(self) -> bool:
        """Whether this is a signed integer; `int1` is not."""
        return self.is_int() and self.signed

    def is_int_unsigned(self) -> bool:
        """Whether this is an unsigned integer or `int1`."""
        return self.is_int() and not self.signed

    def is_int1(self) -> bool:
        """Whether this is `int1`."""
        return self.primitive_bitwidth == 1

    def is_bool(self) -> bool:
        """Whether this is `int1`."""
        return self.is_int1()

    def is_int8(self) -> bool:
        """Whether this is `int8`."""
        return self.name == "int8"

    def is_int16(self) -> bool:
        """Whether this is `int16`."""
        return self.name == "int16"

    def is_int32(self) -> bool:
        """Whether this is `int32`."""
        return self.name == "int32"

    def is_int64(self) -> bool:
        """Whether this is `int64`."""
        return self.name == "int64"

    def is_uint8(self) -> bool:
        """Whether this is `uint8`."""
        return self.name == "uint8"

    def is_uint16(self) -> bool:
        """Whether this is `uint16`."""
        return self.name == "uint16"

    def is_uint32(self) -> bool:
        """Whether this is `uint32`."""
        return self.name == "uint32"

    def is_uint64(self) -> bool:
        """Whether this is `uint64`."""
        return self.name == "uint64"

    def is_fp8e4nv(self) -> bool:
        """Whether this is `float8e4nv` (e4m3)."""
        return self.name == "fp8e4nv"

    def is_fp8e5(self) -> bool:
        """Whether this is `float8e5` (e5m2)."""
        return self.name == "fp8e5"

    def is_ptr(self) -> bool:
        """Whether this is a pointer: never; see `pointer_type`."""
        return False

    def is_block(self) -> bool:
        """Whether this describes a tensor with a shape: never."""
        return False

    def integer_range(self) -> tuple[int, int]:
        """The least and the greatest integer of an integer type."""
        if self.signed:
            half = 1 << (self.primitive_bitwidth - 1)
            return -half, half - 1
        return 0, (1 << self.primitive_bitwidth) - 1

    def get_int_max_value(self) -> int:
        """The greatest integer of the type."""
        return self.integer_range()[1]

    def get_int_min_value(self) -> int:
        """The least integer of the type."""
        return self.integer_range()[0]


@dataclass(frozen=True)
class pointer_type:
    """The type of a pointer to elements of `element_ty` in global memory."""

    element_ty: dtype | pointer_type
    const: bool = False
    """Whether it is only read through."""

    def __str__(self) -> str:
        return f"{'const_' if self.const else ''}pointer<{self.element_ty}>"

    @property
    def name(self) -> str:
        """The type as text."""
        return str(self)

    @property
    def scalar(self) -> pointer_type:
        """The type itself: it has no shape."""
        return self

    primitive_bitwidth: int = 64

    def is_ptr(self) -> bool:
        """Whether this is a pointer: yes."""
        return True

    def is_int1(self) -> bool:
        """Whether this is `int1`: no."""
        return False

    def is_bool(self) -> bool:
        """Whether this is `int1`: no."""
        return False

    def is_floating(self) -> bool:
        """Whether this is a floating point type: no."""
        return False

    def is_fp8(self) -> bool:
        """Whether this is an 8-bit floating point type: no."""
        return False

    def is_int(self) -> bool:
        """Whether this is an integer: no."""
        return False

    def is_int_signed(self) -> bool:
        """Whether this is a signed integer: no."""
        return False

    def is_int_unsigned(self) -> bool:
        """Whether this is an unsigned integer: no."""
        return False

    def is_block(self) -> bool:
        """Whether this describes a tensor with a shape: no."""
        return False


@dataclass(frozen=True)
class block_type:
    """The type of a tensor: element type and shape (`x.type` of a tensor that has a shape)."""

    element_ty: dtype | pointer_type
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"<{list(self.shape)}, {self.element_ty}>"

    @property
    def scalar(self) -> dtype | pointer_type:
        """The element type."""
        return self.element_ty

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def is_block(self) -> bool:
        """Whether this describes a tensor with a shape: yes."""
        return True

    def is_ptr(self) -> bool:
        """Whether this is a pointer: no (its elements may be)."""
        return False

    def is_floating(self) -> bool:
        """Whether the elements are floating point numbers."""
        return self.element_ty.is_floating()

    def get_block_shapes(self) -> tuple[int, ...]:
        """The shape."""
        return self.shape


int1 = dtype("int1", 1, Kind.BOOLEAN, signed=False)
int8 = dtype("int8", 8, Kind.INTEGRAL)
int16 = dtype("int16", 16, Kind.INTEGRAL)
int32 = dtype("int32", 32, Kind.INTEGRAL)
int64 = dtype("int64", 64, Kind.INTEGRAL)
uint8 = dtype("uint8", 8, Kind.INTEGRAL, signed=False)
uint16 = dtype("uint16", 16, Kind.INTEGRAL, signed=False)
uint32 = dtype("uint32", 32, Kind.INTEGRAL, signed=False)
uint64 = dtype("uint64", 64, Kind.INTEGRAL, signed=False)
float8e4nv = dtype("fp8e4nv", 8, Kind.FLOATING)
float8e5 = dtype("fp8e5", 8, Kind.FLOATING)
float16 = dtype("fp16", 16, Kind.FLOATING)
bfloat16 = dtype("bf16", 16, Kind.FLOATING)
float32 = dtype("fp32", 32, Kind.FLOATING)
float64 = dtype("fp64", 64, Kind.FLOATING)

float8e4b15 = dtype("fp8e4b15", 8, Kind.FLOATING)
float8e4b8 = dtype("fp8e4b8", 8, Kind.FLOATING)
float8e5b16 = dtype("fp8e5b16", 8, Kind.FLOATING)
ELSEWHERE = frozenset({float8e4b15, float8e4b8, float8e5b16})
"""Formats of other chips: files may name them, kernels may not use them."""

LONG_NAMES = {
    "fp8e4nv": "float8e4nv",
    "fp8e5": "float8e5",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp64": "float64",
}
"""Triton's printed name -> the name in the language, where they differ."""

BIASES: dict[str, int] = {
    "fp8e4b15": 15, "fp8e4nv": 7, "fp8e4b8": 8, "fp8e5": 15, "fp8e5b16": 16, "fp16": 15,
    "bf16": 127, "fp32": 127, "fp64": 1023,
}  # fmt: skip
"""What is added to the exponents of floating point types."""

MANTISSAS = {
    "fp8e4b15": 3, "fp8e4nv": 3, "fp8e4b8": 3, "fp8e5": 2, "fp8e5b16": 2,
    "fp16": 10, "bf16": 7, "fp32": 23, "fp64": 52,
}  # fmt: skip
"""Bits of the fraction of each floating point type."""

DTYPES: dict[str, dtype] = {
    t.name: t
    for t in (
        int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float8e4nv, float8e5, float16, bfloat16, float32, float64,
    )
}  # fmt: skip
"""Every element type by its printed name."""

SHORT_NAMES: dict[str, dtype] = {
    "i1": int1, "i8": int8, "i16": int16, "i32": int32, "i64": int64, "u1": int1, "u8": uint8,
    "u16": uint16, "u32": uint32, "u64": uint64, "fp8e4nv": float8e4nv, "fp8e5": float8e5,
    "e4m3": float8e4nv, "e5m2": float8e5, "f16": float16, "f32": float32, "f64": float64,
    "bool": int1, "float8_e4m3fn": float8e4nv, "float8_e5m2": float8e5,
}  # fmt: skip
"""Further spellings: of signatures (`i32`, `f16`), and of array libraries."""


def dtype_named(name: str) -> dtype:
    """The element type of a name in any spelling: `fp16`, `f16`, `float16`; KeyError if none."""
    for table in (DTYPES, SHORT_NAMES):
        if name in table:
            return table[name]
    for short, long in LONG_NAMES.items():
        if long == name:
            return DTYPES[short]
    raise KeyError(name)


def unwrap(value: Any) -> Any:
    """The Python value in a `constexpr`; anything else is returned as it is."""
    return value.value if isinstance(value, constexpr) else value


class constexpr:
    """A value that is known when a kernel is compiled.

    As an annotation (`BLOCK: tl.constexpr`) it marks a parameter or a variable; as a global
    (`SIZE = tl.constexpr(64)`) it lets kernels use the value. It computes like the value.
    """

    def __init__(self, value: Any) -> None:
        self.value: Any = unwrap(value)
        self.type = constexpr

    def __repr__(self) -> str:
        return f"constexpr[{self.value!r}]"

    def __hash__(self) -> int:
        return hash((constexpr, self.value))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[unwrap(index)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the value."""
        return self.value(*args, **keywords)


def _forward(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], constexpr]:
    return lambda self, other: constexpr(function(unwrap(self), unwrap(other)))


def _backward(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], constexpr]:
    return lambda self, other: constexpr(function(unwrap(other), unwrap(self)))


def _alone(function: Callable[[Any], Any]) -> Callable[[Any], constexpr]:
    return lambda self: constexpr(function(unwrap(self)))


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"):
    setattr(constexpr, f"__{_name}__", _forward(getattr(operator, f"__{_name}__")))
    setattr(constexpr, f"__r{_name}__", _backward(getattr(operator, f"__{_name}__")))
for _name in ("and", "or", "xor"):
    setattr(constexpr, f"__{_name}__", _forward(getattr(operator, f"__{_name}__")))
    setattr(constexpr, f"__r{_name}__", _backward(getattr(operator, f"__{_name}__")))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(constexpr, f"__{_name}__", _forward(getattr(operator, f"__{_name}__")))
for _name in ("neg", "pos", "invert", "abs"):
    setattr(constexpr, f"__{_name}__", _alone(getattr(operator, f"__{_name}__")))


class tensor:
    """The type of values that exist when a kernel runs; for annotations and `isinstance`."""


@dataclass(frozen=True)
class constexpr_type:
    """The type of one compile-time value inside a kernel: `x.type`, which holds the value."""

    value: Any


class tensor_descriptor:
    """The type of tensor descriptors inside a kernel; for annotations and `isinstance`."""


class const:
    """Annotation of a pointer parameter that is only read."""
