"""Convolution of NHWC images without a workspace: `conv2d`, and its gradients.

    from tawa.kernels.conv import conv2d

    y = conv2d(x, w, padding=1)

`x` is [N, H, W, C] and `w` [K, R, S, C / groups]: what PyTorch calls `channels_last`, seen in the
order in which it lies in memory. One load of a window of pixels serves all taps of the filter,
shifted, from shared memory ([conv_kernels](conv_kernels.py)); [conv_plans](conv_plans.py) chooses
kernel and tiles by the sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import tawa
from tawa.kernels.conv_copies import padded
from tawa.kernels.conv_depthwise import conv_depthwise
from tawa.kernels.conv_kernels import conv_gathered, conv_resident, conv_taps, conv_windows
from tawa.kernels.conv_plans import Tiling, ranked
from tawa.kernels.conv_shapes import (
    Convolution,
    ConvolutionNotPossible,
    Padding,
    Pair,
    convolution_of,
)
from tawa.kernels.gemm import matmul
from tawa.kernels.gemm_operands import empty, is_dense, strides, transposed, type_name

__all__ = ["Convolution", "ConvolutionNotPossible", "Tiling", "conv1d", "conv2d", "reference"]

TYPES = "float16", "bfloat16"
"""Element types of images and filters."""
FEW_CHANNELS = 8
"""Images of fewer channels are read as rows of pixels, whose channels follow each other."""
GATHERED = {"BM": 64, "BN": 64, "BK": 32}
"""The tile of gathered pixels."""

KERNELS = {"windows": conv_windows, "resident": conv_resident, "taps": conv_taps}


@dataclass(frozen=True)
class Finish:
    """What becomes of the sums: `scale` and `bias` of each filter, and whether to cut at 0."""

    scale: Any = None
    bias: Any = None
    relu: bool = False


def conv2d(
    x: Any,
    w: Any,
    out: Any = None,
    config: Tiling | None = None,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
    scale: Any = None,
    bias: Any = None,
    relu: bool = False,
) -> Any:
    """The convolution of `x` [N, H, W, C] with `w` [K, R, S, C / groups]: [N, P, Q, K].

    Elements are fp16 or bf16, sums fp32. Each is multiplied by `scale` [K], where given, then
    `bias` [K] is added, then, with `relu`, what is negative becomes 0. Arrays are of any library;
    NumPy's run in the simulator. `out` has room for the result, its channels together. Images
    whose channels are together, their number a multiple of 8, are read where they lie; others are
    copied first (a transposing copy for channels that are apart). Raises ConvolutionNotPossible.
    """
    conv = convolution_of(x, w, stride, padding, dilation, groups)
    _check(conv, x, w, out, {"scale": scale, "bias": bias})
    if out is None:
        out = empty(x, (conv.n, conv.p, conv.q, conv.k))
    if 0 not in (conv.n, conv.k, conv.c):
        compute(conv, x, w, out, Finish(scale, bias, relu), config)
    return out


def conv1d(
    x: Any,
    w: Any,
    *,
    stride: int = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int = 1,
    groups: int = 1,
    bias: Any = None,
    causal: bool = False,
) -> Any:
    """The convolution of `x` [N, L, C] with `w` [K, S, C / groups]: [N, Q, K].

    `padding` may differ before and after; `causal` pads so that a result depends on nothing later.
    """
    if causal:
        padding = (dilation * (w.shape[1] - 1), 0)
    sides = (padding, padding) if isinstance(padding, int) else padding
    y = conv2d(
        x[:, None], w[:, None], stride=(1, stride), padding=((0, 0), sides),
        dilation=(1, dilation), groups=groups, bias=bias,
    )  # fmt: skip
    return y[:, 0]


def _check(conv: Convolution, x: Any, w: Any, out: Any, vectors: dict[str, Any]) -> None:
    kinds = type_name(x.dtype), type_name(w.dtype)
    if kinds[0] != kinds[1] or kinds[0] not in TYPES:
        raise ConvolutionNotPossible(
            "images and filters are of other element types",
            expected="float16 or bfloat16, both the same",
            found=f"x of {kinds[0]} and w of {kinds[1]}",
        )
    shape = conv.n, conv.p, conv.q, conv.k
    if out is not None and (tuple(out.shape) != shape or strides(out)[-1] != 1):
        raise ConvolutionNotPossible(
            "`out` has no room for the result",
            expected=f"{list(shape)}, channels together",
            found=f"{list(out.shape)} with strides {list(strides(out))}",
        )
    for name, vector in vectors.items():
        if vector is not None and tuple(vector.shape) != (conv.k,):
            raise ConvolutionNotPossible(
                f"`{name}` is not of the filters", expected=f"[{conv.k}]",
                found=f"{list(vector.shape)}",
            )  # fmt: skip


def compute(
    conv: Convolution, x: Any, w: Any, out: Any, finish: Finish, config: Tiling | None
) -> None:
    """Launch what computes a convolution whose sizes are known to fit."""
    if conv.depthwise:
        conv_depthwise(conv, x, w, out, finish.scale, finish.bias, relu=finish.relu)
        return
    size = x.dtype.itemsize
    if _is_product(conv, x, w, out) and finish.scale is None and not finish.relu:
        flat = x.reshape(-1, conv.c), w.reshape(conv.k, conv.c), out.reshape(-1, conv.k)
        matmul(flat[0], transposed(flat[1]), flat[2], bias=finish.bias)
        return
    if few_channels(conv):
        _by_rows(conv, x, w, out, finish, config)
        return
    unit = 16 // size
    if conv.groups > 1 and (not ranked(conv, conv_taps.chip, size) or conv.c // conv.groups % unit):
        _gather(conv, x, w, out, finish)
        return
    x = readable(x, conv.c)
    own = -(-conv.c // conv.groups // unit) * unit
    if not is_dense(w) or own * conv.groups != conv.c:
        w = padded(w, own)
    _by_blocks(conv, (x, strides(x)), w, (out, own), finish, config)


def _is_product(conv: Convolution, *arrays: Any) -> bool:
    """Whether it is a product of matrices: one tap, and arrays without gaps."""
    steps = conv.stride, conv.pad, conv.groups, conv.r * conv.s
    dense = all(map(is_dense, arrays))
    return dense and steps == ((1, 1), ((0, 0), (0, 0)), 1, 1)


def readable(x: Any, channels: int) -> Any:
    """`x` [N, H, W, C] if the hardware copies blocks of it where it lies, else a copy."""
    unit = 16 // x.dtype.itemsize
    pitch = -(-channels // unit) * unit
    aligned = all(step % unit == 0 for step in strides(x)[:3])
    return x if aligned and strides(x)[3] == 1 and pitch == channels else padded(x, pitch)


def _by_rows(
    conv: Convolution, x: Any, w: Any, out: Any, finish: Finish, config: Tiling | None
) -> None:
    """Pixels of a row under a filter's row as one dimension: they overlap, and nothing is moved.

    The copy engine reads pixels `stride` apart, each with the channels of S pixels.
    """
    rows, x, steps, pitch = pixels_in_rows(conv, x)
    unit = 16 // x.dtype.itemsize
    wide = -(-rows.c // unit) * unit
    w = padded(w, pitch)
    if wide != rows.c:
        w = padded(w.reshape(conv.k, conv.r, 1, rows.c), wide)
    _by_blocks(rows, (x, steps), w, (out, wide), finish, config)


def few_channels(conv: Convolution) -> bool:
    """Whether pixels are read as rows."""
    return conv.c < FEW_CHANNELS and conv.groups == 1 and conv.dilation[1] == 1


def pixels_in_rows(conv: Convolution, x: Any) -> tuple[Convolution, Any, tuple[int, ...], int]:
    """The convolution whose channels are those of S pixels of a row, and one column of taps.

    With it a copy of the images with more channels, the strides that its rows are read by, and its
    channels.
    """
    unit = 16 // x.dtype.itemsize
    pitch = next(p for p in (1, 2, 4, 8) if p >= conv.c and p * conv.stride[1] % unit == 0)
    left, right = conv.pad[1]
    while (conv.w + left + right) * pitch % unit:
        right += 1
    x = padded(x, pitch, (left, right))
    image, row, pixel, _ = strides(x)
    rows = replace(
        conv, w=conv.q, c=conv.s * pitch, s=1, stride=(conv.stride[0], 1),
        pad=(conv.pad[0], (0, 0)),
    )  # fmt: skip
    return rows, x, (image, row, pixel * conv.stride[1], 1), pitch


def _by_blocks(
    conv: Convolution,
    image: tuple[Any, tuple[int, ...]],
    w: Any,
    to: tuple[Any, int],
    finish: Finish,
    config: Tiling | None,
) -> None:
    """Launch the fastest kernel that reads blocks; `image` has strides, `to` the filters' pitch."""
    (x, steps), (out, pitch) = image, to
    unit = 16 // x.dtype.itemsize
    made = out
    if conv.k % unit or any(step % unit for step in strides(out)[:3]):
        made = empty(x, (conv.n, conv.p, conv.q, -(-conv.k // unit) * unit))
    size = x.dtype.itemsize
    tiling = config or ranked(conv, conv_taps.chip, size)[0]
    launch(conv, tiling, (x, w, made, finish), steps, pitch)
    if made is not out:
        out[...] = made[..., : conv.k]


def launch(
    conv: Convolution,
    tiling: Tiling,
    arrays: tuple[Any, Any, Any, Finish],
    steps: tuple[int, ...],
    pitch: int,
) -> None:
    """Launch one kernel with one tiling; `steps` are the image's strides, `pitch` the filters'."""
    x, w, out, finish = arrays
    (top, _), (left, _) = conv.pad
    numbers = [conv.n, conv.h, conv.w, conv.p, conv.q, conv.c, conv.k]
    constants: dict[str, Any] = {
        "R": conv.r, "S": conv.s, "STRIDE_H": conv.stride[0], "STRIDE_W": conv.stride[1],
        "DILATION_H": conv.dilation[0], "DILATION_W": conv.dilation[1], "PAD_H": top,
        "PAD_W": left, "KY": out.shape[3], "FC": pitch, "RELU": finish.relu,
        "TH": tiling.rows, "TW": tiling.columns, "BN": tiling.filters, "BK": tiling.channels,
    }  # fmt: skip
    programs = tiling.tiles(conv)
    if tiling.kernel == "taps":
        constants |= {"TN": tiling.images, "GROUPS": conv.groups, "PAIR": 1}
    else:
        high, wide = tiling.window(conv)
        constants |= {"WH": high, "WW": wide}
    if tiling.kernel == "windows":
        constants |= {"GROUPS": conv.groups, "PAIR": 1}
    if tiling.kernel == "resident":
        blocks, most = tiling.blocks(conv), conv_taps.chip.multiprocessors
        programs = min(tiling.tiles_of_pixels(conv), max(1, most // blocks)) * blocks
    kernel: Callable[..., Any] = KERNELS[tiling.kernel][(programs,)]
    kernel(
        x, w, out, finish.scale, finish.bias, *numbers, *steps[:3], *strides(out)[:3],
        **constants, **dict(tiling.options),
    )  # fmt: skip


def _gather(conv: Convolution, x: Any, w: Any, out: Any, finish: Finish) -> None:
    """Any channels: pixels are loaded one by one."""
    if not is_dense(w):
        w = padded(w, w.shape[-1])
    if strides(x)[3] != 1:
        x = padded(x, conv.c)
    (top, _), (left, _) = conv.pad
    tiles = tawa.cdiv(conv.n * conv.p * conv.q, GATHERED["BM"])
    blocks = conv.groups * tawa.cdiv(conv.k // conv.groups, GATHERED["BN"])
    conv_gathered[(tiles * blocks,)](
        x, w, out, finish.scale, finish.bias, conv.n, conv.h, conv.w, conv.p, conv.q, conv.c,
        conv.k, *strides(x)[:3], *strides(out)[:3], conv.r, conv.s, *conv.stride, *conv.dilation,
        top, left, conv.groups, finish.relu, **GATHERED,
    )  # fmt: skip


def reference(
    x: Any,
    w: Any,
    *,
    stride: Pair = 1,
    padding: Padding = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Any:
    """The same in float64, with NumPy, tap by tap."""
    import numpy as np

    conv = convolution_of(x, w, stride, padding, dilation, groups)
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    x = np.pad(x, ((0, 0), *conv.pad, (0, 0)))
    found = np.zeros((conv.n, conv.p, conv.q, groups, conv.k // groups))
    (down, across), (high, wide) = conv.stride, conv.dilation
    for r in range(conv.r):
        for s in range(conv.s):
            rows = slice(r * high, r * high + (conv.p - 1) * down + 1, down)
            columns = slice(s * wide, s * wide + (conv.q - 1) * across + 1, across)
            pixels = x[:, rows, columns].reshape(*found.shape[:4], -1)
            taps = w[:, r, s].reshape(groups, conv.k // groups, -1)
            found += np.einsum("npqgc,gkc->npqgk", pixels, taps)
    return found.reshape(conv.n, conv.p, conv.q, conv.k)
