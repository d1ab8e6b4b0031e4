"""The rules of the derivatives of convolutions and pooling.

By an image, a convolution without a stride is one of turned filters, whose channels and filters
change places; with a stride, one of the library's kernels computes all remainders by it. By the
filters, programs of another of these share the pixels, and their sums are added in their order.
Where the library has no kernel, all windows are laid out in memory (`running/compositions.py`).
"""

from __future__ import annotations

import math

from tawa.axon.gpu.convolve import dense, described, suits
from tawa.axon.gpu.few_channels import filters_of_rows, in_rows, pixels_in_rows
from tawa.axon.gpu.graph.nodes import Node, Shape, Tape, layout
from tawa.axon.gpu.rules import rule, scalar
from tawa.axon.gpu.unconvolve import planes_of, sharing_of
from tawa.axon.gpu.windows import (
    MOST_TERMS,
    Sweep,
    added,
    arrived,
    convolved,
    laid_out,
    met,
    pixels_of,
    sizes_of,
    taps_of,
)
from tawa.kernels.convolution.shapes import Convolution

Pads = tuple[tuple[int, int], ...]


@rule("image_slopes")
def image_slopes(
    tape: Tape, by: Node, w: Node, sizes: Shape, stride: int, dilation: int, groups: int, pads: Pads
) -> Node | None:
    """The derivative of a convolution by its images; None where it is composed."""
    spans = [(size - 1) * dilation for size in w.shape[2:]]
    if stride == 1 and all(max(pad) <= span for pad, span in zip(pads, spans, strict=True)):
        sides = tuple((n - a, n - b) for n, (a, b) in zip(spans, pads, strict=True))
        turned = Sweep(w.shape[2:], sides, 1, dilation)
        return convolved(tape, by, _turned(tape, w, groups), turned, groups)
    image = (by.shape[0], groups * w.shape[1], *sizes)
    conv = sizes_of(image, w.shape, Sweep(w.shape[2:], pads, stride, dilation), groups)
    if conv is None or by.element != w.element or not suits(conv, by.element):
        return None
    tiling = planes_of(conv)
    if tiling is None:
        return None
    pixels, filters = _readable(tape, by), pixels_of(tape, w)
    filters = filters if dense(filters) else tape.copy(filters)
    shape = conv.n, conv.h, conv.w, conv.c
    found = tape.add(
        "slopes", "image", (pixels, filters), shape, by.element, data=(conv, tiling)
    )  # fmt: skip
    return tape.of_pixels(tape.reshape(found, (conv.n, *sizes, conv.c)))


