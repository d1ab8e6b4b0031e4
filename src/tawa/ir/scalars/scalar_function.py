"""What a scalar function is, and the C++ names and literals of element types."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Attribute

from tawa.base.numerics import Array, value_dtype
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
    i16,
    i32,
    i64,
    is_float,
    short_name,
)

Types = Sequence[Attribute]

INTEGERS: tuple[Attribute, ...] = (i8, i16, i32, i64)
WORDS: tuple[Attribute, ...] = (i32, i64)
LOGICAL: tuple[Attribute, ...] = (i1, *INTEGERS)
SMALL_FLOATS: tuple[Attribute, ...] = (f16, bf16, e4m3, e5m2)
FLOATS: tuple[Attribute, ...] = (*SMALL_FLOATS, f32, f64)
ELEMENTS: tuple[Attribute, ...] = (*LOGICAL, *FLOATS)


@dataclass(frozen=True)
class Signature:
    """Which types a function takes: `rule` gives the result of legal operands, else raises.

    `rule(operands, result)` gets the wanted result type where one is known (casts need it) and
    returns the result type; a `ValueError` says what is wrong. `samples` lists legal operand and
    result types for tests and documentation.
    """

    arity: int
    rule: Callable[[Types, Attribute | None], Attribute]
    samples: tuple[tuple[tuple[Attribute, ...], Attribute], ...]


@dataclass(frozen=True)
class ScalarFunction:
    """One entry of the table; see the module's text for the conventions."""

    name: str
    signature: Signature
    numpy: Callable[..., Array]
    """`numpy(operand types, result type, *values) -> values`, broadcasting like NumPy."""
    text: Callable[[Types, Attribute], str]
    commutative: bool = False

    @property
    def arity(self) -> int:
        """Number of operands."""
        return self.signature.arity

    def result_type(self, operands: Types, result: Attribute | None = None) -> Attribute:
        """The result's element type; raises ValueError when the types are not legal.

        Casts need `result`; for all others it is only compared.
        """
        if len(operands) != self.arity:
            raise ValueError(f"{self.name} takes {self.arity} operands, found {len(operands)}")
        inferred = self.signature.rule(operands, result)
        if result is not None and result != inferred:
            raise ValueError(
                f"{self.name} of ({', '.join(map(str, operands))}) gives {inferred}, not {result}"
            )
        return inferred

    def evaluate(self, operands: Types, result: Attribute, *values: Array) -> Array:
        """Apply the function to value arrays; no floating point warnings are raised."""
        with np.errstate(all="ignore"):
            return np.asarray(self.numpy(operands, result, *values), dtype=value_dtype(result))

    def cuda(self, operands: Types, result: Attribute) -> str:
        """The C++ expression text for these element types, with `{0}` ... for the operands."""
        return self.text(operands, result)


def cpp_type(type_: Attribute) -> str:
    """The C++ type of a scalar: the short names of `base.types`, `T*` for pointers."""
    if isinstance(type_, PtrType):
        return f"{cpp_type(type_.pointee)}*"
    return short_name(type_)


def cpp_constant(value: float, type_: Attribute) -> str:
    """A C++ literal of element type `type_` for a Python number that is a value of the type."""
    if type_ == i1:
        return "true" if value else "false"
    if not is_float(type_):
        return _integer_literal(int(value), type_)
    if type_ == f64:
        return _float_literal(float(value), "", "__longlong_as_double(0x7ff8000000000000ll)")
    literal = _float_literal(float(value), "f", "__int_as_float(0x7fffffff)")
    return literal if type_ == f32 else f"from_float<{short_name(type_)}>({literal})"


def _integer_literal(value: int, type_: Attribute) -> str:
    width = bits(type_)
    signed = (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
    if width == 64:
        return f"{signed}ll" if signed != -(1 << 63) else "(-9223372036854775807ll - 1)"
    if signed == -(1 << 31):
        return "(-2147483647 - 1)"
    return str(signed) if width == 32 else f"{short_name(type_)}({signed})"


def _float_literal(value: float, suffix: str, nan: str) -> str:
    if math.isnan(value):
        return nan
    if math.isinf(value):
        infinity = "__int_as_float(0x7f800000)" if suffix else "f64(__int_as_float(0x7f800000))"
        return infinity if value > 0 else f"-{infinity}"
    digits = repr(float(np.float32(value))) if suffix else repr(value)
    return digits + suffix if "." in digits or "e" in digits else f"{digits}.0{suffix}"


# --- signatures ---------------------------------------------------------------------------------


def _names(types: Sequence[Attribute]) -> str:
    return " ".join(short_name(t) for t in types)


def uniform(
    domain: tuple[Attribute, ...], arity: int, result: Attribute | None = None
) -> Signature:
    """`arity` operands of one type of `domain`; the result is of that type, or `result`."""

    def rule(operands: Types, _: Attribute | None) -> Attribute:
        if any(t != operands[0] for t in operands):
            raise ValueError(
                f"operands of one type expected, found {', '.join(map(str, operands))}"
            )
        if operands[0] not in domain:
            raise ValueError(f"operands of {_names(domain)} expected, found {operands[0]}")
        return result or operands[0]

    return Signature(arity, rule, tuple(((t,) * arity, result or t) for t in domain))


def conversion(legal: Callable[[Attribute, Attribute], bool], what: str) -> Signature:
    """One operand; `legal(source, target)` decides which types may be converted."""

    def rule(operands: Types, result: Attribute | None) -> Attribute:
        if result is None:
            raise ValueError("a cast needs its result type")
        if not legal(operands[0], result):
            raise ValueError(f"{what} expected, found {operands[0]} to {result}")
        return result

    pairs = ((s, t) for s in ELEMENTS for t in ELEMENTS if legal(s, t))
    return Signature(1, rule, tuple(((s,), t) for s, t in pairs))


def _select_rule(operands: Types, _: Attribute | None) -> Attribute:
    if operands[0] != i1 or operands[1] != operands[2]:
        raise ValueError(f"(i1, T, T) expected, found ({', '.join(map(str, operands))})")
    return operands[1]


def _addptr_rule(operands: Types, _: Attribute | None) -> Attribute:
    if not isinstance(operands[0], PtrType) or operands[1] not in WORDS:
        raise ValueError(f"(pointer, i32 or i64) expected, found ({', '.join(map(str, operands))})")
    return operands[0]


SELECT = Signature(3, _select_rule, tuple(((i1, t, t), t) for t in (*ELEMENTS, PtrType(f16))))
ADDPTR = Signature(
    2, _addptr_rule, tuple(((p := PtrType(t), w), p) for t in ELEMENTS for w in WORDS)
)
