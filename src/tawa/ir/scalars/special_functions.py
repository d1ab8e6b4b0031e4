"""Special functions of f32 and f64: what they mean (NumPy), and their names in CUDA C++.

The meanings compute in f64. Integrals of periodic functions are sums over equal steps, which
converge faster than any power of their number (Trefethen and Weideman, SIAM Review 56, 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist

import numpy as np

from tawa.base.numerics import Array

Meaning = Callable[..., Array]

NEWTON_STEPS = 4
"""From an inverse error function that is good to three digits to all that f64 has."""


def _each(function: Callable[[float], float], pole: float = math.inf) -> Meaning:
    """A function of Python's `math` over arrays; `pole` is its value at negative integers."""

    def one(x: float) -> float:
        try:
            return function(x)
        except OverflowError:
            return math.inf
        except ValueError:
            if x == 0:
                return math.copysign(math.inf, x)
            return math.nan if x == -math.inf else pole

    def meaning(x: Array) -> Array:
        return np.vectorize(one, otypes=[np.float64])(np.asarray(x, np.float64))

    return meaning


_erf, _erfc = _each(math.erf), _each(math.erfc)


def _inverse_erf(y: Array) -> Array:
    y = np.asarray(y, np.float64)
    rest = 1 - np.abs(y)
    log = np.log(rest * (1 + np.abs(y)))
    half = 2 / (math.pi * 0.147) + log / 2  # Winitzki's approximation
    x = np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    for _ in range(NEWTON_STEPS):
        x = x + (_erfc(x) - rest) / (2 / math.sqrt(math.pi) * np.exp(-x * x))
    return np.where(rest == 0, np.copysign(np.inf, y), np.copysign(x, y))


def _bessel(integrand: Callable[[Array, Array], Array]) -> Meaning:
    """An integral over a period, divided by the period."""

    def meaning(x: Array) -> Array:
        x = np.asarray(x, np.float64)
        finite = np.abs(x[np.isfinite(x)])
        steps = 64 + 2 * int(min(1e5, finite.max(initial=0.0)))
        angles = 2 * math.pi * np.arange(steps) / steps
        return np.mean(integrand(x[..., None], angles), axis=-1)

    return meaning


def _j0(x: Array, angle: Array) -> Array:
    return np.cos(x * np.sin(angle))


def _j1(x: Array, angle: Array) -> Array:
    return np.cos(angle - x * np.sin(angle))


def _i0(x: Array, angle: Array) -> Array:
    return np.exp(x * np.cos(angle))


def _i1(x: Array, angle: Array) -> Array:
    return np.exp(x * np.cos(angle)) * np.cos(angle)


def _normal_cdf(x: Array) -> Array:
    return _erfc(-np.asarray(x, np.float64) / math.sqrt(2)) / 2


def _turned(function: Meaning) -> Meaning:
    """sin or cos of pi times a number, exact where that is a multiple of a half."""

    def meaning(x: Array) -> Array:
        near = np.round(2 * x)
        rest = math.pi * (x - near / 2)
        quarter = (near + (function is np.cos)) % 4
        choices = [np.sin(rest), np.cos(rest), -np.sin(rest), -np.cos(rest)]
        return np.select([quarter == k for k in range(4)], choices, np.nan)

    return meaning


def _exponent(x: Array) -> Array:
    return np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.frexp(x)[1] - 1.0)) + 0 * x


def _remainder(x: Array, y: Array) -> Array:
    found = np.vectorize(_ieee_remainder, otypes=[np.float64])(x, y)
    return np.asarray(found)


def _ieee_remainder(x: float, y: float) -> float:
    return math.remainder(x, y) if math.isfinite(x) and y == y and y != 0 else math.nan


def _difference(x: Array, y: Array) -> Array:
    return np.where(x <= y, 0.0, x - y)


def _power_of_ten(x: Array) -> Array:
    return 10.0**x


def _reciprocal_cube_root(x: Array) -> Array:
    return 1 / np.cbrt(x)


def _reciprocal_length(x: Array, y: Array) -> Array:
    return 1 / np.hypot(x, y)


def _scaled_erfc(x: float) -> float:
    if x < 25:
        return math.exp(x * x) * math.erfc(x) if x > -26.7 else math.inf
    square = 2 * x * x
    return (1 - 1 / square + 3 / square**2 - 15 / square**3) / (x * math.sqrt(math.pi))


def _inverse_normal_cdf(p: float) -> float:
    if 0 < p < 1:
        return NormalDist().inv_cdf(p)
    return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)


def _inverse_erfc(y: float) -> float:
    return -_inverse_normal_cdf(y / 2) / math.sqrt(2)


FAR = 1000
"""Arguments from which on three terms of Hankel's expansion are exact to 1e-12."""


