"""What the operators of the language are in ONNX.

Operators that are not here are compositions of those that are (`running/compositions.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import helper

from tawa.axon.cpu.graph import Graph, Shape, Symbol
from tawa.axon.running.registry import DTYPES
from tawa.base.decorated import Registering

Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}
"""The rule of each operator: it takes the graph, the operands, and static arguments."""


rule = Registering(RULES)


# Pointwise.

BINARY = {
    "+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "**": "Pow", "maximum": "Max",
    "minimum": "Min",
}  # fmt: skip
LOGICAL = {
    "==": "Equal", "<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual",
    "both": "And", "either": "Or",
}  # fmt: skip
UNARY = {
    "not": "Not", "negate": "Neg", "abs": "Abs", "sign": "Sign", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tanh": "Tanh", "erf": "Erf", "floor": "Floor",
    "ceil": "Ceil", "sigmoid": "Sigmoid", "relu": "Relu", "softplus": "Softplus",
}  # fmt: skip


def _pointwise(op: str, dtype: Any = None) -> Rule:
    def build(graph: Graph, *operands: Symbol) -> Symbol:
        shape = np.broadcast_shapes(*(value.shape for value in operands))
        return graph.add(op, *operands, to=shape, dtype=dtype)

    return build


RULES.update({name: _pointwise(op) for name, op in (*BINARY.items(), *UNARY.items())})
RULES.update({f".{symbol}": RULES[symbol] for symbol in "+-*/"})
RULES.update({name: _pointwise(op, np.bool_) for name, op in LOGICAL.items()})


def _is_float(value: Symbol) -> bool:
    return np.issubdtype(value.dtype, np.floating)


@rule("!=")
def unequal(graph: Graph, a: Symbol, b: Symbol) -> Symbol:
    """Not equal."""
    return RULES["not"](graph, RULES["=="](graph, a, b))


@rule("//")
def quotient(graph: Graph, a: Symbol, b: Symbol) -> Symbol:
    """Rounded down."""
    if _is_float(a):
        return RULES["floor"](graph, RULES["/"](graph, a, b))
    return RULES["/"](graph, RULES["-"](graph, a, rest(graph, a, b)), b)


@rule("%")
def rest(graph: Graph, a: Symbol, b: Symbol) -> Symbol:
    """What the quotient rounded down leaves."""
    if not _is_float(a):
        return _pointwise("Mod")(graph, a, b)
    return RULES["-"](graph, a, RULES["*"](graph, quotient(graph, a, b), b))


@rule("rsqrt")
def rsqrt(graph: Graph, x: Symbol) -> Symbol:
    """The reciprocal of the root."""
    return graph.add("Reciprocal", RULES["sqrt"](graph, x), to=x.shape)


@rule("silu")
def silu(graph: Graph, x: Symbol) -> Symbol:
    """x times its sigmoid."""
    return RULES["*"](graph, x, RULES["sigmoid"](graph, x))


@rule("gelu")
def gelu(graph: Graph, x: Symbol) -> Symbol:
    """By the error function; onnxruntime knows the pattern."""
    scaled = RULES["/"](graph, x, number(graph, math.sqrt(2), x))
    part = RULES["+"](graph, RULES["erf"](graph, scaled), number(graph, 1.0, x))
    return RULES["*"](graph, RULES["*"](graph, x, part), number(graph, 0.5, x))


def number(graph: Graph, value: float, like: Symbol) -> Symbol:
    """A number of another value's element type."""
    return graph.constant(np.asarray(value, like.dtype))


@rule("where")
def where(graph: Graph, c: Symbol, a: Symbol, b: Symbol) -> Symbol:
    """One or the other."""
    shape = np.broadcast_shapes(c.shape, a.shape, b.shape)
    return graph.add("Where", c, a, b, to=shape, dtype=a.dtype)


@rule("cast")
def cast(graph: Graph, x: Symbol, to: str) -> Symbol:
    """Another element type."""
    return like(graph, x, Symbol("", (), np.dtype(DTYPES[to])))


@rule("like")
def like(graph: Graph, x: Symbol, of: Symbol) -> Symbol:
    """In the element type of another value."""
    element = helper.np_dtype_to_tensor_dtype(of.dtype)
    return graph.add("Cast", x, to=x.shape, dtype=of.dtype, to_=element)


