"""Distributions on the positive half-line and the unit interval."""

from __future__ import annotations

import math

from tawa.cuppl.numeric.elementary import (
    exp,
    expm1,
    is_positive,
    log,
    log1p,
    log_of_bits,
    power,
    sigmoid,
    tan,
)
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import Context, bits_of, sqrt
from tawa.cuppl.numeric.special import (
    LARGE,
    lbeta,
    lgamma,
    log_beta_mass,
    log_gamma_mass,
    log_one_and_square,
    normal_quantile,
    xlog1py,
    xlogy,
)
from tawa.cuppl.translation.native import native, outlined

INF = math.inf
LOG_2 = math.log(2.0)
LOG_PI = math.log(math.pi)
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
HALF_PI = 0.5 * math.pi
LOG_LEAST = -1075.0 * math.log(2.0)
"""log of what is rounded to 0."""
LOG_HALF_STEP = -54.0 * math.log(2.0)
"""log of how far from 1 is rounded to 1."""


@native
def valid_positive(a: float) -> bool:
    """Positive and finite."""
    return is_positive(a)


@native
def valid_two_positive(a: float, b: float) -> bool:
    """Both positive and finite."""
    return is_positive(a) and is_positive(b)


@native
def sample_exponential(ctx: Context, rate: float) -> float:
    """By the quantile function."""
    return -log_of_bits(bits_of(next_uniform(ctx)), 0) / rate


@native
def logpdf_exponential(x: float, rate: float) -> float:
    """Log density at x."""
    return log(rate) - rate * x if x >= 0.0 else -INF


@outlined
@native
def gamma_cube(ctx: Context, d: float) -> float:
    """A Gamma(d + 1/3, 1) draw over d, where d is 2/3 or more: Marsaglia and Tsang (2000)."""
    c = 1.0 / sqrt(9.0 * d)
    while True:
        x = normal_quantile(next_uniform(ctx))
        t = 1.0 + c * x
        if t > 0.0:
            v = t * t * t
            u = next_uniform(ctx)
            if log(u) < 0.5 * x * x + d - d * v + d * log(v):
                return v
    return 0.0


@native
def log_standard_gamma(ctx: Context, shape: float) -> float:
    """log of a Gamma(shape, 1) draw, boosted below shape 1."""
    boost = 0.0
    if shape < 1.0:
        boost = log(next_uniform(ctx)) / shape
        shape = shape + 1.0
    d = shape - 0.3333333333333333
    return log(d * gamma_cube(ctx, d)) + boost


@native
def sample_gamma(ctx: Context, shape: float, scale: float) -> float:
    """Gamma with mean shape * scale."""
    if shape == 1.0:
        return -log(next_uniform(ctx)) * scale
    if shape >= LARGE:
        d = shape - 0.3333333333333333
        return d * gamma_cube(ctx, d) * scale
    return exp(log_standard_gamma(ctx, shape)) * scale


@native
def logpdf_gamma(x: float, shape: float, scale: float) -> float:
    """Log density at x."""
    if x < 0.0:
        return -INF
    z = x / scale
    if shape >= LARGE and x > 0.0:
        return log_gamma_mass(z, shape) - log(x)
    return xlogy(shape - 1.0, z) - z - lgamma(shape) - log(scale)


@native
def log_power(a: float, x: float, log_width: float) -> float:
    """log of x^(a - 1), or at 0 of its mean over what is rounded to 0."""
    return (a - 1.0) * log(x) if x > 0.0 else (a - 1.0) * log_width - log(a)


@native
def drawn_gamma(x: float, shape: float, scale: float) -> float:
    """Log density of a draw that may have been rounded to 0."""
    z = x / scale
    if shape >= LARGE and x > 0.0:
        return log_gamma_mass(z, shape) - log(x)
    power = log_power(shape, z, LOG_LEAST - log(scale))
    return power - z - lgamma(shape) - log(scale)


@native
def free_gamma(q: float, shape: float, scale: float) -> float:
    """Log density of the logarithm of a draw."""
    z = exp(q) / scale
    if shape >= LARGE and z > 0.0 and z < INF:
        return log_gamma_mass(z, shape)
    return shape * (q - log(scale)) - z - lgamma(shape)


@native
def sample_inverse_gamma(ctx: Context, shape: float, scale: float) -> float:
    """The scale over a standard gamma."""
    return scale * exp(-log_standard_gamma(ctx, shape))


@native
def logpdf_inverse_gamma(x: float, shape: float, scale: float) -> float:
    """Log density at x."""
    if x <= 0.0:
        return -INF
    if shape >= LARGE:
        return log_gamma_mass(scale / x, shape) - log(x)
    return shape * log(scale) - lgamma(shape) - (shape + 1.0) * log(x) - scale / x


@native
def sample_chi_squared(ctx: Context, df: float) -> float:
    """A gamma with scale 2."""
    return sample_gamma(ctx, 0.5 * df, 2.0)


@native
def logpdf_chi_squared(x: float, df: float) -> float:
    """Log density at x."""
    return logpdf_gamma(x, 0.5 * df, 2.0)


