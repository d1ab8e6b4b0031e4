"""Trains a ResNet-50 that is written in Axon beside the same model in PyTorch.

    python benchmarks/axon_resnet.py --out rows.jsonl   # images of 224 x 224, on a GPU
    python benchmarks/axon_resnet.py --small            # in the simulator

Both start with the same values and see the same batches: noise around a picture of each class.
Convolutions are bf16, as in PyTorch's autocast; weights and norms are f32, whose mean and variance
are those of the batch. PyTorch's images lie channels last. `axon_training.py` says what a row has,
and what the options are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import torch
from axon_training import Training, run
from torch import Tensor, nn
from torch.nn import functional as F

RATE = 3e-4
"""The largest learning rate."""

EXPANSION = 4
"""Channels that a block gives, beside those inside."""


@dataclass(frozen=True)
class Size:
    """Blocks of each stage, channels of the first one, and the batches."""

    blocks: tuple[int, ...]
    width: int
    classes: int
    image: int
    batch: int

    def cut(self, stages: int) -> Size:
        """With fewer stages."""
        return replace(self, blocks=self.blocks[:stages])


FULL = Size((3, 4, 6, 3), 64, 1000, 224, 64)
SMALL = Size((1, 1), 8, 8, 32, 2)


def program(size: Size) -> str:
    """The model, its loss and a step of training, in Axon."""
    names = [(f"s{i}", [f"s{i}b{j}" for j in range(1, n)]) for i, n in enumerate(size.blocks)]
    pattern = ", ".join(f"(({s}, {s}n), {s}b0" + "".join(f", {b}" for b in more) + ")"
                        for s, more in names)  # fmt: skip
    layers = "".join(
        f"\n  let x = down{{{1 if number == 0 else 2}}} ({s}, {s}n) {s}b0 x"
        + "".join(f" |> block {b}" for b in more) + " in"
        for number, (s, more) in enumerate(names)
    )  # fmt: skip
    return f"""
def conv{{s, p}} (w: f32[o, i, k, l]) x = conv2d{{stride = s, pad = p}} x (cast{{bf16}} w)

## Each channel with its own mean and variance.
def norm (scale: f32[c], offset: f32[c]) (x: t[n, c, h, w]) =
  let rows = cast{{f32}} (rearrange{{"n c h w -> (n h w) c"}} x) in
  let centre = mean{{axis = 0}} rows in
  let spread = mean{{axis = 0}} (rows .* rows) .- centre .* centre in
  let y = (rows - centre) * (scale .* rsqrt (spread + 0.00001)) + offset in
  rearrange{{"(n h w) c -> n c h w", n = n, h = h, w = w}} (cast{{bf16}} y)

def inner{{s}} (w1: f32[a, i, 1, 1], n1, w2: f32[b, a, 3, 3], n2, w3: f32[o, b, 1, 1], n3) x =
  let x = relu (norm n1 (conv{{1, 0}} w1 x)) in
  let x = relu (norm n2 (conv{{s, 1}} w2 x)) in
  norm n3 (conv{{1, 0}} w3 x)

def block weights x = relu (inner{{1}} weights x .+ x)

def down{{s}} (w: f32[o, i, 1, 1], n) weights x =
  relu (inner{{s}} weights x .+ norm n (conv{{s, 0}} w x))

def logits (stem, n, ({pattern}), (w, b)) image =
  let x = relu (norm n (conv{{2, 3}} stem image)) in
  let x = max_pool{{size = 3, stride = 2, pad = 1}} x in{layers}
  linear w b (global_mean (cast{{f32}} x))

## The mean of each class's negative logarithm.
def loss weights image (kind: i64[n]) =
  let z = logits weights image in
  mean_all (logsumexp z - sum{{axis = -1}} (one_hot{{{size.classes}}} kind .* z))

def start weights = (adamw_start weights, weights)

def step (rate: f32[]) (decay: f32[]) (state, weights) image kind =
  let value, slopes = value_and_grad (fn w -> loss w image kind) weights in
  (value, adamw rate decay state slopes weights)
