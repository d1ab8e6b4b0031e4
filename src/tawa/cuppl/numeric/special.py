"""Special functions: gamma, error and inverse normal functions.

lgamma and digamma shift the argument above 8 and use Stirling's series (DLMF 5.11.1, 5.11.2);
erf uses the confluent series (DLMF 7.6.2) and, beyond 2.5, the continued fraction of erfc
(DLMF 7.9.1); the normal quantile is algorithm AS 241 (Wichura 1988).
"""

from __future__ import annotations

import math

from tawa.cuppl.numeric.elementary import cos, exp, log, log1p, sin
from tawa.cuppl.numeric.primitives import floor, horner, sqrt
from tawa.cuppl.translation.native import native, outlined

__all__ = ["digamma", "erf", "erfc", "lbeta", "lchoose", "lgamma", "normal_cdf", "normal_quantile"]

INF = math.inf
NAN = math.nan
PI = math.pi
LOG_PI = math.log(math.pi)
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
INV_SQRT_PI = 1.0 / math.sqrt(math.pi)
SQRT2 = math.sqrt(2.0)
STIRLING = (
    0.17964437236883057,
    -0.029550653594771242,
    0.00641025641025641,
    -0.0019175269175269176,
    0.0008417508417508417,
    -0.0005952380952380953,
    0.0007936507936507937,
    -0.002777777777777778,
    0.08333333333333333,
)
DIGAMMA_SERIES = (
    -0.4432598039215686,
    0.08333333333333333,
    -0.021092796092796094,
    0.007575757575757576,
    -0.004166666666666667,
    0.003968253968253968,
    -0.008333333333333333,
    0.08333333333333333,
)


@outlined
@native
def lgamma_above_half(x: float) -> float:
    """log Gamma(x) for x >= 0.5."""
    product = 1.0
    while x < 8.0:
        product = product * x
        x = x + 1.0
    z = 1.0 / (x * x)
    series = horner(z, STIRLING) / x
    shift = log(product) if product != 1.0 else 0.0
    return ((x - 0.5) * log(x) - x) + HALF_LOG_TAU + series - shift


@native
def lgamma(x: float) -> float:
    """log |Gamma(x)|; infinity at 0 and the negative integers."""
    if x != x:
        return x
    if x == INF:
        return INF
    if x >= 0.5:
        if x == 1.0 or x == 2.0:
            return 0.0
        return lgamma_above_half(x)
    if x <= 0.0 and floor(x) == x:
        return INF
    s = abs(sin(PI * (x - floor(x))))
    return LOG_PI - log(s) - lgamma_above_half(1.0 - x)


@native
def digamma(x: float) -> float:
    """Derivative of log Gamma; NaN at 0 and the negative integers."""
    shift = 0.0
    if x <= 0.0:
        if floor(x) == x:
            return NAN
        f = PI * (x - floor(x))
        shift = -PI * cos(f) / sin(f)
        x = 1.0 - x
    while x < 8.0:
        shift = shift - 1.0 / x
        x = x + 1.0
    z = 1.0 / (x * x)
    return shift + log(x) - 0.5 / x - z * horner(z, DIGAMMA_SERIES)


@native
def erf_series(x: float) -> float:
    """erf for |x| <= 2.5: a series of positive terms."""
    z = 2.0 * x * x
    term = x
    total = x
    n = 1.0
    while abs(term) > 1e-17 * abs(total):
        term = term * z / (2.0 * n + 1.0)
        total = total + term
        n = n + 1.0
    return TWO_OVER_SQRT_PI * exp(-x * x) * total


@native
def erfc_fraction(x: float) -> float:
    """erfc for x > 2.5: continued fraction, evaluated from the far end."""
    if x > 27.3:
        return 0.0
    t = x
    for k in range(60, 0, -1):
        t = x + 0.5 * float(k) / t
    return exp(-x * x) * INV_SQRT_PI / t


@native
def erf(x: float) -> float:
    """Error function."""
    if x > 2.5:
        return 1.0 - erfc_fraction(x)
    if x < -2.5:
        return erfc_fraction(-x) - 1.0
    return erf_series(x)


@native
def erfc(x: float) -> float:
    """1 - erf(x), accurate in the upper tail."""
    if x > 2.5:
        return erfc_fraction(x)
    if x < -2.5:
        return 2.0 - erfc_fraction(-x)
    return 1.0 - erf_series(x)


@native
def normal_cdf(x: float) -> float:
    """Standard normal distribution function."""
    return 0.5 * erfc(-x / SQRT2)


LARGE = 1000.0
"""From here on, log probabilities are computed by their deviance: `lgamma` would cancel."""


@native
def lgamma_rest(x: float) -> float:
    """lgamma(x) - ((x - 1/2) log x - x + log(tau) / 2), for x >= 8."""
    return horner(1.0 / (x * x), STIRLING) / x


@native
def lgamma_step(x: float, more: float) -> float:
    """lgamma(x + more) - lgamma(x), for x of some hundreds and more, without cancellation."""
    above = x + more
    rest = lgamma_rest(above) - lgamma_rest(x)
    return ((x - 0.5) * log1p(more / x) - more) + more * log(above) + rest


@native
def lbeta(a: float, b: float) -> float:
    """log of the beta function."""
    high = max(a, b)
    if high >= LARGE:
        low = min(a, b)
        return lgamma(low) - lgamma_step(high, low)
    return lgamma(a) + lgamma(b) - lgamma(a + b)


