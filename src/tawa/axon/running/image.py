"""Convolutions, pooling and upsampling on NumPy arrays."""

from __future__ import annotations

import numpy as np

from tawa.axon.running.registry import Array, operator


def _groups(x: Array, w: Array, groups: int) -> tuple[Array, Array]:
    """Channels and filters in groups: [b, g, c, ...] and [g, o, c, ...]."""
    if x.shape[1] != groups * w.shape[1] or w.shape[0] % groups:
        raise ValueError(f"{x.shape[1]} channels against {w.shape[:2]} in {groups} groups")
    grouped = x.reshape(x.shape[0], groups, w.shape[1], *x.shape[2:])
    return grouped, w.reshape(groups, w.shape[0] // groups, *w.shape[1:])


@operator("conv1d")
def conv1d(x: Array, w: Array, stride: int, pad: int, dilation: int, groups: int) -> Array:
    """One-dimensional convolution (no flip)."""
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad)])
    windows, filters = _groups(_windows(padded, (w.shape[2],), stride, dilation), w, groups)
    found = np.einsum("bgchk,gock->bgoh", windows, filters).astype(x.dtype)
    return found.reshape(x.shape[0], w.shape[0], -1)


@operator("conv2d")
def conv2d(x: Array, w: Array, stride: int, pad: int, dilation: int, groups: int) -> Array:
    """Two-dimensional convolution (no flip)."""
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows, filters = _groups(_windows(padded, w.shape[2:], stride, dilation), w, groups)
    found = np.einsum("bgchwkl,gockl->bgohw", windows, filters, optimize=True)
    return found.astype(x.dtype).reshape(x.shape[0], w.shape[0], *found.shape[-2:])


@operator("conv_same")
def conv_same(x: Array, w: Array) -> Array:
    """Convolution with stride 1, padded so that height and width stay (more at the end)."""
    widths = [(0, 0), (0, 0)]
    widths += [((size - 1) // 2, size // 2) for size in w.shape[2:]]
    windows = _windows(np.pad(x, widths), w.shape[2:], 1, 1)
    return np.einsum("bchwkl,ockl->bohw", windows, w, optimize=True).astype(x.dtype)


@operator("up")
def up(x: Array, w: Array, stride: int, pad: int) -> Array:
    """Transposed convolution, without `pad` rows and columns all around."""
    b, _, h, width = x.shape
    o, k, n = w.shape[1:]
    result = np.zeros((b, o, (h - 1) * stride + k, (width - 1) * stride + n), x.dtype)
    for i in range(h):
        for j in range(width):
            part = np.einsum("bc,cokl->bokl", x[:, :, i, j], w)
            top_, left = i * stride, j * stride
            result[:, :, top_ : top_ + k, left : left + n] += part
    return result[:, :, pad : result.shape[2] - pad, pad : result.shape[3] - pad]


def _windows(x: Array, sizes: tuple[int, ...], stride: int, dilation: int) -> Array:
    """Windows over the last axes: their positions, then what is inside."""
    spans = tuple((size - 1) * dilation + 1 for size in sizes)
    if any(span > size for span, size in zip(spans, x.shape[2:], strict=True)):
        raise ValueError(f"a window of {spans} doesn't fit {x.shape[2:]}")
    axes = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, axis=axes)
    positions = (slice(None), slice(None)) + (slice(None, None, stride),) * len(sizes)
    return windows[positions + (slice(None, None, dilation),) * len(sizes)]


@operator("max_pool")
def max_pool(x: Array, size: int, stride: int, pad: int) -> Array:
    """The largest number of each window."""
    low = -np.inf if np.issubdtype(x.dtype, np.floating) else np.iinfo(x.dtype).min
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=low)
    return _windows(padded, (size, size), stride, 1).max(axis=(-1, -2))


@operator("mean_pool")
def mean_pool(x: Array, size: int, stride: int, pad: int) -> Array:
    """The mean of each window, padding counted as zeros."""
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    return _windows(padded, (size, size), stride, 1).mean(axis=(-1, -2)).astype(x.dtype)


@operator("global_mean")
def global_mean(x: Array) -> Array:
    """The mean over all axes after the second."""
    return x.mean(axis=tuple(range(2, x.ndim))).astype(x.dtype)


@operator("upsample")
def upsample(x: Array, scale: int) -> Array:
    """Each number `scale` times along both last axes."""
    return np.repeat(np.repeat(x, scale, axis=-1), scale, axis=-2)


@operator("windows")
def windows(
    x: Array, spans: tuple[int, ...], stride: int, dilation: int,
    pads: tuple[tuple[int, int], ...], fill: float,
) -> Array:  # fmt: skip
    """All windows over the axes after the second: their places, then what is inside."""
    widths = [(0, 0), (0, 0), *pads]
    return _windows(np.pad(x, widths, constant_values=fill), spans, stride, dilation)


@operator("overlap")
def overlap(
    x: Array, sizes: tuple[int, ...], spans: tuple[int, ...], stride: int, dilation: int,
    pads: tuple[tuple[int, int], ...],
) -> Array:  # fmt: skip
    """`windows` backwards: what windows hold is added up where they lie."""
    whole = [size + before + after for size, (before, after) in zip(sizes, pads, strict=True)]
    found = np.zeros((*x.shape[:2], *whole), x.dtype)
    places = x.shape[2 : 2 + len(sizes)]
    for tap in np.ndindex(*spans):
        at = tuple(
            slice(t * dilation, t * dilation + (n - 1) * stride + 1, stride)
            for t, n in zip(tap, places, strict=True)
        )
        found[(..., *at)] += x[(..., *tap)]
    inner = tuple(slice(p[0], p[0] + size) for p, size in zip(pads, sizes, strict=True))
    return found[(..., *inner)]
