"""Elementary functions on top of correctly rounded arithmetic, so that every machine agrees.

Accuracy is 1 to 2 units in the last place (`power` with a fraction loses the size of its exponent).
Polynomial coefficients are minimax fits made for these intervals.
"""

from __future__ import annotations

import math

from tawa.cuppl.numeric.primitives import (
    bits_of,
    float_of_bits,
    floor,
    fma,
    horner,
    int_in_range,
    shru,
    sqrt,
)
from tawa.cuppl.translation.native import inlined, native, outlined

__all__ = ["cos", "exp", "expm1", "log", "log1p", "logaddexp", "power", "sin", "tan", "tanh"]

INF = math.inf
NAN = math.nan
LN2 = math.log(2.0)
LN2_HIGH = 0.6931471803691238  # the first 32 bits of ln 2
LN2_LOW = 1.9082149292705877e-10
HALF_PI_HIGH = 1.5707963267341256
HALF_PI_MIDDLE = 6.077100506303966e-11
HALF_PI_LOW = 2.0222662487959506e-21
SQRT2 = math.sqrt(2.0)
LOG_CELLS = 256


def _log_tables() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Reciprocals of the cells' middles, and minus their logarithms."""
    inverses = [1.0 / (1.0 + (k + 0.5) / LOG_CELLS) for k in range(LOG_CELLS)]
    inverses[0] = 1.0  # next to 1 nothing may be lost
    inverses[-1] = 0.5
    # The last cell belongs to the next power of two, so that logarithms near 0 stay precise.
    return tuple(inverses), (*(-math.log(v) for v in inverses[:-1]), 0.0)


LOG_INVERSE, LOG_MIDDLE = _log_tables()
SMALLEST_NORMAL_BITS = 0x0010000000000000
INFINITE_BITS = 0x7FF0000000000000
SIN_SERIES = (
    -7.586685070091267e-13,
    1.605853141458901e-10,
    -2.5052106231157904e-08,
    2.7557319219335453e-06,
    -0.0001984126984126506,
    0.008333333333333331,
    -0.16666666666666666,
)
COS_SERIES = (
    4.7458652037874553e-14,
    -1.1470460773969325e-11,
    2.0876755790363397e-09,
    -2.755731922140076e-07,
    2.4801587301584645e-05,
    -0.0013888888888888887,
    0.041666666666666664,
)


@native
def is_positive(x: float) -> bool:
    """Greater than 0, and finite."""
    bits = bits_of(x)  # those of negative numbers are negative, those of NaN above infinity's
    return bits > 0 and bits < INFINITE_BITS


