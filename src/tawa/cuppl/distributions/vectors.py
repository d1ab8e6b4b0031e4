"""Distributions on vectors."""

from __future__ import annotations

import math

from tawa.cuppl.distributions.discrete import (
    logpdf_binomial,
    sample_binomial,
    sum_weights,
    valid_weights,
)
from tawa.cuppl.distributions.positive import LOG_LEAST, log_power, log_standard_gamma
from tawa.cuppl.numeric.elementary import exp, log, log1p
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import (
    Context,
    FloatVector,
    IntVector,
    new_floats,
    new_ints,
    sqrt,
)
from tawa.cuppl.numeric.special import LARGE, lgamma, normal_quantile, xlogy
from tawa.cuppl.translation.native import native

INF = math.inf
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


@native
def valid_dirichlet(concentration: FloatVector) -> bool:
    """Positive finite concentrations, at least one."""
    for i in range(len(concentration)):
        if not (concentration[i] > 0.0 and concentration[i] < INF):
            return False
    return len(concentration) > 0


@native
def sample_dirichlet(ctx: Context, concentration: FloatVector) -> FloatVector:
    """Normalised gammas, in logarithms so that tiny concentrations don't underflow to 0/0."""
    n = len(concentration)
    out = new_floats(ctx, n)
    high = -INF
    for i in range(n):
        out[i] = log_standard_gamma(ctx, concentration[i])
        high = max(high, out[i])
    total = 0.0
    for i in range(n):
        out[i] = exp(out[i] - high)
        total = total + out[i]
    for i in range(n):
        out[i] = out[i] / total
    return out


@native
def logpdf_dirichlet(x: FloatVector, concentration: FloatVector) -> float:
    """Log density at a point of the simplex (sum within 1e-8 of 1)."""
    n = len(concentration)
    if len(x) != n:
        return -INF
    mass = 0.0
    total = 0.0
    density = 0.0
    for i in range(n):
        if x[i] < 0.0:
            return -INF
        mass = mass + x[i]
        total = total + concentration[i]
        density = density + xlogy(concentration[i] - 1.0, x[i]) - lgamma(concentration[i])
    return density + lgamma(total) if abs(mass - 1.0) < 1e-8 else -INF


@native
def drawn_dirichlet(x: FloatVector, concentration: FloatVector) -> float:
    """Log density of a draw of which parts may have been rounded to 0."""
    n = len(concentration)
    if len(x) != n:
        return -INF
    total = 0.0
    density = 0.0
    for i in range(n):
        total = total + concentration[i]
        power = log_power(concentration[i], x[i], LOG_LEAST)
        density = density + power - lgamma(concentration[i])
    return density + lgamma(total)


@native
def free_dirichlet(free: FloatVector, concentration: FloatVector) -> float:
    """Log density of the numbers by which a stick is broken: see `stick`."""
    n = len(concentration)
    total = 0.0
    density = 0.0
    rest = 0.0
    for i in range(n):
        share = 0.0
        left = 0.0
        if i < n - 1:
            q = free[i] - log(float(n - 1 - i))
            both = log1p(exp(-abs(q)))
            share = min(q, 0.0) - both
            left = -max(q, 0.0) - both
        total = total + concentration[i]
        density = density + concentration[i] * (rest + share) - lgamma(concentration[i])
        rest = rest + left
    return density + lgamma(total)


@native
def valid_multinomial(n: int, weights: FloatVector) -> bool:
    """At least 0 trials and valid weights."""
    return n >= 0 and valid_weights(weights)


@native
def sample_multinomial(ctx: Context, n: int, weights: FloatVector) -> IntVector:
    """Conditional binomials."""
    out = new_ints(ctx, len(weights))
    rest = sum_weights(weights)
    left = n
    for i in range(len(weights)):
        p = min(weights[i] / rest, 1.0) if rest > 0.0 else 0.0
        if i == len(weights) - 1:
            p = 1.0
        out[i] = sample_binomial(ctx, left, p) if left > 0 else 0
        left = left - out[i]
        rest = rest - weights[i]
    return out


@native
def large_multinomial(x: IntVector, weights: FloatVector) -> float:
    """Log probability of many counts: each is binomial, given those after it."""
    density = 0.0
    seen = 0
    mass = 0.0
    for back in range(len(weights)):
        i = len(weights) - 1 - back
        seen = seen + x[i]
        mass = mass + weights[i]
        if seen > 0:
            p = min(weights[i] / mass, 1.0) if mass > 0.0 else 0.0
            if mass <= 0.0:
                return -INF
            density = density + logpdf_binomial(x[i], seen, p)
    return density


