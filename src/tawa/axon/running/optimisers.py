"""Steps of optimisers on trees of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tawa.axon.running.numbers import Number
from tawa.axon.running.tape import Algebra, Value
from tawa.axon.running.trees import leaves_of

BETAS = (0.9, 0.999)
"""How much of the means of derivatives and of their squares AdamW keeps (Loshchilov and Hutter)."""

EPSILON = 1e-8

TINY = 1e-6
"""Added to a norm that is divided by."""


def together(algebra: Algebra, function: Callable[..., Any], *trees: Value) -> Value:
    """A tree of what a function makes of the numbers at each place; what is no float stays."""
    if isinstance(trees[0], tuple):
        parts = zip(*cast("tuple[tuple[Value, ...], ...]", trees), strict=True)
        return tuple(together(algebra, function, *part) for part in parts)
    if not algebra.is_float(trees[0]):
        return trees[0]
    return function(*(Number(algebra, leaf) for leaf in trees)).value


def sgd(algebra: Algebra, rate: Value, weights: Value, slopes: Value) -> Value:
    """Weights less `rate` times their derivatives."""

    def step(weight: Number, slope: Number) -> Number:
        return weight - Number(algebra, rate).do("like", weight) * slope

    return together(algebra, step, weights, slopes)


def clip_norm(algebra: Algebra, limit: Value, slopes: Value) -> Value:
    """Derivatives times what their norm, that of all together, lacks to be `limit`, at most 1."""
    bound = Number(algebra, limit)
    floats = [Number(algebra, leaf) for leaf in leaves_of(slopes) if algebra.is_float(leaf)]
    if not floats:
        return slopes
    like = [slope.do("like", bound) for slope in floats]
    squares = [(slope * slope).do("sum_all").value for slope in like]
    norm = Number(algebra, algebra.call("stack", *squares)).do("sum_all").do("sqrt")
    share = (bound / (norm + TINY)).do("minimum", 1.0)

    def clipped(slope: Number) -> Number:
        return slope * share.do("like", slope)

    return together(algebra, clipped, slopes)


def adamw_start(algebra: Algebra, weights: Value) -> Value:
    """No steps, and means of 0."""

    def zero(weight: Number) -> Number:
        return weight * 0.0

    zeros = together(algebra, zero, weights)
    return np.asarray(0, np.int64), zeros, zeros


def adamw(
    algebra: Algebra, rate: Value, decay: Value, state: Value, slopes: Value, weights: Value
) -> Value:
    """Weights move against the mean derivative, by its deviation, and shrink by `decay`."""
    count, first, second = state
    count = algebra.call("+", count, np.asarray(1, np.int64))

    def mean(old: Number, slope: Number) -> Number:
        return old * BETAS[0] + slope * (1 - BETAS[0])

    def mean_square(old: Number, slope: Number) -> Number:
        return old * BETAS[1] + slope * slope * (1 - BETAS[1])

    first = together(algebra, mean, first, slopes)
    second = together(algebra, mean_square, second, slopes)

    def step(weight: Number, one: Number, two: Number) -> Number:
        steps, pace, loss = (Number(algebra, n).do("like", weight) for n in (count, rate, decay))
        bias = [1 - beta**steps for beta in BETAS]
        size = (two / bias[1]).do("sqrt") + EPSILON
        return weight * (1 - pace * loss) - pace * (one / bias[0]) / size

    return (count, first, second), together(algebra, step, weights, first, second)