@inlined
@native
def log_of_bits(bits: int, scale: int) -> float:
    """log(x) + scale * log(2), of the bits of a positive normal number."""
    # In the last cell the sum carries over into the exponent.
    k = float(((bits + (1 << 44)) >> 52) + (scale - 1023))
    cell = (bits >> 44) & 255
    m = float_of_bits((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    r = fma(m, LOG_INVERSE[cell], -1.0)
    z = r * r
    low = fma(z, fma(r, 0.2, -0.25), fma(r, 0.3333333333333333, -0.5))
    tail = fma(z * z, -0.16666666666666666, low)
    return fma(k, LN2_HIGH, LOG_MIDDLE[cell]) + (r + fma(z, tail, k * LN2_LOW))


@outlined
@native
def log_unusual(x: float) -> float:
    """The logarithm of what is not a positive normal number."""
    if not x > 0.0:
        return -INF if x == 0.0 else NAN
    if x == INF:
        return INF
    return log_of_bits(bits_of(x * 18014398509481984.0), -54)


@native
def log(x: float) -> float:
    """Natural logarithm; -inf at 0, NaN below."""
    bits = bits_of(x)
    if bits < SMALLEST_NORMAL_BITS or bits >= INFINITE_BITS:
        return log_unusual(x)
    return log_of_bits(bits, 0)


@inlined
@native
def exp_parts(x: float) -> tuple[float, int]:
    """exp(x) as a number near 1 and a power of 2, for |x| below 1000."""
    k = floor(x * 1.4426950408889634 + 0.5)
    r = fma(k, -LN2_LOW, fma(k, -LN2_HIGH, x))
    z = r * r
    # Pairs of terms first: the chain of dependent operations is half as long as Horner's.
    p0 = fma(r, 0.1666666666666667, 0.5)
    p1 = fma(r, 0.008333333333326136, 0.04166666666666667)
    p2 = fma(r, 0.00019841269874820627, 0.0013888888888883748)
    p3 = fma(r, 2.7557255400206422e-06, 2.4801587325547743e-05)
    p4 = fma(r, 2.5105217004720745e-08, 2.75572736431103e-07)
    high = fma(z * z, fma(z, 2.0914686968086876e-09, p4), fma(z, p3, p2))
    tail = fma(z * z, high, fma(z, p1, p0))
    return 1.0 + fma(z, tail, r), int_in_range(k)


@inlined
@native
def exp_normal(x: float) -> float:
    """Exponential, where the result is a normal number: for |x| of at most 700."""
    y, k = exp_parts(x)
    return y * float_of_bits((k + 1023) << 52)


@outlined
@native
def exp_unusual(x: float) -> float:
    """Exponential, of any number."""
    if x != x:
        return x
    if x > 709.782712893384:
        return INF
    if x < -745.1332191019412:
        return 0.0
    y, k = exp_parts(x)
    half = k >> 1
    return y * float_of_bits((half + 1023) << 52) * float_of_bits((k - half + 1023) << 52)


@native
def exp(x: float) -> float:
    """Exponential; infinity above 709.78, 0 below -745.13."""
    if abs(x) <= 700.0:
        return exp_normal(x)
    return exp_unusual(x)


@native
def log1p(x: float) -> float:
    """log(1 + x), accurate near 0."""
    u = 1.0 + x
    if u == 1.0:
        return x
    if u == INF:
        return INF
    return log(u) * (x / (u - 1.0)) if u > 0.0 else log(u)


@native
def expm1(x: float) -> float:
    """exp(x) - 1, accurate near 0."""
    if x > 40.0 or x < -40.0:
        return exp(x) - 1.0
    u = exp(x)
    if u == 1.0:
        return x
    d = u - 1.0
    return d * (x / log(u))


@native
def whole_power(x: float, n: int) -> float:
    """x^n by squaring, with what each product loses, so that whole results are exact."""
    base = x
    low = 0.0
    if n < 0:
        base = 1.0 / x
        low = fma(-x, base, 1.0) / x
    count = -n if n < 0 else n
    high = 1.0
    rest = 0.0
    while count > 0:
        if count % 2 == 1:
            product = high * base
            rest = fma(high, base, -product) + (high * low + rest * base)
            high = product
        square = base * base
        low = fma(base, base, -square) + 2.0 * base * low
        base = square
        count = count // 2
    return high + rest if rest - rest == 0.0 else high


@native
def power(x: float, y: float) -> float:
    """x to the power y; a negative base needs an integer exponent (else NaN)."""
    if y == 0.0:
        return 1.0
    if y == 1.0:
        return x
    if y == 2.0:
        return x * x
    if abs(x) == 1.0 and abs(y) == INF:
        return 1.0
    if x == 0.0:
        return 0.0 if y > 0.0 else INF
    whole = floor(y) == y
    if x < 0.0 and not whole:
        return NAN
    exponent = y * log(abs(x))
    if whole and abs(y) < 2147483648.0:
        value = whole_power(float_of_bits(bits_of(x)), int(y))
        if not (abs(value) < INF and abs(exponent) < INF):
            return value
        # The derivative is that of the exponential.
        return value + value * (exponent - float_of_bits(bits_of(exponent)))
    if y == 0.5:
        return sqrt(x)
    size = exp(exponent)
    return -size if x < 0.0 and floor(y * 0.5) != y * 0.5 else size


@native
def quadrant(x: float) -> tuple[int, float]:
    """x = quadrant * pi/2 + remainder; NaN for |x| beyond 1e9, where it would not be accurate."""
    if not abs(x) <= 1.0e9:
        return 0, NAN
    k = floor(x * 0.6366197723675814 + 0.5)
    r = fma(-k, HALF_PI_MIDDLE, fma(-k, HALF_PI_HIGH, x)) - k * HALF_PI_LOW
    return int(k) & 3, r


@native
def sin_reduced(r: float) -> float:
    """Sine on [-pi/4, pi/4]."""
    z = r * r
    return r + r * z * horner(z, SIN_SERIES)


@native
def cos_reduced(r: float) -> float:
    """Cosine on [-pi/4, pi/4]."""
    z = r * r
    return (1.0 - 0.5 * z) + z * z * horner(z, COS_SERIES)


@native
def sin(x: float) -> float:
    """Sine."""
    q, r = quadrant(x)
    y = cos_reduced(r) if q & 1 == 1 else sin_reduced(r)
    return -y if q >= 2 else y


@native
def cos(x: float) -> float:
    """Cosine."""
    q, r = quadrant(x)
    y = sin_reduced(r) if q & 1 == 1 else cos_reduced(r)
    return -y if q == 1 or q == 2 else y


@native
def tan(x: float) -> float:
    """Tangent."""
    return sin(x) / cos(x)


@native
def tanh(x: float) -> float:
    """Hyperbolic tangent."""
    if x > 20.0:
        return 1.0
    if x < -20.0:
        return -1.0
    e = expm1(2.0 * x)
    return e / (e + 2.0)


@native
def atan(x: float) -> float:
    """Arc tangent: two half-angle reductions, then the alternating series."""
    a = abs(x)
    inverted = a > 1.0
    if inverted:
        a = 1.0 / a
    a = a / (1.0 + sqrt(1.0 + a * a))
    a = a / (1.0 + sqrt(1.0 + a * a))
    z = a * a
    total = 0.0
    for k in range(14, -1, -1):
        total = 1.0 / float(2 * k + 1) - z * total
    y = 4.0 * a * total
    if inverted:
        y = (HALF_PI_HIGH - y) + HALF_PI_MIDDLE
    return -y if x < 0.0 else y


@native
def logaddexp(a: float, b: float) -> float:
    """log(exp(a) + exp(b)) without overflow."""
    high = max(a, b)
    low = min(a, b)
    if low == -INF or high == INF:
        return high
    return high + log1p(exp(low - high))


@native
def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x))."""
    if x >= 0.0:
        return 1.0 / (1.0 + exp(-x))
    e = exp(x)
    return e / (1.0 + e)


@native
def hash_mix(a: int, b: int) -> int:
    """Mix two integers to 62 well-spread bits (used for addresses of random choices)."""
    h = (a ^ (b + 0x1E3779B97F4A7C15)) & 0x3FFFFFFFFFFFFFFF
    h = ((h ^ shru(h, 30)) * 0x3F58476D1CE4E5B9) & 0x3FFFFFFFFFFFFFFF
    h = ((h ^ shru(h, 27)) * 0x14D049BB133111EB) & 0x3FFFFFFFFFFFFFFF
    return h ^ shru(h, 31)
