"""Distributions on booleans and integers.

Those with a finite support also say where it starts and how many values it has, which is what
exact enumeration goes through.
"""

from __future__ import annotations

import math

from tawa.cuppl.distributions.positive import sample_beta, sample_gamma
from tawa.cuppl.numeric.elementary import exp, log, log1p
from tawa.cuppl.numeric.philox import next_bits, next_uniform
from tawa.cuppl.numeric.primitives import Context, FloatVector, floor, shru, sqrt
from tawa.cuppl.numeric.special import (
    LARGE,
    deviance,
    lbeta,
    lchoose,
    lgamma,
    log_beta_mass,
    log_factorial_rest,
    xlog1py,
    xlogy,
)
from tawa.cuppl.translation.native import native, outlined

STIRLING_RESTS = tuple(
    math.lgamma(k + 1.0) - ((k + 0.5) * math.log(k + 1.0) - (k + 1.0) + 0.5 * math.log(math.tau))
    for k in range(10)
)
INF = math.inf
TAU = 2.0 * math.pi
MOST = 9223372036854775807
ONE_BY_ONE = 100
"""So many draws without replacement are made one by one."""
EXACT = 4503599627370496
"""2^52: draws from fewer values use 52 bits."""


@native
def valid_probability(p: float) -> bool:
    """Between 0 and 1."""
    return p >= 0.0 and p <= 1.0


@native
def sample_bernoulli(ctx: Context, p: float) -> bool:
    """True with probability p."""
    return next_uniform(ctx) < p


@native
def logpdf_bernoulli(x: bool, p: float) -> float:
    """Log probability of x."""
    return log(p) if x else log1p(-p)


@native
def valid_binomial(n: int, p: float) -> bool:
    """At least 0 trials and a probability."""
    return n >= 0 and p >= 0.0 and p <= 1.0


@outlined
@native
def binomial_inversion(ctx: Context, n: int, p: float) -> int:
    """Sequential search; n * p is below 10 and p at most 1/2."""
    q = 1.0 - p
    ratio = p / q
    mass = exp(float(n) * log1p(-p))
    u = next_uniform(ctx)
    k = 0
    while u > mass and k < n:
        u = u - mass
        k = k + 1
        mass = mass * ratio * float(n - k + 1) / float(k)
    return k


@native
def stirling_rest(k: float) -> float:
    """log k! - ((k + 1/2) log(k + 1) - (k + 1) + log(tau) / 2), to 1e-11."""
    if k < 10.0:
        return STIRLING_RESTS[int(k)]
    y = 1.0 / (k + 1.0)
    z = y * y
    return y * (0.08333333333333333 - z * (0.002777777777777778 - z * 0.0007936507936507937))


@native
def large_binomial(k: float, count: float, p: float) -> float:
    """Log probability where k and count - k are large (Loader 2000)."""
    left = count - k
    rest = log_factorial_rest(count) - log_factorial_rest(k) - log_factorial_rest(left)
    off = deviance(k, count * p) + deviance(left, count * (1.0 - p))
    return rest - off - 0.5 * log(TAU * k * (left / count))


@outlined
@native
def log_binomial_ratio(k: float, mode: float, count: float, p: float) -> float:
    """log of the probability of k over that of another count, in n trials."""
    if min(min(mode, k), min(count - mode, count - k)) >= 1000000.0:
        return large_binomial(k, count, p) - large_binomial(mode, count, p)
    rest = stirling_rest(mode) + stirling_rest(count - mode)
    rest = rest - stirling_rest(k) - stirling_rest(count - k)
    hits = (mode + 0.5) * log((mode + 1.0) / (k + 1.0))
    misses = (count - mode + 0.5) * log((count - mode + 1.0) / (count - k + 1.0))
    odds = p * (count - k + 1.0) / ((1.0 - p) * (k + 1.0))
    return rest + hits + misses + (k - mode) * log(odds)


