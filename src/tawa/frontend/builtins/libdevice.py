"""Meanings of libdevice's functions: most are a function of `scalars.table`, some a few ops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tawa import language as tl
from tawa.frontend.builtins.conversions import (
    CONVERSIONS,
    OF_WORDS,
    byte_perm,
    fused,
    length,
    sum_of_differences,
)
from tawa.frontend.builtins.math import absolute, floating_argument, fma, umulhi
from tawa.frontend.builtins.shapes import tensor_argument
from tawa.frontend.source.errors import TypeMismatch
from tawa.frontend.source.registry import lowers
from tawa.frontend.syntax.calls import FunctionCompiler
from tawa.frontend.values import arithmetic, conversion
from tawa.frontend.values.arithmetic import promote
from tawa.frontend.values.conversion import fail, mapped
from tawa.frontend.values.values import Tensor, Value
from tawa.ir.scalars.directed import WAYS
from tawa.language import libdevice
from tawa.language.dtypes import (
    dtype,
    float32,
    float64,
    int1,
    int32,
    int64,
    uint32,
)

OTHER_NAMES = {
    "nearbyint": "rint", "fabs": "absf", "fast_sinf": "sin", "fast_cosf": "cos",
    "fast_expf": "exp", "fast_logf": "log", "fast_tanhf": "tanh_approx", "fast_tanf": "tan",
    "fast_log2f": "log2", "fast_log10f": "log10", "fast_exp10f": "exp10", "div_rn": "divf_rn",
    "fast_dividef": "divf", "fdiv": "divf", "fmax": "maxnumf", "fmin": "minnumf", "fmod": "remf",
    "mul_rn": "mulf_rn", "add_rn": "addf_rn", "sub_rn": "subf_rn", "fast_powf": "pow",
}  # fmt: skip
"""Scalar functions that have another name than libdevice's."""

BITS = {
    "float_as_int": int32, "int_as_float": float32, "float_as_uint": uint32,
    "uint_as_float": float32, "double_as_longlong": int64, "longlong_as_double": float64,
}  # fmt: skip
"""The types of functions that keep the bits."""


def _of_words(function: str) -> Callable[[FunctionCompiler, Value], Tensor]:
    def lowering(f: FunctionCompiler, x: Value) -> Tensor:
        value = tensor_argument(f, x, f"libdevice.{function}")
        return mapped(f.b, function, int32, value)

    return lowering


def brev(f: FunctionCompiler, x: Value) -> Tensor:
    """`libdevice.brev`: the bits in the opposite order."""
    value = tensor_argument(f, x, "libdevice.brev")
    assert isinstance(value.dtype, dtype)
    return mapped(f.b, "brev", value.dtype, value)


def isnan(f: FunctionCompiler, x: Value) -> Tensor:
    """`libdevice.isnan`."""
    value = tensor_argument(f, x, "libdevice.isnan")
    return mapped(f.b, "cmpf_uno", int1, value, value)


def isinf(f: FunctionCompiler, x: Value) -> Tensor:
    """`libdevice.isinf`."""
    return arithmetic.compare(f.b, "==", absolute(f, x), float("inf"))


def is_finite(f: FunctionCompiler, x: Value) -> Tensor:
    """`libdevice.finitef` and `libdevice.isfinited`."""
    return arithmetic.compare(f.b, "<", absolute(f, x), float("inf"))


def signbit(f: FunctionCompiler, x: Value) -> Tensor:
    """`libdevice.signbit`: 1 of what is negative, -0 included."""
    value = floating_argument(f, x, "libdevice.signbit")
    word = int32 if value.dtype == float32 else int64
    bits = f.call(tl.cast, [value, word], {"bitcast": True})
    return conversion.cast(f.b, arithmetic.compare(f.b, "<", bits, 0), int32)


def _rounded(function: str, target: dtype) -> Callable[[FunctionCompiler, Value], Tensor]:
    def lowering(f: FunctionCompiler, x: Value) -> Tensor:
        value = floating_argument(f, x, f"libdevice.{function}")
        assert isinstance(value.dtype, dtype)
        return conversion.cast(f.b, mapped(f.b, function, value.dtype, value), target)

    return lowering


def saturatef(f: FunctionCompiler, x: Value) -> Tensor:
    """`libdevice.saturatef`: limited to 0 and 1, a NaN becomes 0."""
    low = arithmetic.extreme(f.b, "max", x, 0.0, tl.PropagateNan.NONE)
    return arithmetic.extreme(f.b, "min", low, 1.0, tl.PropagateNan.NONE)


def _reciprocal(f: FunctionCompiler, x: Value, of_root: bool) -> Tensor:
    value = floating_argument(f, x, "libdevice.rsqrt_rn" if of_root else "libdevice.rcp_rn")
    assert isinstance(value.dtype, dtype)
    below = mapped(f.b, "sqrt_rn", value.dtype, value) if of_root else value
    one, below = promote(f.b, 1.0, below, "libdevice.rcp_rn")
    return mapped(f.b, "divf_rn", value.dtype, one, below)


