"""CUDA C++ definitions that generated kernels rely on, printed only when a kernel needs them.

NVRTC compiles without any header, so the element types and the conversions that CUDA's own
headers would give are defined here with inline PTX. Each entry of `PRELUDE` has a name; `prelude`
finds which names occur in a program text and prints their definitions, dependencies first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ELEMENT_TYPES = """\
using i1 = bool;
using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct e4m3 { u8 bits; };
struct e5m2 { u8 bits; };
"""
"""The C++ element types, named as in `base.types.NAMES`; every program starts with them."""

_TO_FLOAT = """\
__device__ __forceinline__ f32 to_float(f32 x) { return x; }
__device__ __forceinline__ f32 to_float(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ f32 to_float(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }
__device__ __forceinline__ f32 to_float(e4m3 x) {
  f32 y;
  asm("{.reg .b32 t; .reg .b16 l, h; cvt.rn.f16x2.e4m3x2 t, %1; mov.b32 {l, h}, t; "
      "cvt.f32.f16 %0, l;}" : "=f"(y) : "h"(u16(x.bits)));
  return y;
}
__device__ __forceinline__ f32 to_float(e5m2 x) {
  f32 y;
  asm("{.reg .b16 t; shl.b16 t, %1, 8; cvt.f32.f16 %0, t;}" : "=f"(y) : "h"(u16(x.bits)));
  return y;
}
"""

_FROM_FLOAT = """\
template <class T> __device__ T from_float(f32 x);
template <> __device__ __forceinline__ f32 from_float<f32>(f32 x) { return x; }
template <> __device__ __forceinline__ f16 from_float<f16>(f32 x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
template <> __device__ __forceinline__ bf16 from_float<bf16>(f32 x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
template <> __device__ __forceinline__ e4m3 from_float<e4m3>(f32 x) {
  u16 y;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
  return e4m3{u8(y)};
}
template <> __device__ __forceinline__ e5m2 from_float<e5m2>(f32 x) {
  u16 y;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(y) : "f"(0.0f), "f"(x));
  return e5m2{u8(y)};
}
"""

_FROM_DOUBLE = """\
__device__ __forceinline__ f32 round_to_odd(f64 x) {
  f32 y = __double2float_rn(x);
  if (f64(y) == x || y != y || (__float_as_uint(y) & 1)) return y;
  f32 down = __double2float_rd(x), up = __double2float_ru(x);
  return (__float_as_uint(down) & 1) ? down : up;
}
template <class T> __device__ __forceinline__ T from_double(f64 x) {
  return from_float<T>(round_to_odd(x));
}
"""

_BIT_CAST = """\
template <class To, class From> __device__ __forceinline__ To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the width");
  union { From from; To to; } both;
  both.from = x;
  return both.to;
}
"""


def _f16_from_int() -> str:
    """A conversion for each width: from 64 bits it takes four times as long."""
    return "".join(
        f"__device__ __forceinline__ f16 f16_from_int({t} x) {{\n"
        f'  f16 y;\n  asm("cvt.rn.f16.{ptx} %0, %1;" : "=h"(y.bits) : "{register}"(x));\n'
        f"  return y;\n}}\n"
        for t, ptx, register in (
            ("i32", "s32", "r"), ("u32", "u32", "r"), ("i64", "s64", "l"), ("u64", "u64", "l")
        )
    )  # fmt: skip


def _wrapping(name: str, symbol: str) -> str:
    pairs = (("i8", "u8"), ("i16", "u16"), ("i32", "u32"), ("i64", "u64"))
    return "".join(
        f"__device__ __forceinline__ {s} {name}({s} x, {s} y) "
        f"{{ return {s}({u}(x) {symbol} {u}(y)); }}\n"
        for s, u in pairs
    )


def _approx(name: str, instruction: str) -> str:
    return (
        f"__device__ __forceinline__ f32 {name}(f32 x) {{\n"
        f'  f32 y;\n  asm("{instruction} %0, %1;" : "=f"(y) : "f"(x));\n  return y;\n}}\n'
    )


def _binary(name: str, instruction: str) -> str:
    return (
        f"__device__ __forceinline__ f32 {name}(f32 x, f32 y) {{\n"
        f'  f32 z;\n  asm("{instruction} %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));\n'
        f"  return z;\n}}\n"
    )


def _narrow(name: str, instruction: str) -> str:
    """A function of f16 and bf16; `.rn` keeps the assembler from fusing it with another."""
    return "".join(
        f"__device__ __forceinline__ {t} {name}({t} x, {t} y) {{\n"
        f'  {t} z;\n  asm("{instruction}.rn.{t} %0, %1, %2;"'
        f' : "=h"(z.bits) : "h"(x.bits), "h"(y.bits));\n  return z;\n}}\n'
        for t in ("f16", "bf16")
    )


_NAN_EXTREMES = "".join(
    f"__device__ __forceinline__ f64 {name}(f64 x, f64 y) "
    f"{{ return x != x ? x : y != y ? y : {libm}(x, y); }}\n"
    for name, libm in (("max_nan", "fmax"), ("min_nan", "fmin"))
)

PRELUDE: dict[str, str] = {
    "to_float": _TO_FLOAT,
    "from_float": _FROM_FLOAT,
    "from_double": _FROM_DOUBLE,
    "f16_from_int": _f16_from_int(),
    "bit_cast": _BIT_CAST,
    # Signed overflow is undefined in C++ but wraps in the language, hence these three.
    "add": _wrapping("add", "+"),
    "sub": _wrapping("sub", "-"),
    "mul": _wrapping("mul", "*"),
    "max_nan": _binary("max_nan", "max.NaN.f32")
    + _binary("min_nan", "min.NaN.f32")
    + _NAN_EXTREMES,
    "min_nan": "",
    # A byte as the last of a float's significand; conversions of integers take eight times longer.
    "byte_to_float": """\
__device__ __forceinline__ f32 byte_to_float(i8 x) {
  return __uint_as_float(0x4b000080u ^ u8(x)) - 8388736.0f;
}
""",
    "unsigned_byte_to_float": """\
__device__ __forceinline__ f32 unsigned_byte_to_float(i8 x) {
  return __uint_as_float(0x4b000000u ^ u8(x)) - 8388608.0f;
}
""",
    "narrow_add": _narrow("narrow_add", "add"),
    "narrow_sub": _narrow("narrow_sub", "sub"),
    "narrow_mul": _narrow("narrow_mul", "mul"),
    "div_full": _binary("div_full", "div.full.f32"),
    "rcp_approx": _approx("rcp_approx", "rcp.approx.ftz.f32"),
    "ex2_approx": _approx("ex2_approx", "ex2.approx.ftz.f32"),
    "ex2_gradual": _approx("ex2_gradual", "ex2.approx.f32"),
    "sqrt_approx": _approx("sqrt_approx", "sqrt.approx.f32"),
    "rsqrt_approx": _approx("rsqrt_approx", "rsqrt.approx.f32"),
    "rcp64h": """\
__device__ __forceinline__ f64 rcp64h(f64 x) {
  f64 y;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
  return y;
}
""",
    "tanh_approx": _approx("tanh_approx", "tanh.approx.f32"),
    "exp_approx": """\
__device__ __forceinline__ f32 exp_approx(f32 x) { return ex2_approx(x * 1.4426950408889634f); }
""",
    "exp_gradual": """\
__device__ __forceinline__ f32 exp_gradual(f32 x) { return ex2_gradual(x * 1.4426950408889634f); }
""",
    "sigmoid": """\
__device__ __forceinline__ f32 sigmoid(f32 x) { return rcp_approx(1.0f + exp_approx(-x)); }
__device__ __forceinline__ f64 sigmoid(f64 x) { return 1.0 / (1.0 + exp(-x)); }
""",
}
"""Name of each prelude function -> its definitions (all overloads)."""

PRELUDE["min_nan"] = PRELUDE["max_nan"]

_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*\b(?=\s*[(<])")


def prelude(texts: Iterable[str]) -> str:
    """The definitions that the program `texts` need, each once, dependencies first.

    A function counts as needed when its name occurs before `(` or `<`.
    """
    printed: dict[str, None] = {}
    visited: set[str] = set()

    def visit(text: str) -> None:
        for name in _IDENTIFIER.findall(text):
            if name in PRELUDE and name not in visited:
                visited.add(name)
                visit(PRELUDE[name])
                printed.setdefault(PRELUDE[name])

    for text in texts:
        visit(text)
    return "\n".join(printed)