@outlined
@native
def binomial_rejection(ctx: Context, n: int, p: float) -> int:
    """Transformed rejection, algorithm BTRS (Hormann 1993)."""
    count = float(n)
    q = 1.0 - p
    spread = sqrt(count * p * q)
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = count * p + 0.5
    vr = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    mode = floor((count + 1.0) * p)
    while True:
        u = next_uniform(ctx) - 0.5
        v = next_uniform(ctx)
        us = 0.5 - abs(u)
        k = floor((2.0 * a / us + b) * u + c)
        if us >= 0.07 and v <= vr:
            return int(k)
        if k >= 0.0 and k <= count:
            v = log(v * alpha / (a / (us * us) + b))
            if v <= log_binomial_ratio(k, mode, count, p):
                return int(k)
    return 0


@native
def sample_binomial(ctx: Context, n: int, p: float) -> int:
    """Successes in n trials."""
    small = min(p, 1.0 - p)
    if float(n) * small < 10.0:
        k = binomial_inversion(ctx, n, small)
    else:
        k = min(binomial_rejection(ctx, n, small), n)
    return n - k if p > 0.5 else k


@native
def logpdf_binomial(x: int, n: int, p: float) -> float:
    """Log probability of x."""
    if x < 0 or x > n:
        return -INF
    k = float(x)
    count = float(n)
    if min(k, count - k) >= LARGE and p > 0.0 and p < 1.0:
        return large_binomial(k, count, p)
    return lchoose(count, k) + xlogy(k, p) + xlog1py(count - k, -p)


@native
def count_binomial(n: int, p: float) -> int:
    """Size of the support 0..n."""
    return n + 1 if n < MOST else -1


@native
def valid_rate(rate: float) -> bool:
    """Non-negative, and so small that draws are integers of 64 bits."""
    return rate >= 0.0 and rate <= 9.0e18


@native
def log_poisson(k: float, rate: float, log_rate: float) -> float:
    """Log probability of a count."""
    if k < LARGE:
        return k * log_rate - rate - lgamma(k + 1.0)
    return -0.5 * log(TAU * k) - log_factorial_rest(k) - deviance(k, rate)


@native
def poisson_rejection(ctx: Context, rate: float) -> int:
    """Transformed rejection, algorithm PTRS (Hormann 1993); rate at least 10."""
    b = 0.931 + 2.53 * sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = log(1.1239 + 1.1328 / (b - 3.4))
    vr = 0.9277 - 3.6224 / (b - 2.0)
    log_rate = log(rate)
    while True:
        u = next_uniform(ctx) - 0.5
        v = next_uniform(ctx)
        us = 0.5 - abs(u)
        k = floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= vr:
            return int(k)
        if k >= 0.0 and (us >= 0.013 or v <= us):
            left = log(v) + inverse_alpha - log(a / (us * us) + b)
            if left <= log_poisson(k, rate, log_rate):
                return int(k)
    return 0


@native
def sample_poisson(ctx: Context, rate: float) -> int:
    """Inversion below rate 10, transformed rejection above."""
    if rate >= 10.0:
        return poisson_rejection(ctx, rate)
    mass = exp(-rate)
    u = next_uniform(ctx)
    k = 0
    while u > mass and k < 200:
        u = u - mass
        k = k + 1
        mass = mass * rate / float(k)
    return k


@native
def logpdf_poisson(x: int, rate: float) -> float:
    """Log probability of x."""
    if x < 0:
        return -INF
    k = float(x)
    if rate <= 0.0:
        return 0.0 if x == 0 else -INF
    return log_poisson(k, rate, log(rate))


@native
def valid_success(p: float) -> bool:
    """Up to 1, and so large that draws are integers of 64 bits."""
    return p >= 1.0e-17 and p <= 1.0


@native
def sample_geometric(ctx: Context, p: float) -> int:
    """Failures before the first success."""
    u = next_uniform(ctx)
    return 0 if p >= 1.0 else int(floor(log(u) / log1p(-p)))


