"""ResNet-50 whole, bf16, channels last: inference and a training step, beside PyTorch's modes.

The model is written out here (arXiv 1512.03385, stride in the 3 x 3 convolutions), so that nothing
but PyTorch is needed. For inference batch norms are folded into the convolutions, of all but
`eager`: `tawa` has a kernel for each convolution with what is added to it and its ReLU,
`cudnn-fused` cuDNN's of the same, `folded` operators, which `torch-compile` and `max-autotune`
compile. In a training step `tawa` is the model after `replace_convolutions`, `tawa-compile` the
same under `torch.compile`. Logits are compared with the model's in float32.
"""

# What PyTorch's functions take and give is not known in full.
# pyright: basic

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from conv_launches import each_launch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

FORMAT = torch.channels_last

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


class Folded(nn.Module):
    """The network with its batch norms folded into the convolutions, for inference.

    `act` computes a convolution, what is added to it, and the ReLU, all of the shapes of PyTorch.
    """

    def __init__(self, network: nn.Module, act: Callable[..., Any]) -> None:
        super().__init__()
        parts: list[Any] = list(network.children())
        self.act = act
        self.stem, self.pool = fuse_conv_bn_eval(parts[0], parts[1]), parts[3]
        self.end = nn.Sequential(*parts[-3:])
        self.blocks = nn.ModuleList()
        for block in parts[4:-3]:
            assert isinstance(block, Bottleneck)
            layers: list[Any] = list(block.layers)
            short: list[Any] = list(block.shortcut.children())
            pairs = [(layers[at], layers[at + 1]) for at in (0, 3, 6)]
            pairs += [(short[0], short[1])] if short else []
            self.blocks.append(nn.ModuleList(fuse_conv_bn_eval(*pair) for pair in pairs))

    def forward(self, x: Any) -> Any:
        """Logits of images."""
        x = self.pool(self.act(self.stem, x))
        blocks: Any = self.blocks
        for block in blocks:
            convs = list(block)
            beside = self.act(convs[3], x, relu=False) if len(convs) > 3 else x
            x = self.act(convs[2], self.act(convs[1], self.act(convs[0], x)), beside)
        return self.end(x)


class Every(nn.Module):
    """Every second row and column, in place of what is computed of them."""

    def forward(self, x: Any) -> Any:
        """[N, C, H, W] to half of both."""
        return x[:, :, ::2, ::2].contiguous(memory_format=FORMAT)


def plainly(conv: Any, x: Any, residual: Any = None, *, relu: bool = True) -> Any:
    """By modules and operators, which a compiler may fuse."""
    y = conv(x) if residual is None else conv(x) + residual
    return torch.relu(y) if relu else y


def by_cudnn(conv: Any, x: Any, residual: Any = None, *, relu: bool = True) -> Any:
    """By cuDNN's fused operators."""
    aten, steps = torch.ops.aten, (conv.stride, conv.padding, conv.dilation, conv.groups)
    if residual is not None:
        return aten.cudnn_convolution_add_relu(x, conv.weight, residual, 1.0, conv.bias, *steps)
    return aten.cudnn_convolution_relu(x, conv.weight, conv.bias, *steps) if relu else conv(x)


def by_tawa(conv: Any, x: Any, residual: Any = None, *, relu: bool = True) -> Any:
    """By this project's, one kernel each."""
    from tawa.kernels.conv import conv2d

    x, w = x.movedim(1, -1), conv.weight.detach().movedim(1, -1)
    residual = None if residual is None else residual.movedim(1, -1)
    y = conv2d(
        x, w, stride=conv.stride, padding=conv.padding, bias=conv.bias.detach(), residual=residual,
        relu=relu,
    )  # fmt: skip
    return y.movedim(-1, 1)


WORKS = {"tawa": by_tawa, "cudnn-fused": by_cudnn}
"""How contenders for inference compute a convolution and what follows it."""
MODES = {
    "inference": ["tawa", "cudnn-fused", "folded", "eager", "torch-compile", "max-autotune"],
    "step": ["tawa", "eager", "tawa-compile", "torch-compile"],
}
"""Contenders, PyTorch's compiler last."""