def _far_second_bessel(order: int, x: float) -> float:
    """Hankel's expansion for arguments far from zero."""
    mu, phase = 4 * order**2, x - (order / 2 + 0.25) * math.pi
    even = 1 - (mu - 1) * (mu - 9) / (2 * (8 * x) ** 2)
    odd = (mu - 1) / (8 * x) - (mu - 1) * (mu - 9) * (mu - 25) / (6 * (8 * x) ** 3)
    return math.sqrt(2 / (math.pi * x)) * (even * math.sin(phase) + odd * math.cos(phase))


def _second_bessel(order: int) -> Meaning:
    """Schläfli's integrals, by Gauss and Legendre's rule."""

    def one(x: float) -> float:
        if not 0 < x < math.inf:
            return 0.0 if x == math.inf else -math.inf if x == 0 else math.nan
        if x > FAR:
            return _far_second_bessel(order, x)
        nodes, weights = np.polynomial.legendre.leggauss(96 + int(2 * x))
        angle = (nodes + 1) * math.pi / 2
        turning = np.sin(x * np.sin(angle) - order * angle) @ weights / 2
        end = math.asinh(60 / x) + 1
        t = (nodes + 1) * end / 2
        falling = (np.exp(order * t) + (-1) ** order * np.exp(-order * t)) * np.exp(-x * np.sinh(t))
        return float(turning - falling @ weights * end / (2 * math.pi))

    def meaning(x: Array) -> Array:
        return np.vectorize(one, otypes=[np.float64])(np.asarray(x, np.float64))

    return meaning


MOST_ORDER = 100_000
"""Orders, and arguments, up to which Bessel's functions of an order are computed: longer sums and
recurrences take too long. Beyond both, the result is NaN."""


def _of_order(n: int, x: float) -> float:
    """Bessel's function of the first kind: a sum over so many angles that none is missed."""
    if n < 0 or not math.isfinite(x):
        return 0.0 if n >= 0 and math.isinf(x) else math.nan
    if max(n, abs(x)) > MOST_ORDER:
        return 0.0 if n > 2 * abs(x) else math.nan  # less than any number
    steps = 64 + 2 * int(abs(x) + n)
    angles = 2 * math.pi * np.arange(steps) / steps
    return float(np.mean(np.cos(n * angles - x * np.sin(angles))))


def _second_of_order(n: int, x: float) -> float:
    """That of the second kind, from the first two: a recurrence that grows loses nothing."""
    if n < 0:
        return math.nan
    before, found = (float(_second_bessel(order)(np.float64(x))) for order in (0, 1))
    if n == 0 or not 0 < x < math.inf:
        return before
    if x > MOST_ORDER:
        return math.nan
    for order in range(1, n):
        if math.isinf(found):  # it grows from there on
            break
        before, found = found, 2 * order / x * found - before
    return found


def _with_order(function: Callable[[int, float], float]) -> Meaning:
    def meaning(x: Array, order: Array) -> Array:
        found = np.vectorize(function, otypes=[np.float64])(order, np.asarray(x, np.float64))
        return np.asarray(found).astype(x.dtype)

    return meaning


def _near_reciprocal(x: Array) -> Array:
    """Of the upper words: the reciprocal's, or a zero that stands for a number below all normal."""
    upper = np.uint64(0xFFFFFFFF00000000)
    tiny = np.finfo(np.float64).tiny
    given = (np.asarray(x, np.float64).view(np.uint64) & upper).view(np.float64)
    found = 1 / np.where(np.abs(given) < tiny, np.copysign(0.0, given), given)
    found = np.where(np.abs(found) < tiny, np.copysign(0.0, found), found)
    return (found.view(np.uint64) & upper).view(np.float64)


UNARY: Mapping[str, Meaning] = {
    "erfc": _erfc, "erfinv": _inverse_erf, "lgamma": _each(math.lgamma),
    "tgamma": _each(math.gamma, math.nan), "normcdf": _normal_cdf, "sinpi": _turned(np.sin),
    "cospi": _turned(np.cos), "exp10": _power_of_ten, "rcbrt": _reciprocal_cube_root,
    "j0": _bessel(_j0), "j1": _bessel(_j1), "cyl_bessel_i0": _bessel(_i0),
    "cyl_bessel_i1": _bessel(_i1), "logb": _exponent, "y0": _second_bessel(0),
    "y1": _second_bessel(1), "erfcx": _each(_scaled_erfc), "erfcinv": _each(_inverse_erfc),
    "normcdfinv": _each(_inverse_normal_cdf),
}  # fmt: skip
"""Functions of one number, by the name that CUDA's and libdevice's have."""

BINARY: Mapping[str, Meaning] = {
    "nextafter": np.nextafter, "remainder": _remainder, "fdim": _difference,
    "rhypot": _reciprocal_length,
}  # fmt: skip
"""Functions of two numbers."""

OF_ORDER: Mapping[str, Meaning] = {
    "jn": _with_order(_of_order), "yn": _with_order(_second_of_order),
}  # fmt: skip
"""Functions of a number and of an integer, which comes first in C++."""

UPPER_WORDS: Mapping[str, Meaning] = {"rcp64h": _near_reciprocal}
"""Functions of the upper words of f64."""
