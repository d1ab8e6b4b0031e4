"""The gradients of convolutions: with respect to their images, and to their filters.

The gradient of images is a convolution of the results' gradient with turned filters, one for each
remainder of rows and columns by the stride; the transposed convolution is the same. That of filters
multiplies, for each tap, the results' gradient by the pixels that the tap reads, over all pixels:
programs share those, write parts in fp32, and the parts are added in their order, so that a result
is the same each time.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false
# pyright: reportUnnecessaryComparison=false, reportPossiblyUnboundVariable=false
# pyright: reportAssignmentType=false

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import tawa
from tawa.base.user_frames import entry
from tawa.kernels import conv_planes
from tawa.kernels.conv import (
    compute,
    compute_turned,
    few_channels,
    pixels_in_rows,
    reads_turned,
    turned_blocks,
)
from tawa.kernels.conv_arguments import (
    TYPES,
    Finish,
    activation_of,
    by_groups,
    check_finish,
    check_output,
    check_result_type,
    describable,
    exchanged,
    filters_of,
    pictures,
    pictures_of,
    readable,
    steps_of,
)
from tawa.kernels.conv_depthwise import weights_of_depthwise
from tawa.kernels.convolution.depthwise_plans import shares_of_depthwise
from tawa.kernels.convolution.filter_gradients import conv_weights, conv_weights_of_rows
from tawa.kernels.convolution.gradient_plans import Sharing, sharing
from tawa.kernels.convolution.plans import Tiling
from tawa.kernels.convolution.shapes import (
    Axis,
    Convolution,
    ConvolutionNotPossible,
    Padding,
    Pair,
    axes_of,
    convolution_of,
    numbers,
    padding_of,
    place_of_taps,
    require_array,
    sides_of,
    sizes_of,
    turned_back,
    turned_taps,
)
from tawa.kernels.gemm_kernels import add_parts
from tawa.kernels.gemm_operands import PIECE, empty, is_dense, strides, type_name

__all__ = ["conv_transpose", "gradient_of_filters", "gradient_of_images"]

PLAIN = Finish()
ADDED_ROWS, ADDED_COLUMNS = 8, 128
"""Filters, and taps' channels, whose parts one program adds up."""