@native
def logpdf_multinomial(x: IntVector, n: int, weights: FloatVector) -> float:
    """Log probability of the counts."""
    if len(x) != len(weights):
        return -INF
    total = sum_weights(weights)
    left = n
    for i in range(len(weights)):
        if x[i] < 0 or x[i] > left:
            return -INF
        left = left - x[i]
    if left != 0:
        return -INF
    if float(n) >= LARGE:
        return large_multinomial(x, weights)
    density = lgamma(float(n) + 1.0)
    for i in range(len(weights)):
        density = density + xlogy(float(x[i]), weights[i] / total) - lgamma(float(x[i]) + 1.0)
    return density


@native
def valid_diagonal_normal(mean: FloatVector, sd: FloatVector) -> bool:
    """Equal lengths and positive finite scales."""
    if len(mean) != len(sd):
        return False
    for i in range(len(sd)):
        if not (sd[i] > 0.0 and sd[i] < INF and mean[i] - mean[i] == 0.0):
            return False
    return True


@native
def sample_diagonal_normal(ctx: Context, mean: FloatVector, sd: FloatVector) -> FloatVector:
    """Independent normals."""
    out = new_floats(ctx, len(mean))
    for i in range(len(mean)):
        out[i] = mean[i] + sd[i] * normal_quantile(next_uniform(ctx))
    return out


@native
def logpdf_diagonal_normal(x: FloatVector, mean: FloatVector, sd: FloatVector) -> float:
    """Log density at x."""
    if len(x) != len(mean):
        return -INF
    density = 0.0
    for i in range(len(mean)):
        z = (x[i] - mean[i]) / sd[i]
        density = density - 0.5 * z * z - log(sd[i]) - HALF_LOG_TAU
    return density


@native
def valid_mv_normal(mean: FloatVector, factor: FloatVector) -> bool:
    """`factor` is the n*n row-major Cholesky factor: positive diagonal."""
    n = len(mean)
    if len(factor) != n * n:
        return False
    for i in range(n):
        if not (factor[i * n + i] > 0.0 and factor[i * n + i] < INF):
            return False
    return True


@native
def sample_mv_normal(ctx: Context, mean: FloatVector, factor: FloatVector) -> FloatVector:
    """mean + factor @ z, computed from the last row up so that z can live in the result."""
    n = len(mean)
    out = new_floats(ctx, n)
    for i in range(n):
        out[i] = normal_quantile(next_uniform(ctx))
    for back in range(n):
        i = n - 1 - back
        total = mean[i]
        for j in range(i + 1):
            total = total + factor[i * n + j] * out[j]
        out[i] = total
    return out


@native
def logpdf_mv_normal(ctx: Context, x: FloatVector, mean: FloatVector, factor: FloatVector) -> float:
    """Log density at x, by forward substitution."""
    n = len(mean)
    if len(x) != n:
        return -INF
    z = new_floats(ctx, n)
    density = 0.0
    for i in range(n):
        total = x[i] - mean[i]
        for j in range(i):
            total = total - factor[i * n + j] * z[j]
        z[i] = total / factor[i * n + i]
        density = density - 0.5 * z[i] * z[i] - log(factor[i * n + i]) - HALF_LOG_TAU
    return density


@native
def dot_product(v: FloatVector, w: FloatVector) -> float:
    """The sum of the products of two vectors' elements, of which each fourth is added up apart."""
    n = len(v)
    first = 0.0
    second = 0.0
    third = 0.0
    fourth = 0.0
    for k in range(0, n - 3, 4):
        first = first + v[k] * w[k]
        second = second + v[k + 1] * w[k + 1]
        third = third + v[k + 2] * w[k + 2]
        fourth = fourth + v[k + 3] * w[k + 3]
    for k in range(n - n % 4, n):
        first = first + v[k] * w[k]
    return (first + second) + (third + fourth)


@native
def cholesky(ctx: Context, matrix: FloatVector, n: int) -> FloatVector:
    """Cholesky factor of a symmetric n*n row-major matrix; NaN where it isn't positive definite."""
    out = new_floats(ctx, n * n)
    for i in range(n):
        for j in range(n):
            out[i * n + j] = 0.0
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i * n + j]
            for k in range(j):
                total = total - out[i * n + k] * out[j * n + k]
            out[i * n + j] = sqrt(total) if i == j else total / out[j * n + j]
    return out
