"""The table of scalar functions: what `ew.map` can apply to each element.

A function is one entry: which operand and result types are legal, what it means (NumPy, on the
value representation of `base.numerics`), and its CUDA C++ expression. `{0}`, `{1}`, `{2}` stand
for the operands in C++ texts; the expression has exactly the result's C++ type. Prelude functions
that occur in a text are defined in `scalars.prelude`.

Arithmetic on f16, bf16 and fp8 is done in f32 and rounded to nearest even (fp8 saturates).
Integer arithmetic wraps. Shift counts are taken as unsigned; a count of the width or more gives 0
(the sign, for `shrsi`) in NumPy and is undefined in C++. Division by zero gives -1 and the
remainder the dividend, as NVIDIA hardware does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from tawa.base.numerics import Array, flush, round_to, unsigned_dtype, value_dtype
from tawa.base.types import bf16, bits, f16, f32, f64, i1, i32, i64, is_float, short_name
from tawa.ir.scalars import casts
from tawa.ir.scalars.directed import WAYS as DIRECTED_WAYS
from tawa.ir.scalars.directed import directed
from tawa.ir.scalars.prelude import PRELUDE
from tawa.ir.scalars.scalar_function import (
    ADDPTR,
    FLOATS,
    INTEGERS,
    LOGICAL,
    SELECT,
    WORDS,
    ScalarFunction,
    Signature,
    Types,
    conversion,
    cpp_constant,
    cpp_type,
    uniform,
)
from tawa.ir.scalars.special_functions import BINARY as SPECIAL_BINARY
from tawa.ir.scalars.special_functions import OF_ORDER, UPPER_WORDS
from tawa.ir.scalars.special_functions import UNARY as SPECIAL_UNARY

__all__ = ["FUNCTIONS", "PRELUDE", "ScalarFunction", "cases", "cpp_constant", "cpp_type"]

FUNCTIONS: dict[str, ScalarFunction] = {}
"""Every scalar function by name."""


# --- ways to define entries ---------------------------------------------------------------------


def define(
    name: str,
    signature: Signature,
    numpy: Callable[..., Array],
    text: str | Callable[[Types, Attribute], str],
    *,
    commutative: bool = False,
) -> None:
    """Add an entry; a plain `text` holds for all its types."""
    chosen = _same_for_all(text) if isinstance(text, str) else text
    FUNCTIONS[name] = ScalarFunction(name, signature, numpy, chosen, commutative)


def _same_for_all(text: str) -> Callable[[Types, Attribute], str]:
    return lambda _operands, _result: text


def values_only(function: Callable[..., Any]) -> Callable[..., Array]:
    """A NumPy meaning that needs no types."""

    def numpy(_operands: Types, _result: Attribute, *values: Array) -> Array:
        return function(*values)

    return numpy


def unsigned(function: Callable[..., Any]) -> Callable[..., Array]:
    """Apply `function` to the values seen as unsigned integers."""

    def numpy(operands: Types, result: Attribute, *values: Array) -> Array:
        seen = [
            np.asarray(v).view(unsigned_dtype(t)) for t, v in zip(operands, values, strict=True)
        ]
        return np.asarray(function(*seen)).astype(value_dtype(result), copy=False)

    return numpy


def in_f32(function: Callable[..., Any]) -> Callable[..., Array]:
    """Compute in f32 (f64 for f64 operands) and round the result to its type."""

    def numpy(operands: Types, result: Attribute, *values: Array) -> Array:
        wide = np.float64 if operands[0] == f64 else np.float32
        computed = np.asarray(function(*(np.asarray(v, dtype=wide) for v in values)))
        return computed if computed.dtype == np.bool_ else round_to(computed, result)

    return numpy


def flushing(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """What is computed by instructions that take denormals of f32 for zeros, and give none."""

    def flushed(x: Array) -> Array:
        return flush(np.asarray(function(flush(x))))

    return flushed


def by_width(words: str, small: str) -> Callable[[Types, Attribute], str]:
    """`words` for i32 and i64, `small` for narrower integers.

    `<T>` stands for the result's C++ type, `<U>` for the operands' unsigned counterpart.
    """

    def text(operands: Types, result: Attribute) -> str:
        template = words if operands[0] in WORDS else small
        unsigned_name = "u" + short_name(operands[0])[1:]
        return template.replace("<U>", unsigned_name).replace("<T>", short_name(result))

    return text


def floating(single: str, double: str | None = None) -> Callable[[Types, Attribute], str]:
    """`single` for f32 and, through `to_float`, the smaller types; `double` (or it) for f64."""

    def text(operands: Types, result: Attribute) -> str:
        source = operands[0]
        if source == f64:
            return single if double is None else double
        if source == f32:
            return single
        widened = single
        for index in range(len(operands)):
            widened = widened.replace(f"{{{index}}}", f"to_float({{{index}}})")
        return widened if result == i1 else f"from_float<{short_name(result)}>({widened})"

    return text


def _integer(name: str, numpy: Callable[..., Array], words: str, small: str, **more: bool) -> None:
    define(name, uniform(INTEGERS, 2), numpy, by_width(words, small), **more)


def _float(
    name: str, arity: int, numpy: Callable[..., Any], single: str, double: str | None = None,
    *, commutative: bool = False,
) -> None:  # fmt: skip
    meaning, text = in_f32(numpy), floating(single, double)
    define(name, uniform(FLOATS, arity), meaning, text, commutative=commutative)


# --- integers -----------------------------------------------------------------------------------


def _truncating_division(x: Array, y: Array) -> Array:
    divisor = np.where(y == 0, 1, y).astype(y.dtype)
    quotient = np.floor_divide(x, divisor)
    inexact = (quotient * divisor != x) & ((x < 0) != (divisor < 0))
    return np.where(y == 0, -1, quotient + inexact).astype(x.dtype)


def _truncating_remainder(x: Array, y: Array) -> Array:
    remainder = np.fmod(x, np.where(y == 0, 1, y).astype(y.dtype))
    return np.where(y == 0, x, remainder).astype(x.dtype)


def _unsigned_division(x: Array, y: Array) -> Array:
    quotient = x // np.where(y == 0, 1, y).astype(y.dtype)
    return np.where(y == 0, np.iinfo(x.dtype).max, quotient).astype(x.dtype)


def _shift(function: Callable[..., Any], *, signed: bool) -> Callable[..., Array]:
    def numpy(operands: Types, result: Attribute, value: Array, count: Array) -> Array:
        width = bits(operands[0])
        # Program ids arrive as numbers of Python.
        plain, natural = value_dtype(operands[0]), unsigned_dtype(operands[0])
        moved = np.asarray(value, plain) if signed else np.asarray(value, plain).view(natural)
        number = np.asarray(count, plain).view(natural)
        too_far = number >= width
        inside = np.where(too_far, width - 1, number).astype(moved.dtype)
        shifted = function(moved, inside)
        if not signed:
            shifted = np.where(too_far, 0, shifted).astype(moved.dtype)
        return np.asarray(shifted).astype(value_dtype(result), copy=False)

    return numpy


def _high_half(x: Array, y: Array) -> Array:
    width = x.dtype.itemsize * 8
    product = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    return np.asarray(product >> width).astype(x.dtype)


_integer("addi", values_only(np.add), "add({0}, {1})", "add({0}, {1})", commutative=True)
_integer("subi", values_only(np.subtract), "sub({0}, {1})", "sub({0}, {1})")
_integer("muli", values_only(np.multiply), "mul({0}, {1})", "mul({0}, {1})", commutative=True)
_integer("divsi", values_only(_truncating_division), "{0} / {1}", "<T>({0} / {1})")
_integer("remsi", values_only(_truncating_remainder), "{0} % {1}", "<T>({0} % {1})")
_UDIV, _UREM = "<T>(<U>({0}) / <U>({1}))", "<T>(<U>({0}) % <U>({1}))"
_integer("divui", unsigned(_unsigned_division), _UDIV, _UDIV)
_integer("remui", unsigned(_truncating_remainder), _UREM, _UREM)
for _symbol, _name, _ufunc in (("&", "andi", np.bitwise_and), ("|", "ori", np.bitwise_or),
                               ("^", "xori", np.bitwise_xor)):  # fmt: skip
    _text = by_width("{0} %s {1}" % _symbol, "<T>({0} %s {1})" % _symbol)
    define(_name, uniform(LOGICAL, 2), values_only(_ufunc), _text, commutative=True)
_SHL = "<T>(<U>({0}) << <U>({1}))"
_integer("shli", _shift(np.left_shift, signed=False), _SHL, _SHL)
_integer("shrsi", _shift(np.right_shift, signed=True), "{0} >> {1}", "<T>({0} >> {1})")
_SHR = "<T>(<U>({0}) >> <U>({1}))"
_integer("shrui", _shift(np.right_shift, signed=False), _SHR, _SHR)
for _word, _ufunc, _less in (("min", np.minimum, "<"), ("max", np.maximum, ">")):
    _small = "({0} %s {1} ? {0} : {1})" % _less
    _integer(f"{_word}si", values_only(_ufunc), f"{_word}({{0}}, {{1}})", _small, commutative=True)
    _small = "(<U>({0}) %s <U>({1}) ? {0} : {1})" % _less
    _words = f"<T>({_word}(<U>({{0}}), <U>({{1}})))"
    _integer(f"{_word}ui", unsigned(_ufunc), _words, _small, commutative=True)
define("absi", uniform(INTEGERS, 1), values_only(np.abs),
       by_width("({0} < 0 ? sub(<T>(0), {0}) : {0})", "<T>({0} < 0 ? -{0} : {0})"))  # fmt: skip
define("mulhui", uniform(WORDS, 2), unsigned(_high_half),
       lambda o, _r: "i32(__umulhi({0}, {1}))" if o[0] == i32 else "i64(__umul64hi({0}, {1}))",
       commutative=True)  # fmt: skip


def _quotient(_operands: Types, _result: Attribute, number: Array, by: Array) -> Array:
    seen = np.asarray(number).astype(object) & 0xFFFFFFFF
    product = seen * (np.asarray(by).astype(object) & 0xFFFFFFFFFFFFFFFF)
    return np.asarray(product >> 62 & 0xFFFFFFFF).astype(np.uint32).astype(np.int32)


def _quotient_rule(operands: Types, _: Attribute | None) -> Attribute:
    if tuple(operands) != (i32, i64):
        raise ValueError(f"(i32, i64) expected, found ({', '.join(map(str, operands))})")
    return i32


define("quotient", Signature(2, _quotient_rule, (((i32, i64), i32),)), _quotient,
       "i32(__umul64hi(u64(u32({0})) << 2, u64({1})))")  # fmt: skip


def _bit_count(x: Array) -> Array:
    return np.bitwise_count(x).astype(np.int32)


define("popcount", uniform(WORDS, 1, i32), unsigned(_bit_count),
       lambda o, _r: "__popc(u32({0}))" if o[0] == i32 else "__popcll(u64({0}))")  # fmt: skip


def _bits_of(x: Array) -> Array:
    """The bits of unsigned words along a new last dimension, the lowest first."""
    places = np.arange(x.dtype.itemsize * 8, dtype=x.dtype)
    return np.asarray((x[..., None] >> places) & 1)


def _leading_zeros(x: Array) -> Array:
    found = _bits_of(x)[..., ::-1]
    return np.where(x == 0, x.dtype.itemsize * 8, found.argmax(-1))


def _first_set(x: Array) -> Array:
    return np.where(x == 0, 0, _bits_of(x).argmax(-1) + 1)


def _reversed_bits(x: Array) -> Array:
    found = _bits_of(x)[..., ::-1]
    return (found << np.arange(found.shape[-1], dtype=x.dtype)).sum(-1, dtype=x.dtype)


for _name, _function in (("clz", _leading_zeros), ("ffs", _first_set)):
    define(_name, uniform(WORDS, 1, i32), unsigned(_function),
           lambda o, _r, n=_name: f"__{n}{'' if o[0] == i32 else 'll'}({{0}})")  # fmt: skip
define("brev", uniform(WORDS, 1), unsigned(_reversed_bits),
       lambda o, _r: "i32(__brev({0}))" if o[0] == i32 else "i64(__brevll({0}))")  # fmt: skip

# --- floats -------------------------------------------------------------------------------------


def _signed_zero_aware(pick: Callable[..., Array], largest: bool) -> Callable[..., Array]:
    """Make an extreme of two zeros the positive one for max, the negative one for min."""

    def extreme(x: Array, y: Array) -> Array:
        zeros = (x == 0) & (y == 0)
        zero = x + y if largest else -((-x) + (-y))
        return np.where(zeros, zero, pick(x, y))

    return extreme


_erf = np.frompyfunc(math.erf, 1, 1)


def _reciprocal_root(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _round_half_away(x: Array) -> Array:
    # The largest number below one half: adding a half itself could round up to the next integer.
    return np.trunc(x + np.copysign(np.nextafter(x.dtype.type(0.5), 0), x))


def _erf_array(x: Array) -> Array:
    return np.asarray(_erf(x.astype(np.float64))).astype(np.float64)


def _fma(x: Array, y: Array, z: Array) -> Array:
    if x.dtype == np.float64:
        return x * y + z
    return (x.astype(np.float64) * y + z).astype(np.float32)


def _of_halves(word: str, symbol: str) -> Callable[[Types, Attribute], str]:
    """An instruction for f16 and bf16, an operator for the rest.

    f32 has more than twice their digits, so rounding there first changes no sum and no product:
    the instruction computes what in_f32 says.
    """
    others = floating("{0} %s {1}" % symbol)

    def text(operands: Types, result: Attribute) -> str:
        narrow = operands[0] in (f16, bf16)
        return f"narrow_{word}({{0}}, {{1}})" if narrow else others(operands, result)

    return text


for _word, _symbol, _ufunc in (("add", "+", np.add), ("sub", "-", np.subtract),
                               ("mul", "*", np.multiply)):  # fmt: skip
    define(f"{_word}f", uniform(FLOATS, 2), in_f32(_ufunc), _of_halves(_word, _symbol),
           commutative=_word != "sub")  # fmt: skip
_float("divf", 2, np.divide, "div_full({0}, {1})", "{0} / {1}")
_float("recip", 1, flushing(np.reciprocal), "rcp_approx({0})", "1.0 / {0}")
_float("divf_rn", 2, np.divide, "__fdiv_rn({0}, {1})", "__ddiv_rn({0}, {1})")
# The assembler fuses no sum with a product of these.
for _word, _ufunc in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
    _texts = (f"__{_type}{_word}_rn({{0}}, {{1}})" for _type in "fd")
    _float(f"{_word}f_rn", 2, _ufunc, *_texts, commutative=_word != "sub")
_float("remf", 2, np.fmod, "fmodf({0}, {1})", "fmod({0}, {1})")
_float("negf", 1, np.negative, "-{0}")
_float("absf", 1, np.abs, "fabsf({0})", "fabs({0})")
_float("maxnumf", 2, _signed_zero_aware(np.fmax, True), "fmaxf({0}, {1})", "fmax({0}, {1})",
       commutative=True)  # fmt: skip
_float("minnumf", 2, _signed_zero_aware(np.fmin, False), "fminf({0}, {1})", "fmin({0}, {1})",
       commutative=True)  # fmt: skip
_float("maximumf", 2, _signed_zero_aware(np.maximum, True), "max_nan({0}, {1})", commutative=True)
_float("minimumf", 2, _signed_zero_aware(np.minimum, False), "min_nan({0}, {1})", commutative=True)
_float("fma", 3, _fma, "fmaf({0}, {1}, {2})", "fma({0}, {1}, {2})")
_float("exp", 1, flushing(np.exp), "exp_approx({0})", "exp({0})")
_float("exp2", 1, flushing(np.exp2), "ex2_approx({0})", "exp2({0})")
_float("exp_gradual", 1, np.exp, "exp_gradual({0})", "exp({0})")
_float("exp2_gradual", 1, np.exp2, "ex2_gradual({0})", "exp2({0})")
_float("sqrt", 1, np.sqrt, "sqrt_approx({0})", "sqrt({0})")
_float("sqrt_rn", 1, np.sqrt, "__fsqrt_rn({0})", "__dsqrt_rn({0})")
_float("rsqrt", 1, _reciprocal_root, "rsqrt_approx({0})", "rsqrt({0})")
_float("sigmoid", 1, flushing(_sigmoid), "sigmoid({0})")
_float("tanh_approx", 1, np.tanh, "tanh_approx({0})", "tanh({0})")
_float("erf", 1, _erf_array, "erff({0})", "erf({0})")

_LIBM: Mapping[str, Callable[..., Any]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "cbrt": np.cbrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "round": _round_half_away,
}  # fmt: skip
for _name, _function in _LIBM.items():
    _float(_name, 1, _function, f"{_name}f({{0}})", f"{_name}({{0}})")
for _name, _libm, _function in (("pow", "pow", np.power), ("atan2", "atan2", np.arctan2),
                                ("hypot", "hypot", np.hypot),
                                ("copysign", "copysign", np.copysign)):  # fmt: skip
    _float(_name, 2, _function, f"{_libm}f({{0}}, {{1}})", f"{_libm}({{0}}, {{1}})")


def _power_rule(operands: Types, _: Attribute | None) -> Attribute:
    if operands[0] not in (f32, f64) or operands[1] != i32:
        raise ValueError(f"(f32 or f64, i32) expected, found ({', '.join(map(str, operands))})")
    return operands[0]


_WITH_INTEGER = Signature(2, _power_rule, (((f32, i32), f32), ((f64, i32), f64)))
define("ldexp", _WITH_INTEGER, values_only(np.ldexp),
       floating("ldexpf({0}, {1})", "ldexp({0}, {1})"))  # fmt: skip
for _name, _function in OF_ORDER.items():
    define(_name, _WITH_INTEGER, values_only(_function),
           floating(f"{_name}f({{1}}, {{0}})", f"{_name}({{1}}, {{0}})"))  # fmt: skip
for _name, _function in UPPER_WORDS.items():
    define(_name, uniform((f64,), 1), values_only(_function), f"{_name}({{0}})")
for _way in DIRECTED_WAYS:
    for _word, _arity in {"add": 2, "sub": 2, "mul": 2, "div": 2, "rcp": 1, "sqrt": 1,
                          "fma": 3}.items():  # fmt: skip
        _operands = ", ".join(f"{{{_i}}}" for _i in range(_arity))
        _names = ("fmaf", "fma") if _word == "fma" else (f"f{_word}", f"d{_word}")
        _ways = (f"__{_name}_{_way}({_operands})" for _name in _names)
        define(f"{_word}f_{_way}", uniform((f32, f64), _arity),
               values_only(directed(_word, _way)), floating(*_ways))  # fmt: skip
for _table in (SPECIAL_UNARY, SPECIAL_BINARY):
    for _name, _function in _table.items():
        define(_name, uniform((f32, f64), 1 + (_table is SPECIAL_BINARY)), in_f32(_function),
               floating(*(f"{_name}{_s}({'{0}, {1}' if _table is SPECIAL_BINARY else '{0}'})"
                          for _s in ("f", ""))))  # fmt: skip

# --- comparisons and selection ------------------------------------------------------------------

_ORDERS: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "lt": ("<", np.less), "le": ("<=", np.less_equal),
    "gt": (">", np.greater), "ge": (">=", np.greater_equal),
}  # fmt: skip
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}

for _name, _symbol, _ufunc in (("eq", "==", np.equal), ("ne", "!=", np.not_equal)):
    define(f"cmpi_{_name}", uniform((*LOGICAL,), 2, i1), values_only(_ufunc),
           "{0} %s {1}" % _symbol, commutative=True)  # fmt: skip
for _name, (_symbol, _ufunc) in _ORDERS.items():
    define(f"cmpi_s{_name}", uniform(INTEGERS, 2, i1), values_only(_ufunc), "{0} %s {1}" % _symbol)
    define(f"cmpi_u{_name}", uniform(INTEGERS, 2, i1), unsigned(_ufunc),
           by_width(*("<U>({0}) %s <U>({1})" % _symbol,) * 2))  # fmt: skip


def _compare(name: str, numpy: Callable[..., Any], text: str, *, commutative: bool = False) -> None:
    define(f"cmpf_{name}", uniform(FLOATS, 2, i1), in_f32(numpy), floating(text),
           commutative=commutative)  # fmt: skip


def _unordered(x: Array, y: Array) -> Array:
    return np.isnan(x) | np.isnan(y)


def _ordered_not_equal(x: Array, y: Array) -> Array:
    return (x != y) & ~_unordered(x, y)


def _not(function: Callable[..., Any]) -> Callable[..., Array]:
    def opposite(x: Array, y: Array) -> Array:
        return ~np.asarray(function(x, y))

    return opposite


_compare("oeq", np.equal, "{0} == {1}", commutative=True)
_compare("une", np.not_equal, "{0} != {1}", commutative=True)
_compare("one", _ordered_not_equal, "({0} < {1} || {0} > {1})", commutative=True)
_compare("ueq", _not(_ordered_not_equal), "!({0} < {1} || {0} > {1})", commutative=True)
_compare("ord", _not(_unordered), "({0} == {0} && {1} == {1})", commutative=True)
_compare("uno", _unordered, "({0} != {0} || {1} != {1})", commutative=True)
for _name, (_symbol, _ufunc) in _ORDERS.items():
    _opposite_symbol, _opposite = _ORDERS[_NEGATED[_name]]
    _compare(f"o{_name}", _ufunc, "{0} %s {1}" % _symbol)
    _compare(f"u{_name}", _not(_opposite), "!({0} %s {1})" % _opposite_symbol)

define("select", SELECT, values_only(np.where), "({0} ? {1} : {2})")

_INT_TO_FLOAT = conversion(lambda s, t: s in INTEGERS and is_float(t), "an integer to a float")
_UINT_TO_FLOAT = conversion(lambda s, t: s in LOGICAL and is_float(t), "an integer to a float")
_FLOAT_TO_INT = conversion(lambda s, t: is_float(s) and t in INTEGERS, "a float to i8 i16 i32 i64")
_EXTEND = conversion(casts.extends, "an integer to a wider one")
_TRUNCATE = conversion(lambda s, t: casts.extends(t, s), "an integer to a narrower one")
_WIDEN = conversion(casts.widens, "a float to a wider one")
_NARROW = conversion(casts.narrows, "a float to one that is not wider")
_BITS = conversion(casts.same_bits, "types of equal width")

define("extf", _WIDEN, casts.convert_float, casts.convert_float_text)
define("truncf", _NARROW, casts.convert_float, casts.convert_float_text)
define("extsi", _EXTEND, casts.extend_signed, casts.extend_signed_text)
define("extui", _EXTEND, casts.extend_unsigned, casts.extend_unsigned_text)
define("trunci", _TRUNCATE, casts.truncate, casts.convert_int_text)
define("sitofp", _INT_TO_FLOAT, casts.int_to_float(False), casts.int_to_float_text(False))
define("uitofp", _UINT_TO_FLOAT, casts.int_to_float(True), casts.int_to_float_text(True))
define("fptosi", _FLOAT_TO_INT, casts.float_to_int(False), casts.float_to_int_text(False))
define("fptoui", _FLOAT_TO_INT, casts.float_to_int(True), casts.float_to_int_text(True))
define("bitcast", _BITS, casts.bitcast, casts.bitcast_text)
define("addptr", ADDPTR, casts.addptr, "{0} + {1}")


def cases() -> Iterator[tuple[ScalarFunction, tuple[Attribute, ...], Attribute]]:
    """Every function with every legal combination of element types."""
    for function in FUNCTIONS.values():
        for operands, result in function.signature.samples:
            yield function, operands, result
