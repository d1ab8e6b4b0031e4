"""Distributions on the real line: sample, log-density and parameter check of each."""

from __future__ import annotations

import math

from tawa.cuppl.distributions.positive import sample_gamma
from tawa.cuppl.numeric.elementary import atan, cos, exp, is_positive, log, log1p, sin, tan
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import Context, floor, sqrt
from tawa.cuppl.numeric.special import (
    LARGE,
    lgamma,
    lgamma_step,
    log_one_and_square,
    normal_cdf,
    normal_quantile,
)
from tawa.cuppl.translation.native import native

INF = math.inf
PI = math.pi
TAU = 2.0 * math.pi
LOG_PI = math.log(math.pi)
LOG_2 = math.log(2.0)
LOG_TAU = math.log(2.0 * math.pi)
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


@native
def valid_location_scale(location: float, scale: float) -> bool:
    """A finite location and a positive finite scale."""
    return location - location == 0.0 and is_positive(scale)


@native
def sample_normal(ctx: Context, mean: float, sd: float) -> float:
    """By the quantile function: one uniform a draw."""
    return mean + sd * normal_quantile(next_uniform(ctx))


@native
def logpdf_normal(x: float, mean: float, sd: float) -> float:
    """Log density at x."""
    z = (x - mean) / sd
    return -0.5 * z * z - (log(sd) + HALF_LOG_TAU)  # the second part is often the same for many x


@native
def valid_flat(low: float, high: float) -> bool:
    """low < high, of which at least one is infinite."""
    return low < high and high - low == INF


@native
def sample_flat(ctx: Context, low: float, high: float) -> float:
    """There is no draw: methods that need one refuse the program."""
    return INF - INF


@native
def logpdf_flat(x: float, low: float, high: float) -> float:
    """0 between the ends."""
    return 0.0 if low <= x and x <= high else -INF


@native
def valid_uniform(low: float, high: float) -> bool:
    """A non-empty finite interval."""
    return low < high and high - low < INF


@native
def sample_uniform(ctx: Context, low: float, high: float) -> float:
    """Affine map of one uniform."""
    return low + (high - low) * next_uniform(ctx)


@native
def logpdf_uniform(x: float, low: float, high: float) -> float:
    """Log density at x."""
    return -log(high - low) if x >= low and x <= high else -INF


@native
def sample_cauchy(ctx: Context, location: float, scale: float) -> float:
    """By the quantile function."""
    return location + scale * tan(PI * (next_uniform(ctx) - 0.5))


@native
def logpdf_cauchy(x: float, location: float, scale: float) -> float:
    """Log density at x."""
    z = (x - location) / scale
    return -LOG_PI - log(scale) - log_one_and_square(z, 1.0)


@native
def sample_laplace(ctx: Context, location: float, scale: float) -> float:
    """By the quantile function."""
    u = next_uniform(ctx)
    if u < 0.5:
        return location + scale * log(2.0 * u)
    return location - scale * log(2.0 * (1.0 - u))


@native
def logpdf_laplace(x: float, location: float, scale: float) -> float:
    """Log density at x."""
    return -abs(x - location) / scale - log(scale) - LOG_2


@native
def sample_logistic(ctx: Context, location: float, scale: float) -> float:
    """By the quantile function."""
    u = next_uniform(ctx)
    return location + scale * (log(u) - log1p(-u))


@native
def logpdf_logistic(x: float, location: float, scale: float) -> float:
    """Log density at x."""
    z = abs(x - location) / scale
    return -z - log(scale) - 2.0 * log1p(exp(-z))


@native
def sample_gumbel(ctx: Context, location: float, scale: float) -> float:
    """By the quantile function."""
    return location - scale * log(-log(next_uniform(ctx)))


@native
def logpdf_gumbel(x: float, location: float, scale: float) -> float:
    """Log density at x."""
    z = (x - location) / scale
    return -z - exp(-z) - log(scale)


@native
def valid_student_t(df: float, location: float, scale: float) -> bool:
    """Positive degrees of freedom and scale."""
    return is_positive(df) and valid_location_scale(location, scale)


@native
def sample_student_t(ctx: Context, df: float, location: float, scale: float) -> float:
    """A normal over the root of a scaled chi-squared."""
    z = normal_quantile(next_uniform(ctx))
    g = sample_gamma(ctx, 0.5 * df, 2.0 / df)
    return location + scale * z / sqrt(g)


@native
def logpdf_student_t(x: float, df: float, location: float, scale: float) -> float:
    """Log density at x."""
    z = (x - location) / scale
    if df >= LARGE:
        step = lgamma_step(0.5 * df, 0.5)
    else:
        step = lgamma(0.5 * (df + 1.0)) - lgamma(0.5 * df)
    head = step - 0.5 * (log(df) + LOG_PI) - log(scale)
    return head - 0.5 * (df + 1.0) * log_one_and_square(z, df)


@native
def sample_half_student_t(ctx: Context, df: float, scale: float) -> float:
    """The size of a draw around 0."""
    return abs(sample_student_t(ctx, df, 0.0, scale))


@native
def logpdf_half_student_t(x: float, df: float, scale: float) -> float:
    """Log density at x."""
    return LOG_2 + logpdf_student_t(x, df, 0.0, scale) if x >= 0.0 else -INF


