"""Operators in terms of others, for when they are differentiated.

`derivatives.py` has rules for what everything else is made of. Each function here computes what the
operator of its name does, from such operators alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tawa.axon.running.contraction import axes_of
from tawa.axon.running.derivatives import EPSILON
from tawa.axon.running.numbers import Number
from tawa.axon.sizes.patterns import Pattern
from tawa.base.decorated import Registering

Composition = Callable[..., "Number | tuple[Number, ...]"]

Pads = tuple[tuple[int, int], ...]
"""Rows to add before and after, along each axis."""

COMPOSITIONS: dict[str, Composition] = {}
"""The composition of each operator that has no rule, or no operator of ONNX's, of its own."""


composition = Registering(COMPOSITIONS)


@composition("linear")
def linear(w: Number, b: Number, x: Number) -> Number:
    """x @ w + b."""
    return x.do("@", w) + b


@composition("dot")
def dot(a: Number, b: Number) -> Number:
    """The sum of the products."""
    return (a * b).sum(-1)


@composition("outer")
def outer(a: Number, b: Number) -> Number:
    """A column times a row."""
    return a.do("expand", axis=1) * b


@composition("mean")
def mean(x: Number, axis: int) -> Number:
    """The sum divided by the size."""
    return x.sum(axis) / float(x.shape[axis])


@composition("mean_all")
def mean_all(x: Number) -> Number:
    """The sum of all divided by how many there are."""
    return x.do("sum_all") / float(math.prod(x.shape))


@composition("global_mean")
def global_mean(x: Number) -> Number:
    """The mean over all axes after the second."""
    return mean(x.reshape(*x.shape[:2], math.prod(x.shape[2:])), -1)


@composition("prod")
def prod(x: Number, axis: int) -> Number:
    """Slice by slice, so that zeros do no harm."""
    slices = [x.part(axis, i, i + 1).do("squeeze", axis=axis) for i in range(x.shape[axis])]
    found = slices[0]
    for more in slices[1:]:
        found = found * more
    return found


@composition("rms_norm")
def rms_norm(scale: Number, x: Number) -> Number:
    """Divided by the root of the mean square."""
    return x * ((x * x).mean(-1) + EPSILON).do("rsqrt") * scale


@composition("batch_norm")
def batch_norm(scale: Number, offset: Number, mean: Number, variance: Number, x: Number) -> Number:
    """Each channel with the given statistics."""
    sizes = (scale.shape[0], *[1] * (len(x.shape) - 2))
    scale, offset, mean, variance = (n.reshape(*sizes) for n in (scale, offset, mean, variance))
    return (x - mean) * (scale * (variance + EPSILON).do("rsqrt")) + offset


def _attention_weights(q: Number, k: Number, causal: bool) -> Number:
    """Softmax of the scores; later keys get no weight if it is causal."""
    scores = q @ k.transposed() / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.do("lower").do("where", scores, scores.like(-1e30))
    return scores.do("softmax", axis=-1)


@composition("attention")
def attention(q: Number, k: Number, v: Number) -> Number:
    """Weighted means of the values."""
    return _attention_weights(q, k, causal=False) @ v


@composition("causal_attention")
def causal_attention(q: Number, k: Number, v: Number) -> Number:
    """Later keys get no weight."""
    return _attention_weights(q, k, causal=True) @ v


@composition("attention_slopes")
def attention_slopes(
    q: Number, k: Number, v: Number, y: Number, by: Number, causal: bool
) -> tuple[Number, ...]:
    """The derivatives of attention by its operands."""
    weights = _attention_weights(q, k, causal)
    slopes = weights * (by @ v.transposed() - (by * y).sum(-1, keep=True))
    slopes = slopes / math.sqrt(q.shape[-1])
    return slopes @ k, slopes.transposed() @ q, weights.transposed() @ by


@composition("repeat")
def repeat(x: Number, times: int, axis: int) -> Number:
    """Copies joined."""
    axis %= len(x.shape)
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    spread = x.reshape(*before, 1, size, *after).spread(*before, times, size, *after)
    return spread.reshape(*before, times * size, *after)


@composition("upsample")
def upsample(x: Number, scale: int) -> Number:
    """Each number spread over a square."""
    b, c, h, w = x.shape
    spread = x.reshape(b, c, h, 1, w, 1).spread(b, c, h, scale, w, scale)
    return spread.reshape(b, c, h * scale, w * scale)


@composition("top")
def top(x: Number, k: int) -> tuple[Number, Number]:
    """Numbers chosen by a falling order."""
    order = (-x).do("order", axis=-1).part(-1, 0, k)
    return x.do("choose", order, axis=-1), order


@composition("sort")
def sort(x: Number, axis: int) -> Number:
    """Numbers chosen by a rising order."""
    return x.do("choose", x.do("order", axis=axis), axis=axis)


# Convolutions, as products with windows.


def _windows(
    x: Number, sizes: tuple[int, ...], stride: int, dilation: int, pads: Pads,
    fill: float = 0.0,
) -> Number:  # fmt: skip
    return x.do("windows", spans=sizes, stride=stride, dilation=dilation, pads=pads, fill=fill)


