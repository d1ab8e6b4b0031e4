"""Mathematical functions of the tile language, element by element.

`exp`, `exp2`, `sqrt`, `rsqrt`, `sigmoid` use the hardware's approximations (about 2 units in the
last place of f32), `sqrt_rn` and `div_rn` round correctly. Exponentials below 2^-126 are zero, and
so are quotients of one and what is known to be at least one. All are methods of tensors too.
"""

from __future__ import annotations

from typing import Any

from tawa.language.builtin import builtin, method


def __getattr__(name: str) -> Any:
    """Functions of libdevice, too: earlier versions of Triton had them here."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tawa.language import libdevice

    return getattr(libdevice, name)


@method
def exp(x: Any) -> Any:
    """The exponential, through `ex2.approx`."""


@method
def exp2(x: Any) -> Any:
    """2 to the power of x."""


@method
def log(x: Any) -> Any:
    """The natural logarithm."""


@method
def log2(x: Any) -> Any:
    """The logarithm to base 2."""


@method
def sqrt(x: Any) -> Any:
    """The square root, approximate."""


@method
def sqrt_rn(x: Any) -> Any:
    """The square root, correctly rounded."""


@method
def rsqrt(x: Any) -> Any:
    """One over the square root, approximate."""


@method
def sin(x: Any) -> Any:
    """The sine."""


@method
def cos(x: Any) -> Any:
    """The cosine."""


@method
def erf(x: Any) -> Any:
    """The error function."""


@method
def floor(x: Any) -> Any:
    """The largest integer not above x."""


@method
def ceil(x: Any) -> Any:
    """The smallest integer not below x."""


@method
def abs(x: Any) -> Any:
    """The absolute value."""


@builtin
def fma(x: Any, y: Any, z: Any) -> Any:
    """`x * y + z`, rounded once."""


@builtin
def fdiv(x: Any, y: Any, ieee_rounding: bool = False) -> Any:
    """`x / y` of floating point operands."""


@builtin
def div_rn(x: Any, y: Any) -> Any:
    """`x / y` of float32 operands, correctly rounded."""


@builtin
def umulhi(x: Any, y: Any) -> Any:
    """The upper half of the product of two 32-bit or 64-bit integers."""
