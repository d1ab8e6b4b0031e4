"""Functions of NVIDIA's libdevice under the names that `triton.language.extra.libdevice` has."""

from __future__ import annotations

from tawa.language.builtin import Builtin, builtin

_UNARY = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "erf",
    "exp", "exp2", "expm1", "floor", "log", "log10", "log1p", "log2", "rint", "round", "rsqrt",
    "sin", "sinh", "sqrt", "sqrt_rn", "tan", "tanh", "trunc", "nearbyint", "fabs", "abs", "popc",
    "isnan", "isinf", "fast_sinf", "fast_cosf", "fast_expf", "fast_logf", "fast_tanhf",
    "fast_tanf", "fast_log2f", "fast_log10f", "fast_exp10f", "erfc", "erfinv", "lgamma", "tgamma",
    "normcdf", "sinpi", "cospi", "exp10", "rcbrt", "j0", "j1", "cyl_bessel_i0", "cyl_bessel_i1",
    "logb", "ilogb", "signbit", "finitef", "isfinited", "llrint", "llround", "saturatef", "rcp_rn",
    "rsqrt_rn", "clz", "ffs", "brev", "float_as_int", "int_as_float", "float_as_uint",
    "uint_as_float", "double_as_longlong", "longlong_as_double",
)  # fmt: skip
_BINARY = (
    "atan2",
    "copysign",
    "div_rn",
    "fast_dividef",
    "fdiv",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "mul_rn",
    "add_rn",
    "sub_rn",
    "pow",
    "mulhi",
    "nextafter",
    "remainder",
    "fdim",
    "rhypot",
    "fast_powf",
    "ldexp",
    "scalbn",
)
_TERNARY = ("fma", "fma_rn")  # fmt: skip

_WAYS = ("rd", "rn", "ru", "rz")
_INTEGERS = ("int", "uint", "ll", "ull")
_TO_INTEGERS = tuple(
    f"{source}2{target}_{way}"
    for source in ("float", "double") for target in _INTEGERS for way in _WAYS
)  # fmt: skip
_TO_FLOATS = tuple(
    f"{source}2{target}_{way}"
    for source, target in (
        *((integer, "float") for integer in _INTEGERS), ("ll", "double"), ("ull", "double"),
        ("double", "float"),
    )
    for way in _WAYS
)  # fmt: skip
_MORE_UNARY = (
    "int2double_rn", "uint2double_rn", "double2hiint", "double2loint", "y0", "y1", "erfcx",
    "erfcinv", "normcdfinv", "rcp64h",
    *(f"{name}_{way}" for name in ("rcp", "sqrt") for way in ("rd", "ru", "rz")),
)  # fmt: skip
_MORE_BINARY = (
    "hiloint2double", "hadd", "rhadd", "mul24", "jn", "yn",
    *(f"{name}_{way}" for name in ("add", "sub", "mul", "div") for way in ("rd", "ru", "rz")),
)  # fmt: skip
_MORE_TERNARY = ("fma_rd", "fma_ru", "fma_rz", "byte_perm", "sad", "norm3d", "rnorm3d")
_QUATERNARY = ("norm4d", "rnorm4d")


def _unary(name: str) -> Builtin:
    def function(arg0: object) -> object:
        del arg0
        return None

    function.__name__ = f"libdevice.{name}"
    function.__doc__ = f"libdevice's `{name}`."
    return builtin(function)  # type: ignore[return-value]  # `builtin` keeps the static type


def _binary(name: str) -> Builtin:
    def function(arg0: object, arg1: object) -> object:
        del arg0, arg1
        return None

    function.__name__ = f"libdevice.{name}"
    function.__doc__ = f"libdevice's `{name}`."
    return builtin(function)  # type: ignore[return-value]  # `builtin` keeps the static type


def _ternary(name: str) -> Builtin:
    def function(arg0: object, arg1: object, arg2: object) -> object:
        del arg0, arg1, arg2
        return None

    function.__name__ = f"libdevice.{name}"
    function.__doc__ = f"libdevice's `{name}`."
    return builtin(function)  # type: ignore[return-value]  # `builtin` keeps the static type


def _quaternary(name: str) -> Builtin:
    def function(arg0: object, arg1: object, arg2: object, arg3: object) -> object:
        del arg0, arg1, arg2, arg3
        return None

    function.__name__ = f"libdevice.{name}"
    function.__doc__ = f"libdevice's `{name}`."
    return builtin(function)  # type: ignore[return-value]  # `builtin` keeps the static type


UNARY: dict[str, Builtin] = {
    name: _unary(name) for name in (*_UNARY, *_TO_INTEGERS, *_TO_FLOATS, *_MORE_UNARY)
}
BINARY: dict[str, Builtin] = {name: _binary(name) for name in (*_BINARY, *_MORE_BINARY)}
TERNARY: dict[str, Builtin] = {name: _ternary(name) for name in (*_TERNARY, *_MORE_TERNARY)}
QUATERNARY: dict[str, Builtin] = {name: _quaternary(name) for name in _QUATERNARY}

globals().update(UNARY)
globals().update(QUATERNARY)
globals().update(BINARY)
globals().update(TERNARY)
