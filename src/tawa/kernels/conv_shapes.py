"""Sizes of a convolution, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import tawa

Pair: TypeAlias = int | Sequence[int]
"""A number for both dimensions of an image, or one for each."""
Padding: TypeAlias = int | Sequence[int | Sequence[int]]
"""As `Pair`; or for each dimension what comes before and after it."""


class ConvolutionNotPossible(tawa.TawaError):
    """The arguments of a convolution do not fit each other."""

    explanation = (
        "`conv2d(x, w)` takes images [N, H, W, C] and filters [K, R, S, C / groups] of one element "
        "type. Strides and dilations are at least 1, paddings at least 0, `groups` divides C and "
        "K, and a dilated filter fits into the padded image."
    )
    example = """
import numpy as np
from tawa.kernels.conv import conv2d

conv2d(np.ones((1, 8, 8, 16), np.float16), np.ones((32, 3, 3, 8), np.float16))
"""


@dataclass(frozen=True)
class Convolution:
    """Images of N x H x W pixels of C channels, K filters of R x S taps."""

    n: int
    h: int
    w: int
    c: int
    k: int
    r: int
    s: int
    stride: tuple[int, int] = (1, 1)
    pad: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def p(self) -> int:
        """Rows of the result."""
        return _out(self.h, self.r, self.stride[0], self.pad[0], self.dilation[0])

    @property
    def q(self) -> int:
        """Columns of the result."""
        return _out(self.w, self.s, self.stride[1], self.pad[1], self.dilation[1])

    @property
    def depthwise(self) -> bool:
        """Whether each channel has its own filter, and one."""
        return self.groups == self.c == self.k and self.groups > 1

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.n * self.p * self.q * self.k * self.r * self.s * self.c // self.groups


def _out(size: int, taps: int, stride: int, pad: tuple[int, int], dilation: int) -> int:
    return (size + sum(pad) - dilation * (taps - 1) - 1) // stride + 1


def pair(value: Pair, name: str, least: int) -> tuple[int, int]:
    """A number for each of the two dimensions; raises ConvolutionNotPossible."""
    found: tuple[Any, ...] = (value, value) if isinstance(value, int) else tuple(value)
    if len(found) != 2 or not all(isinstance(v, int) and v >= least for v in found):
        raise ConvolutionNotPossible(
            f"`{name}` of {value!r} is not possible",
            expected=f"a whole number of at least {least}, or two of them",
        )
    return found[0], found[1]


def padding_of(value: Padding) -> tuple[tuple[int, int], tuple[int, int]]:
    """What comes before and after each of the two dimensions."""
    if isinstance(value, int):
        value = pair(value, "padding", 0)
    sides = [(v, v) if isinstance(v, int) else tuple(v) for v in value]
    if len(sides) != 2 or any(len(side) != 2 for side in sides):
        raise ConvolutionNotPossible(
            f"`padding` of {value!r} is not possible",
            expected="a whole number, two of them, or two pairs (before, after)",
        )
    (top, bottom), (left, right) = (pair(side, "padding", 0) for side in sides)
    return (top, bottom), (left, right)


def convolution_of(
    x: Any, w: Any, stride: Pair, padding: Padding, dilation: Pair, groups: Any
) -> Convolution:
    """The sizes of `conv2d(x, w)`; raises ConvolutionNotPossible."""
    if len(x.shape) != 4 or len(w.shape) != 4:
        raise ConvolutionNotPossible(
            "images and filters have four dimensions",
            expected="x [N, H, W, C] and w [K, R, S, C / groups]",
            found=f"x {list(x.shape)} and w {list(w.shape)}",
        )
    (n, h, wide, c), (k, r, s, own) = map(tuple, (x.shape, w.shape))
    strides, dilations = pair(stride, "stride", 1), pair(dilation, "dilation", 1)
    if not isinstance(groups, int) or groups < 1 or c % groups or k % groups:
        raise ConvolutionNotPossible(
            f"`groups` of {groups!r} is not possible",
            expected=f"a number that divides {c} channels and {k} filters",
        )
    if own * groups != c:
        raise ConvolutionNotPossible(
            "the filters are not of the image's channels",
            expected=f"w [{k}, {r}, {s}, {c // groups}], for {c} channels in {groups} group(s)",
            found=f"w {list(w.shape)}",
        )
    found = Convolution(n, h, wide, c, k, r, s, strides, padding_of(padding), dilations, groups)
    if min(found.p, found.q) < 1:
        raise ConvolutionNotPossible(
            "the filter is larger than the padded image",
            expected="at least one row and one column of results",
            found=f"{found.p} rows and {found.q} columns, from {h}x{wide} pixels, "
            f"{r}x{s} taps, padding {found.pad} and dilation {found.dilation}",
            hint="pad the image, or use a smaller filter",
        )
    return found
