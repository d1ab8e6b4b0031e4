"""Convolutions of random sizes on a device, forward and both gradients, against float64."""

import random
from typing import Any

import numpy as np
import pytest

from tawa.kernels.conv import ConvolutionNotPossible, conv2d, reference
from tawa.kernels.conv_gradients import gradient_of_filters, gradient_of_images

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

SEEDS = 0, 1, 2, 3, 5, 6, 13, 19, 20, 24, 29, 37
"""Of 46 that were tried, groups of few channels among them."""


def drawn(seed: int) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of images and filters, and the other arguments."""
    rnd = random.Random(seed)
    groups = rnd.choice([1, 1, 1, 1, 2, 4])
    own, ours = rnd.choice([1, 3, 4, 7, 8, 16, 20, 64, 96]), rnd.choice([1, 5, 8, 10, 16, 64, 96])
    if groups > 1 and rnd.random() < 0.4:
        groups, own, ours = 8 * own, 1, 1
    size = rnd.randint(1, 40), rnd.randint(1, 40)
    taps = rnd.choice([1, 2, 3, 3, 5, 7]), rnd.choice([1, 2, 3, 3, 5, 7])
    arguments = {
        "stride": (rnd.choice([1, 1, 2, 3, 4]), rnd.choice([1, 1, 2, 3])),
        "padding": rnd.choice([0, 1, 2, (1, 2), ((0, 1), (2, 0))]),
        "dilation": rnd.choice([1, 1, 1, 2, (2, 3)]),
        "groups": groups,
    }
    x = rnd.choice([1, 2, 3, 9]), *size, own * groups
    return x, (ours * groups, *taps, own), arguments


def close(found: Any, expected: np.ndarray) -> None:
    """To the rounding of fp16."""
    error = np.abs(found.double().cpu().numpy() - expected).max()
    assert error <= 2e-3 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_random_sizes(seed: int):
    shape, taps, arguments = drawn(seed)
    torch.manual_seed(seed)
    x = torch.randn(shape, device="cuda", dtype=torch.float16)
    w = torch.randn(taps, device="cuda", dtype=torch.float16) / np.sqrt(np.prod(taps[1:]))
    bias = torch.randn(taps[0], device="cuda", dtype=torch.float16)
    try:
        expected = reference(x.cpu().numpy(), w.cpu().numpy(), **arguments)
    except ConvolutionNotPossible:
        with pytest.raises(ConvolutionNotPossible):
            conv2d(x, w, **arguments)
        return
    close(conv2d(x, w, **arguments), expected)
    finished = np.maximum(expected + bias.double().cpu().numpy(), 0)
    close(conv2d(x, w, bias=bias, relu=True, **arguments), finished)
    dy = torch.randn(expected.shape, device="cuda", dtype=torch.float16)
    dx, dw = gradients(x, w, dy, arguments)
    close(gradient_of_images(dy, w, shape, **arguments), dx)
    close(gradient_of_filters(dy, x, taps, **arguments), dw)


def gradients(x: Any, w: Any, dy: Any, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """By PyTorch's differentiation of the convolution in float64."""
    a, f = (v.double().requires_grad_() for v in (x, w))
    pads = arguments["padding"]
    pads = (pads, pads) if isinstance(pads, int) else pads
    (top, bottom), (left, right) = ((p, p) if isinstance(p, int) else p for p in pads)
    padded = torch.nn.functional.pad(a.permute(0, 3, 1, 2), (left, right, top, bottom))
    rest = {k: arguments[k] for k in ("stride", "dilation", "groups")}
    y = torch.nn.functional.conv2d(padded, f.permute(0, 3, 1, 2), **rest)
    y.backward(dy.double().permute(0, 3, 1, 2))
    return a.grad.cpu().numpy(), f.grad.cpu().numpy()
