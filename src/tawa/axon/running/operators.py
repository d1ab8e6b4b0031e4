"""What the operators of the prelude compute on NumPy arrays.

Results have the element type of the operands: NumPy's promotion never comes into play, as types
agree. Convolutions and pooling are in `image.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tawa.axon.running.registry import DTYPES, OPERATORS, Array, Operator, operator


def _divide(a: Array, b: Array) -> Array:
    if np.issubdtype(np.result_type(a, b), np.integer):
        quotient = np.floor_divide(np.abs(a), np.abs(b))
        return (np.sign(a) * np.sign(b) * quotient).astype(np.result_type(a, b))
    return np.true_divide(a, b)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[x.dtype.char])(x) if x.size else x


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow."""
    return (0.5 * (np.tanh(0.5 * x) + 1)).astype(x.dtype)


def softmax(x: Array, axis: int) -> Array:
    """exp(x) / sum(exp(x)) along an axis."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def _same(name: str, function: Operator) -> None:
    def strict(a: Array, b: Array) -> Array:
        if a.shape != b.shape:
            raise ValueError(f"operands of shapes {a.shape} and {b.shape}")
        return function(a, b)

    OPERATORS[name] = strict


def _whole(function: Operator) -> Operator:
    """A division of which whole numbers have no result by 0."""

    def checked(a: Array, b: Array) -> Array:
        if b.dtype.kind in "iu" and not np.all(b):
            raise ValueError("a whole number is divided by 0")
        return function(a, b)

    return checked


BINARY: dict[str, Operator] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": _divide,
    "//": _whole(np.floor_divide), "%": _whole(np.mod), "**": np.power,
    "maximum": np.maximum, "minimum": np.minimum,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal, "both": np.logical_and, "either": np.logical_or,
}  # fmt: skip


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


def _gelu(x: Array) -> Array:
    return (0.5 * x * (1 + _erf(x / np.sqrt(x.dtype.type(2))))).astype(x.dtype)


def _silu(x: Array) -> Array:
    return x * sigmoid(x)


def _softplus(x: Array) -> Array:
    return np.logaddexp(x, x.dtype.type(0))


UNARY: dict[str, Operator] = {
    "not": np.logical_not, "negate": np.negative, "abs": np.abs, "sign": np.sign, "exp": np.exp,
    "log": np.log, "sqrt": np.sqrt, "rsqrt": _rsqrt, "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "erf": _erf, "floor": np.floor, "ceil": np.ceil, "sigmoid": sigmoid,
    "relu": _relu, "gelu": _gelu, "silu": _silu, "softplus": _softplus,
}  # fmt: skip

REDUCTIONS: dict[str, Operator] = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min,
}  # fmt: skip

OPERATORS.update(BINARY)
OPERATORS.update(UNARY)
for _symbol in "+-*/":
    _same(f".{_symbol}", BINARY[_symbol])


def _reduction(function: Operator) -> Operator:
    def reduce(x: Array, axis: int) -> Array:
        return function(x, axis=axis).astype(x.dtype)

    return reduce


for _name, _function in REDUCTIONS.items():
    OPERATORS[_name] = _reduction(_function)


@operator("where")
def where(c: Array, a: Array, b: Array) -> Any:
    """Numbers of a where c holds, else of b."""
    return np.where(c, a, b)


@operator("dot")
def dot(a: Array, b: Array) -> Any:
    """The inner product of vectors."""
    return np.dot(a, b)


@operator("outer")
def outer(a: Array, b: Array) -> Any:
    """The outer product of vectors."""
    return np.outer(a, b)


@operator("matmul")
def matmul(a: Array, b: Array) -> Any:
    """Products of stacks of matrices."""
    return np.matmul(a, b)


@operator("argmax")
def argmax(x: Array, axis: int) -> Any:
    """Where the largest number is."""
    return np.argmax(x, axis=axis).astype(np.int64)


@operator("cumsum")
def cumsum(x: Array, axis: int) -> Any:
    """Running sums."""
    return np.cumsum(x, axis=axis).astype(x.dtype)


@operator("sort")
def sort(x: Array, axis: int) -> Any:
    """In rising order."""
    return np.sort(x, axis=axis)


@operator("sum_all")
def sum_all(x: Array) -> Any:
    """The sum of all numbers."""
    return np.sum(x).astype(x.dtype)


@operator("mean_all")
def mean_all(x: Array) -> Any:
    """The mean of all numbers."""
    return np.mean(x).astype(x.dtype)


OPERATORS["softmax"] = softmax


@operator("log_softmax")
def log_softmax(x: Array, axis: int) -> Any:
    """x - log(sum(exp(x)))."""
    return x - _logsumexp(x, axis, keepdims=True)


@operator("transpose")
def transpose(x: Array) -> Any:
    """The last two axes swapped."""
    return np.swapaxes(x, -1, -2)


@operator("flatten")
def flatten(x: Array) -> Any:
    """All axes but the first made one."""
    return x.reshape(x.shape[0], -1)


@operator("concat")
def concat(a: Array, b: Array, axis: int) -> Any:
    """Joined along an axis."""
    return np.concatenate([a, b], axis=axis)


@operator("halves")
def halves(x: Array, axis: int) -> Any:
    """Two equal parts."""
    return tuple(np.split(x, 2, axis=axis))


@operator("thirds")
def thirds(x: Array, axis: int) -> Any:
    """Three equal parts."""
    return tuple(np.split(x, 3, axis=axis))


@operator("quarters")
def quarters(x: Array, axis: int) -> Any:
    """Four equal parts."""
    return tuple(np.split(x, 4, axis=axis))


@operator("reverse")
def reverse(x: Array, axis: int) -> Any:
    """Backwards along an axis."""
    return np.flip(x, axis=axis)


@operator("expand")
def expand(x: Array, axis: int) -> Any:
    """With a new axis of size 1."""
    return np.expand_dims(x, axis)


@operator("squeeze")
def squeeze(x: Array, axis: int) -> Any:
    """Without an axis of size 1."""
    return np.squeeze(x, axis=axis)


@operator("repeat")
def repeat_(x: Array, times: int, axis: int) -> Any:
    """Several times over along an axis."""
    return np.concatenate([x] * times, axis=axis)


@operator("iota")
def iota(n: int) -> Any:
    """0 to n - 1."""
    return np.arange(n, dtype=np.int64)


@operator("one_hot")
def one_hot(i: Array, n: int) -> Any:
    """1 at the index, else 0."""
    return np.eye(n, dtype=np.float32)[i]


@operator("zeros")
def zeros(s: tuple[int, ...]) -> Any:
    """Zeros."""
    return np.zeros(s, np.float32)


@operator("ones")
def ones(s: tuple[int, ...]) -> Any:
    """Ones."""
    return np.ones(s, np.float32)


@operator("full")
def full(x: Array, s: tuple[int, ...]) -> Any:
    """One number everywhere."""
    return np.full(s, x)


@operator("tril")
def tril(x: Array) -> Any:
    """Zeros above the diagonal."""
    return np.tril(x)


def _logsumexp(x: Array, axis: int, keepdims: bool = False) -> Array:
    top = np.max(x, axis=axis, keepdims=True)
    finite: Array = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    found: Array = np.where(np.isinf(top), top, finite)
    return found if keepdims else np.squeeze(found, axis=axis)


OPERATORS["logsumexp"] = _logsumexp


@operator("@")
def matrix_product(x: Array, w: Array) -> Array:
    """Contract the last axis of x with the last but one of w."""
    if w.ndim < 2 or x.ndim < min(w.ndim, 3) - 1:
        raise ValueError(f"operands of shapes {x.shape} and {w.shape}")
    return np.matmul(x, w)


@operator("linear")
def linear(w: Array, b: Array, x: Array) -> Array:
    """x @ w + b."""
    return np.matmul(x, w) + b


@operator("top")
def top(x: Array, k: int) -> tuple[Array, Array]:
    """The k largest along the last axis, and where they are; of equals, the first."""
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, axis=-1), order.astype(np.int64)


@operator("layer_norm")
def layer_norm(scale: Array, offset: Array, x: Array) -> Array:
    """Normalise the last axis to mean 0 and variance 1 (epsilon 1e-5)."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    variance = np.mean(centred * centred, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + x.dtype.type(1e-5)) * scale + offset


