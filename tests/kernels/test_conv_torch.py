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


def test_models(ours: Any):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(),
        torch.nn.Conv2d(8, 16, 3, stride=2, bias=False), torch.nn.Conv2d(16, 8, 1, padding="same"),
    ).half()  # fmt: skip
    x = random(1, 3, 10, 10)
    expected = model.double()(x.double())
    model.half()
    assert ours.replace_convolutions(model) == ["0", "2"]
    close(model.half()(x), expected, 1e-2)