@native
def lchoose(n: float, k: float) -> float:
    """log of the binomial coefficient."""
    few = min(k, n - k)
    if n - few >= LARGE:
        return lgamma_step(n - few + 1.0, few) - lgamma(few + 1.0)
    return lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)


@native
def log_gamma_mass(z: float, shape: float) -> float:
    """shape log z - z - lgamma(shape): the log density of the logarithm of a standard gamma."""
    if shape >= LARGE and z > 0.0:
        width = 0.5 * log(shape) - HALF_LOG_TAU - lgamma_rest(shape)
        return width - deviance(shape, z)
    return xlogy(shape, z) - z - lgamma(shape)


@native
def log_beta_mass(x: float, y: float, a: float, b: float) -> float:
    """a log x + b log y - lbeta(a, b), where x + y is 1: the log density of the log odds."""
    n = a + b
    if min(a, b) < LARGE or not (x > 0.0 and y > 0.0) or n == INF:
        log_x = log(x) if x < 0.5 else log1p(-y)
        log_y = log(y) if y < 0.5 else log1p(-x)
        ahead = (a * log_x if a > 0.0 else 0.0) + (b * log_y if b > 0.0 else 0.0)
        return ahead - lbeta(a, b)
    rest = lgamma_rest(n) - lgamma_rest(a) - lgamma_rest(b)
    width = 0.5 * (log(a) + log(b / n)) - HALF_LOG_TAU
    return width + rest - deviance(a, n * x) - deviance(b, n * y)


@native
def deviance(x: float, mean: float) -> float:
    """x log(x / mean) + mean - x, without cancellation where they are close (Loader 2000)."""
    apart = x - mean
    if abs(apart) >= 0.1 * (x + mean):
        return xlogy(x, x / mean) - apart
    v = apart / (x + mean)
    total = apart * v
    term = 2.0 * x * v
    before = total - 1.0
    odd = 3.0
    while total != before:
        before = total
        term = term * v * v
        total = total + term / odd
        odd = odd + 2.0
    return total


@native
def log_factorial_rest(n: float) -> float:
    """log n! - (log(tau n) / 2 + n log n - n), for n of some hundreds and more."""
    return (0.08333333333333333 - 0.002777777777777778 / (n * n)) / n


@native
def xlogy(x: float, y: float) -> float:
    """x log y, and 0 where x is 0."""
    return 0.0 if x == 0.0 else x * log(y)


@native
def xlog1py(x: float, y: float) -> float:
    """x log(1 + y), and 0 where x is 0."""
    return 0.0 if x == 0.0 else x * log1p(y)


CENTRAL_P = (
    2.5090809287301226727e3,
    3.3430575583588128105e4,
    6.7265770927008700853e4,
    4.5921953931549871457e4,
    1.3731693765509461125e4,
    1.9715909503065514427e3,
    1.3314166789178437745e2,
    3.3871328727963666080,
)
CENTRAL_Q = (
    5.2264952788528545610e3,
    2.8729085735721942674e4,
    3.9307895800092710610e4,
    2.1213794301586595867e4,
    5.3941960214247511077e3,
    6.8718700749205790830e2,
    4.2313330701600911252e1,
    1.0,
)
MIDDLE_P = (
    7.74545014278341407640e-4,
    2.27238449892691845833e-2,
    2.41780725177450611770e-1,
    1.27045825245236838258,
    3.64784832476320460504,
    5.76949722146069140550,
    4.63033784615654529590,
    1.42343711074968357734,
)
MIDDLE_Q = (
    1.05075007164441684324e-9,
    5.47593808499534494600e-4,
    1.51986665636164571966e-2,
    1.48103976427480074590e-1,
    6.89767334985100004550e-1,
    1.67638483018380384940,
    2.05319162663775882187,
    1.0,
)
TAIL_P = (
    2.01033439929228813265e-7,
    2.71155556874348757815e-5,
    1.24266094738807843860e-3,
    2.65321895265761230930e-2,
    2.96560571828504891230e-1,
    1.78482653991729133580,
    5.46378491116411436990,
    6.65790464350110377720,
)
TAIL_Q = (
    2.04426310338993978564e-15,
    1.42151175831644588870e-7,
    1.84631831751005468180e-5,
    7.86869131145613259100e-4,
    1.48753612908506148525e-2,
    1.36929880922735805310e-1,
    5.99832206555887937690e-1,
    1.0,
)


@native
def log_one_and_square(z: float, divisor: float) -> float:
    """log(1 + z^2 / divisor), also where the square is too large for a float."""
    size = max(1.0, abs(z) * 1e-150)
    rest = z / size
    return log1p(rest * rest / divisor) + 2.0 * log(size)


@outlined
@native
def normal_quantile_tail(q: float, p: float) -> float:
    """The quantile where the lower tail is below 0.075 on either side."""
    tail = p if q < 0.0 else 1.0 - p
    if tail <= 0.0:
        if tail < 0.0:
            return NAN
        return INF if q > 0.0 else -INF
    r = sqrt(-log(tail))
    if r <= 5.0:
        r = r - 1.6
        x = horner(r, MIDDLE_P) / horner(r, MIDDLE_Q)
    else:
        r = r - 5.0
        x = horner(r, TAIL_P) / horner(r, TAIL_Q)
    return -x if q < 0.0 else x


@native
def normal_quantile(p: float) -> float:
    """Standard normal quantile, relative error about 1e-16."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return q * horner(r, CENTRAL_P) / horner(r, CENTRAL_Q)
    return normal_quantile_tail(q, p)
