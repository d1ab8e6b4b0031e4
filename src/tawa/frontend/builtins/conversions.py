"""Meanings of libdevice's conversions that round one way, of its words, and of lengths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tawa import language as tl
from tawa.frontend.builtins.math import absolute, floating_argument
from tawa.frontend.builtins.shapes import tensor_argument
from tawa.frontend.source.errors import TypeMismatch
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.arithmetic import promote
from tawa.frontend.values.conversion import cast, fail, mapped
from tawa.frontend.values.values import Tensor, Value
from tawa.language.dtypes import dtype, float32, float64, int32, int64, uint32, uint64

TYPES: dict[str, dtype] = {
    "int": int32, "uint": uint32, "ll": int64, "ull": uint64, "float": float32, "double": float64,
}  # fmt: skip
"""Types by the names that conversions have for them."""

ROUNDING = {"rn": "rint", "rd": "floor", "ru": "ceil", "rz": "trunc"}
"""The functions that give whole numbers."""


def _whole(f: FunctionCompiler, x: Value, source: dtype, target: dtype, way: str) -> Tensor:
    """A float as an integer, limited to the type's range."""
    value = cast(f.b, floating_argument(f, x, "libdevice"), source)
    return cast(f.b, mapped(f.b, ROUNDING[way], source, value), target)


def _rounded(f: FunctionCompiler, x: Value, source: dtype, target: dtype, way: str) -> Tensor:
    """A number as a float of fewer digits."""
    value = cast(f.b, tensor_argument(f, x, "libdevice"), source)
    near = cast(f.b, value, target)
    if way == "rn":
        return near
    above, below = _sides(f, value, near)
    if way == "rz":
        positive = arithmetic.compare(f.b, ">", value, 0)
        down = arithmetic.bitwise(f.b, "&", above, positive)
        up = arithmetic.bitwise(f.b, "&", below, arithmetic.invert(f.b, positive))
    else:
        down, up = (above, None) if way == "rd" else (None, below)
    for moves, limit in ((down, float("-inf")), (up, float("inf"))):
        if moves is not None:
            end = conversion.fill(f.b, near.shape, conversion.scalar(f.b, limit, target))
            near = arithmetic.where(f.b, moves, mapped(f.b, "nextafter", target, near, end), near)
    return near