class _Like:
    """A shape without elements."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)


@entry
def gradient_of_images(
    dy: Any,
    w: Any,
    shape: tuple[int, ...],
    out: Any = None,
    config: Tiling | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """The gradient of images of a `shape` [N, ..., C], of `dy` [N, ..., K]: what turns it back.

    Images have one to three dimensions between; `config` is the tiling of all convolutions that
    this takes, by default what is expected fastest. Raises ConvolutionNotPossible.
    """
    require_array("dy", dy)
    require_array("w", w)
    shape = sizes_of("shape", shape, "[N, ..., C]")
    return _turned_back(dy, w, shape, out, (stride, padding, dilation, groups), PLAIN, config)


@entry
def conv_transpose(
    x: Any,
    w: Any,
    out: Any = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    output_padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    scale: Any = None,
    bias: Any = None,
    residual: Any = None,
    relu: bool = False,
    activation: Any = None,
) -> Any:
    """The transposed convolution of `x` [N, ..., K] with `w` [K, ..., C / groups]: [N, ..., C].

    Each pixel of `x` adds its multiple of the filters, `stride` pixels from the next; `padding` is
    cut off at the sides, and `output_padding` rows more are computed at the ends. Of one to three
    dimensions; the rest as in `conv2d`. Raises ConvolutionNotPossible.
    """
    require_array("x", x)
    require_array("w", w)
    count = len(x.shape) - 2
    if count not in (1, 2, 3) or len(w.shape) != count + 2 or w.shape[0] != x.shape[-1]:
        raise ConvolutionNotPossible(
            "the filters are not of the image's channels",
            expected="x [N, ..., K] and w [K, ..., C / groups], one to three dimensions between",
            found=f"x {list(x.shape)} and w {list(w.shape)}",
        )
    steps, apart = numbers(stride, "stride", 1, count), numbers(dilation, "dilation", 1, count)
    more = numbers(output_padding, "output_padding", 0, count)
    sizes: list[int] = []
    for n, taps, step, gap, side, extra in zip(
        x.shape[1:-1], w.shape[1:-1], steps, apart, padding_of(padding, count), more, strict=True
    ):
        sizes.append((n - 1) * step + gap * (taps - 1) + 1 - sum(side) + extra)
        if extra >= max(step, gap) or sizes[-1] < 1:
            raise ConvolutionNotPossible(
                "`output_padding` is too large" if sizes[-1] > 0 else "nothing is left of a result",
                expected="output_padding below the stride, and padding below the result's size",
                found=f"output_padding {extra}, padding {side}, stride {step}: {sizes[-1]} pixels",
            )
    shape = x.shape[0], *sizes, w.shape[-1] * groups
    finish = Finish(scale, bias, residual, activation_of(relu, activation))
    return _turned_back(x, w, shape, out, (stride, padding, dilation, groups), finish)


def _turned_back(
    dy: Any,
    w: Any,
    shape: tuple[int, ...],
    out: Any,
    steps: tuple[Pair, Padding, Pair, int],
    finish: Finish,
    config: Tiling | None = None,
) -> Any:
    """The transposed convolution of `dy`, whose result has a `shape`."""
    conv = convolution_of(_Like(shape), w, *steps)
    _require(dy, w, conv, tuple(shape))
    check_finish(finish, conv.c, tuple(shape))
    if out is None:
        out = empty(dy, tuple(shape))
    else:
        check_output(tuple(shape), out, {"dy": dy, "w": w, "residual": finish.residual})
    if 0 in shape or 0 in dy.shape:
        out[...] = 0
        return out
    whole, filters, given = lifted(out), lifted(w), pictures(lifted(dy))
    if _by_planes(conv, given, filters_of(filters), pictures_of(whole), finish, config):
        return out
    axes = axes_of(conv, lifted(dy).shape[1], whole.shape[1])
    for first in product(*(range(axis.stride) for axis in axes)):
        _one_plane(conv, axes, first, (given, filters, whole), finish, config)
    return out


def _one_plane(
    conv: Convolution,
    axes: tuple[Axis, ...],
    first: tuple[int, ...],
    arrays: tuple[Any, Any, Any],
    finish: Finish,
    config: Tiling | None,
) -> None:
    """The pictures, rows and columns of one remainder, from the `first` on.

    `arrays` are pictures to convolve, and filters and results with three dimensions.
    """
    given, filters, whole = arrays
    cut = tuple(slice(at, None, axis.stride) for at, axis in zip(first, axes, strict=True))
    part = whole[(slice(None), *cut)]
    if 0 in part.shape:
        return
    turned = [turned_taps(axis, at) for axis, at in zip(axes, first, strict=True)]
    reached = all(taps for taps, _, _ in turned)
    if not reached and finish is PLAIN:
        part[...] = 0
        return
    if not reached:
        turned = [([0], 1, 0)] * 3
    sides = [
        sides_of(t, a.results, n) for t, a, n in zip(turned, axes, part.shape[1:], strict=False)
    ]
    back = turned_back(conv, whole.shape[0], turned, sides, axes)
    residual = finish.residual
    others = None if residual is None else pictures(lifted(residual)[(slice(None), *cut)])
    to = pictures_of(part)
    target = empty(part, (back.pictures, *part.shape[2:])) if to is None else to
    end = replace(finish, residual=others)
    place = place_of_taps(filters.shape[1:4], turned)
    if reached and reads_turned(back, place, filters, config):
        compute_turned(back, place, given, filters_of(filters), target, end, config)
    else:
        own = exchanged(filters, (turned[0][0], turned[1][0], turned[2][0]), conv.groups)
        if not reached:
            own[...] = 0
        compute(back, given, filters_of(own), target, end, config)
    if to is None:
        part[...] = target.reshape(part.shape)


def _by_planes(
    conv: Convolution, dy: Any, w: Any, out: Any, finish: Finish, config: Tiling | None
) -> bool:
    """Launch what gives all rows and columns at once, where that is possible and faster."""
    if out is None or not conv_planes.suits(conv, finish) or not describable(out):
        return False
    if conv.c * out.dtype.itemsize % PIECE or not turned_blocks(replace(conv, c=conv.k), w):
        return False
    tiling = config
    if config is None:
        sizes = w.dtype.itemsize, out.dtype.itemsize
        tiling = conv_planes.fastest(conv, conv_weights.chip, *sizes)
    if tiling is None or tiling.kernel != "taps" or not tiling.alone:
        return False
    conv_planes.launch(conv, tiling, readable(dy, conv.k), w, out, finish)
    return True


def lifted(array: Any) -> Any:
    """[N, ..., C] with three dimensions between."""
    while len(array.shape) < 5:
        array = array[:, None]
    return array


def _require(dy: Any, w: Any, conv: Convolution, shape: tuple[int, ...]) -> None:
    """Raise unless `dy` is of the results of a convolution of images of a `shape`, as `w` is."""
    results = (conv.depth.results, conv.p, conv.q)[5 - len(shape) :]
    if conv.depth.flat and len(shape) == 5:
        results = shape[1], conv.p, conv.q
    expected = shape[0], *results, conv.k
    if tuple(dy.shape) != expected:
        raise ConvolutionNotPossible(
            "the gradient is not of this convolution's results",
            expected=f"dy {list(expected)}",
            found=f"dy {list(dy.shape)}",
        )
    kinds = type_name(dy.dtype), type_name(w.dtype)
    if kinds[0] != kinds[1] or kinds[0] not in TYPES:
        raise ConvolutionNotPossible(
            "gradients are of element types that can't be multiplied",
            expected=f"one of {', '.join(TYPES)}, both the same",
            found=" and ".join(kinds),
        )


@entry
def gradient_of_filters(
    dy: Any,
    x: Any,
    shape: tuple[int, ...],
    out: Any = None,
    config: Sharing | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    dtype: str | None = None,
) -> Any:
    """The gradient of filters of a `shape` [K, ..., C / groups], of `dy` [N, ..., K] and `x`.

    Sums are fp32: each program adds up the products of its share of the pixels, in their order,
    and then the shares are added in theirs. The shares take 4 bytes for each element of the
    filters. `config` says how the pixels are shared, by default as is expected fastest. Images have
    one to three dimensions. Raises ConvolutionNotPossible.
    """
    require_array("dy", dy)
    require_array("x", x)
    shape = sizes_of("shape", shape, "[K, ..., C / groups]")
    check_result_type(dtype)
    conv = convolution_of(x, _Like(shape), stride, padding, dilation, groups)
    _require(dy, x, conv, tuple(x.shape))
    if out is None:
        out = empty(dy, shape, dtype)
    elif not hasattr(out, "shape") or tuple(out.shape) != shape or not is_dense(out):
        require_array("out", out)
        raise ConvolutionNotPossible(
            "`out` has no room for the gradient of the filters",
            expected=f"{list(shape)} without gaps",
            found=f"{list(out.shape)} with strides {list(strides(out))}",
        )
    else:
        check_output(shape, out, {"dy": dy, "x": x})
    if 0 in shape:
        return out
    if 0 in x.shape:
        out[...] = 0
        return out
    x, dy = pictures(x), pictures(dy)
    if few_channels(conv):
        rows, x, steps, pitch = pixels_in_rows(conv, x)
        wide = empty(dy, (conv.k, rows.depth.taps * conv.r, conv.s, pitch), dtype)
        _sum_up(rows, dy, (x, steps), config, wide)
        out[...] = wide[..., : conv.c].reshape(shape)
        return out
    x, _ = by_groups(x, 1 if conv.depthwise else conv.groups)
    _sum_up(conv, dy, (x, steps_of(x)), config, out)
    return out


def _add(parts: Any, out: Any) -> None:
    """Add the shares up, in their order."""
    k, width = out.shape[0], prod(out.shape[1:])
    add_parts[(tawa.cdiv(width, ADDED_COLUMNS), tawa.cdiv(k, ADDED_ROWS), 1)](
        parts, out, k, width, width, 0, width, 1, parts.shape[0], ADDED_ROWS, ADDED_COLUMNS,
        launch_pdl=True,
    )  # fmt: skip


def _sum_up(
    conv: Convolution,
    dy: Any,
    image: tuple[Any, tuple[int, ...]],
    config: Sharing | None,
    out: Any,
) -> None:
    """Launch what gives `out` [K, ..., C / groups]: sums of shares of the pixels, and their sum.

    `image` is the pictures, each group at whole pieces of 16 bytes, and their strides. What has all
    pixels is stored as it is.
    """
    chip, shape = conv_weights.chip, (conv.k, conv.taps, conv.c // conv.groups)

    def parts_of(shares: int) -> Any:
        alone = shares == 1
        return out.reshape(1, *shape) if alone else empty(dy, (shares, *shape), "float32")

    if conv.depthwise:
        parts = parts_of(shares_of_depthwise(conv, chip.multiprocessors))
        weights_of_depthwise(conv, image[0], dy, len(parts), parts)
    else:
        way = config or sharing(conv, chip, dy.dtype.itemsize)
        parts = parts_of(way.shares)
        _sums_of_shares(conv, dy, image, way, parts)
    if len(parts) > 1:
        _add(parts, out)


def _sums_of_shares(
    conv: Convolution, dy: Any, image: tuple[Any, tuple[int, ...]], way: Sharing, parts: Any
) -> None:
    """Launch what each share of the pixels adds up: `parts` [shares, K, taps, C / groups]."""
    x, image_steps = image
    own, ours = conv.c // conv.groups, conv.k // conv.groups
    dy, ours_pitch = by_groups(dy, conv.groups)
    unit = PIECE // x.dtype.itemsize
    own_pitch = own if conv.groups == 1 else -(-own // unit) * unit
    shares, blocks, tile = way.shares, way.blocks(conv), way.tile
    (top, _), (left, _) = conv.pad
    extents = (
        conv.n, conv.h, conv.w, conv.p, conv.q, conv.depth.size, conv.depth.results,
        own_pitch * conv.groups, dy.shape[3],
    )  # fmt: skip
    steps = *image_steps[:3], *steps_of(dy)[:3], shares
    ends = top, left, conv.depth.constants, ours, own, conv.groups, ours_pitch, own_pitch
    if way.windows:
        conv_weights_of_rows[(blocks, shares)](
            x, dy, parts, *extents, *steps, conv.r, conv.s, *conv.stride, *conv.dilation, *ends,
            *tile[1:],
            way.filters, way.channels, way.taps,
        )  # fmt: skip
    else:
        conv_weights[(blocks, shares)](
            x, dy, parts, *extents, *steps, conv.r, conv.s, *conv.stride, *conv.dilation, *ends,
            *tile, way.filters, way.channels,
        )  # fmt: skip
