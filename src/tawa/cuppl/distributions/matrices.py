"""Distributions of vectors and matrices with a covariance, which is given by its Cholesky factor.

A matrix is the vector of its rows, one after the other.
"""

from __future__ import annotations

import math

from tawa.cuppl.distributions.positive import sample_chi_squared
from tawa.cuppl.distributions.supports import covariance_density, covariance_root
from tawa.cuppl.numeric.elementary import log, log1p
from tawa.cuppl.numeric.linear import (
    cholesky,
    dot_range,
    log_diagonal,
    positive_diagonal,
    row_products,
    side_of,
    solve_lower,
    transpose,
)
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import Context, FloatVector, new_floats, sqrt
from tawa.cuppl.numeric.special import LARGE, lgamma, lgamma_step, normal_quantile
from tawa.cuppl.translation.native import native

INF = math.inf
LOG_2 = math.log(2.0)
LOG_PI = math.log(math.pi)
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
TOLERANCE = 1e-8
"""How far from symmetric, relative to its size, a matrix may be."""


@native
def valid_mv_normal(mean: FloatVector, factor: FloatVector) -> bool:
    """`factor` is the n*n row-major Cholesky factor: positive diagonal."""
    return positive_diagonal(factor, len(mean))


@native
def sample_mv_normal(ctx: Context, mean: FloatVector, factor: FloatVector) -> FloatVector:
    """mean + factor @ z, computed from the last row up so that z can live in the result."""
    n = len(mean)
    out = new_floats(ctx, n)
    for i in range(n):
        out[i] = normal_quantile(next_uniform(ctx))
    for i in range(n - 1, -1, -1):
        out[i] = mean[i] + dot_range(factor, i * n, out, 0, i + 1)
    return out


@native
def squared_distance(ctx: Context, x: FloatVector, mean: FloatVector, factor: FloatVector) -> float:
    """The square of how far x is from the mean, by the metric of the covariance."""
    n = len(mean)
    away = new_floats(ctx, n)
    for i in range(n):
        away[i] = x[i] - mean[i]
    z = solve_lower(ctx, factor, away, 0)
    return dot_range(z, 0, z, 0, n)


@native
def logpdf_mv_normal(ctx: Context, x: FloatVector, mean: FloatVector, factor: FloatVector) -> float:
    """Log density at x, by forward substitution."""
    n = len(mean)
    if len(x) != n:
        return -INF
    square = squared_distance(ctx, x, mean, factor)
    return -0.5 * square - log_diagonal(factor, n) - float(n) * HALF_LOG_TAU


@native
def valid_mv_student_t(df: float, location: FloatVector, factor: FloatVector) -> bool:
    """Positive degrees of freedom, and a Cholesky factor of the location's size."""
    return df > 0.0 and df < INF and positive_diagonal(factor, len(location))


@native
def sample_mv_student_t(
    ctx: Context, df: float, location: FloatVector, factor: FloatVector
) -> FloatVector:
    """A normal vector, divided by the root of a chi-squared draw over its degrees of freedom."""
    shrink = sqrt(df / sample_chi_squared(ctx, df))
    out = sample_mv_normal(ctx, location, factor)
    for i in range(len(out)):
        out[i] = location[i] + shrink * (out[i] - location[i])
    return out


@native
def logpdf_mv_student_t(
    ctx: Context, x: FloatVector, df: float, location: FloatVector, factor: FloatVector
) -> float:
    """Log density at x."""
    n = len(location)
    if len(x) != n:
        return -INF
    square = squared_distance(ctx, x, location, factor)
    half = 0.5 * (df + float(n))
    scales = log_diagonal(factor, n) + 0.5 * float(n) * (log(df) + LOG_PI)
    if df >= LARGE:
        step = lgamma_step(0.5 * df, 0.5 * float(n))
    else:
        step = lgamma(half) - lgamma(0.5 * df)
    return step - scales - half * log1p(square / df)


@native
def valid_wishart(df: float, factor: FloatVector) -> bool:
    """A Cholesky factor of the scale, and more degrees of freedom than its rows less 1."""
    n = side_of(len(factor))
    return n > 0 and df > float(n) - 1.0 and df < INF and positive_diagonal(factor, n)


@native
def bartlett(ctx: Context, df: float, n: int) -> FloatVector:
    """The Cholesky factor of a Wishart draw whose scale is the identity."""
    out = new_floats(ctx, n * n)
    for i in range(n):
        for j in range(n):
            out[i * n + j] = normal_quantile(next_uniform(ctx)) if j < i else 0.0
        out[i * n + i] = sqrt(sample_chi_squared(ctx, df - float(i)))
    return out