def _sides(f: FunctionCompiler, value: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Whether a float lies above the number that it was rounded from, and whether below."""
    assert isinstance(value.dtype, dtype)
    if value.dtype.primitive_bitwidth < 64 or value.dtype.is_floating():
        exact, back = cast(f.b, value, float64), cast(f.b, near, float64)
        return tuple(arithmetic.compare(f.b, way, back, exact) for way in (">", "<"))  # type: ignore[return-value]  # two
    beyond = arithmetic.compare(f.b, ">=", near, 2.0 ** (63 + (value.dtype == uint64)))
    back = cast(f.b, near, value.dtype)
    above = arithmetic.bitwise(f.b, "|", beyond, arithmetic.compare(f.b, ">", back, value))
    below = arithmetic.compare(f.b, "<", back, value)
    return above, arithmetic.bitwise(f.b, "&", arithmetic.invert(f.b, beyond), below)


def _half(f: FunctionCompiler, x: Value, upper: bool) -> Tensor:
    """32 bits of a float of 64."""
    bits = f.call(tl.cast, [floating_argument(f, x, "libdevice"), int64], {"bitcast": True})
    return cast(f.b, arithmetic.shift(f.b, ">>", bits, 32) if upper else bits, int32)


def _conversions() -> dict[str, Callable[[FunctionCompiler, Value], Value]]:
    found: dict[str, Callable[[FunctionCompiler, Value], Value]] = {
        "double2hiint": partial(_half, upper=True), "double2loint": partial(_half, upper=False),
    }  # fmt: skip
    for a, source in TYPES.items():
        for b, target in TYPES.items():
            for way in ROUNDING:
                to_int = source.is_floating() and target.is_int()
                if to_int or (target.is_floating() and a != b):
                    convert = _whole if to_int else _rounded
                    found[f"{a}2{b}_{way}"] = partial(
                        convert, source=source, target=target, way=way
                    )
    return found


CONVERSIONS = _conversions()
"""Meanings of conversions, by name."""


# --- words --------------------------------------------------------------------------------------


def _joined_double(f: FunctionCompiler, high: Value, low: Value) -> Tensor:
    upper = cast(f.b, tensor_argument(f, high, "libdevice.hiloint2double"), int64)
    lower = cast(f.b, tensor_argument(f, low, "libdevice.hiloint2double"), uint32)
    bits = arithmetic.bitwise(
        f.b, "|", arithmetic.shift(f.b, "<<", upper, 32), cast(f.b, lower, int64)
    )
    return f.call(tl.cast, [bits, float64], {"bitcast": True})


def _mean(f: FunctionCompiler, x: Value, y: Value, up: bool) -> Tensor:
    """Half of the sum of two integers, rounded down or up."""
    left, right = promote(f.b, x, y, "libdevice.hadd")
    total = arithmetic.add(f.b, cast(f.b, left, int64), cast(f.b, right, int64))
    total = arithmetic.add(f.b, total, 1) if up else total
    assert isinstance(left.dtype, dtype)
    return cast(f.b, arithmetic.shift(f.b, ">>", total, 1), left.dtype)


def _product_of_24(f: FunctionCompiler, x: Value, y: Value) -> Tensor:
    sides = promote(f.b, x, y, "libdevice.mul24")
    low = [arithmetic.shift(f.b, ">>", arithmetic.shift(f.b, "<<", side, 8), 8) for side in sides]
    return arithmetic.multiply(f.b, *low)


OF_WORDS: dict[str, Callable[[FunctionCompiler, Value, Value], Tensor]] = {
    "hiloint2double": _joined_double, "hadd": partial(_mean, up=False),
    "rhadd": partial(_mean, up=True), "mul24": _product_of_24,
}  # fmt: skip
"""Meanings of functions of two integers."""


def byte_perm(f: FunctionCompiler, x: Value, y: Value, s: Value) -> Value:
    """`libdevice.byte_perm`."""
    words = [cast(f.b, tensor_argument(f, v, "libdevice.byte_perm"), int32) for v in (x, y, s)]
    options = {"dtype": int32, "is_pure": True, "pack": 1}
    text, letters = "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r"
    return f.call(tl.inline_asm_elementwise, [text, letters, tuple(words)], options)


def sum_of_differences(f: FunctionCompiler, x: Value, y: Value, z: Value) -> Tensor:
    """`libdevice.sad`: `|x - y| + z`."""
    left, right = promote(f.b, x, y, "libdevice.sad")
    larger = arithmetic.extreme(f.b, "max", left, right, tl.PropagateNan.NONE)
    smaller = arithmetic.extreme(f.b, "min", left, right, tl.PropagateNan.NONE)
    distance = cast(f.b, arithmetic.subtract(f.b, larger, smaller), uint32)
    third = tensor_argument(f, z, "libdevice.sad")
    assert isinstance(third.dtype, dtype)
    return arithmetic.add(f.b, cast(f.b, distance, third.dtype), third)


# --- floats -------------------------------------------------------------------------------------


def fused(f: FunctionCompiler, x: Value, y: Value, z: Value, way: str) -> Tensor:
    """`libdevice.fma_rd` and its like."""
    left, right = promote(f.b, x, y, "libdevice.fma")
    left, third = promote(f.b, left, z, "libdevice.fma")
    right, third = promote(f.b, right, third, "libdevice.fma")
    left, right, third = conversion.broadcast(f.b, left, right, third)
    assert isinstance(left.dtype, dtype)
    if left.dtype not in (float32, float64):
        raise fail(f.b, TypeMismatch, "`libdevice.fma` is of float32 or float64")
    return mapped(f.b, f"fmaf_{way}", left.dtype, left, right, third)


def length(f: FunctionCompiler, *parts: Value, name: str) -> Tensor:
    """`libdevice.norm3d` and its like: the root of a sum of squares, or its reciprocal."""
    values = conversion.broadcast(
        f.b, *(floating_argument(f, v, f"libdevice.{name}") for v in parts)
    )
    element = values[0].dtype
    assert isinstance(element, dtype)
    largest = absolute(f, values[0])
    for value in values[1:]:
        side = absolute(f, value)
        largest = arithmetic.extreme(f.b, "max", largest, side, tl.PropagateNan.NONE)
    usable = arithmetic.bitwise(
        f.b,
        "&",
        arithmetic.compare(f.b, ">", largest, 0.0),
        arithmetic.compare(f.b, "<", largest, float("inf")),
    )
    one = conversion.fill(f.b, largest.shape, conversion.scalar(f.b, 1, element))
    scale = arithmetic.where(f.b, usable, largest, one)
    total: Tensor | None = None
    for value in values:
        part = arithmetic.divide(f.b, value, scale)
        square = arithmetic.multiply(f.b, part, part)
        total = square if total is None else arithmetic.add(f.b, total, square)
    assert total is not None
    found = arithmetic.multiply(f.b, mapped(f.b, "sqrt_rn", element, total), scale)
    infinite = arithmetic.compare(f.b, "==", largest, float("inf"))
    found = arithmetic.where(f.b, infinite, largest, found)
    return arithmetic.divide(f.b, one, found) if name.startswith("r") else found