def near_reciprocal(f: FunctionCompiler, x: Value) -> Tensor:
    """`libdevice.rcp64h`: nearly the reciprocal of a float64, of the upper words of both."""
    value = tensor_argument(f, x, "libdevice.rcp64h")
    if value.dtype != float64:
        message = "`libdevice.rcp64h` is defined for float64"
        raise fail(f.b, TypeMismatch, message, found=value.describe())
    return mapped(f.b, "rcp64h", float64, value)


def _with_bits(target: dtype) -> Callable[[FunctionCompiler, Value], Value]:
    def lowering(f: FunctionCompiler, x: Value) -> Value:
        return f.call(tl.cast, [x, target], {"bitcast": True})

    return lowering


SPECIAL: dict[str, Callable[[FunctionCompiler, Value], Value]] = {
    "abs": absolute, "popc": _of_words("popcount"), "clz": _of_words("clz"),
    "ffs": _of_words("ffs"), "brev": brev, "isnan": isnan, "isinf": isinf, "finitef": is_finite,
    "isfinited": is_finite, "signbit": signbit, "llrint": _rounded("rint", int64),
    "llround": _rounded("round", int64), "ilogb": _rounded("logb", int32),
    "saturatef": saturatef, "rcp_rn": lambda f, x: _reciprocal(f, x, False),
    "rsqrt_rn": lambda f, x: _reciprocal(f, x, True), "rcp64h": near_reciprocal,
    **{name: _with_bits(target) for name, target in BITS.items()}, **CONVERSIONS,
}  # fmt: skip
"""Functions of one operand that are more than one scalar function of floats."""


OF_THREE: dict[str, Callable[..., Value]] = {
    **{f"fma_{way}": partial(fused, way=way) for way in WAYS},
    "byte_perm": byte_perm, "sad": sum_of_differences,
    "norm3d": partial(length, name="norm3d"), "rnorm3d": partial(length, name="rnorm3d"),
}  # fmt: skip
"""Functions of three operands besides products and sums that round to the nearest."""


def scaled_by_power(f: FunctionCompiler, x: Value, power: Value) -> Tensor:
    """`libdevice.ldexp` and `libdevice.scalbn`: `x * 2**power`, of an int32 power."""
    return _with_integer(f, "ldexp", x, power)


def _of_order(f: FunctionCompiler, order: Value, x: Value, *, name: str) -> Tensor:
    """`libdevice.jn` and `libdevice.yn`: Bessel's functions of an int32 order."""
    return _with_integer(f, name, x, order)


def _with_integer(f: FunctionCompiler, name: str, x: Value, integer: Value) -> Tensor:
    value = floating_argument(f, x, f"libdevice.{name}")
    whole = conversion.cast(f.b, tensor_argument(f, integer, f"libdevice.{name}"), int32)
    value, whole = conversion.broadcast(f.b, value, whole)
    assert isinstance(value.dtype, dtype)
    return mapped(f.b, name, value.dtype, value, whole)


def _scalar_function(name: str) -> str:
    """The scalar function of a name; `addf_rd` of `add_rd`."""
    operation, _, way = name.partition("_")
    if way in WAYS and operation in ("add", "sub", "mul", "div", "rcp", "sqrt", "fma"):
        return f"{operation}f_{way}"
    return OTHER_NAMES.get(name, name)


def _unary(name: str) -> Callable[[FunctionCompiler, Value], Value]:
    def unary(f: FunctionCompiler, arg0: Value) -> Value:
        if name in SPECIAL:
            return SPECIAL[name](f, arg0)
        operand = floating_argument(f, arg0, f"libdevice.{name}")
        assert isinstance(operand.dtype, dtype)
        return mapped(f.b, _scalar_function(name), operand.dtype, operand)

    return unary


OF_TWO: dict[str, Callable[[FunctionCompiler, Value, Value], Tensor]] = {
    "mulhi": umulhi, "ldexp": scaled_by_power, "scalbn": scaled_by_power, **OF_WORDS,
    **{name: partial(_of_order, name=name) for name in ("jn", "yn")},
}  # fmt: skip
"""Functions of two operands that are more than one scalar function of floats."""


def _binary(name: str) -> Callable[[FunctionCompiler, Value, Value], Tensor]:
    def binary(f: FunctionCompiler, arg0: Value, arg1: Value) -> Tensor:
        if name in OF_TWO:
            return OF_TWO[name](f, arg0, arg1)
        left, right = promote(f.b, arg0, arg1, f"libdevice.{name}")
        floating_argument(f, left, f"libdevice.{name}")
        assert isinstance(left.dtype, dtype)
        return mapped(f.b, _scalar_function(name), left.dtype, left, right)

    return binary


def _of_several(meaning: Callable[..., Value]) -> Callable[..., Value]:
    def several(f: FunctionCompiler, **arguments: Value) -> Value:
        return meaning(f, *arguments.values())

    return several


def _register() -> None:
    for name, builtin in libdevice.UNARY.items():
        lowers(builtin)(_unary(name))
    for name, builtin in libdevice.BINARY.items():
        lowers(builtin)(_binary(name))
    for name, builtin in libdevice.TERNARY.items():
        lowers(builtin)(_of_several(OF_THREE.get(name, fma)))
    for name, builtin in libdevice.QUATERNARY.items():
        lowers(builtin)(_of_several(partial(length, name=name)))


_register()