# Reductions.

REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "max": "ReduceMax",
    "min": "ReduceMin", "logsumexp": "ReduceLogSumExp",
}  # fmt: skip


def _without(shape: Shape, axis: int) -> Shape:
    axis %= len(shape)
    return shape[:axis] + shape[axis + 1 :]


def _reduction(op: str) -> Rule:
    def build(graph: Graph, x: Symbol, axis: int) -> Symbol:
        axes = graph.integers(axis)
        return graph.add(op, x, axes, to=_without(x.shape, axis), keepdims=0)

    return build


RULES.update({name: _reduction(op) for name, op in REDUCTIONS.items()})


@rule("sum_all")
def sum_all(graph: Graph, x: Symbol) -> Symbol:
    """Over all axes."""
    return graph.add("ReduceSum", x, to=(), keepdims=0)


@rule("argmax")
def argmax(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """Where the largest is."""
    to = _without(x.shape, axis)
    return graph.add("ArgMax", x, to=to, dtype=np.int64, axis=axis, keepdims=0)


@rule("cumsum")
def cumsum(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """Running sums."""
    return graph.add("CumSum", x, graph.constant(np.int64(axis)), to=x.shape)


@rule("softmax")
def softmax(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """Shares of the powers."""
    return graph.add("Softmax", x, to=x.shape, axis=axis)


@rule("log_softmax")
def log_softmax(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """Their logarithms."""
    return graph.add("LogSoftmax", x, to=x.shape, axis=axis)


@rule("top")
def top(graph: Graph, x: Symbol, k: int) -> list[Symbol]:
    """The largest along the last axis, and where they are."""
    to = (*x.shape[:-1], k)
    found = graph.node("TopK", [x, graph.integers(k)], [to, to], axis=-1)
    return [found[0], _indices(found[1])]


def _indices(value: Symbol) -> Symbol:
    """An output that consists of indices, whatever the first one does."""
    return replace(value, dtype=np.dtype(np.int64))


def _sorted(graph: Graph, x: Symbol, axis: int) -> list[Symbol]:
    size = graph.integers(x.shape[axis])
    return graph.node("TopK", [x, size], [x.shape] * 2, axis=axis, largest=0)


@rule("sort")
def sort(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """In rising order."""
    return _sorted(graph, x, axis)[0]


@rule("order")
def order(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """The indices of the rising order."""
    return _indices(_sorted(graph, x, axis)[1])


@rule("batch_norm")
def batch_norm(
    graph: Graph, scale: Symbol, offset: Symbol, mean: Symbol, variance: Symbol, x: Symbol
) -> Symbol:
    """Each channel of axis 1 with the given statistics."""
    inputs = (x, scale, offset, mean, variance)
    return graph.add("BatchNormalization", *inputs, to=x.shape, epsilon=1e-5)


@rule("layer_norm")
def layer_norm(graph: Graph, scale: Symbol, offset: Symbol, x: Symbol) -> Symbol:
    """The last axis to mean 0 and variance 1."""
    return graph.add("LayerNormalization", x, scale, offset, to=x.shape, axis=-1, epsilon=1e-5)


# Products.


@rule("@", "matmul")
def matmul(graph: Graph, a: Symbol, b: Symbol) -> Symbol:
    """Stacks of matrices."""
    to = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *a.shape[-2:-1], b.shape[-1])
    return graph.add("MatMul", a, b, to=to)


@rule("linear")
def linear(graph: Graph, w: Symbol, b: Symbol, x: Symbol) -> Symbol:
    """x @ w + b: one product of matrices, to which the bias is added where it is written."""
    rows_, to = math.prod(x.shape[:-1]), (*x.shape[:-1], w.shape[1])
    if x.ndim < 2 or not _is_float(x):
        return RULES["+"](graph, matmul(graph, x, w), b)
    flat = reshaped(graph, x, (rows_, x.shape[-1]))
    return reshaped(graph, graph.add("Gemm", flat, w, b, to=(rows_, w.shape[1])), to)


@rule("contract")
def contract(
    graph: Graph, *operands: Symbol, inputs: tuple[tuple[int, ...], ...], output: tuple[int, ...]
) -> Symbol:
    """An einsum; of one operand with its axes in another order, a transposition."""
    sizes = {
        axis: size
        for value, axes in zip(operands, inputs, strict=True)
        for axis, size in zip(axes, value.shape, strict=True)
    }
    to = tuple(sizes[axis] for axis in output)
    if len(operands) == 1 and sorted(inputs[0]) == sorted(output):
        return permuted(graph, operands[0], tuple(inputs[0].index(axis) for axis in output))
    letters = [("".join(chr(ord("a") + axis) for axis in axes)) for axes in (*inputs, output)]
    equation = f"{','.join(letters[:-1])}->{letters[-1]}"
    return graph.add("Einsum", *operands, to=to, equation=equation)


# Movement.


def permuted(graph: Graph, x: Symbol, axes: Shape) -> Symbol:
    """Axes in another order."""
    if axes == tuple(range(x.ndim)):
        return x
    return graph.add("Transpose", x, to=tuple(x.shape[axis] for axis in axes), perm=axes)


@rule("transpose")
def transpose(graph: Graph, x: Symbol) -> Symbol:
    """The last two axes swapped."""
    rank = x.ndim
    return permuted(graph, x, (*range(rank - 2), rank - 1, rank - 2))


def reshaped(graph: Graph, x: Symbol, to: Shape) -> Symbol:
    """Another shape; of what was reshaped to this one, the other before."""
    before = graph.reshaped.get(x, x)
    if to in (x.shape, before.shape):
        return x if x.shape == to else before
    found = graph.add("Reshape", before, graph.integers(*to), to=to)
    graph.reshaped[found] = before
    return found


@rule("reshape")
def reshape(graph: Graph, x: Symbol, to: tuple[int | None, ...]) -> Symbol:
    """Another shape, of which one size may follow."""
    known = math.prod(size for size in to if size is not None)
    rest_ = math.prod(x.shape) // known if known else 0
    return reshaped(graph, x, tuple(rest_ if size is None else size for size in to))


@rule("flatten")
def flatten(graph: Graph, x: Symbol) -> Symbol:
    """All axes but the first made one."""
    return reshaped(graph, x, (x.shape[0], math.prod(x.shape[1:])))


@rule("expand")
def expand(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """A new axis of size 1."""
    axis += x.ndim + 1 if axis < 0 else 0
    return reshaped(graph, x, (*x.shape[:axis], 1, *x.shape[axis:]))


@rule("squeeze")
def squeeze(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """Without an axis of size 1."""
    return reshaped(graph, x, _without(x.shape, axis))


@rule("concat")
def concat(graph: Graph, a: Symbol, b: Symbol, axis: int) -> Symbol:
    """Joined along an axis."""
    return _joined(graph, [a, b], axis)


def _joined(graph: Graph, parts: list[Symbol], axis: int) -> Symbol:
    axis %= parts[0].ndim
    size = sum(part.shape[axis] for part in parts)
    to = (*parts[0].shape[:axis], size, *parts[0].shape[axis + 1 :])
    return graph.add("Concat", *parts, to=to, axis=axis)


@rule("stack")
def stack(graph: Graph, *items: Symbol) -> Symbol:
    """Slices along a new leading axis: behind each other, and then the new axis."""
    parts = items if items[0].ndim else [expand(graph, item, 0) for item in items]
    return reshaped(graph, _joined(graph, list(parts), 0), (len(items), *items[0].shape))


def _parts(graph: Graph, x: Symbol, sizes: list[int], axis: int) -> list[Symbol]:
    axis %= x.ndim
    shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]
    return graph.node("Split", [x, graph.integers(*sizes)], shapes, axis=axis)


@rule("rows")
def rows(graph: Graph, x: Symbol) -> list[Symbol]:
    """The slices along the leading axis, which is merged with the next one before."""
    count, *shape = x.shape
    if not shape:
        return [reshaped(graph, part, ()) for part in _parts(graph, x, [1] * count, 0)]
    flat = reshaped(graph, x, (count * shape[0], *shape[1:]))
    return _parts(graph, flat, [shape[0]] * count, 0)


@rule("split")
def split(graph: Graph, x: Symbol, at: int, axis: int) -> list[Symbol]:
    """The part before `at` and the rest."""
    return _parts(graph, x, [at, x.shape[axis] - at], axis)


def _equal_parts(count: int) -> Rule:
    def build(graph: Graph, x: Symbol, axis: int) -> list[Symbol]:
        return _parts(graph, x, [x.shape[axis] // count] * count, axis)

    return build


RULES.update(halves=_equal_parts(2), thirds=_equal_parts(3), quarters=_equal_parts(4))


@rule("slice")
def slice_(graph: Graph, x: Symbol, start: int, stop: int, axis: int) -> Symbol:
    """The part from `start` up to `stop`."""
    axis %= x.ndim
    to = (*x.shape[:axis], stop - start, *x.shape[axis + 1 :])
    bounds = [graph.integers(n) for n in (start, stop, axis)]
    return graph.add("Slice", x, *bounds, to=to)


@rule("reverse")
def reverse(graph: Graph, x: Symbol, axis: int) -> Symbol:
    """Backwards along an axis."""
    bounds = [graph.integers(n) for n in (-1, -(2**62), axis, -1)]
    return graph.add("Slice", x, *bounds, to=x.shape)


@rule("pad")
def pad(graph: Graph, x: Symbol, before: int, after: int, axis: int) -> Symbol:
    """Zeros before and after, along an axis."""
    axis %= x.ndim
    to = (*x.shape[:axis], before + x.shape[axis] + after, *x.shape[axis + 1 :])
    widths = [0] * (2 * x.ndim)
    widths[axis], widths[axis + x.ndim] = before, after
    return graph.add("Pad", x, graph.integers(*widths), number(graph, 0, x), to=to)


@rule("broadcast")
def broadcast(graph: Graph, x: Symbol, to: Shape) -> Symbol:
    """The shape that x and `to` broadcast to."""
    shape = np.broadcast_shapes(x.shape, to)
    return x if x.shape == shape else graph.add("Expand", x, graph.integers(*shape), to=shape)


@rule("full")
def full(graph: Graph, x: Symbol, s: Shape) -> Symbol:
    """One number everywhere."""
    return broadcast(graph, x, s)


@rule("tril")
def tril(graph: Graph, x: Symbol) -> Symbol:
    """Zeros above the diagonal."""
    return graph.add("Trilu", x, to=x.shape, upper=0)


@rule("lower")
def lower(graph: Graph, x: Symbol) -> Symbol:
    """Where the column is not after the row."""
    return graph.constant(np.tri(*x.shape[-2:], dtype=np.bool_))


@rule("take")
def take(graph: Graph, x: Symbol, i: Symbol) -> Symbol:
    """Rows by index."""
    return graph.add("Gather", x, i, to=(*i.shape, *x.shape[1:]))


@rule("one_hot")
def one_hot(graph: Graph, i: Symbol, n: int) -> Symbol:
    """1 at the index, else 0."""
    classes = graph.constant(np.arange(n, dtype=i.dtype))
    return cast(graph, RULES["=="](graph, expand(graph, i, -1), classes), "f32")


@rule("put")
def put(graph: Graph, values: Symbol, i: Symbol, n: int) -> Symbol:
    """`take` backwards: rows added up where their indices say."""
    zeros = graph.constant(np.zeros((n, *values.shape[i.ndim :]), values.dtype))
    places = expand(graph, i, -1)
    return graph.add("ScatterND", zeros, places, values, to=zeros.shape, reduction="add")


@rule("choose")
def choose(graph: Graph, x: Symbol, i: Symbol, axis: int) -> Symbol:
    """Numbers along an axis, by index."""
    return graph.add("GatherElements", x, i, to=i.shape, axis=axis)


@rule("unchoose")
def unchoose(graph: Graph, x: Symbol, i: Symbol, n: int, axis: int) -> Symbol:
    """`choose` backwards."""
    shape = list(x.shape)
    shape[axis] = n
    zeros = graph.constant(np.zeros(shape, x.dtype))
    return graph.add("ScatterElements", zeros, i, x, to=tuple(shape), axis=axis)