def mode(name: str, model: nn.Module, *, training: bool) -> Callable[..., Any]:
    """The model as a contender runs it."""
    from tawa.kernels.torch_conv import replace_convolutions

    if name == "eager":
        return model
    if training:
        found = copy.deepcopy(model)
        if "tawa" in name:
            replace_convolutions(found)
    else:
        kind = next(model.parameters()).dtype
        found: Any = Folded(copy.deepcopy(model).float(), WORKS.get(name, plainly))
        found = found.to(kind, memory_format=FORMAT)
    if name == "max-autotune":
        return torch.compile(found, mode="max-autotune-no-cudagraphs")
    return torch.compile(found) if "compile" in name else found


def whole(run: Any, options: Any) -> None:
    """Time inference and a training step of the chosen modes, for each number of images."""
    for n, part in product(options.images.split(","), options.parts.split(",")):
        training, case = part == "step", {"layer": "resnet50", "pass": part, "n": int(n)}
        torch.manual_seed(0)
        model: Any = resnet50().train(training)
        x = torch.randn(int(n), 3, 224, 224)
        if options.warm:
            model = mode("tawa", model.bfloat16().to(memory_format=FORMAT), training=training)
            if isinstance(model, Folded):
                model.pool = Every()  # a maximum takes the host seconds
            x = x.bfloat16().to(memory_format=FORMAT)
            _warm(partial(_step, model, x, training=training), options.warm)
            continue
        x, model = x.cuda(), model.cuda()
        plainer = torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False)
        with torch.no_grad(), plainer:
            exact = None if training else model(x[:8])
        model = model.bfloat16().to(memory_format=FORMAT)
        x = x.bfloat16().to(memory_format=FORMAT)
        wanted = [name for name in options.modes.split(",") if name] or MODES[part]
        works, errors = _works(run, case, wanted, (model, x, exact), training=training)
        _time(run, case, works, errors, options)


def _step(model: Callable[..., Any], x: Any, *, training: bool) -> Any:
    """Logits, and with `training` the gradients of a loss."""
    with torch.set_grad_enabled(training):
        y = model(x)
        if training:
            y.float().square().mean().backward()
    return y


def _warm(step: Callable[[], Any], share: str) -> None:
    """Compile a share `i/N` of the kernels that a step launches, of arrays of the host."""
    number, count = map(int, share.split("/"))
    seen: set[Any] = set()

    def build(kernel: Any, grid: Any, /, *args: Any, **given: Any) -> None:
        request, named = kernel.request(*args, **given), kernel._named(*args, **given)
        if (kernel, request.key) in seen:
            return
        if len(seen) % count == number:
            kernel._suited(request, named, given, grid)
            print(f"{kernel.__name__} after {time.process_time():.1f} s ", flush=True)
        seen.add((kernel, request.key))

    with each_launch(build):
        step()


def _works(
    run: Any, row: dict[str, Any], wanted: list[str], given: tuple[Any, Any, Any], *, training: bool
) -> tuple[dict[str, Callable[[], Any]], dict[str, float]]:
    """What is timed of each mode that runs, as a CUDA graph, and how far its logits are off.

    `given` are the model, images, and logits in float32, for inference.
    """
    from conv import captured, failed

    model, x, exact = given
    works: dict[str, Callable[[], Any]] = {}
    errors: dict[str, float] = {}
    for name in wanted:
        began = time.perf_counter()
        try:
            step = partial(_step, mode(name, model, training=training), x, training=training)
            works[name] = captured(step)
            if not training:
                errors[name] = float((works[name]()[:8].float() - exact).norm() / exact.norm())
                print(f"  {name}: logits off by {errors[name]:.1e}", flush=True)
        except Exception as problem:
            failed(run, row, name, problem)
        print(f"  {name}: ready after {time.perf_counter() - began:.1f} s", flush=True)
    return works, errors


def _time(
    run: Any, row: dict[str, Any], works: dict[str, Callable[[], Any]], errors: dict[str, float],
    options: Any,
) -> None:  # fmt: skip
    """Time them in turn; rows have the relative error of logits against float32."""
    from tawa.runtime.timing import Stopwatch, interleaved

    with run.sampler.sampling():
        times = interleaved(
            works, soak=options.soak, window=options.window, on_turn=run.sampler.turn,
            watch=Stopwatch(),
        )  # fmt: skip
    for name, timing in times.items():
        error = (
            None
            if name not in errors
            else {"relative_frobenius": errors[name], "reference": "float32"}
        )
        run.add(row, name, timing, error=error, **run.sampler.readings(name))
        print(f"{row['layer']} N={row['n']} {row['pass']} {name}: {timing.median:.2f} ms")