@native
def sample_wishart(ctx: Context, df: float, factor: FloatVector) -> FloatVector:
    """By Bartlett's decomposition."""
    n = side_of(len(factor))
    turned = transpose(ctx, bartlett(ctx, df, n), n, n)
    root = new_floats(ctx, n * n)
    for i in range(n):
        for j in range(n):
            root[i * n + j] = dot_range(factor, i * n, turned, j * n, i + 1)
    return row_products(ctx, root, root, n)


@native
def log_multigamma(a: float, n: int) -> float:
    """log of the multivariate gamma function."""
    total = 0.25 * float(n * (n - 1)) * LOG_PI
    for i in range(n):
        total = total + lgamma(a - 0.5 * float(i))
    return total


@native
def squares_of_solution(ctx: Context, lower: FloatVector, right: FloatVector, n: int) -> float:
    """The sum of the squares of the cells of lower^-1 @ right."""
    columns = transpose(ctx, right, n, n)
    total = 0.0
    for j in range(n):
        x = solve_lower(ctx, lower, columns, j * n)
        total = total + dot_range(x, 0, x, 0, n)
    return total


@native
def wishart_of_root(ctx: Context, root: FloatVector, df: float, factor: FloatVector) -> float:
    """Log density of root @ root^T."""
    n = side_of(len(factor))
    trace = squares_of_solution(ctx, factor, root, n)
    powers = (df - float(n) - 1.0) * log_diagonal(root, n) - df * log_diagonal(factor, n)
    return powers - 0.5 * trace - 0.5 * df * float(n) * LOG_2 - log_multigamma(0.5 * df, n)


@native
def inverse_of_root(ctx: Context, root: FloatVector, df: float, factor: FloatVector) -> float:
    """Log density of root @ root^T under the inverse Wishart distribution."""
    n = side_of(len(factor))
    trace = squares_of_solution(ctx, root, factor, n)
    powers = df * log_diagonal(factor, n) - (df + float(n) + 1.0) * log_diagonal(root, n)
    return powers - 0.5 * trace - 0.5 * df * float(n) * LOG_2 - log_multigamma(0.5 * df, n)


@native
def is_symmetric(x: FloatVector, n: int) -> bool:
    """Whether an n*n matrix is symmetric, but for rounding."""
    if len(x) != n * n:
        return False
    for i in range(n):
        for j in range(i):
            a = x[i * n + j]
            b = x[j * n + i]
            if not abs(a - b) <= TOLERANCE * (abs(a) + abs(b)):
                return False
    return True


@native
def logpdf_wishart(ctx: Context, x: FloatVector, df: float, factor: FloatVector) -> float:
    """Log density of a positive definite matrix."""
    n = side_of(len(factor))
    if not is_symmetric(x, n):
        return -INF
    root = cholesky(ctx, x, n)
    return wishart_of_root(ctx, root, df, factor) if positive_diagonal(root, n) else -INF


@native
def free_wishart(ctx: Context, free: FloatVector, df: float, factor: FloatVector) -> float:
    """Log density of unconstrained values."""
    n = side_of(len(factor))
    root = covariance_root(ctx, free, n)
    return wishart_of_root(ctx, root, df, factor) + covariance_density(free, n * n)


@native
def sample_inverse_wishart(ctx: Context, df: float, factor: FloatVector) -> FloatVector:
    """The rows of factor @ A^-T, for Bartlett's A."""
    n = side_of(len(factor))
    lower = bartlett(ctx, df, n)
    root = new_floats(ctx, n * n)
    for i in range(n):
        row = solve_lower(ctx, lower, factor, i * n)
        for j in range(n):
            root[i * n + j] = row[j]
    out = new_floats(ctx, n * n)
    for i in range(n):
        for j in range(n):
            out[i * n + j] = dot_range(root, i * n, root, j * n, n)
    return out


@native
def logpdf_inverse_wishart(ctx: Context, x: FloatVector, df: float, factor: FloatVector) -> float:
    """Log density of a positive definite matrix."""
    n = side_of(len(factor))
    if not is_symmetric(x, n):
        return -INF
    root = cholesky(ctx, x, n)
    return inverse_of_root(ctx, root, df, factor) if positive_diagonal(root, n) else -INF


@native
def free_inverse_wishart(ctx: Context, free: FloatVector, df: float, factor: FloatVector) -> float:
    """Log density of unconstrained values."""
    n = side_of(len(factor))
    root = covariance_root(ctx, free, n)
    return inverse_of_root(ctx, root, df, factor) + covariance_density(free, n * n)