@native
def logpdf_geometric(x: int, p: float) -> float:
    """Log probability of x."""
    return log(p) + xlog1py(float(x), -p) if x >= 0 else -INF


@native
def valid_negative_binomial(successes: float, p: float) -> bool:
    """A positive number of successes (real) and a probability; draws have 64 bits."""
    sizes = successes > 0.0 and p > 0.0 and p <= 1.0
    return sizes and (successes + 40.0) * (1.0 - p) <= 1.0e17 * p


@native
def sample_negative_binomial(ctx: Context, successes: float, p: float) -> int:
    """Poisson with a gamma rate."""
    if p >= 1.0:
        return 0
    return sample_poisson(ctx, sample_gamma(ctx, successes, (1.0 - p) / p))


@native
def log_failures(k: float, successes: float, p: float, q: float) -> float:
    """Log probability of k failures, each of probability q = 1 - p, before some successes."""
    if k == 0.0:
        return successes * (log(p) if p < 0.5 else log1p(-q))
    if max(k, successes) >= LARGE:
        return log_beta_mass(q, p, k, successes) - log(k)
    head = lgamma(k + successes) - lgamma(successes) - lgamma(k + 1.0)
    return head + successes * log(p) + xlogy(k, q)


@native
def logpdf_negative_binomial(x: int, successes: float, p: float) -> float:
    """Log probability of x failures before the given number of successes."""
    if x < 0:
        return -INF
    return log_failures(float(x), successes, p, 1.0 - p)


@native
def valid_uniform_int(low: int, high: int) -> bool:
    """low <= high."""
    return low <= high


@native
def wide_int(ctx: Context, low: int, high: int) -> int:
    """An integer of a range that holds a quarter of them all, or more."""
    bits = next_bits(ctx)
    while bits < low or bits > high:
        bits = next_bits(ctx)
    return bits


@native
def sample_uniform_int(ctx: Context, low: int, high: int) -> int:
    """A multiple of the range is kept, the rest rejected: exactly uniform."""
    width = float(high) - float(low)
    if width >= 4611686018427387904.0:
        return wide_int(ctx, low, high)
    size = high - low + 1
    kept = 12 if size <= EXACT else 1
    most = EXACT if size <= EXACT else MOST
    limit = most - most % size
    bits = shru(next_bits(ctx), kept)
    while bits >= limit:
        bits = shru(next_bits(ctx), kept)
    return low + bits % size


@native
def logpdf_uniform_int(x: int, low: int, high: int) -> float:
    """Log probability of x."""
    return -log(float(high) - float(low) + 1.0) if x >= low and x <= high else -INF


@native
def count_uniform_int(low: int, high: int) -> int:
    """Size of the support."""
    return -1 if high > MOST - 1 + min(low, 0) else high - low + 1


@native
def valid_beta_binomial(n: int, a: float, b: float) -> bool:
    """At least 0 trials, positive shapes."""
    return n >= 0 and a > 0.0 and b > 0.0 and a < INF and b < INF


@native
def sample_beta_binomial(ctx: Context, n: int, a: float, b: float) -> int:
    """Binomial with a beta probability."""
    return sample_binomial(ctx, n, sample_beta(ctx, a, b))


@native
def logpdf_beta_binomial(x: int, n: int, a: float, b: float) -> float:
    """Log probability of x."""
    if x < 0 or x > n:
        return -INF
    k = float(x)
    count = float(n)
    both = a + b
    if max(count, both) >= LARGE and both < INF:
        # Failures before a successes, and before b, given those before both: any p will do.
        p = both / (count + both)
        q = count / (count + both)
        parts = log_failures(k, a, p, q) + log_failures(count - k, b, p, q)
        return parts - log_failures(count, both, p, q)
    return lchoose(count, k) + lbeta(k + a, count - k + b) - lbeta(a, b)


@native
def count_beta_binomial(n: int, a: float, b: float) -> int:
    """Size of the support 0..n."""
    return n + 1 if n < MOST else -1


