"""What PTX's instructions on numbers compute, by their opcodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tawa.base.numerics import (
    Array,
    decode,
    encode,
    flush,
    round_to,
    storage_dtype,
    to_integers,
)
from tawa.base.types import NAMES
from tawa.ir.scalars.ptx import COMPARISONS

Function = Callable[..., Any]


class Unsupported(Exception):
    """An instruction that the machine does not know."""


def unsigned(bits: int) -> np.dtype[Any]:
    """The unsigned type of so many bits."""
    return np.dtype(f"u{bits // 8}")


def dtype_of(kind: str) -> np.dtype[Any]:
    """The NumPy type of a PTX type (bits are unsigned)."""
    if kind == "pred":
        return np.dtype(bool)
    if kind in ("f16x2", "bf16x2"):
        return np.dtype(np.uint32)
    if kind[0] not in "busf" or not kind[1:].isdigit():
        raise Unsupported(f"type {kind}")
    return np.dtype(f"{ {'b': 'u', 'u': 'u', 's': 'i', 'f': 'f'}[kind[0]] }{int(kind[1:]) // 8}")


def _wide(kind: str) -> str:
    return f"{kind[0]}{2 * int(kind[1:])}"


def _multiply(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    """`mul`, and `mad` with one more operand."""
    kind = opcode[-1]
    if kind[0] == "f":
        return [kind] * 3, _fused(kind)
    wide = dtype_of(_wide(kind)) if "wide" in opcode else dtype_of(kind)

    def whole(a: Array, b: Array, c: Any = 0) -> Array:
        if "hi" in opcode:
            return _high(a, b) + c
        return (a.astype(wide) * b.astype(wide) + c).astype(wide)

    return [kind, kind, _wide(kind) if "wide" in opcode else kind], whole


def _fused(kind: str) -> Function:
    """One rounding where there are three operands."""
    dtype = dtype_of(kind)

    def function(a: Array, b: Array, c: Array | None = None) -> Array:
        if c is None:
            return a * b
        wide = np.float64 if dtype.itemsize < 8 else dtype
        return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(dtype)

    return function


NARROW = ("bf16", "f16x2", "bf16x2")
"""Types that NumPy has not."""

UNKNOWN = frozenset(("relu", "xorsign"))
"""Modifiers that change a result, which nothing here knows."""

Build = Callable[[tuple[str, ...]], tuple[list[str], Function]]


def _narrow(build: Build) -> Build:
    """Bits that are bf16, or two halves, are decoded, and the results rounded once."""

    def found(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
        kind = opcode[-1]
        if kind not in NARROW:
            return build(opcode)
        element = NAMES[kind.removesuffix("x2")]
        kinds, function = build((*opcode[:-1], "f64"))

        def of_bits(*values: Array) -> Array:
            stored = (np.ascontiguousarray(v).view(storage_dtype(element)) for v in values)
            wide = function(*(decode(v, element).astype(np.float64) for v in stored))
            return encode(round_to(wide, element), element).view(np.uint16)

        def of_words(*values: Array) -> Array:
            low, high = (
                of_bits(*((v >> np.uint32(bits)).astype(np.uint16) for v in values))
                for bits in (0, 16)
            )
            return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)

        if kind.endswith("x2"):
            return ["b32"] * len(kinds), of_words
        return ["b16"] * len(kinds), of_bits

    return found


def _high(a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}8")
        return (a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(a.dtype)
    exact = a.astype(object) * b.astype(object)
    return np.array([int(x) >> bits for x in exact], dtype=object).astype(a.dtype)


def _divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    return _quotient(a, b)


def _quotient(a: Array, b: Array) -> Array:
    """Towards zero; all ones for a divisor of zero, as NVIDIA hardware has it."""
    bits = unsigned(8 * a.dtype.itemsize)  # the least number's magnitude is no signed one
    divisor: Array = np.where(b == 0, b.dtype.type(1), b)
    size, by = (x if x.dtype.kind == "u" else np.abs(x).view(bits) for x in (a, divisor))
    found = (size // by).view(a.dtype)
    found = np.where((a < 0) != (b < 0), np.negative(found), found)
    return np.where(b == 0, ~np.zeros_like(a), found).astype(a.dtype)


def _same(function: Function, operands: int = 2) -> Callable[..., tuple[list[str], Function]]:
    """Operands and result of the opcode's last type."""

    def found(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
        if opcode[-1] in NARROW:
            raise Unsupported(".".join(opcode))
        return [opcode[-1]] * operands, function

    return found


def _extreme(name: str) -> Callable[..., tuple[list[str], Function]]:
    def found(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
        kind = opcode[-1]
        if kind[0] != "f":
            return [kind] * 2, {"max": np.maximum, "min": np.minimum}[name]
        if "NaN" in opcode:
            return [kind] * 2, {"max": np.maximum, "min": np.minimum}[name]
        return [kind] * 2, {"max": np.fmax, "min": np.fmin}[name]

    return found


def _shift(left: bool) -> Callable[..., tuple[list[str], Function]]:
    def found(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
        kind = opcode[-1]
        bits = 8 * dtype_of(kind).itemsize

        def shifted(a: Array, by: Array) -> Array:
            count = np.minimum(by, bits - 1).astype(a.dtype)
            value = a << count if left else a >> count
            if left or a.dtype.kind == "u":
                value = np.where(by >= bits, 0, value)
            return value.astype(a.dtype)

        return [kind, "u32"], shifted

    return found


JOINS: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _compare(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    kind, compare = opcode[-1], COMPARISONS[opcode[1]]
    join = JOINS.get(opcode[2])
    if join is None:
        return [kind] * 2, compare

    def both(a: Array, b: Array, p: Array) -> Array:
        return join(compare(a, b), p)

    return [kind, kind, "pred"], both


def _select(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    def chosen(a: Array, b: Array, p: Array) -> Array:
        return np.where(p, a, b)

    return [opcode[-1]] * 2 + ["pred"], chosen


def _logic(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    """Any function of three words, by its truth table."""

    def found(a: Array, b: Array, c: Array, table: Array) -> Array:
        result = np.zeros_like(a)
        for row in range(8):
            if int(table[0]) >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return [opcode[-1]] * 4, found


def _permute(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    """Bytes of two words, chosen by four digits; a digit's high bit repeats the byte's sign."""
    if len(opcode) > 2:
        raise Unsupported(".".join(opcode))

    def found(a: Array, b: Array, chosen: Array) -> Array:
        both = a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)
        result = np.zeros_like(a)
        for byte in range(4):
            digit = chosen >> np.uint32(4 * byte) & np.uint32(15)
            value = (both >> (8 * (digit & np.uint32(7))).astype(np.uint64)) & np.uint64(255)
            sign = np.where(value >> np.uint64(7), 255, 0)
            value = np.where(digit >= 8, sign, value).astype(np.uint32)
            result |= value << np.uint32(8 * byte)
        return result

    return ["b32"] * 3, found


def _funnel(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    left, wrap = opcode[1] == "l", opcode[2] == "wrap"

    def found(low: Array, high: Array, by: Array) -> Array:
        count = (by & np.uint32(31) if wrap else np.minimum(by, 32)).astype(np.uint64)
        both = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        both = both << count >> np.uint64(32) if left else both >> count
        return both.astype(np.uint32)

    return ["b32", "b32", "u32"], found


def _extract(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    """`bfe`: what lies beyond the word, or before a field of no bits, is the field's sign."""
    kind = opcode[-1]
    dtype = dtype_of(kind)
    bits = 8 * dtype.itemsize

    def found(a: Array, first: Array, count: Array) -> Array:
        begin = np.minimum(first & np.uint32(255), bits).astype(np.int64)
        end = np.minimum(begin + (count & np.uint32(255)), bits)
        # Up to the word's top, and down again to its bottom.
        field = (a << np.minimum(bits - end, bits - 1).astype(dtype)) >> np.minimum(
            bits - (end - begin), bits - 1
        ).astype(dtype)
        none = np.zeros_like(a)
        field = np.where(begin == bits, np.where(a < 0, ~none, none), field)
        return np.where(count & np.uint32(255) == 0, none, field).astype(dtype)

    return [kind, "u32", "u32"], found


def _insert(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    kind = opcode[-1]

    def found(a: Array, b: Array, first: Array, count: Array) -> Array:
        one = a.dtype.type(1)
        first, count = ((n & np.uint32(255)).astype(a.dtype) for n in (first, count))
        mask = ((one << count) - one) << first
        return b & ~mask | a << first & mask

    return [kind, kind, "u32", "u32"], found


def _special(function: Function) -> Callable[..., tuple[list[str], Function]]:
    """Of one operand, approximate on a GPU: computed wider and rounded."""

    def found(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
        if opcode[-1] in NARROW:
            raise Unsupported(".".join(opcode))
        dtype = dtype_of(opcode[-1])
        flushed = flush if "ftz" in opcode else np.asarray

        def wider(a: Array) -> Array:
            return flushed(function(flushed(a).astype(np.float64)).astype(dtype))

        return [opcode[-1]], wider

    return found


def _absolute(a: Array) -> Array:
    return np.abs(a)


def _remainder(a: Array, b: Array) -> Array:
    return a - _quotient(a, b) * b


def _with_sign(a: Array, b: Array) -> Array:
    return np.copysign(b, a)


def _inverse_root(a: Array) -> Array:
    return 1 / np.sqrt(a)


def _reciprocal(a: Array) -> Array:
    return 1 / a


def _bits(function: Callable[[Array], Array]) -> Callable[..., tuple[list[str], Function]]:
    """A number of bits of an integer."""

    def found(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
        return [f"b{opcode[-1][1:]}"], function

    return found


def _ones(a: Array) -> Array:
    return np.bitwise_count(a).astype(np.uint32)


def _reversed(a: Array) -> Array:
    spread = np.ascontiguousarray(a).view(np.uint8).reshape(len(a), -1)
    bits = np.unpackbits(spread, axis=1, bitorder="little")
    return np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(a.dtype)[:, 0]


def _leading_zeros(a: Array) -> Array:
    spread = _reversed(a).view(np.uint8).reshape(len(a), -1)
    bits = np.unpackbits(spread, axis=1, bitorder="little")
    first = bits.argmax(axis=1).astype(np.uint32)
    first[~bits.any(axis=1)] = bits.shape[1]
    return first


def _highest(opcode: tuple[str, ...]) -> tuple[list[str], Function]:
    """`bfind`: the place of the highest bit that is not the sign's; -1 without one."""
    kind, shift = opcode[-1], "shiftamt" in opcode
    bits = 8 * dtype_of(kind).itemsize

    def found(a: Array) -> Array:
        plain = np.where(a < 0, ~a, a).astype(unsigned(bits))
        zeros = _leading_zeros(plain)
        place = zeros if shift else np.uint32(bits - 1) - zeros
        return np.where(plain == 0, np.uint32(0xFFFFFFFF), place)

    return [kind], found


ARITHMETIC: dict[str, Callable[[tuple[str, ...]], tuple[list[str], Function]]] = {
    "add": _narrow(_same(np.add)), "sub": _narrow(_same(np.subtract)), "mul": _narrow(_multiply),
    "mad": _multiply, "fma": _narrow(_multiply), "div": _same(_divide), "rem": _same(_remainder),
    "neg": _narrow(_same(np.negative, 1)), "abs": _narrow(_same(_absolute, 1)),
    "min": _narrow(_extreme("min")), "max": _narrow(_extreme("max")),
    "and": _same(np.bitwise_and), "or": _same(np.bitwise_or),
    "xor": _same(np.bitwise_xor), "not": _same(np.invert, 1), "shl": _shift(True),
    "shr": _shift(False), "setp": _compare, "selp": _select, "lop3": _logic, "prmt": _permute,
    "shf": _funnel, "bfe": _extract, "bfi": _insert,
    "ex2": _special(np.exp2), "lg2": _special(np.log2), "sqrt": _special(np.sqrt),
    "rsqrt": _special(_inverse_root), "rcp": _special(_reciprocal),
    "tanh": _special(np.tanh), "sin": _special(np.sin), "cos": _special(np.cos),
    "copysign": _same(_with_sign), "popc": _bits(_ones), "brev": _bits(_reversed),
    "clz": _bits(_leading_zeros), "bfind": _highest,
}  # fmt: skip
"""By base opcode: the types of the operands, and what is computed of them."""


def saturated(opcode: tuple[str, ...], function: Function) -> Function:
    """With `.sat`, a float from 0 to 1; what is no number is 0."""
    if "sat" not in opcode:
        return function
    if opcode[-1] not in ("f16", "f32", "f64"):
        raise Unsupported(".".join(opcode))

    def limited(*values: Array) -> Array:
        found = np.asarray(function(*values))
        return np.where(found > 0, np.minimum(found, 1), 0).astype(found.dtype)

    return limited


def convert(opcode: tuple[str, ...], values: Sequence[Array]) -> Array:
    """`cvt`: between integers, floats, and two or four narrow floats in a word."""
    kinds = [k for k in opcode[1:] if k[0] in "usbfe" and k[-1].isdigit()]
    to, source = kinds
    if "sat" in opcode and not (to in ("f32", "f64") or to[0] in "us"):
        raise Unsupported(".".join(opcode))
    if to.endswith("x2"):
        element = NAMES[to.removesuffix("x2")]
        if source.endswith("x2"):
            narrow = NAMES[source.removesuffix("x2")]
            halves = [values[0].astype(np.uint8), (values[0] >> np.uint16(8)).astype(np.uint8)]
            parts = [decode(half, narrow) for half in halves]
        else:
            parts = [values[1], values[0]]
        stored = np.stack([encode(round_to(p, element), element) for p in parts], axis=1)
        return np.ascontiguousarray(stored).view(unsigned(16 * stored.dtype.itemsize))[:, 0]
    if to in ("f16", "bf16") or source == "bf16":
        wide = decode(values[0], NAMES["bf16"]) if source == "bf16" else values[0]
        if to[0] not in "fb":
            raise Unsupported(".".join(opcode))
        if to == "f32":
            return wide.astype(np.float32)
        if not _ways(opcode) <= {"rn"}:
            raise Unsupported(".".join(opcode))
        return encode(round_to(wide, NAMES[to]), NAMES[to])
    return _converted(values[0], dtype_of(to), opcode)


def _ways(opcode: tuple[str, ...]) -> set[str]:
    """How floats are rounded."""
    return {"rn", "rz", "rm", "rp"} & {*opcode}


def _converted(value: Array, to: np.dtype[Any], opcode: tuple[str, ...]) -> Array:
    modes: dict[str, Function] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    if value.dtype.kind == "f":
        value = next((modes[m](value) for m in modes if m in opcode), value)
        if to.kind in "ui":
            return to_integers(value, to)
    if "sat" in opcode and to.kind in "ui":
        limits = np.iinfo(to)
        return np.array([min(max(n, limits.min), limits.max) for n in value.tolist()], to)
    if "sat" in opcode:
        return saturated(("cvt", "sat", "f32"), np.asarray)(value).astype(to)
    nearest = value.astype(to)
    if _ways(opcode) <= {"rn"}:
        return nearest
    if value.dtype.kind != "f":
        raise Unsupported(".".join(opcode))
    return _directed(value, nearest, opcode)


def _directed(value: Array, nearest: Array, opcode: tuple[str, ...]) -> Array:
    """The float beside a number, on the side that an instruction asks for."""
    down = (value > 0) | ("rm" in opcode) if "rp" not in opcode else np.zeros(value.shape, bool)
    beside = np.nextafter(nearest, np.where(down, -np.inf, np.inf).astype(nearest.dtype))
    return np.where(np.where(down, nearest > value, nearest < value), beside, nearest)
