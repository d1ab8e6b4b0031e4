"""Ordered vectors, and the outcomes that cutpoints tell apart."""

from __future__ import annotations

import math

from tawa.cuppl.numeric.elementary import exp, expm1, is_positive, log, log1p
from tawa.cuppl.numeric.philox import next_uniform
from tawa.cuppl.numeric.primitives import Context, FloatVector, new_floats
from tawa.cuppl.numeric.special import lgamma, normal_quantile
from tawa.cuppl.translation.native import native

INF = math.inf
HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
MOST = 1_000_000


@native
def valid_ordered_normal(n: int, mean: float, sd: float) -> bool:
    """At least one value, a finite mean and a positive scale."""
    return n > 0 and n <= MOST and mean - mean == 0.0 and is_positive(sd)


@native
def sample_ordered_normal(ctx: Context, n: int, mean: float, sd: float) -> FloatVector:
    """Order statistics of uniforms, from the largest down (Devroye 1986, V.3), by the quantile."""
    out = new_floats(ctx, n)
    above = 0.0
    for k in range(n - 1, -1, -1):
        above = above + log(next_uniform(ctx)) / float(k + 1)
        share = exp(above)
        if share < 0.5:
            out[k] = mean + sd * normal_quantile(share)
        else:
            out[k] = mean - sd * normal_quantile(-expm1(above))
    return out


@native
def logpdf_ordered_normal(x: FloatVector, n: int, mean: float, sd: float) -> float:
    """Log density of n draws of a normal in ascending order."""
    if len(x) != n:
        return -INF
    squares = 0.0
    for k in range(n):
        if k > 0 and x[k] < x[k - 1]:
            return -INF
        z = (x[k] - mean) / sd
        squares = squares + z * z
    each = log(sd) + HALF_LOG_TAU
    return lgamma(float(n) + 1.0) - 0.5 * squares - float(n) * each


@native
def valid_ordered_logistic(predictor: float, cutpoints: FloatVector) -> bool:
    """Finite cutpoints that ascend."""
    if predictor - predictor != 0.0:
        return False
    for k in range(len(cutpoints)):
        if cutpoints[k] - cutpoints[k] != 0.0:
            return False
        if k > 0 and not cutpoints[k] > cutpoints[k - 1]:
            return False
    return True


@native
def sample_ordered_logistic(ctx: Context, predictor: float, cutpoints: FloatVector) -> int:
    """How many cutpoints a logistic draw around the predictor is above."""
    u = next_uniform(ctx)
    value = predictor + log(u) - log1p(-u)
    above = 0
    for k in range(len(cutpoints)):
        if value > cutpoints[k]:
            above = above + 1
    return above


@native
def log_sigmoid(x: float) -> float:
    """log of 1 / (1 + exp(-x))."""
    return min(x, 0.0) - log1p(exp(-abs(x)))


@native
def logpdf_ordered_logistic(x: int, predictor: float, cutpoints: FloatVector) -> float:
    """Log probability that a logistic draw lies above just x cutpoints."""
    n = len(cutpoints)
    if x < 0 or x > n:
        return -INF
    if n == 0:
        return 0.0
    if x == 0:
        return log_sigmoid(cutpoints[0] - predictor)
    low = cutpoints[x - 1] - predictor
    if x == n:
        return log_sigmoid(-low)
    high = cutpoints[x] - predictor
    return log_sigmoid(high) + log_sigmoid(-low) + log(-expm1(low - high))


@native
def count_ordered_logistic(predictor: float, cutpoints: FloatVector) -> int:
    """One more than there are cutpoints."""
    return len(cutpoints) + 1
