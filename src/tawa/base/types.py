"""Element types, global pointers and tensor descriptors: the types every level shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tawa.machine.chips import SM_90A

COPIED_BYTES = SM_90A.copy_unit
"""Bytes that a row of a descriptor's block has at least."""

i1 = IntegerType(1)
i8 = IntegerType(8)
i16 = IntegerType(16)
i32 = IntegerType(32)
i64 = IntegerType(64)
f16 = Float16Type()
bf16 = BFloat16Type()
f32 = Float32Type()
f64 = Float64Type()
e4m3 = Float8E4M3FNType()
e5m2 = Float8E5M2Type()

NAMES: dict[str, Attribute] = {
    "i1": i1,
    "i8": i8,
    "i16": i16,
    "i32": i32,
    "i64": i64,
    "f16": f16,
    "bf16": bf16,
    "f32": f32,
    "f64": f64,
    "e4m3": e4m3,
    "e5m2": e5m2,
}
"""Short name of each element type; the short names are also the C++ names in generated code."""

_SHORT = {type_: name for name, type_ in NAMES.items()}


def short_name(type_: Attribute) -> str:
    """The short name of an element type, such as `bf16`; raises KeyError for any other type."""
    return _SHORT[type_]


def bits(type_: Attribute) -> int:
    """Size in bits of an element type; a pointer has 64."""
    if isinstance(type_, PtrType):
        return 64
    name = short_name(type_)
    return {"e4m3": 8, "e5m2": 8, "bf16": 16}.get(name) or int(name[1:])


def words_of(type_: Attribute) -> int:
    """32-bit words of a tile's elements."""
    return math.prod(shape_of(type_)) * byte_size(element_of(type_)) // 4


def byte_size(type_: Attribute) -> int:
    """Size in bytes of one stored element; `i1` is stored as one byte."""
    return max(1, bits(type_) // 8)


def is_float(type_: Attribute) -> bool:
    """Whether the element type is a floating-point type."""
    return type_ in (f16, bf16, f32, f64, e4m3, e5m2)


def element_of(type_: Attribute) -> Attribute:
    """The element type of a shaped type; a scalar type is its own element type."""
    return getattr(type_, "element_type", type_) if not isinstance(type_, PtrType) else type_


def shape_of(type_: Attribute) -> tuple[int, ...]:
    """The static shape of a shaped type; `()` for a scalar."""
    if isinstance(type_, TensorType):
        return tuple(type_.get_shape())
    return tuple(getattr(type_, "extents", ()))


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """`!tawa.ptr<f16>`: an address in global memory of elements of one type."""

    name: ClassVar[str] = "tawa.ptr"
    pointee: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<T>`."""
        with parser.in_angle_brackets():
            return [parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<T>`."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)


@irdl_attr_definition
class PlanType(ParametrizedAttribute, TypeAttribute):
    """`!tawa.plan`: a kernel's parameter, which CTA runs which programs (`base.tile_scheduler`)."""

    name: ClassVar[str] = "tawa.plan"


@irdl_attr_definition
class DescType(ParametrizedAttribute, TypeAttribute):
    """`!tawa.desc<tensor<128x64xf16>>`: a tensor in global memory, addressed by blocks."""

    name: ClassVar[str] = "tawa.desc"
    block: TensorType[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `<tensor<...>>`."""
        with parser.in_angle_brackets():
            return [parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        """Print `<tensor<...>>`."""
        with printer.in_angle_brackets():
            printer.print_attribute(self.block)
