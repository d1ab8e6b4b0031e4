"""The derivative of each operator.

A rule is given the operands, the result, the derivative by the result, and the static arguments. It
gives, for each operand, a function that computes the derivative by it, or None where that is 0.
Operators that are not here are compositions of others (`compositions.py`), or have no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tawa.axon.running.numbers import Number
from tawa.axon.running.tape import Algebra, Step, Thunk, Value
from tawa.axon.typing.errors import NoDerivative

Numbers = Sequence[Number]
Parts = "Callable[[], Number] | None"
Thunks = Callable[[], Number]
Rule = Callable[..., "Sequence[Callable[[], Number] | None]"]

EPSILON = 1e-5
"""Of the norms."""

DERIVATIVES: dict[str, Rule] = {}
"""The rule of each operator that has one."""

SEVERAL: set[str] = set()
"""Operators with several results: their rules are given a list of derivatives."""

CONSTANT = frozenset((
    "==", "!=", "<", "<=", ">", ">=", "both", "either", "not", "sign", "floor", "ceil", "//",
    "argmax", "one_hot", "iota", "zeros", "ones", "order", "lower",
))  # fmt: skip
"""Operators whose derivative is 0 wherever there is one."""


def derivative(*names: str, several: bool = False) -> Callable[[Rule], Rule]:
    """Register the rule of operators."""

    def register(rule: Rule) -> Rule:
        DERIVATIVES.update(dict.fromkeys(names, rule))
        SEVERAL.update(names if several else ())
        return rule

    return register


def backward(algebra: Algebra, step: Step, known: dict[int, Value]) -> list[Thunk | None]:
    """The derivatives by a step's operands, from those by its results that are known."""
    rule = DERIVATIVES.get(step.name)
    if rule is None:
        raise NoDerivative(f"`{step.name}` has no derivative")

    def number(value: Value) -> Number:
        return Number(algebra, value)

    given = [number(value) for value in step.given]
    if step.name in SEVERAL:
        results = [number(value) for value in step.result]
        by: Any = [
            number(known[i]) if i in known else (result.do("reshape", to=result.shape) * 0.0)
            for i, result in enumerate(results)
        ]
        found = rule(given, results, by, **step.statics)
    else:
        found = rule(given, number(step.result), number(known[0]), **step.statics)
    return [None if part is None else _value_of(part) for part in found]


def _value_of(part: Callable[[], Number]) -> Thunk:
    return lambda: part().value


# Pointwise.

Slope = Callable[[Number, Number], Number]


def _gelu(x: Number, y: Number) -> Number:
    density = (x * x * -0.5).do("exp") * (1 / math.sqrt(2 * math.pi))
    return (x * math.sqrt(0.5)).do("erf") * 0.5 + 0.5 + x * density


def _silu(x: Number, y: Number) -> Number:
    gate = x.do("sigmoid")
    return gate * (1 + x * (1 - gate))


SLOPES: dict[str, Slope] = {
    "negate": lambda x, y: y * 0.0 - 1.0,
    "abs": lambda x, y: x.do("sign"),
    "exp": lambda x, y: y,
    "log": lambda x, y: 1 / x,
    "sqrt": lambda x, y: 0.5 / y,
    "rsqrt": lambda x, y: y / x * -0.5,
    "sin": lambda x, y: x.do("cos"),
    "cos": lambda x, y: -x.do("sin"),
    "tanh": lambda x, y: 1 - y * y,
    "erf": lambda x, y: (-(x * x)).do("exp") * (2 / math.sqrt(math.pi)),
    "sigmoid": lambda x, y: y * (1 - y),
    "relu": lambda x, y: y.mask(">", 0.0),
    "softplus": lambda x, y: x.do("sigmoid"),
    "silu": _silu,
    "gelu": _gelu,
}
"""The derivative of functions of one number, from the number and the result."""


def _unary(slope: Slope) -> Rule:
    def rule(given: Numbers, y: Number, by: Number) -> Any:
        return [lambda: by * slope(given[0], y)]

    return rule


DERIVATIVES.update({name: _unary(slope) for name, slope in SLOPES.items()})


def _half(a: Number, b: Number, comparison: str) -> Number:
    """1 where the comparison holds, 1/2 where both are equal."""
    return a.mask(comparison, b) + a.mask("==", b) * 0.5


