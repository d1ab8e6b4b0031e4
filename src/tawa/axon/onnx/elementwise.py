"""Operators that work number by number, and the values of small integer tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tawa.axon.onnx.contents import (
    BY_BLOCKS,
    UNARY_VALUES,
    WIDE_INTEGERS,
    blocks_of,
    cast_sizes,
    filled,
    integral,
    is_float,
    of_floats,
    progressing,
)
from tawa.axon.onnx.context import Context, IllFormed, is_integer, rule
from tawa.axon.onnx.provided import EXACT_UP_TO
from tawa.axon.onnx.values import Array, Value, object_array, tensor
from tawa.axon.sizes.choices import largest, smallest
from tawa.axon.sizes.dims import ZERO, Dim, exact_quotient, total

SAME_SHAPE = """Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Bernoulli Ceil Celu Clip Cos Cosh
Elu Erf Exp EyeLike Floor Gelu HardSigmoid HardSwish Hardmax Identity IsInf IsNaN LRN
LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg Not
DequantizeLinear RandomNormalLike RandomUniformLike Reciprocal Relu Round Selu Shrink Sigmoid Sign
Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu ReverseSequence Trilu
InstanceNormalization GroupNormalization ai.onnx.ml:Binarizer
ai.onnx.ml:Scaler ai.onnx.ml:Normalizer ai.onnx.ml:Imputer ScatterElements
Scatter ScatterND TensorScatter RegexFullMatch RotaryEmbedding Cast CastLike""".split()

ALONG_AN_AXIS = ("Softmax", "LogSoftmax", "Hardmax")

BROADCAST = """Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual
Less LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor StringConcat""".split()

SLOPES_BROADCAST = 7
"""The opset from which PRelu's slopes are broadcast; before, they are one for each channel."""


def _has_channel_slopes(context: Context) -> bool:
    return context.node.op_type == "PRelu" and context.opset < SLOPES_BROADCAST


@rule(*SAME_SHAPE)
def same_shape(context: Context) -> Value:
    """The shape of the first input."""
    value = context.value(0)
    if value.dims == () and context.node.op_type in ALONG_AN_AXIS:
        raise IllFormed("a scalar has no axis")
    contents = _unary_contents(context, value)
    if value.progression is not None and context.node.op_type in BY_BLOCKS:
        return progressing(context, context.dims(0))
    if value.progression is not None and context.node.op_type in ("Cast", "CastLike"):
        return _cast_progression(context, value)
    fill = value.fill if context.node.op_type in ("Identity", "Cast") else None
    if context.node.op_type == "Cast" and fill is not None:
        kept = _cast(context, np.array(fill))
        fill = None if kept is None else kept.item()
    return Value(context.dims(0), contents, items=value.items, item=value.item,
                 is_sequence=value.is_sequence, fill=fill)  # fmt: skip


@rule("CumSum", "CumProd")
def cumulated(context: Context) -> Value:
    """The shape of the input; runtimes make different things of a scalar."""
    return tensor(context.dims(0) or None)


def _cast_progression(context: Context, value: Value) -> Value:
    dims, target = context.dims(0), _target(context)
    if target not in WIDE_INTEGERS and target not in EXACT_UP_TO:
        return Value(dims)
    return filled(context, dims, blocks_of(context, 0), target)


def _unary_contents(context: Context, value: Value) -> Array | None:
    name = context.node.op_type
    if value.contents is None:
        return None
    if name == "Identity":
        return value.contents
    if name in ("Cast", "CastLike"):
        return _cast(context, value.contents)
    if is_float(value) and value.contents.dtype == object:
        return of_floats(context)
    if name in UNARY_VALUES and is_integer(value.contents):
        symbolic = value.symbolic()
        return None if symbolic is None else mapped(UNARY_VALUES[name], symbolic)
    if name in FLOAT_VALUES and value.contents.dtype != object:
        return FLOAT_VALUES[name](value.contents)
    return None


