"""Convolution as PyTorch's operator, on tensors in the host's memory, against PyTorch's own."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from convolutions import launched_at

torch: Any = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def ours() -> Generator[Any]:
    from tawa.kernels import torch_conv

    with launched_at("tile"):
        yield torch_conv


def random(*shape: int, dtype: str = "float16") -> Any:
    found = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    return found.to(getattr(torch, dtype))


def close(found: Any, expected: Any, tolerance: float = 4e-3) -> None:
    assert found.shape == expected.shape
    scale = max(1.0, float(expected.abs().max()))
    assert float((found.double() - expected.double()).abs().max()) <= tolerance * scale


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("channels", "groups", "stride"), [(16, 1, 1), (3, 1, 2), (16, 16, 1)])
def test_forward_and_gradients(ours: Any, dtype: str, channels: int, groups: int, stride: int):
    x, w = random(2, channels, 9, 8, dtype=dtype), random(16, channels // groups, 3, 3, dtype=dtype)
    w, bias = w / 4, random(16, dtype=dtype)
    given = {"stride": stride, "padding": 1, "groups": groups}
    inputs = [v.clone().requires_grad_() for v in (x, w, bias)]
    exact = [v.double().requires_grad_() for v in (x, w, bias)]
    y = ours.conv2d(*inputs, **given, relu=True)
    expected = torch.relu(torch.nn.functional.conv2d(*exact, **given))
    tolerance = 4e-3 if dtype == "float16" else 2e-2
    close(y, expected, tolerance)
    dy = random(*y.shape, dtype=dtype)
    y.backward(dy)
    expected.backward(dy.double() * (y > 0))
    for mine, theirs in zip(inputs, exact, strict=True):
        close(mine.grad, theirs.grad, tolerance)


def test_dimensions_and_transposed(ours: Any):
    """As PyTorch's, of one and three dimensions, and turned back, with gradients."""
    F = torch.nn.functional
    cases = [
        (ours.conv1d, F.conv1d, (2, 8, 11), (16, 8, 3), {"padding": 1}),
        (ours.conv3d, F.conv3d, (1, 8, 3, 5, 4), (8, 8, 2, 3, 3), {"padding": (0, 1, 1)}),
        (ours.conv_transpose2d, F.conv_transpose2d, (1, 8, 4, 5), (8, 16, 3, 3),
         {"stride": 2, "padding": 1, "output_padding": 1}),
    ]  # fmt: skip
    for mine, theirs, x, w, given in cases:
        inputs = [(random(*s) / 3).requires_grad_() for s in (x, w)]
        exact = [v.detach().double().requires_grad_() for v in inputs]
        y, expected = mine(*inputs, **given), theirs(*exact, **given)
        close(y, expected)
        dy = random(*y.shape)
        y.backward(dy)
        expected.backward(dy.double())
        for a, b in zip(inputs, exact, strict=True):
            close(a.grad, b.grad, 1e-2)


def test_the_operators_keep_the_rules_of_operators(ours: Any):
    """Shapes and strides of fake tensors, gradients, and no argument changed."""
    x = random(1, 8, 5, 6).to(memory_format=torch.channels_last).requires_grad_()
    w = random(8, 8, 3, 3).requires_grad_()
    names = "test_schema", "test_faketensor", "test_autograd_registration"
    given = (x, w, None, [2, 1], [1, 1, 0, 1], [1, 1], 1)
    torch.library.opcheck(torch.ops.tawa.conv2d, (*given, True), test_utils=names)
    torch.library.opcheck(torch.ops.tawa.conv_transpose2d, (*given, [0, 0]), test_utils=names)


def test_compiled(ours: Any):
    """`torch.compile` traces a model through the operator, forward and back."""
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 1))
    model = model.half()
    x = random(1, 8, 6, 6)
    expected = model.double()(x.double())
    ours.replace_convolutions(model.half())
    fast = torch.compile(model, backend="aot_eager", fullgraph=True)
    y = fast(x)
    close(y, expected, 1e-2)
    y.float().sum().backward()
    assert model[0].weight.grad.abs().sum() > 0


def test_models(ours: Any):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2, bias=False), torch.nn.Conv2d(16, 8, 2, padding="same"),
        torch.nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"),
        torch.nn.ConvTranspose2d(8, 4, 2, stride=2),
    ).half()  # fmt: skip
    x = random(1, 3, 10, 10)
    expected = model.double()(x.double())
    model.half()
    assert ours.replace_convolutions(model) == ["0", "2", "3", "4", "5"]
    close(model.half()(x), expected, 1e-2)
