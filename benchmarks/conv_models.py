"""ResNet-50 whole, bf16, channels last: inference and a training step, beside PyTorch's modes.

The model is written out here (arXiv 1512.03385, stride in the 3 x 3 convolutions), so that nothing
but PyTorch is needed. `tawa` is the model after `replace_convolutions`; `tawa-compile` the same
under `torch.compile`. Logits are compared with the model's in float32.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

BLOCKS = (64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)
"""Channels, blocks and stride of each stage."""


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions, and what is added to them."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(True),
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels),
            nn.ReLU(True), nn.Conv2d(channels, 4 * channels, 1, bias=False),
            nn.BatchNorm2d(4 * channels),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != 4 * channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * channels, 1, stride, bias=False), nn.BatchNorm2d(4 * channels)
            )

    def forward(self, x: Any) -> Any:
        """[N, inputs, H, W] to [N, 4 channels, H / stride, W / stride]."""
        return torch.relu(self.layers(x) + self.shortcut(x))


def resnet50() -> nn.Module:
    """The network, for 1,000 classes."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    inputs = 64
    for channels, count, stride in BLOCKS:
        for number in range(count):
            layers.append(Bottleneck(inputs, channels, stride if number == 0 else 1))
            inputs = 4 * channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def modes(model: nn.Module) -> dict[str, Callable[..., Any]]:
    """The model as each contender runs it."""
    from tawa.kernels.torch_conv import replace_convolutions

    replaced = copy.deepcopy(model)
    replace_convolutions(replaced)
    return {
        "tawa": replaced,
        "tawa-compile": torch.compile(replaced),
        "eager": model,
        "torch-compile": torch.compile(model, mode="max-autotune-no-cudagraphs"),
    }


def whole(run: Any, options: Any) -> None:
    """Time inference and a training step of each mode, for each number of images."""
    for n in map(int, options.images.split(",")):
        x = torch.randn(n, 3, 224, 224, device="cuda")
        model = resnet50().cuda()
        exact = model.eval()(x[:8])
        model = model.bfloat16().to(memory_format=torch.channels_last)
        x = x.bfloat16().to(memory_format=torch.channels_last)
        for training in (False, True):
            row = {"layer": "resnet50", "pass": "step" if training else "inference", "n": n}
            works = _works(run, row, modes(model.train(training)), x, exact, training=training)
            _time(run, row, works, options)


def _works(
    run: Any, row: dict[str, Any], found: dict[str, Callable[..., Any]], x: Any, exact: Any, *,
    training: bool,
) -> dict[str, Callable[[], Any]]:  # fmt: skip
    """What is timed of each mode that runs, as a CUDA graph."""
    from conv import captured, failed

    works: dict[str, Callable[[], Any]] = {}
    for name, model in found.items():

        def step(model: Any = model) -> Any:
            with torch.set_grad_enabled(training):
                y = model(x)
                if training:
                    y.float().square().mean().backward()
            return y

        try:
            if not training:
                with torch.no_grad():
                    off = (model(x[:8]).float() - exact).norm() / exact.norm()
                print(f"  {name}: logits off by {float(off):.1e}", flush=True)
            works[name] = captured(step)
        except Exception as problem:
            failed(run, row, name, problem)
    return works


def _time(run: Any, row: dict[str, Any], works: dict[str, Callable[[], Any]], options: Any) -> None:
    from tawa.runtime.timing import Stopwatch, interleaved

    with run.sampler.sampling():
        times = interleaved(
            works, soak=options.soak, window=options.window, on_turn=run.sampler.turn,
            watch=Stopwatch(),
        )  # fmt: skip
    for name, timing in times.items():
        run.add(row, name, timing, **run.sampler.readings(name))
        print(f"{row['layer']} N={row['n']} {row['pass']} {name}: {timing.median:.2f} ms")
