"""`conv2d` and its gradients on NumPy arrays, in the simulator, against float64."""

import random
from typing import Any

import numpy as np
import pytest

from tawa.kernels.conv import ConvolutionNotPossible, Tiling, conv1d, conv2d, reference
from tawa.kernels.conv_gradients import gradient_of_filters, gradient_of_images
from tawa.kernels.conv_layouts import im2col, im2win, workspace
from tawa.kernels.conv_plans import ranked
from tawa.kernels.conv_shapes import Convolution
from tawa.kernels.gemm_operands import is_dense
from tawa.machine.chips import H200


def images(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Random fp16."""
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(np.float16)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """To the rounding of fp16."""
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 2e-3 * max(1.0, np.abs(expected).max())


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "same": ((1, 18, 10, 64), (64, 3, 3, 64), {"padding": 1}),
    "stride 2": ((1, 17, 12, 64), (32, 5, 3, 64), {"stride": 2, "padding": 2}),
    "stride above filter": ((1, 13, 12, 16), (32, 2, 1, 16), {"stride": 3}),
    "dilated": ((1, 17, 13, 32), (32, 3, 3, 32), {"dilation": (2, 3), "padding": (2, 3)}),
    "dilated and strided": ((1, 19, 12, 16), (32, 3, 3, 16), {"dilation": 3, "stride": 2}),
    "two groups": ((2, 9, 9, 32), (64, 3, 3, 16), {"groups": 2, "padding": 1}),
    "narrow groups": ((1, 6, 6, 8), (12, 3, 3, 2), {"groups": 4, "padding": 1}),
    "depthwise": ((2, 7, 9, 24), (24, 3, 5, 1), {"groups": 24, "padding": (1, 2)}),
    "first layer": ((1, 19, 17, 3), (24, 7, 7, 3), {"stride": 2, "padding": 3}),
    "first layer without stride": ((1, 9, 10, 3), (32, 3, 3, 3), {"padding": 1}),
    "odd channels": ((1, 9, 9, 20), (10, 3, 3, 20), {"padding": ((0, 1), (2, 0))}),
    "1x1": ((2, 5, 5, 64), (32, 1, 1, 64), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_against_float64(name: str):
    shape, taps, arguments = CASES[name]
    x, w = images(0, *shape), images(1, *taps, scale=1 / np.sqrt(np.prod(taps[1:])))
    close(conv2d(x, w, **arguments), reference(x, w, **arguments))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str):
    """The result is linear in images and in filters: both gradients turn it back."""
    shape, taps, arguments = CASES[name]
    x, w = images(0, *shape), images(1, *taps, scale=1 / np.sqrt(np.prod(taps[1:])))
    dy = images(2, *reference(x, w, **arguments).shape)
    dx = gradient_of_images(dy, w, shape, **arguments)
    dw = gradient_of_filters(dy, x, taps, **arguments)
    for seed in (3, 4):
        other, turned = images(seed, *shape), images(seed, *taps)
        wide = [v.astype(np.float64) for v in (dx, other, dw, turned, dy)]
        along = [(wide[0] * wide[1]).sum(), (wide[2] * wide[3]).sum()]
        exact = [
            (reference(other, w, **arguments) * wide[4]).sum(),
            (reference(x, turned, **arguments) * wide[4]).sum(),
        ]
        scale = [np.linalg.norm(wide[0]), np.linalg.norm(wide[2])]
        for a, b, s in zip(along, exact, scale, strict=True):
            assert abs(a - b) <= 5e-3 * s


def test_every_tiling_gives_the_same():
    """All kernels and tiles that the model ranks compute one convolution."""
    x, w = images(0, 2, 18, 12, 32), images(1, 64, 3, 3, 32, scale=0.1)
    conv = Convolution(2, 18, 12, 32, 64, 3, 3)
    expected = reference(x, w)
    found = ranked(conv, H200, 2)
    assert {t.kernel for t in found} == {"windows", "resident", "taps"}
    drawn = random.Random(0).sample(found, 6)
    for kernel in ("windows", "resident", "taps"):
        drawn.append(next(t for t in found if t.kernel == kernel))
    for tiling in drawn:
        close(conv2d(x, w, None, tiling), expected)


def test_finish():
    x, w, scale, bias = (
        images(i, *s) for i, s in enumerate([(1, 8, 8, 16), (24, 3, 3, 16), (24,), (24,)])
    )
    w = (w * 0.1).astype(np.float16)
    expected = np.maximum(reference(x, w) * scale + bias.astype(np.float64), 0)
    close(conv2d(x, w, scale=scale, bias=bias, relu=True), expected)


def test_written_in_place_of_views():
    x, w = images(0, 1, 9, 8, 16), images(1, 32, 3, 3, 16, scale=0.1)
    out = np.full((1, 14, 6, 64), 7, np.float16)
    assert conv2d(x, w, out[:, ::2, :, 32:]) is not None
    close(out[:, ::2, :, 32:], reference(x, w))
    assert (out[:, 1::2] == 7).all()
    assert (out[..., :32] == 7).all()


def test_images_with_channels_apart():
    x, w = images(0, 2, 16, 9, 8), images(1, 16, 3, 3, 16, scale=0.1)
    x = x.transpose(0, 2, 3, 1)
    close(conv2d(x, w), reference(x, w))


def test_causal_conv1d():
    x, w = images(0, 2, 33, 16), images(1, 32, 4, 16, scale=0.2)
    y = conv1d(x, w, causal=True)
    padded = np.pad(x.astype(np.float64), ((0, 0), (3, 0), (0, 0)))
    expected = sum(padded[:, s : s + 33] @ w[:, s].T.astype(np.float64) for s in range(4))
    close(y, np.asarray(expected))


@pytest.mark.parametrize(
    ("x", "w", "arguments", "words"),
    [
        ((1, 8, 8, 16), (32, 3, 3, 8), {}, "not of the image's channels"),
        ((1, 8, 8, 16), (32, 3, 3, 8), {"groups": 3}, "groups"),
        ((1, 8, 8, 16), (32, 9, 9, 16), {}, "larger than the padded image"),
        ((1, 8, 8, 16), (32, 3, 3, 16), {"stride": 0}, "stride"),
        ((1, 8, 8, 16), (32, 3, 3, 16), {"padding": -1}, "padding"),
        ((8, 8, 16), (32, 3, 3, 16), {}, "four dimensions"),
    ],
)
def test_refusals(x: tuple[int, ...], w: tuple[int, ...], arguments: dict[str, Any], words: str):
    with pytest.raises(ConvolutionNotPossible, match=words):
        conv2d(images(0, *x), images(1, *w), **arguments)


def test_refusals_of_types_and_outputs():
    x, w = images(0, 1, 8, 8, 16), images(1, 32, 3, 3, 16)
    with pytest.raises(ConvolutionNotPossible, match="element types"):
        conv2d(x.astype(np.float32), w)
    with pytest.raises(ConvolutionNotPossible, match="no room"):
        conv2d(x, w, np.zeros((1, 8, 8, 32), np.float16))
    with pytest.raises(ConvolutionNotPossible, match="bias"):
        conv2d(x, w, bias=np.zeros(16, np.float16))


def test_a_tiling_by_hand():
    x, w = images(0, 1, 18, 10, 64), images(1, 32, 3, 3, 64, scale=0.1)
    close(conv2d(x, w, None, Tiling("windows", 1, 16, 8, 32, 64)), reference(x, w))


def test_layouts():
    """Windows of im2win are runs of memory, those of im2col rows of a product."""
    conv = Convolution(2, 9, 10, 4, 8, 3, 2, (2, 1))
    x, w = images(0, 2, 9, 10, 4), images(1, 8, 3, 2, 4)
    expected = reference(x, w, stride=(2, 1))
    rows = im2win(x, conv)
    runs = np.lib.stride_tricks.sliding_window_view(
        rows.reshape(2, conv.p, -1), conv.s * conv.r * conv.c, axis=2
    )[:, :, :: conv.r * conv.c]
    filters = w.transpose(0, 2, 1, 3).reshape(8, -1).astype(np.float64)
    close(runs[:, :, : conv.q].astype(np.float64) @ filters.T, expected)
    columns = im2col(x, conv).reshape(2, conv.p, conv.q, -1).astype(np.float64)
    close(columns @ w.reshape(8, -1).T.astype(np.float64), expected)
    found = workspace(conv)
    assert (found["im2win"], found["im2col"]) == (rows.nbytes, im2col(x, conv).nbytes)
    assert found["windows"] == 0
    with pytest.raises(ConvolutionNotPossible, match="padded"):
        im2win(x, Convolution(2, 9, 10, 4, 8, 3, 2, pad=((1, 1), (0, 0))))


def test_strides_of_one_element_say_nothing():
    """Filters of one tap have no gaps, whatever the strides of their taps are."""
    w = np.lib.stride_tricks.as_strided(np.ones((8, 16), np.float16), (8, 1, 1, 16), (32, 2, 2, 2))
    assert is_dense(w)
    assert not is_dense(w[::2])
    x = images(0, 1, 5, 4, 16)
    close(conv2d(x, w), reference(x, w))