def _power(a: Number, b: Number) -> Number:
    """b * a ** (b - 1), which is 0 where b is."""
    zero = b.mask("==", 0.0)
    return b * a ** (b - 1 + zero)


def _logarithm(a: Number) -> Number:
    """log(a), and 0 where a is 0: a power of 0 doesn't grow with its exponent."""
    zero = a.mask("==", 0.0)
    return (a + zero).do("log")


Slopes = Callable[[Number, Number, Number, Number], "tuple[Callable[[], Number], ...]"]

BINARY: dict[str, Slopes] = {
    "+": lambda a, b, y, by: (lambda: by, lambda: by),
    "-": lambda a, b, y, by: (lambda: by, lambda: -by),
    "*": lambda a, b, y, by: (lambda: by * b, lambda: by * a),
    "/": lambda a, b, y, by: (lambda: by / b, lambda: -(by * y / b)),
    "%": lambda a, b, y, by: (lambda: by, lambda: -(by * ((a - y) / b))),
    "**": lambda a, b, y, by: (lambda: by * _power(a, b), lambda: by * y * _logarithm(a)),
    "maximum": lambda a, b, y, by: (
        lambda: by * _half(a, b, ">"), lambda: by * _half(b, a, ">")),
    "minimum": lambda a, b, y, by: (
        lambda: by * _half(a, b, "<"), lambda: by * _half(b, a, "<")),
}  # fmt: skip


def _binary(slopes: Slopes) -> Rule:
    def rule(given: Numbers, y: Number, by: Number) -> Any:
        a, b = given
        one, other = slopes(a, b, y, by)
        return [lambda: one().gathered(a.shape), lambda: other().gathered(b.shape)]

    return rule


DERIVATIVES.update({name: _binary(slopes) for name, slopes in BINARY.items()})
DERIVATIVES.update({f".{symbol}": DERIVATIVES[symbol] for symbol in "+-*/"})


@derivative("where")
def _where(given: Numbers, y: Number, by: Number) -> Any:
    condition, a, b = given
    zero = by * 0.0
    return [
        None,
        lambda: condition.do("where", by, zero).gathered(a.shape),
        lambda: condition.do("where", zero, by).gathered(b.shape),
    ]


@derivative("cast")
def _cast(given: Numbers, y: Number, by: Number, to: str) -> Any:
    (x,) = given
    if not x.algebra.is_float(x.value):
        return [None]
    return [lambda: by * 0.0 if not y.algebra.is_float(y.value) else by.do("like", x)]


@derivative("like")
def _like(given: Numbers, y: Number, by: Number) -> Any:
    return [lambda: by.do("like", given[0]), None]


# Reductions.


