"""Distributions of correlations, by the partial correlations that make a matrix row by row.

Lewandowski, Kurowicka and Joe (2009). A matrix is the vector of its rows.
"""

from __future__ import annotations

import math

from tawa.cuppl.distributions.matrices import is_symmetric
from tawa.cuppl.distributions.positive import sample_beta
from tawa.cuppl.distributions.supports import (
    correlation_factor_density,
    log_one_less_square,
)
from tawa.cuppl.numeric.elementary import log
from tawa.cuppl.numeric.linear import cholesky, dot_range, positive_diagonal, row_products
from tawa.cuppl.numeric.primitives import Context, FloatVector, new_floats, sqrt
from tawa.cuppl.numeric.special import lbeta
from tawa.cuppl.translation.native import native

INF = math.inf
LOG_2 = math.log(2.0)
LARGEST = 10_000


@native
def valid_lkj(n: int, concentration: float) -> bool:
    """At least one row, and a positive concentration."""
    return n > 0 and n <= LARGEST and concentration > 0.0 and concentration < INF


@native
def sample_lkj_cholesky(ctx: Context, n: int, concentration: float) -> FloatVector:
    """Each partial correlation is beta distributed between -1 and 1, whatever the others are."""
    out = new_floats(ctx, n * n)
    for i in range(n):
        rest = 1.0
        for j in range(n):
            out[i * n + j] = 0.0
        for j in range(i):
            shape = concentration + 0.5 * float(n - 2 - j)
            share = sample_beta(ctx, shape, shape)
            z = 2.0 * share - 1.0
            out[i * n + j] = z * sqrt(rest)
            rest = rest * 4.0 * share * (1.0 - share)
        out[i * n + i] = sqrt(rest)
    return out


@native
def lkj_constant(n: int, concentration: float) -> float:
    """log of what makes the density of the partial correlations' betas one."""
    total = 0.0
    for j in range(n - 1):
        shape = concentration + 0.5 * float(n - 2 - j)
        one = (2.0 * shape - 1.0) * LOG_2 + lbeta(shape, shape)
        total = total + float(n - 1 - j) * one
    return total


@native
def logpdf_lkj_cholesky(x: FloatVector, n: int, concentration: float) -> float:
    """Log density of the Cholesky factor of a correlation matrix."""
    if not positive_diagonal(x, n):
        return -INF
    density = -lkj_constant(n, concentration)
    for i in range(n):
        if not abs(dot_range(x, i * n, x, i * n, i + 1) - 1.0) < 1e-8:
            return -INF
        for j in range(i + 1, n):
            if x[i * n + j] != 0.0:
                return -INF
        if i > 0:
            power = float(n - 1 - i) + 2.0 * concentration - 2.0
            density = density + power * log(x[i * n + i])
    return density


@native
def free_lkj_cholesky(free: FloatVector, n: int, concentration: float) -> float:
    """Log density of the numbers whose hyperbolic tangents are the partial correlations."""
    density = correlation_factor_density(free, n) - lkj_constant(n, concentration)
    at = 0
    for i in range(n):
        power = float(n - 1 - i) + 2.0 * concentration - 2.0
        for _ in range(i):
            density = density + 0.5 * power * log_one_less_square(free[at])
            at = at + 1
    return density


@native
def sample_lkj(ctx: Context, n: int, concentration: float) -> FloatVector:
    """A correlation matrix, of its factor."""
    factor = sample_lkj_cholesky(ctx, n, concentration)
    out = row_products(ctx, factor, factor, n)
    for i in range(n):
        out[i * n + i] = 1.0
    return out


@native
def logpdf_lkj(ctx: Context, x: FloatVector, n: int, concentration: float) -> float:
    """Log density of a correlation matrix."""
    if not is_symmetric(x, n):
        return -INF
    for i in range(n):
        if not abs(x[i * n + i] - 1.0) < 1e-8:
            return -INF
    factor = cholesky(ctx, x, n)
    if not positive_diagonal(factor, n):
        return -INF
    density = -lkj_constant(n, concentration)
    for i in range(1, n):
        density = density + 2.0 * (concentration - 1.0) * log(factor[i * n + i])
    return density


@native
def free_lkj(free: FloatVector, n: int, concentration: float) -> float:
    """The density of the factor's unconstrained values: they are the same."""
    return free_lkj_cholesky(free, n, concentration)
