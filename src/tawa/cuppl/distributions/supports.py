"""Real numbers to values of a support, and the log of the derivative or determinant of that.

A support of vectors has three natives: `room_...` says how many numbers a value is made of,
`to_...` makes it and `..._density` is the log of the determinant. They take its order: the length
of the first vector among a distribution's parameters, or the first integer.
"""

from __future__ import annotations

import math

from tawa.cuppl.numeric.elementary import exp, log, log1p, sigmoid, tanh
from tawa.cuppl.numeric.linear import row_products, side_of
from tawa.cuppl.numeric.primitives import Context, FloatVector, new_floats
from tawa.cuppl.translation.native import native

INF = math.inf
LOG_2 = math.log(2.0)


@native
def between(low: float, high: float, q: float) -> float:
    """A real number to the interval (low, high)."""
    return low + (high - low) * sigmoid(q)


@native
def between_density(low: float, high: float, q: float) -> float:
    """log of the derivative of `between`."""
    a = abs(q)
    return log(high - low) - a - 2.0 * log1p(exp(-a))


@native
def within(low: float, high: float, q: float) -> float:
    """A real number to the interval (low, high), whose ends may be infinite."""
    if low > -INF and high < INF:
        return between(low, high, q)
    if low > -INF:
        return low + exp(q)
    return high - exp(-q) if high < INF else q


@native
def within_density(low: float, high: float, q: float) -> float:
    """log of the derivative of `within`."""
    if low > -INF and high < INF:
        return between_density(low, high, q)
    if low > -INF:
        return q
    return -q if high < INF else 0.0


@native
def room_simplex(order: int) -> int:
    """One less than there are shares."""
    return order - 1


@native
def to_simplex(ctx: Context, free: FloatVector, order: int) -> FloatVector:
    """n - 1 real numbers to a point of the simplex, by breaking a stick."""
    n = order
    out = new_floats(ctx, n)
    rest = 1.0
    for k in range(n - 1):
        share = sigmoid(free[k] - log(float(n - 1 - k)))
        out[k] = rest * share
        rest = rest - out[k]
    out[n - 1] = rest
    return out


@native
def simplex_density(free: FloatVector, order: int) -> float:
    """log of the determinant of `to_simplex`."""
    n = order
    rest = 0.0
    total = 0.0
    for k in range(n - 1):
        q = free[k] - log(float(n - 1 - k))
        a = abs(q)
        both = -a - 2.0 * log1p(exp(-a))
        total = total + rest + both
        rest = rest - (max(q, 0.0) + log1p(exp(-a)))
    return total


@native
def room_ordered(order: int) -> int:
    """As many as there are values."""
    return order


@native
def to_ordered(ctx: Context, free: FloatVector, order: int) -> FloatVector:
    """The first value, and the logarithms of the distances between neighbours."""
    out = new_floats(ctx, order)
    value = 0.0
    for k in range(order):
        value = free[k] if k == 0 else value + exp(free[k])
        out[k] = value
    return out


@native
def ordered_density(free: FloatVector, order: int) -> float:
    """log of the determinant of `to_ordered`."""
    total = 0.0
    for k in range(1, order):
        total = total + free[k]
    return total


@native
def room_correlation_factor(order: int) -> int:
    """A partial correlation for each cell below the diagonal."""
    return order * (order - 1) // 2


@native
def log_one_less_square(y: float) -> float:
    """log(1 - tanh(y)^2)."""
    a = abs(y)
    return 2.0 * (LOG_2 - a - log1p(exp(-2.0 * a)))


@native
def to_correlation_factor(ctx: Context, free: FloatVector, order: int) -> FloatVector:
    """Partial correlations, row by row, to the Cholesky factor of a correlation matrix."""
    n = order
    out = new_floats(ctx, n * n)
    at = 0
    for i in range(n):
        log_rest = 0.0
        for j in range(n):
            out[i * n + j] = 0.0
        for j in range(i):
            out[i * n + j] = tanh(free[at]) * exp(0.5 * log_rest)
            log_rest = log_rest + log_one_less_square(free[at])
            at = at + 1
        out[i * n + i] = exp(0.5 * log_rest)
    return out


@native
def correlation_factor_density(free: FloatVector, order: int) -> float:
    """log of the determinant of `to_correlation_factor`."""
    total = 0.0
    at = 0
    for i in range(order):
        log_rest = 0.0
        for _ in range(i):
            more = log_one_less_square(free[at])
            total = total + more + 0.5 * log_rest
            log_rest = log_rest + more
            at = at + 1
    return total


@native
def room_correlation(order: int) -> int:
    """As many as the factor is made of."""
    return room_correlation_factor(order)


@native
def to_correlation(ctx: Context, free: FloatVector, order: int) -> FloatVector:
    """Partial correlations to a correlation matrix."""
    factor = to_correlation_factor(ctx, free, order)
    return row_products(ctx, factor, factor, order)


@native
def room_covariance(order: int) -> int:
    """The cells of a factor, of which there are `order` with those above the diagonal."""
    n = side_of(order)
    return n * (n + 1) // 2


@native
def covariance_root(ctx: Context, free: FloatVector, n: int) -> FloatVector:
    """The Cholesky factor, row by row, whose diagonal is given by its logarithms."""
    out = new_floats(ctx, n * n)
    at = 0
    for i in range(n):
        for j in range(n):
            out[i * n + j] = 0.0
        for j in range(i):
            out[i * n + j] = free[at]
            at = at + 1
        out[i * n + i] = exp(free[at])
        at = at + 1
    return out


@native
def to_covariance(ctx: Context, free: FloatVector, order: int) -> FloatVector:
    """A symmetric positive definite matrix."""
    n = side_of(order)
    root = covariance_root(ctx, free, n)
    return row_products(ctx, root, root, n)


@native
def covariance_density(free: FloatVector, order: int) -> float:
    """log of the determinant of `to_covariance`."""
    n = side_of(order)
    total = float(n) * LOG_2
    at = -1
    for i in range(n):
        at = at + i + 1
        total = total + float(n - i + 1) * free[at]
    return total