def _turned(tape: Tape, w: Node, groups: int) -> Node:
    """Filters [k, c / groups, ..] as [c, k / groups, ..], the last tap first."""
    filters, own, *taps = w.shape
    space = range(3, 3 + len(taps))
    parts = tape.reshape(w, (groups, filters // groups, own, *taps))
    found = tape.permute(parts, (0, 2, 1, *space))
    for axis in space:
        found = tape.part(found, axis, found.shape[axis] - 1, found.shape[axis], -1)
    return tape.reshape(found, (groups * own, filters // groups, *taps))


def _readable(tape: Tape, x: Node) -> Node:
    """Images with the channels last, as the copy engine can read them from their beginning."""
    pixels = pixels_of(tape, x)
    return pixels if described(pixels) and not layout(pixels)[1] else tape.copy(pixels)


@rule("filter_slopes")
def filter_slopes(
    tape: Tape, by: Node, x: Node, spans: Shape, stride: int, dilation: int, groups: int, pads: Pads
) -> Node | None:
    """The derivative of a convolution by its filters; None where it is composed."""
    own = x.shape[1] // groups
    sweep = Sweep(spans, pads, stride, dilation)
    conv = sizes_of(x.shape, (by.shape[1], own, *spans), sweep, groups)
    if conv is None or by.element != x.element:
        return None
    rows = in_rows(conv, x.element)
    if rows is not None:
        pixels = pixels_in_rows(tape, pixels_of(tape, x), conv, rows)
        sums = _sums(tape, _readable(tape, by), pixels, rows.conv)
        found = None if sums is None else filters_of_rows(tape, sums, conv, rows)
    elif suits(conv, x.element):
        found = _sums(tape, _readable(tape, by), _readable(tape, x), conv)
    else:
        found = None
    if found is None:
        return None
    lying = tape.permute(found, (0, 3, 1, 2))
    return lying if len(spans) == 2 else tape.reshape(lying, (conv.k, own, *spans))


def _sums(tape: Tape, by: Node, x: Node, conv: Convolution) -> Node | None:
    """The library's sums of products over all pixels: [k, r, s, c / groups]."""
    way = sharing_of(conv)
    if way is None:
        return None
    own = conv.c // conv.groups
    shape, final = (way.shares, conv.k, conv.taps, own), (conv.k, conv.r, conv.s, own)
    element = "f32" if way.shares > 1 else x.element
    found = tape.add("slopes", "filters", (by, x), shape, element, data=(conv, way))
    if way.shares == 1:
        return tape.reshape(found, final)
    return tape.add("slopes", "added", (found,), final, x.element)


# Windows in memory.


@rule("windows")
def windows(
    tape: Tape, x: Node, spans: Shape, stride: int, dilation: int, pads: Pads, fill: float
) -> Node:
    """All windows: their places, then what is inside."""
    sweep = Sweep(spans, pads, stride, dilation)
    found = laid_out(tape, x, sweep, "each", x.shape[1], "max" if fill == -math.inf else "sum")
    return tape.reshape(found, (*x.shape[:2], *sweep.counts(x.shape[2:]), *spans))


@rule("overlap")
def overlap(
    tape: Tape, x: Node, sizes: Shape, spans: Shape, stride: int, dilation: int, pads: Pads
) -> Node:
    """What windows hold, added up where they lie."""
    space = len(sizes)
    order = (0, 1, *range(2 + space, 2 + 2 * space), *range(2, 2 + space))
    return arrived(tape, tape.permute(x, order), Sweep(spans, pads, stride, dilation), sizes)


# Pooling.


@rule("highest_slopes")
def highest_slopes(
    tape: Tape, x: Node, y: Node, by: Node, size: int, stride: int, pad: int
) -> Node | None:
    """The derivative of the largest number of each window: equal ones share it.

    None where windows are laid out, as `max_pool` does.
    """
    sweep = Sweep((size, size), ((pad, pad),) * 2, stride, 1)
    if size * size > MOST_TERMS:
        return None
    image, pixels = x.shape[2:], tape.by_pixels(x)
    share = tape.map("/", by, _reached(tape, x, y, sweep))
    given, zero = _by_places(tape, x, pixels), scalar(tape, 0.0, by)
    each = (met(tape, _at_every_tap(tape, n, sweep), sweep, image, pixels) for n in (y, share))
    terms = (
        tape.map("where", tape.map("==", given, highest, element="bool"), part, zero)
        for highest, part in zip(*each, strict=True)
    )
    return _as_images(tape, added(tape, "+", terms), x.shape, pixels)


def _by_places(tape: Tape, x: Node, pixels: bool) -> Node:
    """Images as [b, c, places], or, by pixels, [b, places, c]."""
    batch, channels, *image = x.shape
    if not pixels:
        return tape.reshape(x, (batch, channels, math.prod(image)))
    lying = tape.permute(x, (0, *range(2, len(x.shape)), 1))
    return tape.reshape(lying, (batch, math.prod(image), channels))


def _as_images(tape: Tape, x: Node, shape: Shape, pixels: bool) -> Node:
    """`_by_places` backwards."""
    if not pixels:
        return tape.reshape(x, shape)
    return tape.of_pixels(tape.reshape(x, (shape[0], *shape[2:], shape[1])))


def _at_every_tap(tape: Tape, x: Node, sweep: Sweep) -> Node:
    """A number of each window as what all of its taps have: [b, c, *taps, *places]."""
    batch, channels, *places = x.shape
    lifted = tape.reshape(x, (batch, channels, 1, 1, *places))
    return tape.broadcast(lifted, (batch, channels, *sweep.taps, *places))


def _reached(tape: Tape, x: Node, y: Node, sweep: Sweep) -> Node:
    """How many numbers of each window are as large as the largest."""
    pixels = tape.by_pixels(x)
    highest = _by_places(tape, y, pixels)
    one, zero = scalar(tape, 1.0, x), scalar(tape, 0.0, x)
    counts = (
        tape.map("where", tape.map("==", number, highest, element="bool"), one, zero)
        for number in taps_of(tape, x, sweep, "max")
    )
    return _as_images(tape, added(tape, "+", counts), y.shape, pixels)
