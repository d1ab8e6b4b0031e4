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
