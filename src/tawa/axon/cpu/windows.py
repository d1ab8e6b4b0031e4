"""What convolutions and pooling are in ONNX, and the windows of their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from tawa.axon.cpu.graph import Graph, Shape, Symbol
from tawa.axon.cpu.rules import number, permuted, reshaped, rule

Pads = tuple[tuple[int, int], ...]


def _counts(sizes: Shape, spans: Shape, stride: int, dilation: int, pads: Pads) -> Shape:
    """How often a window fits along each axis."""
    return tuple(
        (size + sum(pad) - dilation * (span - 1) - 1) // stride + 1
        for size, span, pad in zip(sizes, spans, pads, strict=True)
    )


def _flat(pads: Pads) -> list[int]:
    return [pad[0] for pad in pads] + [pad[1] for pad in pads]


def _convolved(
    graph: Graph, x: Symbol, w: Symbol, stride: int, dilation: int, groups: int, pads: Pads
) -> Symbol:
    places = _counts(x.shape[2:], w.shape[2:], stride, dilation, pads)
    rank = len(pads)
    return graph.add(
        "Conv", x, w, to=(x.shape[0], w.shape[0], *places), strides=[stride] * rank,
        dilations=[dilation] * rank, group=groups, pads=_flat(pads),
    )  # fmt: skip


@rule("conv1d", "conv2d")
def convolution(
    graph: Graph, x: Symbol, w: Symbol, stride: int, pad: int, dilation: int, groups: int
) -> Symbol:
    """The filters' products with all windows."""
    return _convolved(graph, x, w, stride, dilation, groups, ((pad, pad),) * (x.ndim - 2))


@rule("conv_same")
def conv_same(graph: Graph, x: Symbol, w: Symbol) -> Symbol:
    """Padded so that height and width stay."""
    pads = tuple(((size - 1) // 2, size // 2) for size in w.shape[2:])
    return _convolved(graph, x, w, 1, 1, 1, pads)


@rule("up")
def up(graph: Graph, x: Symbol, w: Symbol, stride: int, pad: int) -> Symbol:
    """The transposed convolution."""
    sizes = ((n - 1) * stride + k - 2 * pad for n, k in zip(x.shape[2:], w.shape[2:], strict=True))
    to = (x.shape[0], w.shape[1], *sizes)
    return graph.add("ConvTranspose", x, w, to=to, strides=[stride] * 2, pads=[pad] * 4)


@rule("max_pool")
def max_pool(graph: Graph, x: Symbol, size: int, stride: int, pad: int) -> Symbol:
    """The largest number of each window."""
    return _pooled(graph, "MaxPool", x, (size, stride, pad), {})


@rule("mean_pool")
def mean_pool(graph: Graph, x: Symbol, size: int, stride: int, pad: int) -> Symbol:
    """The mean of each window, padding counted as zeros."""
    return _pooled(graph, "AveragePool", x, (size, stride, pad), {"count_include_pad": 1})


def _pooled(
    graph: Graph, op: str, x: Symbol, how: tuple[int, int, int], more: dict[str, Any]
) -> Symbol:
    size, stride, pad = how
    places = _counts(x.shape[2:], (size, size), stride, 1, ((pad, pad),) * 2)
    return graph.add(
        op, x, to=(*x.shape[:2], *places), kernel_shape=[size] * 2, strides=[stride] * 2,
        pads=[pad] * 4, **more,
    )  # fmt: skip


@rule("windows")
def windows(
    graph: Graph, x: Symbol, spans: Shape, stride: int, dilation: int, pads: Pads, fill: float
) -> Symbol:
    """All windows: axis by axis, places and what is inside are gathered."""
    rank = len(spans)
    places = _counts(x.shape[2:], spans, stride, dilation, pads)
    whole = tuple(size + sum(pad) for size, pad in zip(x.shape[2:], pads, strict=True))
    widths = [0, 0, *(pad[0] for pad in pads), 0, 0, *(pad[1] for pad in pads)]
    found = graph.add("Pad", x, graph.integers(*widths), number(graph, fill, x),
                      to=(*x.shape[:2], *whole))  # fmt: skip
    for i in range(rank):
        taps = np.arange(places[i])[:, None] * stride + np.arange(spans[i]) * dilation
        at = 2 + 2 * i
        to = (*found.shape[:at], *taps.shape, *found.shape[at + 1 :])
        found = graph.add("Gather", found, graph.constant(taps.astype(np.int64)), to=to, axis=at)
    axes = (0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2))
    return permuted(graph, found, axes)


@rule("overlap")
def overlap(
    graph: Graph, x: Symbol, sizes: Shape, spans: Shape, stride: int, dilation: int, pads: Pads
) -> Symbol:
    """`windows` backwards: a transposed convolution that puts each tap at its place."""
    batch, channels, rank = x.shape[0], x.shape[1], len(spans)
    places, taps = x.shape[2 : 2 + rank], int(np.prod(spans))
    axes = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    rows = permuted(graph, x, axes)
    images = reshaped(graph, rows, (batch * channels, taps, *places))
    unit = graph.constant(np.eye(taps, dtype=x.dtype).reshape(taps, 1, *spans))
    whole = tuple(
        (n - 1) * stride + (k - 1) * dilation + 1 for n, k in zip(places, spans, strict=True)
    )
    found = graph.add(
        "ConvTranspose", images, unit, to=(batch * channels, 1, *whole), strides=[stride] * rank,
        dilations=[dilation] * rank,
    )  # fmt: skip
    cut = [(-pad[0], size + pad[0] - n) for pad, size, n in zip(pads, sizes, whole, strict=True)]
    widths = [0, 0, *(c[0] for c in cut), 0, 0, *(c[1] for c in cut)]
    padded = graph.add("Pad", found, graph.integers(*widths), number(graph, 0, x),
                       to=(batch * channels, 1, *sizes))  # fmt: skip
    return reshaped(graph, padded, (batch, channels, *sizes))