@native
def drawn_chi_squared(x: float, df: float) -> float:
    """Log density of a draw that may have been rounded to 0."""
    return drawn_gamma(x, 0.5 * df, 2.0)


@native
def free_chi_squared(q: float, df: float) -> float:
    """Log density of the logarithm of a draw."""
    return free_gamma(q, 0.5 * df, 2.0)


@native
def sample_beta(ctx: Context, a: float, b: float) -> float:
    """Ratio of gammas, in logarithms so that tiny shapes don't give 0/0."""
    x = log_standard_gamma(ctx, a)
    y = log_standard_gamma(ctx, b)
    return 1.0 / (1.0 + exp(y - x))


@native
def logpdf_beta(x: float, a: float, b: float) -> float:
    """Log density at x."""
    if x < 0.0 or x > 1.0:
        return -INF
    if min(a, b) >= LARGE and x > 0.0 and x < 1.0:
        return log_beta_mass(x, 1.0 - x, a, b) - log(x) - log1p(-x)
    return xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - lbeta(a, b)


@native
def drawn_beta(x: float, a: float, b: float) -> float:
    """Log density of a draw that may have been rounded to 0 or 1."""
    if x < 0.0 or x > 1.0:
        return -INF
    if min(a, b) >= LARGE and x > 0.0 and x < 1.0:
        return log_beta_mass(x, 1.0 - x, a, b) - log(x) - log1p(-x)
    return log_power(a, x, LOG_LEAST) + log_power(b, 1.0 - x, LOG_HALF_STEP) - lbeta(a, b)


@native
def free_beta(q: float, a: float, b: float) -> float:
    """Log density of the log odds of a draw."""
    if min(a, b) >= LARGE:
        return log_beta_mass(sigmoid(q), sigmoid(-q), a, b)
    rest = log1p(exp(-abs(q)))
    return a * (min(q, 0.0) - rest) - b * (max(q, 0.0) + rest) - lbeta(a, b)


@native
def sample_kumaraswamy(ctx: Context, a: float, b: float) -> float:
    """By the quantile function."""
    inner = -expm1(log(next_uniform(ctx)) / b)
    return power(inner, 1.0 / a)


@native
def logpdf_kumaraswamy(x: float, a: float, b: float) -> float:
    """Log density at x."""
    if x < 0.0 or x > 1.0:
        return -INF
    return log(a * b) + xlogy(a - 1.0, x) + xlog1py(b - 1.0, -power(x, a))


@native
def sample_log_normal(ctx: Context, mean: float, sd: float) -> float:
    """Exponential of a normal."""
    return exp(mean + sd * normal_quantile(next_uniform(ctx)))


@native
def logpdf_log_normal(x: float, mean: float, sd: float) -> float:
    """Log density at x."""
    if x <= 0.0:
        return -INF
    z = (log(x) - mean) / sd
    return -0.5 * z * z - log(sd) - HALF_LOG_TAU - log(x)


@native
def sample_weibull(ctx: Context, shape: float, scale: float) -> float:
    """By the quantile function."""
    return scale * power(-log(next_uniform(ctx)), 1.0 / shape)


@native
def logpdf_weibull(x: float, shape: float, scale: float) -> float:
    """Log density at x."""
    if x < 0.0:
        return -INF
    z = x / scale
    return log(shape / scale) + xlogy(shape - 1.0, z) - power(z, shape)


@native
def sample_pareto(ctx: Context, shape: float, minimum: float) -> float:
    """By the quantile function."""
    return minimum * exp(-log(next_uniform(ctx)) / shape)


@native
def logpdf_pareto(x: float, shape: float, minimum: float) -> float:
    """Log density at x."""
    if x < minimum:
        return -INF
    return log(shape) + shape * log(minimum) - (shape + 1.0) * log(x)


@native
def sample_half_normal(ctx: Context, sd: float) -> float:
    """Absolute value of a normal."""
    return abs(sd * normal_quantile(next_uniform(ctx)))


@native
def logpdf_half_normal(x: float, sd: float) -> float:
    """Log density at x."""
    if x < 0.0:
        return -INF
    z = x / sd
    return LOG_2 - 0.5 * z * z - log(sd) - HALF_LOG_TAU


@native
def sample_half_cauchy(ctx: Context, scale: float) -> float:
    """By the quantile function."""
    return scale * tan(HALF_PI * next_uniform(ctx))


@native
def logpdf_half_cauchy(x: float, scale: float) -> float:
    """Log density at x."""
    if x < 0.0:
        return -INF
    z = x / scale
    return LOG_2 - LOG_PI - log(scale) - log_one_and_square(z, 1.0)


@native
def sample_rayleigh(ctx: Context, scale: float) -> float:
    """By the quantile function."""
    return scale * sqrt(-2.0 * log(next_uniform(ctx)))


@native
def logpdf_rayleigh(x: float, scale: float) -> float:
    """Log density at x."""
    if x <= 0.0:
        return -INF
    z = x / scale
    return log(z / scale) - 0.5 * z * z
