"""Names that a kernel's entry cannot have in CUDA C++: the language or its library owns them."""

from __future__ import annotations

KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
    "char32_t class compl const const_cast constexpr continue decltype default delete do double "
    "dynamic_cast else enum explicit export extern false float for friend goto if inline int long "
    "mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "register reinterpret_cast return short signed sizeof static static_assert static_cast struct "
    "switch template this thread_local throw true try typedef typeid typename union unsigned "
    "using virtual void volatile wchar_t while xor xor_eq".split()
)
"""C++17's keywords."""

LIBRARY = frozenset(
    "main printf vprintf malloc free memcpy memset memmove assert clock clock64 abs labs llabs "
    "min max umin umax mul24 umul24 mulhi umulhi float_as_int int_as_float float2uint saturate "
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi erf erfc erfcinv "
    "erfcx erfinv exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax fmin fmod frexp hypot "
    "ilogb isfinite isinf isnan j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb "
    "lrint lround modf nan nearbyint nextafter norm norm3d norm4d normcdf normcdfinv pow powi "
    "rcbrt remainder remquo rhypot rint rnorm rnorm3d rnorm4d round rsqrt scalbln scalbn signbit "
    "sin sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc y0 y1 yn add sub mul pair quad pin "
    "sigmoid smem lane warp thread".split()
)
"""Functions that CUDA's built-in headers (and this compiler's prelude) define."""


def entry_name(name: str) -> str:
    """The symbol of a kernel's entry: its own name, unless that is taken."""
    base = name.removesuffix("f")
    taken = name in KEYWORDS or name in LIBRARY or base in LIBRARY or name.startswith("__")
    return f"{name.lstrip('_')}_kernel" if taken else name
