"""The gradients of `conv2d`: with respect to its images, and to its filters.

The gradient of images is a convolution of the results' gradient with turned filters, one for each
remainder of rows and columns by the stride. That of filters multiplies, for each tap, the results'
gradient by the pixels that the tap reads, over all pixels: programs share those, write parts in
fp32, and the parts are added in their order, so that a result is the same each time.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportIndexIssue=false

from __future__ import annotations

from math import prod
from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.conv import Finish, compute, few_channels, pixels_in_rows, readable
from tawa.kernels.conv_copies import exchanged, padded
from tawa.kernels.conv_depthwise import weights_of_depthwise
from tawa.kernels.conv_kernels import taps_of_plane
from tawa.kernels.conv_shapes import (
    Convolution,
    ConvolutionNotPossible,
    Padding,
    Pair,
    convolution_of,
)
from tawa.kernels.gemm_kernels import add_parts
from tawa.kernels.gemm_operands import empty, strides

__all__ = ["gradient_of_filters", "gradient_of_images"]

PLAIN = Finish()
FILTERS, PIXELS = 128, (1, 2, 4, 8, 16, 32, 64)
"""Filters of a tile of weights, and extents that tiles of 64 pixels have."""
STEP = 64
"""Pixels that are multiplied at once."""
WAVES = 2
"""Tiles for each multiprocessor that make it worth while to share pixels less."""
NARROW = 128
"""Channels of a group up to which pixels are loaded once for all taps of a row."""
MOST_SUMS = 128 * 192
"""Elements of the sums of such taps."""
ADDED_ROWS, ADDED_COLUMNS = 8, 128
"""Filters, and taps' channels, whose parts one program adds up."""