FLOAT_VALUES: dict[str, Callable[[Array], Array]] = {
    "Neg": np.negative, "Abs": np.abs, "Sqrt": np.sqrt, "Floor": np.floor, "Ceil": np.ceil,
    "Reciprocal": np.reciprocal, "Exp": np.exp, "Not": np.logical_not, "Round": np.round,
    "Relu": lambda x: np.maximum(x, 0),
}  # fmt: skip


def _target(context: Context) -> int:
    """The element type that a Cast makes."""
    if context.node.op_type == "CastLike":
        return context.value(1).element
    return context.attribute("to")


def _cast(context: Context, contents: Array) -> Array | None:
    target = _target(context)
    if contents.dtype == object:
        constants = context.numbers(0)
        if constants is None:
            return cast_sizes(context, contents, target)
        if target in WIDE_INTEGERS:
            return contents
        contents = np.array(constants, np.int64).reshape(contents.shape)
    if target in (0, TensorProto.STRING) or contents.dtype.kind in "USO":
        return None
    try:
        with np.errstate(invalid="raise"):  # what integers infinities are isn't defined
            return contents.astype(helper.tensor_dtype_to_np_dtype(target))
    except (KeyError, TypeError, ValueError, FloatingPointError):
        return None


def mapped(function: Callable[..., Any], *arrays: Array) -> Array | None:
    """A function of sizes on arrays of sizes, broadcast; None where it gives None."""
    broadcast = np.broadcast_arrays(*arrays)
    found = [function(*items) for items in zip(*(a.ravel() for a in broadcast), strict=True)]
    if any(item is None for item in found):
        return None
    return object_array([Dim.of(item) for item in found], broadcast[0].shape)


@rule(*BROADCAST, "PRelu")
def broadcast(context: Context) -> Value:
    """The shape that all inputs broadcast to."""
    shapes = [context.dims(index) for index in range(len(context.inputs))]
    stretched = context.attribute("broadcast") or _has_channel_slopes(context)
    if stretched and shapes[0] is not None:
        return Value(shapes[0])  # opset 6 and older: the second operand is stretched
    dims = context.broadcast(*shapes)
    contents = _binary_contents(context)
    return progressing(context, dims) if contents is None else Value(dims, contents)


def _binary_contents(context: Context) -> Array | None:
    values = [context.value(index) for index in range(len(context.inputs))]
    if any(value.contents is None for value in values):
        return None
    name = context.node.op_type
    if name == "Where":
        return _where(context)
    if any(is_float(v) and v.contents is not None and v.contents.dtype == object for v in values):
        return of_floats(context)
    numbers = [value.numbers for value in values]
    if name in NUMBER_VALUES and all(n is not None and n.dtype != object for n in numbers):
        return _folded(NUMBER_VALUES[name], [n for n in numbers if n is not None])
    if name not in SIZE_VALUES:
        return None
    symbolic = [value.symbolic() for value in values]
    known = [array for array in symbolic if array is not None]
    if len(known) != len(symbolic):
        return None
    of = SIZE_VALUES[name]
    if name == "Mod" and context.flag("fmod"):
        of = _rest

    def of_known(*dims: Dim) -> Any:
        return of(context.least, *(context.solver.dim(dim) for dim in dims))

    result = mapped(of_known, *known)
    if result is not None and name in COMPARISONS:
        return np.array([bool(d.constant) for d in result.ravel()]).reshape(result.shape)
    return result


def _folded(function: Callable[[Array, Array], Array], arrays: list[Array]) -> Array | None:
    result = arrays[0]
    try:
        with np.errstate(all="ignore"):
            for array in arrays[1:]:
                result = function(result, array)
    except (ValueError, TypeError, ArithmeticError):  # NumPy has no such power of integers
        return None
    return np.asarray(result)


def _where(context: Context) -> Array | None:
    condition = context.value(0).numbers
    one, other = context.value(1), context.value(2)
    if condition is None or one.contents is None or other.contents is None:
        return None
    if one.contents.dtype != object and other.contents.dtype != object:
        return np.where(condition, one.contents, other.contents)
    left, right = integral(one), integral(other)
    return None if left is None or right is None else np.where(condition, left, right)


