"""What a kernel is compiled for: the types of its arguments, and specialisation by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tawa.frontend.source.function import JITFunction, Parameter
from tawa.language.dtypes import (
    dtype,
    dtype_named,
    float32,
    int1,
    int32,
    int64,
    pointer_type,
    uint64,
)


@dataclass(frozen=True)
class PointerArg:
    """A pointer to global memory; `divisible` is the alignment in bytes that is known."""

    element: dtype
    divisible: int = 1

    @property
    def type(self) -> pointer_type:
        """The type that the kernel sees."""
        return pointer_type(self.element)


@dataclass(frozen=True)
class ScalarArg:
    """A number; `divisible` divides every value that the kernel will be called with.

    `positive`: each is an ordinary positive float, between 2^-64 and 2^64. `unit`: each is 1.
    """

    type: dtype
    divisible: int = 1
    positive: bool = False
    unit: bool = False


@dataclass(frozen=True)
class DescriptorArg:
    """A tensor descriptor made on the host, with its block shape."""

    element: dtype
    block_shape: tuple[int, ...]


ArgType: TypeAlias = PointerArg | ScalarArg | DescriptorArg

ALIGNMENT = 16
"""Pointers and integers divisible by this are compiled for specially."""


def parse_argument(text: str) -> ArgType:
    """An argument type in signature notation.

    `*f16` is a pointer, `i32` a number, `desc<f16, 128x64>` a descriptor, and `:16` after the
    first two says what divides it; `f32:+` is a positive number, 2^-64 to 2^64, and `i32:=1` one
    that is 1. Element types have any spelling (`fp16`, `float16`, `f16`).
    """
    body, _, mark = text.strip().partition(":")
    divisible = int(mark) if mark.isdigit() else 1
    if body.startswith("desc<"):
        element, _, shape = body.removeprefix("desc<").rstrip(">").partition(",")
        sizes = tuple(int(size) for size in shape.strip().split("x"))
        return DescriptorArg(dtype_named(element.strip()), sizes)
    if body.startswith("*"):
        return PointerArg(dtype_named(body[1:]), divisible)
    return ScalarArg(dtype_named(body), divisible, mark == "+", mark == "=1")


@dataclass(frozen=True)
class Constant:
    """An argument whose value the kernel is compiled for."""

    value: Any


def specialize_number(
    value: float | None, *, specialize: bool = True, align: bool = True
) -> ScalarArg | Constant:
    """How a Python number (or None) is compiled for, by Triton's rules.

    None, and an integer equal to 1, become compile-time values. Other integers are int32, or
    int64 and uint64 where they don't fit, and note whether 16 divides them. Bools are int1,
    floats float32; they are never specialised.
    """
    if value is None:
        return Constant(None)
    if isinstance(value, bool):
        return ScalarArg(int1)
    if isinstance(value, float):
        return ScalarArg(float32)
    if value == 1 and specialize:
        return Constant(1)
    kinds = ((int32, 31), (int64, 63))
    kind = next((k for k, bits in kinds if -(1 << bits) <= value < 1 << bits), uint64)
    aligned = specialize and align and value % ALIGNMENT == 0
    return ScalarArg(kind, ALIGNMENT if aligned else 1)


def run_time_parameters(function: JITFunction, constants: Mapping[str, Any]) -> list[Parameter]:
    """The parameters that are left when those with compile-time values are taken out."""
    return [p for p in function.parameters if p.name not in constants and not p.is_constexpr]


def missing_constants(function: JITFunction, constants: Mapping[str, Any]) -> Sequence[str]:
    """The `tl.constexpr` parameters without value or default."""
    return [
        p.name
        for p in function.parameters
        if p.is_constexpr and p.name not in constants and not p.has_default
    ]