@derivative("sum")
def _sum(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    return [lambda: by.do("expand", axis=axis).spread(*given[0].shape)]


@derivative("sum_all")
def _sum_all(given: Numbers, y: Number, by: Number) -> Any:
    return [lambda: by.spread(*given[0].shape)]


@derivative("max", "min")
def _extreme(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    """Equal ones share it."""

    def share() -> Number:
        x = given[0]
        reached = x.mask("==", y.do("expand", axis=axis))
        return reached * (by.do("expand", axis=axis) / reached.sum(axis, keep=True))

    return [share]


@derivative("logsumexp")
def _logsumexp(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    def part() -> Number:
        base = y.do("==", -math.inf).do("where", y.like(0.0), y)  # no share of what is all 0
        shares = (given[0] - base.do("expand", axis=axis)).do("exp")
        return by.do("expand", axis=axis) * shares

    return [part]


@derivative("cumsum")
def _cumsum(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    return [lambda: by.do("reverse", axis=axis).do("cumsum", axis=axis).do("reverse", axis=axis)]


@derivative("softmax")
def _softmax(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    return [lambda: y * (by - (by * y).sum(axis, keep=True))]


@derivative("log_softmax")
def _log_softmax(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    return [lambda: by - y.do("exp") * by.sum(axis, keep=True)]


class _Normalised:
    """What the derivatives of a norm share: the numbers before scale and offset, and the spread."""

    def __init__(self, x: Number, centred: bool) -> None:
        self.centred = centred
        centre = x - x.mean(-1) if centred else x
        self.spread = ((centre * centre).mean(-1) + EPSILON).do("rsqrt")
        self.numbers = centre * self.spread

    def before(self, slope: Number) -> Number:
        """The derivative by x, from that by the normalised numbers.

        Less its mean, as the mean of x is taken away, and less its part along the numbers, as their
        length is divided out.
        """
        inner = slope - slope.mean(-1) if self.centred else slope
        return (inner - self.numbers * (slope * self.numbers).mean(-1)) * self.spread


def _norm(scale: Number, x: Number, by: Number, centred: bool) -> tuple[Thunks, Thunks]:
    """The derivatives of a norm by its scale and by x."""
    shared: list[_Normalised] = []

    def norm() -> _Normalised:
        if not shared:
            shared.append(_Normalised(x, centred))
        return shared[0]

    return (
        lambda: (by * norm().numbers).gathered(scale.shape),
        lambda: norm().before(by * scale),
    )


@derivative("layer_norm")
def _layer_norm(given: Numbers, y: Number, by: Number) -> Any:
    scale, offset, x = given
    of_scale, of_x = _norm(scale, x, by, centred=True)
    return [of_scale, lambda: by.gathered(offset.shape), of_x]


@derivative("rms_norm")
def _rms_norm(given: Numbers, y: Number, by: Number) -> Any:
    scale, x = given
    return list(_norm(scale, x, by, centred=False))


# Products.


@derivative("matmul")
def _matmul(given: Numbers, y: Number, by: Number) -> Any:
    a, b = given
    return [
        lambda: (by @ b.transposed()).gathered(a.shape),
        lambda: (a.transposed() @ by).gathered(b.shape),
    ]


@derivative("@")
def _matrix_product(given: Numbers, y: Number, by: Number) -> Any:
    x, w = given
    if len(w.shape) > 2:
        return _matmul(given, y, by)
    k, n = x.shape[-1], y.shape[-1]

    def weights() -> Number:
        rows = math.prod(x.shape[:-1])
        return x.reshape(rows, k).transposed() @ by.reshape(rows, n)

    return [lambda: by.do("@", w.transposed()), weights]


@derivative("contract")
def _contract(
    given: Numbers, y: Number, by: Number, inputs: tuple[tuple[int, ...], ...],
    output: tuple[int, ...],
) -> Any:  # fmt: skip
    """An einsum: of the other operands and the result's derivative, to the operand's axes."""

    def part(index: int) -> Callable[[], Number]:
        def found() -> Number:
            own = inputs[index]
            if len(set(own)) < len(own):
                raise NoDerivative("a pattern that takes a diagonal has no derivative")
            others = [k for k in range(len(given)) if k != index]
            axes = (output, *(inputs[k] for k in others))
            known = {axis for group in axes for axis in group}
            kept = tuple(axis for axis in own if axis in known)
            result = by.do("contract", *(given[k] for k in others), inputs=axes, output=kept)
            for place, axis in enumerate(own):
                if axis not in known:
                    result = result.do("expand", axis=place)
            return result.spread(*given[index].shape)

        return found

    return [part(index) for index in range(len(given))]


def _attention(causal: bool) -> Rule:
    """All three derivatives at once, which recompute the weights."""

    def rule(given: Numbers, y: Number, by: Number) -> Any:
        found: list[Number] = []

        def part(index: int) -> Callable[[], Number]:
            def computed() -> Number:
                if not found:
                    values = (number.value for number in (*given, y, by))
                    slopes = by.algebra.call("attention_slopes", *values, causal=causal)
                    found.extend(Number(by.algebra, slope) for slope in slopes)
                return found[index]

            return computed

        return [part(index) for index in range(len(given))]

    return rule


DERIVATIVES.update({"attention": _attention(False), "causal_attention": _attention(True)})


# Movement.


@derivative("transpose")
def _transpose(given: Numbers, y: Number, by: Number) -> Any:
    return [by.transposed]


@derivative("reshape", "flatten", "expand", "squeeze")
def _reshape(given: Numbers, y: Number, by: Number, **statics: Any) -> Any:
    return [lambda: by.reshape(*given[0].shape)]


@derivative("broadcast", "full")
def _broadcast(given: Numbers, y: Number, by: Number, **statics: Any) -> Any:
    return [lambda: by.gathered(given[0].shape)]


@derivative("concat")
def _concat(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    at, end = given[0].shape[axis], y.shape[axis]
    return [lambda: by.part(axis, 0, at), lambda: by.part(axis, at, end)]


@derivative("split", "halves", "thirds", "quarters", several=True)
def _split(given: Numbers, results: Numbers, by: Numbers, axis: int, at: int = 0) -> Any:
    def joined() -> Number:
        found = by[0]
        for part in by[1:]:
            found = found.do("concat", part, axis=axis)
        return found

    return [joined]


@derivative("stack")
def _stack(given: Numbers, y: Number, by: Number) -> Any:
    parts: list[Number] = []

    def part(index: int) -> Callable[[], Number]:
        def found() -> Number:
            if not parts:
                rows = by.algebra.call("rows", by.value)
                parts.extend(Number(by.algebra, row) for row in rows)
            return parts[index]

        return found

    return [part(index) for index in range(len(given))]


@derivative("rows", several=True)
def _rows(given: Numbers, results: Numbers, by: Numbers) -> Any:
    return [lambda: by[0].do("stack", *by[1:])]


@derivative("slice")
def _slice(given: Numbers, y: Number, by: Number, start: int, stop: int, axis: int) -> Any:
    after = given[0].shape[axis] - stop
    return [lambda: by.do("pad", before=start, after=after, axis=axis)]


@derivative("pad")
def _pad(given: Numbers, y: Number, by: Number, before: int, after: int, axis: int) -> Any:
    return [lambda: by.part(axis, before, before + given[0].shape[axis])]


@derivative("reverse")
def _reverse(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    return [lambda: by.do("reverse", axis=axis)]


@derivative("tril")
def _tril(given: Numbers, y: Number, by: Number) -> Any:
    return [lambda: by.do("tril")]


@derivative("take")
def _take(given: Numbers, y: Number, by: Number) -> Any:
    table, index = given
    return [lambda: by.do("put", index, n=table.shape[0]), None]


@derivative("put")
def _put(given: Numbers, y: Number, by: Number, n: int) -> Any:
    return [lambda: by.do("take", given[1]), None]


@derivative("choose")
def _choose(given: Numbers, y: Number, by: Number, axis: int) -> Any:
    x, order = given
    return [lambda: by.do("unchoose", order, n=x.shape[axis], axis=axis), None]


@derivative("unchoose")
def _unchoose(given: Numbers, y: Number, by: Number, n: int, axis: int) -> Any:
    return [lambda: by.do("choose", given[1], axis=axis), None]


@derivative("windows")
def _windows(given: Numbers, y: Number, by: Number, fill: float, **how: Any) -> Any:
    sizes = given[0].shape[2:]
    return [lambda: by.do("overlap", sizes=sizes, **how)]


@derivative("overlap")
def _overlap(given: Numbers, y: Number, by: Number, sizes: Any, **how: Any) -> Any:
    return [lambda: by.do("windows", fill=0.0, **how)]


# Convolutions and pooling.


def _convolved(given: Numbers, by: Number, **how: Any) -> Any:
    """By the image: a convolution turned back. By the filters: products with all windows."""
    x, w = given
    return [
        lambda: by.do("image_slopes", w, sizes=x.shape[2:], **how),
        lambda: by.do("filter_slopes", x, spans=w.shape[2:], **how),
    ]


@derivative("conv1d", "conv2d")
def _convolution(given: Numbers, y: Number, by: Number, pad: int, **how: int) -> Any:
    return _convolved(given, by, pads=((pad, pad),) * (len(y.shape) - 2), **how)


@derivative("conv_same")
def _conv_same(given: Numbers, y: Number, by: Number) -> Any:
    pads = tuple(((size - 1) // 2, size // 2) for size in given[1].shape[2:])
    return _convolved(given, by, stride=1, dilation=1, groups=1, pads=pads)


@derivative("max_pool")
def _max_pool(given: Numbers, y: Number, by: Number, **how: int) -> Any:
    """Equal ones share it."""
    return [lambda: given[0].do("highest_slopes", y, by, **how)]


@derivative("mean_pool")
def _mean_pool(given: Numbers, y: Number, by: Number, size: int, stride: int, pad: int) -> Any:
    def parts() -> Number:
        shares = (by / float(size * size)).reshape(*by.shape, 1, 1).spread(*by.shape, size, size)
        return shares.do("overlap", sizes=given[0].shape[2:], spans=(size, size), stride=stride,
                         dilation=1, pads=((pad, pad),) * 2)  # fmt: skip

    return [parts]