@native
def valid_truncated_normal(mean: float, sd: float, low: float, high: float) -> bool:
    """A normal and a non-empty interval that it can reach."""
    if not valid_location_scale(mean, sd) or not low < high:
        return False
    return (low - mean) / sd < 37.0 and (high - mean) / sd > -37.0


@native
def sample_truncated_normal(ctx: Context, mean: float, sd: float, low: float, high: float) -> float:
    """By the quantile function, in the lower tail (mirrored if need be) to keep precision."""
    a = (low - mean) / sd
    b = (high - mean) / sd
    u = next_uniform(ctx)
    if a > 0.0:
        pa = normal_cdf(-b)
        x = -normal_quantile(pa + u * (normal_cdf(-a) - pa))
    else:
        pa = normal_cdf(a)
        x = normal_quantile(pa + u * (normal_cdf(b) - pa))
    return min(max(mean + sd * x, low), high)


@native
def logpdf_truncated_normal(x: float, mean: float, sd: float, low: float, high: float) -> float:
    """Log density at x."""
    if x < low or x > high:
        return -INF
    a = (low - mean) / sd
    b = (high - mean) / sd
    if a > 0.0:
        mass = normal_cdf(-a) - normal_cdf(-b)
    else:
        mass = normal_cdf(b) - normal_cdf(a)
    return logpdf_normal(x, mean, sd) - log(mass)


@native
def valid_triangular(low: float, mode: float, high: float) -> bool:
    """low <= mode <= high with low < high."""
    return low <= mode and mode <= high and low < high and high - low < INF


@native
def sample_triangular(ctx: Context, low: float, mode: float, high: float) -> float:
    """By the quantile function."""
    u = next_uniform(ctx)
    if u * (high - low) < mode - low:
        return low + sqrt(u * (high - low) * (mode - low))
    return high - sqrt((1.0 - u) * (high - low) * (high - mode))


@native
def logpdf_triangular(x: float, low: float, mode: float, high: float) -> float:
    """Log density at x."""
    if x < low or x > high:
        return -INF
    if x < mode:
        return log(2.0 * (x - low) / ((high - low) * (mode - low)))
    if x == mode:
        return log(2.0 / (high - low))
    return log(2.0 * (high - x) / ((high - low) * (high - mode)))


@native
def log_bessel_i0(x: float) -> float:
    """log of exp(-x) I0(x), the modified Bessel function (DLMF 10.25.2 and 10.40.1), x >= 0."""
    if x < 30.0:
        quarter = 0.25 * x * x
        term = 1.0
        total = 1.0
        k = 1.0
        while term > 1e-17 * total:
            term = term * quarter / (k * k)
            total = total + term
            k = k + 1.0
        return log(total) - x
    term = 1.0
    total = 1.0
    for n in range(1, 16):
        odd = float(2 * n - 1)
        term = term * odd * odd / (8.0 * x * float(n))
        total = total + term
    return log(total) - 0.5 * (LOG_TAU + log(x))


@native
def valid_von_mises(mean: float, concentration: float) -> bool:
    """A direction of a few turns, or a million, and a non-negative finite concentration."""
    return abs(mean) <= 1.0e7 and concentration >= 0.0 and concentration < INF


@native
def sample_von_mises(ctx: Context, mean: float, concentration: float) -> float:
    """Best and Fisher (1979), wrapped to [-pi, pi)."""
    if concentration < 1e-8:
        x = PI * (2.0 * next_uniform(ctx) - 1.0)
    elif concentration > 1e10:
        x = normal_quantile(next_uniform(ctx)) / sqrt(concentration)
    else:
        tau = 1.0 + sqrt(1.0 + 4.0 * concentration * concentration)
        rho = (tau - sqrt(2.0 * tau)) / (2.0 * concentration)
        r = (1.0 + rho * rho) / (2.0 * rho)
        if concentration > 1e6:
            r = 1.0 + 0.5 / concentration
        x = 0.0
        accepted = False
        while not accepted:
            z = cos(PI * next_uniform(ctx))
            f = (1.0 + r * z) / (r + z)
            c = concentration * (r - f)
            u = next_uniform(ctx)
            if c * (2.0 - c) - u > 0.0 or log(c / u) + 1.0 - c >= 0.0:
                accepted = True
                f = min(max(f, -1.0), 1.0)
                # acos(f) as 2 atan(sqrt((1 - f) / (1 + f))) through the normal tangent range
                x = 2.0 * arc_tangent_ratio(sqrt(1.0 - f), sqrt(1.0 + f))
        if next_uniform(ctx) < 0.5:
            x = -x
    y = mean + x + PI
    return y - TAU * floor(y / TAU) - PI


@native
def arc_tangent_ratio(y: float, x: float) -> float:
    """atan(y / x) for y, x >= 0, not both 0."""
    return 0.5 * PI - atan(x / y) if y > x else atan(y / x)


@native
def logpdf_von_mises(x: float, mean: float, concentration: float) -> float:
    """Log density at x in [-pi, pi]."""
    if x < -PI or x > PI:
        return -INF
    half = sin(0.5 * (x - mean))
    return -2.0 * concentration * half * half - LOG_TAU - log_bessel_i0(concentration)
