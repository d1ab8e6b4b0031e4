"""Images of few channels, as the library's kernels take them: what a filter's row reads is a pixel.

The copy engine moves whole pieces of 16 bytes, and three channels are 6. So the channels are padded
to a number whose steps are such pieces, and what lies under one row of a filter, all its taps'
pixels, is seen as the channels of one pixel. These overlap in memory; nothing is laid out twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tawa.axon.gpu.convolve import UNIT, suits
from tawa.axon.gpu.graph.nodes import Node, Place, Tape, Window, layout
from tawa.kernels.convolution.shapes import Convolution


@dataclass(frozen=True)
class Rows:
    """A convolution whose filters have one column, and how its channels are found."""

    conv: Convolution
    taps: int
    """Pixels under a row of a filter, with those that fill the last piece."""
    channels: int
    """Of each of these pixels, with zeros."""
    width: int
    """Pixels of an image's row in memory."""


def in_rows(conv: Convolution, element: str) -> Rows | None:
    """How a convolution of few channels is one of rows; None if it is not, or needs not be."""
    if conv.c >= UNIT or conv.groups > 1 or conv.dilation[1] > 1:
        return None
    step = conv.stride[1]
    channels = next(n for n in (1, 2, 4, UNIT) if n >= conv.c and n * step % UNIT == 0)
    taps = _whole(conv.s, channels)
    width = _whole((conv.q - 1) * step + taps, channels)
    rows = replace(
        conv, w=conv.q, c=taps * channels, s=1, stride=(conv.stride[0], 1),
        pad=(conv.pad[0], (0, 0)), dilation=(conv.dilation[0], 1),
    )  # fmt: skip
    return Rows(rows, taps, channels, width) if suits(rows, element) else None


def _whole(count: int, channels: int) -> int:
    """So many pixels, or a few more, that fill pieces."""
    each = UNIT // channels
    return -(-count // each) * each


def pixels_in_rows(tape: Tape, pixels: Node, conv: Convolution, rows: Rows) -> Node:
    """Images [n, h, w, c] as [n, h, q, taps * channels], a view of a copy with zeros around."""
    (n, h, w, c), (left, _) = pixels.shape, conv.pad[1]
    copied = _padded(tape, pixels, (n, h, rows.width, rows.channels), (w, c), -left)
    line = rows.width * rows.channels
    apart = conv.stride[1] * rows.channels
    shape = n, h, conv.q, rows.taps * rows.channels
    return tape.view(copied, shape, (h * line, line, apart, 1), 0)


def filters_in_rows(tape: Tape, filters: Node, rows: Rows) -> Node:
    """Filters [k, r, s, c] as [k, r, 1, taps * channels], with zeros."""
    k, r, s, c = filters.shape
    copied = _padded(tape, filters, (k, r, rows.taps, rows.channels), (s, c), 0)
    return tape.reshape(copied, (k, r, 1, rows.taps * rows.channels))


def filters_of_rows(tape: Tape, found: Node, conv: Convolution, rows: Rows) -> Node:
    """`filters_in_rows` backwards, without what was added: a view."""
    apart = tape.reshape(found, (conv.k, conv.r, rows.taps, rows.channels))
    return tape.part(tape.part(apart, 2, 0, conv.s), 3, 0, conv.c)


def _padded(tape: Tape, x: Node, axes: tuple[int, ...], sizes: tuple[int, int], start: int) -> Node:
    """A tensor whose last two axes, of some sizes, are longer: zeros before `start` and after."""
    strides, offset = layout(x)
    places = (
        Place(sizes[0], strides[2], start, (0, 0, 1, 0)),
        Place(sizes[1], strides[3], 0, (0, 0, 0, 1)),
    )
    data = Window(axes, 2, (*strides[:2], 0, 0), offset, places)
    shape = prod(axes[:2]), prod(axes[2:])
    return tape.reshape(tape.add("window", "", (x.base,), shape, x.element, data=data), axes)
