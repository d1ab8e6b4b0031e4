"""Trains a GPT-2 that is written in Axon beside the same model in PyTorch.

    python benchmarks/axon_gpt2.py --out rows.jsonl     # 124M parameters, on a GPU
    python benchmarks/axon_gpt2.py --small              # in the simulator

The batches are sentences of random words. Weights and what is between the layers are f32, products
and attention bf16, as in PyTorch's autocast; gradients are clipped. `axon_training.py` says what a
row has, and what the options are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from axon_training import Training, run
from torch import Tensor, nn
from torch.nn import functional as F

STD = 0.02
"""Of the initial weights."""

RATE = 3e-4
"""The largest learning rate."""

CLIP = 1.0
"""The largest norm of all derivatives."""

FOLLOWING = 0.5
"""The share of tokens that the one before decides."""


@dataclass(frozen=True)
class Size:
    """How large a model is, and its batches."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    batch: int

    def cut(self, layers: int) -> Size:
        """With other than its own number of layers."""
        return replace(self, layers=layers)


FULL = Size(12, 12, 768, 1024, 50304, 8)
SMALL = Size(2, 2, 32, 16, 64, 2)


def program(size: Size) -> str:
    """The model, its loss and a step of training, in Axon."""
    blocks = ", ".join(f"b{i}" for i in range(size.layers))
    layers = " |> ".join(f"block{{h}} b{i}" for i in range(size.layers))
    return f"""
def project (w: f32[i, o]) (b: f32[o]) x = cast{{bf16}} x @ cast{{bf16}} w + cast{{bf16}} b

def attend{{h}} (w_qkv, b_qkv, w_out, b_out) x =
  let q, k, v = thirds (project w_qkv b_qkv x) in
  let heads y = rearrange{{"..b t (h d) -> ..b h t d", h = h}} y in
  let o = causal_attention (heads q) (heads k) (heads v) in
  project w_out b_out (rearrange{{"..b h t d -> ..b t (h d)"}} o)

def mlp (w1, b1, w2, b2) x = project w2 b2 (gelu (project w1 b1 x))

def block{{h}} ((g1, o1), attention, (g2, o2), hidden) (x: f32[..b, t, d]) =
  let x = x .+ cast{{f32}} (attend{{h}} attention (layer_norm g1 o1 x)) in
  x .+ cast{{f32}} (mlp hidden (layer_norm g2 o2 x))

def logits{{h}} (embedding, positions, ({blocks}), (g, o)) tokens =
  let x = take embedding tokens + positions in
  let x = x |> {layers} in
  cast{{bf16}} (layer_norm g o x) @ transpose (cast{{bf16}} embedding)

## The mean of each next token's negative logarithm.
def loss{{h}} weights tokens (next: i64[b, t]) =
  let z = cast{{f32}} (logits{{h}} weights tokens) in
  mean_all (logsumexp z - sum{{axis = -1}} (one_hot{{{size.vocabulary}}} next .* z))

def start weights = (adamw_start weights, weights)

def step{{h}} (rate: f32[]) (decay: f32[]) (state, weights) tokens next =
  let value, slopes = value_and_grad (fn w -> loss{{h}} w tokens next) weights in
  (value, adamw rate decay state (clip_norm {CLIP} slopes) weights)
"""


class Block(nn.Module):
    """One layer of GPT-2."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        d = size.width
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) to the same."""
        b, t, d = x.shape
        q, k, v = (
            y.view(b, t, self.heads, -1).transpose(1, 2)
            for y in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(o.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT2(nn.Module):
    """GPT-2 with its loss."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Parameter(torch.empty(size.context, size.width))
        self.blocks = nn.ModuleList(Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                nn.init.normal_(weight, std=STD)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        """The mean negative logarithm of each next token."""
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.embedding.weight)
        return F.cross_entropy(logits.float().flatten(0, 1), following.flatten())


def weights_of(model: GPT2) -> Any:
    """The model's weights as the program takes them, copied."""

    def copied(weight: Tensor) -> Tensor:
        return weight.detach().clone().contiguous()

    def linear(*parts: nn.Linear) -> tuple[Tensor, ...]:
        return tuple(copied(w) for part in parts for w in (part.weight.T, part.bias))

    def norm(part: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        return copied(part.weight), copied(part.bias)

    blocks = tuple(
        (norm(b.norm1), linear(b.qkv, b.out), norm(b.norm2), linear(b.up, b.down))
        for b in model.blocks
        if isinstance(b, Block)
    )
    return copied(model.embedding.weight), copied(model.positions), blocks, norm(model.norm)


def batches(size: Size, device: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Sentences whose tokens are as frequent as words: the n-th most frequent about 1/n.

    A token follows from the one before, by a table, or is drawn anew.
    """
    random = torch.Generator().manual_seed(1)
    table = torch.randperm(size.vocabulary, generator=random).numpy()
    frequency = 1 / (torch.arange(size.vocabulary) + 2.7)  # Mandelbrot's form of Zipf's law
    shape = size.context + 1, size.batch
    while True:
        drawn = torch.multinomial(frequency, shape[0] * shape[1], True, generator=random)
        follows = torch.rand(shape, generator=random) < FOLLOWING
        tokens = list(drawn.view(shape).numpy())
        for n, chosen in enumerate(follows.numpy()[1:], 1):
            tokens[n] = np.where(chosen, table[tokens[n - 1]], tokens[n])
        whole = torch.from_numpy(np.stack(tokens, 1)).to(device)
        yield whole[:, :-1].contiguous(), whole[:, 1:].contiguous()


def shaped(size: Size) -> tuple[Any, ...]:
    """Weights and a batch that take no memory until they are read."""

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    d = size.width
    norm = (zeros(d), zeros(d))
    attention = (zeros(d, 3 * d), zeros(3 * d), zeros(d, d), zeros(d))
    hidden = (zeros(d, 4 * d), zeros(4 * d), zeros(4 * d, d), zeros(d))
    blocks = tuple((norm, attention, norm, hidden) for _ in range(size.layers))
    weights = (zeros(size.vocabulary, d), zeros(size.context, d), blocks, norm)
    tokens = np.zeros((size.batch, size.context), np.int64)
    return weights, tokens, tokens


def training_of(size: Size) -> Training:
    """The model of a size."""
    return Training(
        size, program(size), lambda device: GPT2(size).to(device), weights_of,
        lambda device: batches(size, device), lambda: shaped(size), RATE, {"h": size.heads}, CLIP,
    )  # fmt: skip


if __name__ == "__main__":
    run(__doc__ or "", training_of, FULL, SMALL)
