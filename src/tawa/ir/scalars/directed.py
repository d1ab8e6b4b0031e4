"""Arithmetic that rounds down, up or towards zero: what it means in NumPy, exactly.

A result that is rounded to the nearest is moved by one where the exact one lies on the other side.
The exact one is a fraction of integers; a root is compared by its square.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tawa.base.numerics import Array

WAYS = ("rd", "ru", "rz")
"""Down, up, towards zero."""


def _side_of(found: Any, exact: Fraction) -> int:
    """1 if what was found lies above the exact result, -1 if below, 0 if it is that."""
    if math.isinf(found):
        return 1 if found > 0 else -1
    near = Fraction(float(found))
    return (near > exact) - (near < exact)


def _sum(x: float, y: float) -> Fraction:
    return Fraction(x) + Fraction(y)


def _difference(x: float, y: float) -> Fraction:
    return Fraction(x) - Fraction(y)


def _product(x: float, y: float) -> Fraction:
    return Fraction(x) * Fraction(y)


def _quotient(x: float, y: float) -> Fraction | None:
    return Fraction(x) / Fraction(y) if y else None


def _reciprocal(x: float) -> Fraction | None:
    return 1 / Fraction(x) if x else None


def _fused(x: float, y: float, z: float) -> Fraction:
    return Fraction(x) * Fraction(y) + Fraction(z)


EXACT: dict[str, Callable[..., Fraction | None]] = {
    "add": _sum, "sub": _difference, "mul": _product, "div": _quotient, "rcp": _reciprocal,
    "fma": _fused,
}  # fmt: skip
"""The exact results of finite numbers; None of a division by zero."""


def _nearest(name: str, wide: Any, values: Sequence[Any]) -> Any:
    """The result near the exact one, as NumPy's own arithmetic has it."""
    functions: dict[str, Callable[..., Any]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
        "sqrt": np.sqrt,
    }  # fmt: skip
    if name == "rcp":
        return wide(1) / values[0]
    if name == "fma":
        return values[0] * values[1] + values[2]
    return functions[name](*values)


def directed(name: str, way: str) -> Callable[..., Array]:
    """The meaning of an operation that rounds one way, on arrays of one float type."""

    def one(*values: Any) -> Any:
        wide: Any = values[0].__class__
        found = _nearest(name, wide, values)
        numbers = [float(v) for v in values]
        if not all(map(math.isfinite, numbers)):
            return found
        exact: Fraction | None = Fraction(numbers[0])  # of a root, its square has the sign too
        if name == "sqrt":
            side = _side_of_root(found, numbers[0])
        else:
            exact = EXACT[name](*numbers)
            if exact is None:
                return found
            if exact == 0:
                return _zero(found, name, numbers, way)
            found = _rounded_to(wide, found, exact)
            side = _side_of(found, exact)
        down = way == "rd" or (way == "rz" and exact > 0)
        if side > 0 and down:
            return np.nextafter(found, wide(-np.inf))
        if side < 0 and not down:
            return np.nextafter(found, wide(np.inf))
        return found

    def meaning(*arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            shape = np.broadcast(*arrays).shape
            flat = [np.broadcast_to(a, shape).ravel() for a in arrays]
            found = [one(*values) for values in zip(*flat, strict=True)]
        return np.asarray(found, flat[0].dtype).reshape(shape)

    return meaning


def _rounded_to(wide: Any, found: Any, exact: Fraction) -> Any:
    """A number beside the exact one, or that one, where a result was rounded twice."""
    if not math.isfinite(found):
        return found
    while True:
        side = _side_of(found, exact)
        if not side:
            return found
        other = np.nextafter(found, wide(-np.inf if side > 0 else np.inf))
        if _side_of(other, exact) == -side:
            return found
        found = other


def _side_of_root(found: Any, x: float) -> int:
    if x <= 0:
        return 0
    square = Fraction(float(found)) ** 2
    return (square > Fraction(x)) - (square < Fraction(x))


def _zero(found: Any, name: str, numbers: Sequence[float], way: str) -> Any:
    """A sum that is exactly zero is -0 when rounding down, unless all of it was +0."""
    if name not in ("add", "sub", "fma") or way != "rd":
        return found
    if name == "add":
        terms = list(numbers)
    elif name == "sub":
        terms = [numbers[0], -numbers[1]]
    else:
        terms = [numbers[0] * numbers[1], numbers[2]]
    signs = {math.copysign(1, term) for term in terms}
    return type(found)(-0.0) if signs != {1.0} else found