def truncated(a: Array, b: Array) -> Array:
    """ONNX's quotient: of integers, rounded towards zero."""
    if np.issubdtype(np.result_type(a, b), np.integer):
        if np.any(b == 0):
            return np.zeros(np.broadcast_shapes(a.shape, b.shape), np.result_type(a, b))
        return (np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))).astype(np.result_type(a, b))
    return a / b


NUMBER_VALUES: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": truncated, "Max": np.maximum,
    "Min": np.minimum, "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal,
    "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "And": np.logical_and,
    "Or": np.logical_or, "Sum": np.add, "Pow": np.power,
}  # fmt: skip


Least = Callable[[Dim], "int | None"]
"""What a size is known not to be below."""


def _quotient(least: Least, a: Dim, b: Dim) -> Dim | None:
    """The quotient, rounded towards 0; None if the divisor may be 0."""
    if (b.constant or 0) < 0:
        a, b = -a, -b
    if (least(b) or 0) < 1:
        return None
    low, high = least(a), least(-a)
    if low is not None and low >= 0 and (least(b - a) or 0) >= 1:
        return ZERO
    if exact_quotient(a, b) is not None or (low is not None and low >= 0):
        return a // b
    if high is not None and high >= 0:
        return -(-a // b)
    zero = Dim.of(0)
    return largest([a, zero]) // b - largest([-a, zero]) // b


def _remainder(least: Least, a: Dim, b: Dim) -> Dim | None:
    """The rest with the divisor's sign; None if the divisor may be 0."""
    if (b.constant or 0) >= 0 and (least(b) or 0) < 1:
        return None
    for near in (a, a + b):  # a size rolled by a number is often larger than that
        low, room = least(near), least(b - near)
        if low is not None and low >= 0 and (room or 0) >= 1:
            return near
    return a % b


def _rest(least: Least, a: Dim, b: Dim) -> Dim | None:
    """The rest with the dividend's sign; None if the divisor may be 0."""
    quotient = _quotient(least, a, b)
    return None if quotient is None else a - quotient * b


def _comparison(
    decide: Callable[[Least, Dim], bool | None],
) -> Callable[[Least, Dim, Dim], int | None]:
    def compare(least: Least, a: Dim, b: Dim) -> int | None:
        found = decide(least, a - b)
        return None if found is None else int(found)

    return compare


def _is_zero(least: Least, difference: Dim) -> bool | None:
    if not difference.terms:
        return True
    for side in (difference, -difference):
        low = least(side)
        if low is not None and low > 0:
            return False
    return None


def _is_positive(least: Least, difference: Dim) -> bool | None:
    low, high = least(difference), least(-difference)
    if low is not None and low > 0:
        return True
    return False if high is not None and high >= 0 else None


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _unbounded(of: Callable[[Iterable[Dim]], Dim]) -> Callable[..., Dim]:
    """A function of any number of sizes for which bounds need not be known."""

    def computed(_: Least, *sizes: Dim) -> Dim:
        return of(sizes)

    return computed


COMPARISONS = {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"}
SIZE_VALUES: dict[str, Callable[..., Any]] = {
    "Add": lambda _, a, b: a + b,
    "Sub": lambda _, a, b: a - b,
    "Mul": lambda _, a, b: a * b,
    "Div": _quotient,
    "Mod": _remainder,
    "Max": _unbounded(largest),
    "Min": _unbounded(smallest),
    "Sum": _unbounded(total),
    "Equal": _comparison(_is_zero),
    "Greater": _comparison(_is_positive),
    "Less": _comparison(lambda least, d: _is_positive(least, -d)),
    "GreaterOrEqual": _comparison(lambda least, d: _negated(_is_positive(least, -d))),
    "LessOrEqual": _comparison(lambda least, d: _negated(_is_positive(least, d))),
}