@native
def valid_hypergeometric(total: int, good: int, draws: int) -> bool:
    """0 <= good, draws <= total."""
    return good >= 0 and draws >= 0 and good <= total and draws <= total


@native
def hypergeometric_draws(ctx: Context, total: int, good: int, draws: int) -> int:
    """Draws one by one without replacement."""
    found = 0
    for drawn in range(draws):
        if next_uniform(ctx) * float(total - drawn) < float(good - found):
            found = found + 1
    return found


@native
def logpdf_hypergeometric(x: int, total: int, good: int, draws: int) -> float:
    """Log probability of x good ones: of two binomials, given their sum (any p will do)."""
    if x < 0 or x > good or draws - x < 0 or draws - x > total - good:
        return -INF
    p = float(draws) / float(total) if total > 0 else 0.0
    inside = logpdf_binomial(x, good, p)
    outside = logpdf_binomial(draws - x, total - good, p)
    return inside + outside - logpdf_binomial(draws, total, p)


@outlined
@native
def hypergeometric_rejection(ctx: Context, total: int, good: int, draws: int) -> int:
    """Ratio of uniforms, algorithm HRUA (Stadlober 1990); good and draws are at most half."""
    share = float(good) / float(total)
    mean = float(draws) * share
    left = float(total - draws) / float(total)
    spread = sqrt(mean * left * (1.0 - share) + 0.5)
    width = 1.7155277699214135 * spread + 0.8989161620588988
    top = floor((float(draws) + 1.0) * ((float(good) + 1.0) / (float(total) + 2.0)))
    mode = min(int(top), min(good, draws))
    highest = logpdf_hypergeometric(mode, total, good, draws)
    while True:
        u = next_uniform(ctx)
        v = next_uniform(ctx)
        w = floor(mean + 0.5 + width * (v - 0.5) / u)
        if w >= 0.0 and w <= float(min(good, draws)):
            k = min(int(w), min(good, draws))
            if 2.0 * log(u) <= logpdf_hypergeometric(k, total, good, draws) - highest:
                return k
    return 0


@native
def sample_hypergeometric(ctx: Context, total: int, good: int, draws: int) -> int:
    """One by one if that is quick; good and bad, taken and left, good and taken may swap."""
    if draws <= ONE_BY_ONE:
        return hypergeometric_draws(ctx, total, good, draws)
    rare = min(good, total - good)
    few = min(draws, total - draws)
    if min(rare, few) <= ONE_BY_ONE:
        k = hypergeometric_draws(ctx, total, max(rare, few), min(rare, few))
    else:
        k = hypergeometric_rejection(ctx, total, rare, few)
    if rare != good:
        k = few - k
    return k if few == draws else good - k


@native
def count_hypergeometric(total: int, good: int, draws: int) -> int:
    """Size of 0..draws, which holds the support."""
    return draws + 1 if draws < MOST else -1


@native
def valid_weights(weights: FloatVector) -> bool:
    """Non-negative finite weights, not all 0."""
    total = 0.0
    for i in range(len(weights)):
        if not weights[i] >= 0.0:
            return False
        total = total + weights[i]
    return total > 0.0 and total < INF


@native
def sum_weights(weights: FloatVector) -> float:
    """Sum, left to right."""
    total = 0.0
    for i in range(len(weights)):
        total = total + weights[i]
    return total


@native
def sample_categorical(ctx: Context, weights: FloatVector) -> int:
    """Index with probability proportional to its weight."""
    u = next_uniform(ctx) * sum_weights(weights)
    last = 0
    for i in range(len(weights)):
        if weights[i] > 0.0:
            if u < weights[i]:
                return i
            u = u - weights[i]
            last = i
    return last


@native
def logpdf_categorical(x: int, weights: FloatVector) -> float:
    """Log probability of index x."""
    if x < 0 or x >= len(weights):
        return -INF
    return log(weights[x]) - log(sum_weights(weights))


@native
def count_categorical(weights: FloatVector) -> int:
    """Number of indices."""
    return len(weights)
