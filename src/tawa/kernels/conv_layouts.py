"""Images laid out for convolution in memory: im2win and im2col, and the memory they take.

`conv2d` lays nothing out: it reads windows from shared memory. These are what it is compared with.
"""

from __future__ import annotations

from typing import Any

from tawa.base.user_frames import entry
from tawa.kernels.convolution.shapes import Convolution, ConvolutionNotPossible, require_array
from tawa.kernels.gemm_operands import empty


@entry
def im2win(x: Any, conv: Convolution) -> Any:
    """Rows of windows [N, P, W, R, C] of images [N, H, W, C]: the rows under each row of results.

    Window q of row p is what follows (p, q * stride): R S C elements without a gap, for a filter
    whose taps are in the order (s, r). Neighbouring windows share their columns. Images are padded
    before, taps not dilated. Source: arXiv 2306.14316.
    """
    _require_plain(x, conv)
    step = conv.stride[0]
    found = empty(x, (conv.n, conv.p, conv.w, conv.r, conv.c))
    for r in range(conv.r):
        found[:, :, :, r] = x[:, r : r + (conv.p - 1) * step + 1 : step]
    return found


@entry
def im2col(x: Any, conv: Convolution) -> Any:
    """All pixels of all windows [N, P, Q, R, S, C] of images [N, H, W, C]: rows of a product."""
    _require_plain(x, conv)
    (down, across), (p, q) = conv.stride, (conv.p, conv.q)
    found = empty(x, (conv.n, p, q, conv.r, conv.s, conv.c))
    for r in range(conv.r):
        rows = x[:, r : r + (p - 1) * down + 1 : down]
        for s in range(conv.s):
            found[:, :, :, r, s] = rows[:, :, s : s + (q - 1) * across + 1 : across]
    return found


def workspace(conv: Convolution, size: int = 2) -> dict[str, int]:
    """Bytes beside images, filters and results, of elements of `size` bytes.

    im2win: N P W R C elements; im2col: N P Q R S C; `conv2d` by windows: none.
    """
    wide = conv.w + sum(conv.pad[1])
    rows = conv.n * conv.p * conv.r * conv.c * size
    return {"im2col": rows * conv.q * conv.s, "im2win": rows * wide, "windows": 0}


def _require_plain(x: Any, conv: Convolution) -> None:
    require_array("x", x, "[N, H, W, C]")
    if not isinstance(conv, Convolution):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConvolutionNotPossible(
            f"`conv` is a {type(conv).__name__}",
            expected="a Convolution of tawa.kernels.conv: sizes of images and filters",
        )
    plain = conv.pad == ((0, 0), (0, 0)) and conv.dilation == (1, 1)
    if not plain or tuple(x.shape) != (conv.n, conv.h, conv.w, conv.c):
        raise ConvolutionNotPossible(
            "windows are laid out of padded images, for taps without dilation",
            expected="images [N, H, W, C] of the convolution, no padding, dilation 1",
            found=f"{list(x.shape)}, padding {conv.pad}, dilation {conv.dilation}",
            hint="pad the images first",
        )
