"""How the prelude's operators are expressed in primitive nodes: one rule each.

A rule takes the tape, the arguments as nodes, and the static arguments by name. Here are those of
pointwise operators, reductions, norms and products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tawa.axon.gpu.graph.nodes import Node, Tape
from tawa.base.decorated import Registering

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}
"""The rule of each operator, by its name in the prelude."""


rule = Registering(RULES)


ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**", "maximum", "minimum", "both", "either")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
UNARY = (
    "not", "negate", "abs", "sign", "exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf",
    "floor", "ceil", "sigmoid", "relu", "gelu", "silu", "softplus",
)  # fmt: skip
EPSILON = 1e-5
"""Of the norms."""

MOST_PARTS = 2048
"""Parts of a long sum: enough programs for all multiprocessors, few enough for one to add up."""

LEAST_PART = 4096
"""Numbers for which a program is worth starting."""


def _pointwise(name: str, element: str | None = None) -> Rule:
    def build(tape: Tape, *inputs: Node) -> Node:
        return tape.map(name, *inputs, element=element)

    return build


RULES.update({name: _pointwise(name) for name in (*ARITHMETIC, *UNARY, "where")})
RULES.update({name: _pointwise(name, "bool") for name in COMPARISONS})


def _same(name: str) -> Rule:
    def build(tape: Tape, a: Node, b: Node) -> Node:
        if a.shape != b.shape:
            raise ValueError(f"operands of shapes {a.shape} and {b.shape}")
        return tape.map(name, a, b)

    return build


RULES.update({f".{symbol}": _same(symbol) for symbol in "+-*/"})


def scalar(tape: Tape, value: float, like: Node) -> Node:
    """A number of the element type of another node."""
    return tape.constant(value, like.element)


def _reduction(function: str) -> Rule:
    def build(tape: Tape, x: Node, axis: int) -> Node:
        return tape.reduce(function, x, axis)

    return build


RULES.update({name: _reduction(name) for name in ("sum", "max", "min", "prod")})


@rule("mean")
def mean(tape: Tape, x: Node, axis: int, keep: bool = False) -> Node:
    """The sum divided by the size."""
    total = tape.reduce("sum", x, axis, keep=True)
    found = tape.map("/", total, scalar(tape, x.shape[axis], x))
    return found if keep else _without(tape, found, axis)


def _without(tape: Tape, x: Node, axis: int) -> Node:
    axis %= len(x.shape)
    return tape.reshape(x, x.shape[:axis] + x.shape[axis + 1 :])


@rule("sum_all")
def sum_all(tape: Tape, x: Node) -> Node:
    """The sum of all numbers; of many, the sum of parts' sums, which many programs compute."""
    parts = parts_of(x.size)
    if parts > 1:
        x = tape.reduce("sum", tape.reshape(x, (parts, x.size // parts)), 1)
    return tape.reduce("sum", tape.reshape(x, (x.size,)), 0)


def parts_of(size: int) -> int:
    """Equal parts that a sum is divided into: at most `MOST_PARTS`, of `LEAST_PART` or more."""
    most = max(1, min(MOST_PARTS, size // LEAST_PART))
    return next(parts for parts in range(most, 0, -1) if size % parts == 0)


@rule("mean_all")
def mean_all(tape: Tape, x: Node) -> Node:
    """The mean of all numbers."""
    return tape.map("/", sum_all(tape, x), scalar(tape, x.size, x))


@rule("argmax")
def argmax(tape: Tape, x: Node, axis: int) -> Node:
    """The first place of the largest number."""
    axis %= len(x.shape)
    largest = tape.reduce("max", x, axis, keep=True)
    places = tape.map("where", tape.map("==", x, largest, element="bool"),
                      _places(tape, x, axis), tape.constant(x.shape[axis], "i64"))  # fmt: skip
    return _without(tape, tape.reduce("min", places, axis, keep=True), axis)


def _places(tape: Tape, x: Node, axis: int) -> Node:
    """0, 1, ... along an axis, shaped to broadcast with x."""
    numbers = tape.add("map", "iota", (), (x.shape[axis],), "i64")
    return tape.reshape(numbers, (x.shape[axis], *(1,) * (len(x.shape) - axis - 1)))


def _powers(tape: Tape, x: Node, axis: int) -> tuple[Node, Node, Node]:
    top = tape.reduce("peak", x, axis, keep=True)
    shifted = tape.map("-", x, top)
    powers = tape.map("exp", shifted)
    return shifted, powers, tape.reduce("sum", powers, axis, keep=True)


@rule("softmax")
def softmax(tape: Tape, x: Node, axis: int) -> Node:
    """exp(x) / sum(exp(x)) along an axis."""
    _, powers, total = _powers(tape, x, axis)
    return tape.map("/", powers, total)


@rule("log_softmax")
def log_softmax(tape: Tape, x: Node, axis: int) -> Node:
    """x - log(sum(exp(x)))."""
    shifted, _, total = _powers(tape, x, axis)
    return tape.map("-", shifted, tape.map("log", total))


@rule("logsumexp")
def logsumexp(tape: Tape, x: Node, axis: int) -> Node:
    """log(sum(exp(x)))."""
    top = tape.reduce("peak", x, axis, keep=True)
    total = tape.reduce("sum", tape.map("exp", tape.map("-", x, top)), axis, keep=True)
    found = tape.map("+", tape.map("log", total), top)
    infinite = tape.map("==", tape.map("abs", top), scalar(tape, math.inf, x), element="bool")
    return _without(tape, tape.map("where", infinite, top, found), axis)


@rule("layer_norm")
def layer_norm(tape: Tape, scale: Node, offset: Node, x: Node) -> Node:
    """Mean 0 and variance 1 along the last axis, then scale and offset."""
    centred = tape.map("-", x, mean(tape, x, -1, keep=True))
    variance = mean(tape, tape.map("*", centred, centred), -1, keep=True)
    spread = tape.map("rsqrt", tape.map("+", variance, scalar(tape, EPSILON, x)))
    return tape.map("+", tape.map("*", tape.map("*", centred, spread), scale), offset)


@rule("rms_norm")
def rms_norm(tape: Tape, scale: Node, x: Node) -> Node:
    """Divide the last axis by its root mean square."""
    square = mean(tape, tape.map("*", x, x), -1, keep=True)
    spread = tape.map("rsqrt", tape.map("+", square, scalar(tape, EPSILON, x)))
    return tape.map("*", tape.map("*", x, spread), scale)


@rule("batch_norm")
def batch_norm(tape: Tape, *inputs: Node) -> Node:
    """Normalise each channel of axis 1 with the given statistics."""
    x = inputs[-1]
    shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
    # Of the whole shape, so that they are computed where x is: once a channel, as they are read.
    scale, offset, centre, variance = (
        tape.broadcast(tape.reshape(i, shape), x.shape) for i in inputs[:-1]
    )
    spread = tape.map("rsqrt", tape.map("+", variance, scalar(tape, EPSILON, x)))
    factor = tape.map("*", scale, spread)
    return tape.map("+", tape.map("*", tape.map("-", x, centre), factor), offset)


@rule("global_mean")
def global_mean(tape: Tape, x: Node) -> Node:
    """The mean over all axes after the second."""
    return mean(tape, tape.reshape(x, (*x.shape[:2], math.prod(x.shape[2:]))), -1)


# Products.


@rule("matmul")
def matmul(tape: Tape, a: Node, b: Node) -> Node:
    """Products of stacks of matrices; the stacks broadcast."""
    if len(b.shape) == 2:
        return linear_product(tape, a, b)
    (*_, m, k), (*_, inner, n) = a.shape, b.shape
    if k != inner:
        raise ValueError(f"operands of shapes {a.shape} and {b.shape}")
    lead = _broadcast(a.shape[:-2], b.shape[:-2])
    a = tape.broadcast(a, (*lead, m, k)) if a.shape[:-2] != lead else a
    b = tape.broadcast(b, (*lead, k, n)) if b.shape[:-2] != lead else b
    count = math.prod(lead)
    operands = (_stack(tape, a, count), _stack(tape, b, count))
    return tape.add("dot", "", operands, (*lead, m, n), a.element, axis=count)


def _broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    import numpy as np

    return np.broadcast_shapes(*shapes)


def _stack(tape: Tape, x: Node, count: int) -> Node:
    """A stack of matrices with one leading axis."""
    return tape.reshape(x, (count, *x.shape[-2:]))


def linear_product(tape: Tape, a: Node, w: Node) -> Node:
    """The last axis of a contracted with a matrix: all leading axes are rows."""
    k, n = w.shape
    if len(a.shape) < 1 or a.shape[-1] != k:
        raise ValueError(f"operands of shapes {a.shape} and {w.shape}")
    lead = a.shape[:-1]
    rows = tape.reshape(a, (math.prod(lead), k))
    return tape.add("dot", "", (rows, w), (*lead, n), a.element)


@rule("@")
def product(tape: Tape, x: Node, w: Node) -> Node:
    """Contract the last axis of x with the last but one of w."""
    return matmul(tape, x, w)


@rule("linear")
def linear(tape: Tape, w: Node, b: Node, x: Node) -> Node:
    """x @ w + b."""
    return tape.map("+", linear_product(tape, x, w), b)


@rule("dot")
def dot(tape: Tape, a: Node, b: Node) -> Node:
    """The inner product of vectors."""
    return tape.reduce("sum", tape.map("*", a, b), 0)


@rule("outer")
def outer(tape: Tape, a: Node, b: Node) -> Node:
    """The outer product of vectors."""
    return tape.map("*", tape.reshape(a, (*a.shape, 1)), b)


@rule("lower")
def lower(tape: Tape, x: Node) -> Node:
    """Where the column is not after the row."""
    axis = len(x.shape) - 2
    return tape.map("<=", _places(tape, x, axis + 1), _places(tape, x, axis), element="bool")


@rule("tril")
def tril(tape: Tape, x: Node) -> Node:
    """Zeros above the diagonal."""
    return tape.map("where", lower(tape, x), x, scalar(tape, 0, x))


@rule("top")
def top(tape: Tape, x: Node, k: int) -> tuple[Node, Node]:
    """The k largest along the last axis, and where they are: k times the largest of the rest."""
    low: Any = -math.inf if x.element.startswith(("f", "bf")) else -(2**31)
    numbers: list[Node] = []
    places: list[Node] = []
    for _ in range(k):
        at = tape.reshape(argmax(tape, x, -1), (*x.shape[:-1], 1))
        numbers.append(tape.reduce("max", x, -1, keep=True))
        places.append(at)
        taken = tape.map("==", _places(tape, x, len(x.shape) - 1), at, element="bool")
        x = tape.map("where", taken, scalar(tape, low, x), x)
    return tape.join(numbers, -1), tape.join(places, -1)