def _grouped(x: Number, groups: int) -> Number:
    """Channels, the second axis, in groups."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _filters(w: Number, groups: int) -> Number:
    return w.reshape(groups, w.shape[0] // groups, *w.shape[1:])


def _axes(rank: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The axes of windows in groups, of filters, and of what they give."""
    b, g, c, o = range(4)
    at, inside = tuple(range(4, 4 + rank)), tuple(range(4 + rank, 4 + 2 * rank))
    return (b, g, c, *at, *inside), (g, o, c, *inside), (b, g, o, *at)


def _convolution(
    x: Number, w: Number, stride: int, dilation: int, groups: int,
    pads: Pads,
) -> Number:  # fmt: skip
    windows = _windows(x, w.shape[2:], stride, dilation, pads)
    of_windows, of_filters, of_results = _axes(len(pads))
    found = _grouped(windows, groups).do(
        "contract", _filters(w, groups), inputs=(of_windows, of_filters), output=of_results
    )
    return found.reshape(x.shape[0], w.shape[0], *found.shape[3:])


@composition("image_slopes")
def image_slopes(
    by: Number, w: Number, sizes: tuple[int, ...], stride: int, dilation: int, groups: int,
    pads: Pads,
) -> Number:  # fmt: skip
    """What each result adds to its window, added up where windows overlap."""
    of_windows, of_filters, of_results = _axes(len(pads))
    parts = _grouped(by, groups).do(
        "contract", _filters(w, groups), inputs=(of_results, of_filters), output=of_windows
    )
    parts = parts.reshape(by.shape[0], groups * w.shape[1], *parts.shape[3:])
    how: Any = {"stride": stride, "dilation": dilation, "pads": pads}
    return parts.do("overlap", sizes=sizes, spans=w.shape[2:], **how)


@composition("filter_slopes")
def filter_slopes(
    by: Number, x: Number, spans: tuple[int, ...], stride: int, dilation: int, groups: int,
    pads: Pads,
) -> Number:  # fmt: skip
    """The products of the windows with what they gave, summed over all of them."""
    windows = _grouped(_windows(x, spans, stride, dilation, pads), groups)
    of_windows, of_filters, of_results = _axes(len(pads))
    found = windows.do(
        "contract", _grouped(by, groups), inputs=(of_windows, of_results), output=of_filters
    )
    return found.reshape(by.shape[1], *found.shape[2:])


@composition("conv1d", "conv2d")
def convolution(x: Number, w: Number, stride: int, pad: int, dilation: int, groups: int) -> Number:
    """The filters' products with all windows."""
    pads = ((pad, pad),) * (len(x.shape) - 2)
    return _convolution(x, w, stride, dilation, groups, pads)


@composition("conv_same")
def conv_same(x: Number, w: Number) -> Number:
    """Padded so that height and width stay."""
    pads = tuple(((size - 1) // 2, size // 2) for size in w.shape[2:])
    return _convolution(x, w, 1, 1, 1, pads)


@composition("up")
def up(x: Number, w: Number, stride: int, pad: int) -> Number:
    """What each number adds to the window at its place."""
    b, c, h, v, o, k, n = range(7)
    parts = x.do("contract", w, inputs=((b, c, h, v), (c, o, k, n)), output=(b, o, h, v, k, n))
    sizes = tuple((x.shape[2 + i] - 1) * stride + w.shape[2 + i] - 2 * pad for i in range(2))
    return parts.do("overlap", sizes=sizes, spans=w.shape[2:], stride=stride, dilation=1,
                    pads=((pad, pad),) * 2)  # fmt: skip


@composition("max_pool")
def max_pool(x: Number, size: int, stride: int, pad: int) -> Number:
    """The largest number of each window."""
    windows = _windows(x, (size, size), stride, 1, ((pad, pad),) * 2, -math.inf)
    return windows.reshape(*windows.shape[:4], size * size).do("max", axis=-1)


@composition("highest_slopes")
def highest_slopes(x: Number, y: Number, by: Number, size: int, stride: int, pad: int) -> Number:
    """The derivative of `max_pool`: equal ones share it."""
    spans, pads = (size, size), ((pad, pad),) * 2
    windows = _windows(x, spans, stride, 1, pads, -math.inf)
    reached = windows.mask("==", y.reshape(*y.shape, 1, 1))
    count = reached.sum(-1).sum(-1)
    parts = reached * (by / count).reshape(*by.shape, 1, 1)
    return parts.do("overlap", sizes=x.shape[2:], spans=spans, stride=stride, dilation=1, pads=pads)


@composition("mean_pool")
def mean_pool(x: Number, size: int, stride: int, pad: int) -> Number:
    """The mean of each window."""
    windows = _windows(x, (size, size), stride, 1, ((pad, pad),) * 2)
    return mean(windows.reshape(*windows.shape[:4], size * size), -1)


@composition("pattern")
def pattern(*given: Number, pattern: Pattern, sizes: dict[str, Any]) -> Number:
    """Axes split, contracted, and joined."""
    split, final, inputs, output = axes_of(pattern, [x.shape for x in given], sizes)
    operands = [x.reshape(*to) for x, to in zip(given, split, strict=True)]
    is_plain = len(inputs) == 1 and inputs[0] == output
    first, rest = operands[0], operands[1:]
    found = first if is_plain else first.do("contract", *rest, inputs=inputs, output=output)
    return found.reshape(*final)