@operator("rms_norm")
def rms_norm(scale: Array, x: Array) -> Array:
    """Divide the last axis by its root mean square (epsilon 1e-5)."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + x.dtype.type(1e-5)) * scale


@operator("batch_norm")
def batch_norm(scale: Array, offset: Array, mean: Array, variance: Array, x: Array) -> Array:
    """Normalise each channel of axis 1 with the given statistics (epsilon 1e-5)."""
    spread = (slice(None),) + (None,) * (x.ndim - 2)
    factor = scale / np.sqrt(variance + x.dtype.type(1e-5))
    return (x - mean[spread]) * factor[spread] + offset[spread]


def _attention_weights(q: Array, k: Array, causal: bool) -> Array:
    """softmax(q k' / sqrt(d)), where later keys get no weight if it is causal."""
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) / q.dtype.type(math.sqrt(q.shape[-1]))
    if causal:
        seen = np.tril(np.ones(scores.shape[-2:], bool))
        scores[..., ~seen] = -np.inf
    return softmax(scores, -1)


@operator("attention")
def attention(q: Array, k: Array, v: Array) -> Array:
    """softmax(q k' / sqrt(d)) v."""
    return np.matmul(_attention_weights(q, k, causal=False), v)


@operator("causal_attention")
def causal_attention(q: Array, k: Array, v: Array) -> Array:
    """Attention in which a query sees no later key."""
    return np.matmul(_attention_weights(q, k, causal=True), v)