class _Like:
    """A shape without elements."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


def gradient_of_images(
    dy: Any,
    w: Any,
    shape: tuple[int, int, int, int],
    out: Any = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """The gradient of images of a `shape` [N, H, W, C], of `dy` [N, P, Q, K]: what turns it back.

    The same as a transposed convolution of `dy`. Raises ConvolutionNotPossible.
    """
    conv = convolution_of(_Like(shape), w, stride, padding, dilation, groups)
    _require(dy, conv)
    if out is None:
        out = empty(dy, shape)
    for first_h in range(conv.stride[0]):
        for first_w in range(conv.stride[1]):
            part = out[:, first_h :: conv.stride[0], first_w :: conv.stride[1]]
            if 0 in part.shape:
                continue
            down = _turned(conv.r, conv.stride[0], conv.dilation[0], conv.pad[0][0] + first_h)
            across = _turned(conv.s, conv.stride[1], conv.dilation[1], conv.pad[1][0] + first_w)
            if not down[0] or not across[0]:
                part[...] = 0
                continue
            pads = (
                _pads(down, conv.p, part.shape[1]),
                _pads(across, conv.q, part.shape[2]),
            )
            back = Convolution(
                conv.n, conv.p, conv.q, conv.k, conv.c, len(down[0]), len(across[0]), (1, 1), pads,
                (down[1], across[1]), conv.groups,
            )  # fmt: skip
            compute(back, dy, exchanged(w, down[0], across[0], conv.groups), part, PLAIN, None)
    return out


def _turned(taps: int, stride: int, dilation: int, place: int) -> tuple[list[int], int, int]:
    """The taps that reach a row, the last first, rows from one to the next, and the first row.

    `place` is the first such row of the padded image.
    """
    reach = [t for t in reversed(range(taps)) if (place - t * dilation) % stride == 0]
    rows = [(place - t * dilation) // stride for t in reach]
    return reach, (rows[1] - rows[0] if len(rows) > 1 else 1), rows[0] if rows else 0


def _pads(turned: tuple[list[int], int, int], size: int, results: int) -> tuple[int, int]:
    """What comes before and after `size` rows that give so many results; may be negative."""
    taps, step, first = turned
    return -first, results - size + first + step * (len(taps) - 1)


def _require(dy: Any, conv: Convolution) -> None:
    shape = conv.n, conv.p, conv.q, conv.k
    if tuple(dy.shape) != shape:
        raise ConvolutionNotPossible(
            "the gradient is not of this convolution's results",
            expected=f"dy {list(shape)}",
            found=f"dy {list(dy.shape)}",
        )


@tawa.jit
def conv_weights(
    x: Any, dy: Any, parts: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, C: Any, K: Any,
    x_n: Any, x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any, SHARES: Any, R: tl.constexpr,
    S: tl.constexpr, STRIDE_H: tl.constexpr, STRIDE_W: tl.constexpr, DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr, PAD_H: tl.constexpr, PAD_W: tl.constexpr, OURS: tl.constexpr,
    OWN: tl.constexpr, OURS_PITCH: tl.constexpr, OWN_PITCH: tl.constexpr, TN: tl.constexpr,
    TH: tl.constexpr, TW: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """One tap's filters and channels, over a share of the pixels: `parts` [SHARES, K, R, S, OWN].

    `OURS` and `OWN` are the filters and the channels of a group, `..._PITCH` what there is of them
    from group to group.
    """
    gradient = tl.make_tensor_descriptor(dy, [N, P, Q, K], [y_n, y_h, y_w, 1], [TN, TH, TW, BM])
    share = tl.program_id(1)
    tap = tl.program_id(0) % (R * S)
    block = tl.program_id(0) // (R * S)
    c = block % tl.cdiv(OWN, BN) * BN
    k = block // tl.cdiv(OWN, BN) % tl.cdiv(OURS, BM) * BM
    group = block // (tl.cdiv(OWN, BN) * tl.cdiv(OURS, BM))
    r = tap // S
    s = tap % S
    columns = tl.cdiv(Q, TW)
    rows = tl.cdiv(P, TH)
    tiles = tl.cdiv(N, TN) * rows * columns
    first = share * tiles // SHARES
    last = (share + 1) * tiles // SHARES
    acc = tl.zeros((BM, BN), tl.float32)
    for ph in tl.static_range(STRIDE_H):
        for pw in tl.static_range(STRIDE_W):
            down: tl.constexpr = taps_of_plane(R, STRIDE_H, DILATION_H, PAD_H, ph)
            across: tl.constexpr = taps_of_plane(S, STRIDE_W, DILATION_W, PAD_W, pw)
            if down[1] * across[1] > 0:
                plane = tl.make_tensor_descriptor(
                    x + ph * x_h + pw * x_w,
                    [N, tl.cdiv(H - ph, STRIDE_H), tl.cdiv(W - pw, STRIDE_W), C],
                    [x_n, STRIDE_H * x_h, STRIDE_W * x_w, 1],
                    [TN, TH, TW, BN],
                )
                above = r * DILATION_H - PAD_H - ph
                left = s * DILATION_W - PAD_W - pw
                reads = (above % STRIDE_H == 0) & (left % STRIDE_W == 0)
                for tile in range(first, tl.where(reads, last, first)):
                    q = tile % columns * TW
                    p = tile // columns % rows * TH
                    n = tile // (columns * rows) * TN
                    d = gradient.load([n, p, q, group * OURS_PITCH + k]).reshape([TN * TH * TW, BM])
                    pixels = plane.load(
                        [n, p + above // STRIDE_H, q + left // STRIDE_W, group * OWN_PITCH + c]
                    ).reshape([TN * TH * TW, BN])
                    acc = tl.dot(d.T, pixels, acc)
    filter = k + tl.arange(0, BM)
    channel = c + tl.arange(0, BN)
    at = (share.to(tl.int64) * (K // OURS_PITCH * OURS) + group * OURS + filter) * (R * S) + tap
    stored = (filter < OURS)[:, None] & (channel < OWN)[None, :]
    tl.store(parts + (at * OWN)[:, None] + channel[None, :], acc, mask=stored)


@tawa.jit
def conv_weights_of_rows(
    x: Any, dy: Any, parts: Any, N: Any, H: Any, W: Any, P: Any, Q: Any, C: Any, K: Any,
    x_n: Any, x_h: Any, x_w: Any, y_n: Any, y_h: Any, y_w: Any, SHARES: Any, R: tl.constexpr,
    S: tl.constexpr, DILATION_H: tl.constexpr, DILATION_W: tl.constexpr, PAD_H: tl.constexpr,
    PAD_W: tl.constexpr, OURS: tl.constexpr, OWN: tl.constexpr, OURS_PITCH: tl.constexpr,
    OWN_PITCH: tl.constexpr, TH: tl.constexpr, TW: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, TAPS: tl.constexpr,
):  # fmt: skip
    """As `conv_weights`, of stride 1: the window of some taps of a row is loaded once."""
    gradient = tl.make_tensor_descriptor(dy, [N, P, Q, K], [y_n, y_h, y_w, 1], [1, TH, TW, BM])
    WW: tl.constexpr = TW + (TAPS - 1) * DILATION_W
    image = tl.make_tensor_descriptor(x, [N, H, W, C], [x_n, x_h, x_w, 1], [1, TH, WW, BN])
    share = tl.program_id(1)
    runs: tl.constexpr = tl.cdiv(S, TAPS)
    r = tl.program_id(0) // runs % R
    s = tl.program_id(0) % runs * TAPS
    block = tl.program_id(0) // (R * runs)
    c = block % tl.cdiv(OWN, BN) * BN
    k = block // tl.cdiv(OWN, BN) % tl.cdiv(OURS, BM) * BM
    group = block // (tl.cdiv(OWN, BN) * tl.cdiv(OURS, BM))
    columns = tl.cdiv(Q, TW)
    rows = tl.cdiv(P, TH)
    tiles = N * rows * columns
    sums = (tl.zeros((BM, BN), tl.float32),) * TAPS
    for tile in range(share * tiles // SHARES, (share + 1) * tiles // SHARES):
        q = tile % columns * TW
        p = tile // columns % rows * TH
        n = tile // (columns * rows)
        d = gradient.load([n, p, q, group * OURS_PITCH + k]).reshape([TH * TW, BM])
        window = image.load(
            [n, p + r * DILATION_H - PAD_H, q + s * DILATION_W - PAD_W, group * OWN_PITCH + c]
        )
        new = ()
        for t in tl.static_range(TAPS):
            pixels = tl.extract_slice(window, [0, 0, t * DILATION_W, 0], [1, TH, TW, BN])
            new += (tl.dot(d.T, pixels.reshape([TH * TW, BN]), sums[t]),)
        sums = new
    filter = k + tl.arange(0, BM)
    channel = c + tl.arange(0, BN)
    for t in tl.static_range(TAPS):
        at = (
            (share.to(tl.int64) * (K // OURS_PITCH * OURS) + group * OURS + filter) * (R * S)
            + r * S
            + s
            + t
        )
        stored = (filter < OURS)[:, None] & (channel < OWN)[None, :] & (s + t < S)
        tl.store(parts + (at * OWN)[:, None] + channel[None, :], sums[t], mask=stored)


def gradient_of_filters(
    dy: Any,
    x: Any,
    shape: tuple[int, int, int, int],
    out: Any = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    dtype: str | None = None,
) -> Any:
    """The gradient of filters of a `shape` [K, R, S, C / groups], of `dy` [N, P, Q, K] and `x`.

    Sums are fp32: each program adds up the products of its share of the pixels, in their order,
    and then the shares are added in theirs. The shares take 4 K R S C / groups bytes each.
    Raises ConvolutionNotPossible.
    """
    conv = convolution_of(x, _Like(shape), stride, padding, dilation, groups)
    _require(dy, conv)
    if out is None:
        out = empty(dy, shape, dtype)
    if few_channels(conv):
        rows, x, steps, pitch = pixels_in_rows(conv, x)
        wide = empty(dy, (conv.k, conv.r, 1, rows.c), dtype)
        _add(_shares_of_filters(rows, dy, (x, steps), tuple(wide.shape)), wide)
        out[...] = wide.reshape(conv.k, conv.r, conv.s, pitch)[..., : conv.c]
        return out
    x, _ = _by_groups(x, 1 if conv.depthwise else conv.groups)
    _add(_shares_of_filters(conv, dy, (x, strides(x)), shape), out)
    return out


def _add(parts: Any, out: Any) -> None:
    """Add the shares up, in their order."""
    k, width = out.shape[0], prod(out.shape[1:])
    add_parts[(tawa.cdiv(width, ADDED_COLUMNS), tawa.cdiv(k, ADDED_ROWS), 1)](
        parts, out, k, width, width, 0, width, 1, parts.shape[0], ADDED_ROWS, ADDED_COLUMNS
    )


def _shares_of_filters(
    conv: Convolution, dy: Any, image: tuple[Any, tuple[int, ...]], shape: tuple[int, ...]
) -> Any:
    """What each share of the pixels adds up: [shares, K, R, S, C / groups], fp32.

    `image` is the images, each group at whole pieces of 16 bytes, and their strides.
    """
    x, image_steps = image
    most = conv_weights.chip.multiprocessors
    if conv.depthwise:
        shares = max(1, min(conv.n * conv.p, 4 * most // (conv.r * conv.s)))
        parts = empty(dy, (shares, *shape), "float32")
        weights_of_depthwise(conv, x, dy, shares, parts)
        return parts
    dy, ours_pitch = _by_groups(dy, conv.groups)
    own, ours = conv.c // conv.groups, conv.k // conv.groups
    unit = 16 // x.dtype.itemsize
    own_pitch = own if conv.groups == 1 else -(-own // unit) * unit
    filters = min(FILTERS, max(64, tawa.next_power_of_2(ours)))
    in_rows = conv.stride == (1, 1) and conv.s > 1 and own <= NARROW
    channels = next((b for b in (32, 64, 128, 256) if b >= own), 256)
    taps, tile = 1, _tile(conv)
    if in_rows:
        channels, tile = min(channels, 64), (1, 8, 8)
        taps = min(conv.s, MOST_SUMS // (filters * channels))
    blocks = conv.groups * tawa.cdiv(ours, filters) * tawa.cdiv(own, channels)
    blocks *= conv.r * tawa.cdiv(conv.s, taps)
    tiles = tawa.cdiv(conv.n, tile[0]) * tawa.cdiv(conv.p, tile[1]) * tawa.cdiv(conv.q, tile[2])
    shares = max(1, min(tiles // 8, WAVES * most // blocks))
    parts = empty(dy, (shares, *shape), "float32")
    (top, _), (left, _) = conv.pad
    sizes = conv.n, conv.h, conv.w, conv.p, conv.q, own_pitch * conv.groups, dy.shape[3]
    steps = *image_steps[:3], *strides(dy)[:3], shares
    if in_rows:
        conv_weights_of_rows[(blocks, shares)](
            x, dy, parts, *sizes, *steps, conv.r, conv.s, *conv.dilation, top, left, ours, own,
            ours_pitch, own_pitch, *tile[1:], filters, channels, taps,
        )  # fmt: skip
    else:
        conv_weights[(blocks, shares)](
            x, dy, parts, *sizes, *steps, conv.r, conv.s, *conv.stride, *conv.dilation, top, left,
            ours, own, ours_pitch, own_pitch, *tile, filters, channels,
        )  # fmt: skip
    return parts


def _by_groups(x: Any, groups: int) -> tuple[Any, int]:
    """`x` [N, H, W, C], or a copy, whose groups begin at whole pieces of 16 bytes, and how far."""
    n, h, w, c = x.shape
    own, unit = c // groups, 16 // x.dtype.itemsize
    if groups == 1 or own % unit == 0:
        return readable(x, c), own
    pitch = -(-own // unit) * unit
    return padded(x.reshape(n, h, w * groups, own), pitch).reshape(n, h, w, groups * pitch), pitch


def _tile(conv: Convolution) -> tuple[int, int, int]:
    """Images, rows and columns of `STEP` pixels that waste the fewest."""

    def waste(tile: tuple[int, int, int]) -> tuple[int, int]:
        sizes = zip((conv.n, conv.p, conv.q), tile, strict=True)
        counted = 1
        for size, extent in sizes:
            counted *= -(-size // extent) * extent
        return counted, tile[0]

    found = [(STEP // (h * w), h, w) for h in PIXELS for w in PIXELS if STEP % (h * w) == 0]
    return min(found, key=waste)