"""


def convolution(i: int, o: int, taps: int, stride: int = 1) -> nn.Conv2d:
    """Without bias, padded so that a stride of 1 keeps the size."""
    return nn.Conv2d(i, o, taps, stride, taps // 2, bias=False)


class Block(nn.Module):
    """Three convolutions with norms, and a shortcut."""

    def __init__(self, i: int, width: int, stride: int, shortcut: bool) -> None:
        super().__init__()
        o = EXPANSION * width
        self.convolutions = nn.ModuleList(
            (
                convolution(i, width, 1),
                convolution(width, width, 3, stride),
                convolution(width, o, 1),
            )
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(c) for c in (width, width, o))
        self.shortcut = nn.ModuleList(
            (convolution(i, o, 1, stride), nn.BatchNorm2d(o)) if shortcut else ()
        )

    def forward(self, x: Tensor) -> Tensor:
        """(N, C, H, W) to the next block's."""
        y = x
        for number, (conv, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = norm(conv(y))
            y = F.relu(y) if number < 2 else y
        for part in self.shortcut:
            x = part(x)
        return F.relu(x + y)


class ResNet(nn.Module):
    """ResNet-50 with its loss, if of that size."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.stem, self.norm = convolution(3, size.width, 7, 2), nn.BatchNorm2d(size.width)
        self.stages = nn.ModuleList()
        i = size.width
        for number, count in enumerate(size.blocks):
            width, stride = size.width << number, 1 if number == 0 else 2
            stage = nn.ModuleList()
            for block in range(count):
                stage.append(Block(i, width, 1 if block else stride, block == 0))
                i = EXPANSION * width
            self.stages.append(stage)
        self.head = nn.Linear(i, size.classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, image: Tensor, kind: Tensor) -> Tensor:
        """The mean negative logarithm of each class."""
        x = F.max_pool2d(F.relu(self.norm(self.stem(image))), 3, 2, 1)
        for stage in self.stages:
            for block in stage:
                x = block(x)
        logits = self.head(x.mean((2, 3)))
        return F.cross_entropy(logits.float(), kind)


def weights_of(model: ResNet) -> Any:
    """The model's weights as the program takes them, copied."""

    def copied(weight: Tensor) -> Tensor:
        return weight.detach().clone(memory_format=torch.contiguous_format)

    def norm(part: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
        return copied(part.weight), copied(part.bias)

    def block(part: Any) -> tuple[Any, ...]:
        pairs = zip(part.convolutions, part.norms, strict=True)
        return tuple(x for conv, n in pairs for x in (copied(conv.weight), norm(n)))

    def stage(blocks: Any) -> tuple[Any, ...]:
        conv, first = blocks[0].shortcut
        return ((copied(conv.weight), norm(first)), *map(block, blocks))

    stages = tuple(map(stage, model.stages))
    head = copied(model.head.weight.T), copied(model.head.bias)
    return copied(model.stem.weight), norm(model.norm), stages, head


def batches(size: Size, device: str) -> Iterator[tuple[Tensor, Tensor]]:
    """A picture of each class, and noise."""
    random = torch.Generator(device).manual_seed(1)
    few = torch.randn(size.classes, 3, 8, 8, generator=random, device=device)
    while True:
        kind = torch.randint(size.classes, (size.batch,), generator=random, device=device)
        whole = F.interpolate(few[kind], size=(size.image, size.image))
        noise = torch.randn(whole.shape, generator=random, device=device)
        yield (whole + noise).to(torch.bfloat16), kind


def model_of(size: Size, device: str) -> ResNet:
    """A model with new values."""
    return ResNet(size).to(device, memory_format=torch.channels_last)


def shaped(size: Size) -> tuple[Any, ...]:
    """Weights, images and classes that take no memory until they are read."""

    def zeros(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(zeros, value))
        return np.broadcast_to(np.float32(0), value.shape)

    with torch.device("meta"):
        weights = zeros(weights_of(ResNet(size)))
    shape = size.batch, 3, size.image, size.image
    image = np.broadcast_to(ml_dtypes.bfloat16(0), shape)
    return weights, image, np.zeros(size.batch, np.int64)


def training_of(size: Size) -> Training:
    """The model of a size."""
    return Training(
        size, program(size), lambda device: model_of(size, device), weights_of,
        lambda device: batches(size, device), lambda: shaped(size), RATE,
    )  # fmt: skip


if __name__ == "__main__":
    run(__doc__ or "", training_of, FULL, SMALL)