@operator("attention_slopes")
def attention_slopes(
    q: Array, k: Array, v: Array, y: Array, by: Array, causal: bool
) -> tuple[Array, Array, Array]:
    """The derivatives of attention by its operands, from its result and the derivative by that."""
    weights = _attention_weights(q, k, causal)
    means = np.sum(by * y, axis=-1, keepdims=True)
    slopes = weights * (np.matmul(by, np.swapaxes(v, -1, -2)) - means)
    slopes = slopes / q.dtype.type(math.sqrt(q.shape[-1]))
    of_values = np.matmul(np.swapaxes(weights, -1, -2), by)
    return np.matmul(slopes, k), np.matmul(np.swapaxes(slopes, -1, -2), q), of_values


@operator("reshape")
def reshape(x: Array, to: tuple[int | None, ...]) -> Array:
    """Another shape; one size may be unknown."""
    return x.reshape([-1 if size is None else size for size in to])


@operator("broadcast")
def broadcast(x: Array, to: tuple[int, ...]) -> Array:
    """The shape that x and `to` broadcast to."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, to)).copy()


@operator("split")
def split(x: Array, at: int, axis: int) -> tuple[Array, Array]:
    """The part before `at` and the rest."""
    if not 0 <= at <= x.shape[axis]:
        raise ValueError(f"an axis of {x.shape[axis]} can't be split at {at}")
    one, other = np.split(x, [at], axis=axis)
    return one, other


@operator("slice")
def slice_(x: Array, start: int, stop: int, axis: int) -> Array:
    """The part from `start` up to `stop`."""
    if not 0 <= start <= stop <= x.shape[axis]:
        raise ValueError(f"an axis of {x.shape[axis]} has no part {start} to {stop}")
    return np.take(x, np.arange(start, stop), axis=axis)


@operator("pad")
def pad(x: Array, before: int, after: int, axis: int) -> Array:
    """Zeros before and after, along an axis."""
    widths = [(0, 0)] * x.ndim
    widths[axis] = (before, after)
    return np.pad(x, widths)


@operator("take")
def take(x: Array, i: Array) -> Array:
    """Rows by index; an index out of range is an error."""
    if i.size and (i.min() < 0 or i.max() >= x.shape[0]):
        raise IndexError(f"an index is outside 0 to {x.shape[0] - 1}")
    return x[i]


# What has no name in the language: loops, patterns and derivatives are made of it.


@operator("rows")
def rows(x: Array) -> tuple[Array, ...]:
    """The slices along the leading axis."""
    return tuple(x)


@operator("stack")
def stack(*items: Array) -> Array:
    """Slices along a new leading axis."""
    return np.stack(items)


@operator("cast")
def cast(x: Array, to: str) -> Array:
    """Another element type."""
    return x.astype(DTYPES[to])


@operator("like")
def like(x: Array, of: Array) -> Array:
    """In the element type of another array."""
    return x.astype(of.dtype)


@operator("put")
def put(rows_: Array, i: Array, n: int) -> Array:
    """`take` backwards: rows added up where their indices say."""
    found = np.zeros((n, *rows_.shape[i.ndim :]), rows_.dtype)
    np.add.at(found, i, rows_)
    return found


@operator("lower")
def lower(x: Array) -> Array:
    """Where the column is not after the row, for the last two axes of an array."""
    return np.tri(*x.shape[-2:], dtype=np.bool_)


@operator("order")
def order(x: Array, axis: int) -> Array:
    """The indices that sort along an axis; of equals, the first first."""
    return np.argsort(x, axis=axis, kind="stable")


@operator("choose")
def choose(x: Array, i: Array, axis: int) -> Array:
    """Numbers along an axis, by index."""
    return np.take_along_axis(x, i, axis=axis)


@operator("unchoose")
def unchoose(x: Array, i: Array, n: int, axis: int) -> Array:
    """`choose` backwards, for different indices."""
    shape = list(x.shape)
    shape[axis] = n
    found = np.zeros(shape, x.dtype)
    np.put_along_axis(found, i, x, axis=axis)
    return found
