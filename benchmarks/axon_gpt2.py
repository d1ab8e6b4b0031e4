"""Trains a GPT-2 that is written in Axon beside the same model in PyTorch.

    python benchmarks/axon_gpt2.py --out rows.jsonl     # 124M parameters, on a GPU
    python benchmarks/axon_gpt2.py --small              # in the simulator

Both start with the same values and see the same batches: sentences of a random chain of tokens.
Weights and what is between the layers are f32, products and attention bf16, as in PyTorch's
autocast; the optimiser is AdamW. A row has both losses of each step, and the milliseconds a step
takes: on a GPU, PyTorch's is compiled by `torch.compile`, with a fused AdamW. With `--profile`, a
step's time by kernel follows, for both; with `--plan`, only what Axon launches and moves is told,
which needs no GPU. With `--seeds N`, PyTorch also trains N models of other initial values on the
same batches, and the row says how far means of ten of Axon's losses leave the band of theirs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tawa import axon
from tawa.axon.gpu import library
from tawa.axon.gpu.compile import plan_for_device
from tawa.axon.gpu.graph.recompute import bytes_read

RATE, DECAY = 3e-4, 0.1
STD = 0.02
"""Of the initial weights."""


@dataclass(frozen=True)
class Size:
    """How large a model is, and its batches."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    batch: int


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
  (value, adamw rate decay state slopes weights)
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
    """Sentences in which each token is followed by one of eight."""
    random = torch.Generator().manual_seed(1)
    follows = torch.randint(size.vocabulary, (size.vocabulary, 8), generator=random)
    while True:
        tokens = [torch.randint(size.vocabulary, (size.batch,), generator=random)]
        for _ in range(size.context):
            choice = torch.randint(8, (size.batch,), generator=random)
            tokens.append(follows[tokens[-1], choice])
        whole = torch.stack(tokens, 1).to(device)
        yield whole[:, :-1].contiguous(), whole[:, 1:].contiguous()


Step = Callable[[Tensor, Tensor], Tensor]


def torch_step(model: GPT2, device: str, compiles: bool) -> Step:
    """A step of training in PyTorch."""
    on_gpu = device != "cpu"
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=on_gpu)
    run = torch.compile(model) if compiles else model

    def step(tokens: Tensor, following: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            value = run(tokens, following)
        value.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return value.detach()

    return step


def axon_step(size: Size, weights: Any, device: str) -> Step:
    """A step of training in Axon: on a GPU, or in the simulator."""
    module = axon.load(program(size))
    compiled = axon.compile(module["step"])

    def array(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(array(item) for item in value)
        return value.numpy() if device == "cpu" else value

    def zeros(value: Any) -> Any:
        return tuple(map(zeros, value)) if isinstance(value, tuple) else torch.zeros_like(value)

    count = torch.zeros((), dtype=torch.int64, device=device)
    now = [array(((count, zeros(weights), zeros(weights)), weights))]
    rate, decay = (array(torch.tensor(n, device=device)) for n in (RATE, DECAY))

    def step(tokens: Tensor, following: Tensor) -> Tensor:
        given = (rate, decay, now[0], array(tokens), array(following))
        value, now[0] = compiled(*given, h=size.heads)
        return torch.as_tensor(value)

    return step


def losses(step: Step, size: Size, steps: int, device: str) -> tuple[list[float], float, float]:
    """The loss of each step, seconds of the first step, and the others' median milliseconds."""
    found: list[Tensor] = []
    times: list[float] = []
    for number, (tokens, following) in enumerate(batches(size, device)):
        if number == steps:
            break
        wait(device)
        start = time.perf_counter()
        found.append(step(tokens, following))
        wait(device)
        times.append(time.perf_counter() - start)
    later = sorted(times[3:] or times)
    return [float(v) for v in found], times[0], 1000 * later[len(later) // 2]


def profile(step: Step, size: Size, device: str) -> list[tuple[str, int, float]]:
    """Name, launches and milliseconds of each kernel of a step, the longest first."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recording

    tokens, following = next(batches(size, device))
    with recording(activities=[ProfilerActivity.CUDA]) as record:
        step(tokens, following)
        wait(device)
    rows = [(e.key, e.count, e.self_device_time_total / 1000) for e in record.key_averages()]
    return sorted(rows, key=lambda row: -row[2])


def other_seeds(size: Size, count: int, steps: int, device: str) -> list[list[float]]:
    """Losses of PyTorch's model from other initial values, by seed."""
    found: list[list[float]] = []
    for seed in range(1, count + 1):
        torch.manual_seed(seed)
        step = torch_step(GPT2(size).to(device), device, compiles=False)
        found.append(losses(step, size, steps, device)[0])
        print(json.dumps({"seed": seed, "losses": found[-1]}), flush=True)
    return found


def beyond_band(losses: list[float], band: list[list[float]], width: int = 10) -> float:
    """How far means of `width` neighbouring losses leave the span of the band's; 0 within it."""

    def means(values: list[float]) -> np.ndarray:
        return np.convolve(values, np.ones(width) / width, "valid")

    found, spans = means(losses), np.stack([means(values) for values in band])
    return float(np.maximum(spans.min(0) - found, found - spans.max(0)).clip(0).max())


def print_profile(name: str, rows: list[tuple[str, int, float]]) -> None:
    """The kernels that take the most, and the sum of all."""
    launches, total = sum(row[1] for row in rows), sum(row[2] for row in rows)
    print(f"{name}: {launches} launches, {total:.2f} ms in kernels")
    for kernel, count, milliseconds in rows[:45]:
        print(f"  {milliseconds:8.3f} ms {count:5} x  {kernel[:100]}")


def plan_rows(plan: Any) -> list[tuple[str, int, float]]:
    """Kernel, launches, and bytes moved by all of them, the most first."""
    found: dict[str, tuple[int, float]] = {}
    for launch in plan.launches:
        call = launch.call
        moved = sum(bytes_read(call.group.members).values())
        moved += sum(node.bytes for node in call.group.outputs)
        kernel = library.kernel_of(call).fn.__name__
        name = f"{kernel} {call.group.space[0]} x {call.group.space[1]} {call.variant.name}"
        count, total = found.get(name, (0, 0.0))
        found[name] = count + 1, total + moved
    return sorted(((name, *row) for name, row in found.items()), key=lambda row: -row[2])


def print_plan(plan: Any) -> None:
    """What a step launches and moves."""
    rows = plan_rows(plan)
    total = sum(row[2] for row in rows) / 1e9
    print(f"plan: {len(plan.launches)} launches, {total:.2f} GB moved, "
          f"{plan.memory.size / 1e9:.2f} GB of intermediate results")  # fmt: skip
    for name, count, moved in rows:
        print(f"  {moved / 1e6:9.1f} MB {count:5} x  {name}")


def shaped(size: Size) -> tuple[Any, ...]:
    """Arguments of a step that take no memory until they are read."""

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    d = size.width
    norm = (zeros(d), zeros(d))
    attention = (zeros(d, 3 * d), zeros(3 * d), zeros(d, d), zeros(d))
    hidden = (zeros(d, 4 * d), zeros(4 * d), zeros(4 * d, d), zeros(d))
    blocks = tuple((norm, attention, norm, hidden) for _ in range(size.layers))
    weights = (zeros(size.vocabulary, d), zeros(size.context, d), blocks, norm)
    tokens = np.zeros((size.batch, size.context), np.int64)
    state = (np.zeros((), np.int64), weights, weights)
    return zeros(), zeros(), (state, weights), tokens, tokens


def wait(device: str) -> None:
    """Until the device is done."""
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    """Train both and print a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tiny model, in the simulator")
    parser.add_argument("--layers", type=int, help="fewer layers than 12")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--profile", action="store_true", help="a step's time by kernel")
    parser.add_argument("--plan", action="store_true", help="what a step launches and moves")
    parser.add_argument("--seeds", type=int, default=0, help="more models of PyTorch, for a band")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    chosen = SMALL if arguments.small else FULL
    size = Size(
        arguments.layers or chosen.layers, chosen.heads, chosen.width, chosen.context,
        chosen.vocabulary, arguments.batch or chosen.batch,
    )  # fmt: skip
    if arguments.plan:
        step = axon.compile(axon.load(program(size))["step"])
        print_plan(plan_for_device(step, shaped(size), {"h": size.heads}))
        return
    device = "cpu" if arguments.small else "cuda"
    torch.manual_seed(0)
    model = GPT2(size).to(device)
    weights = weights_of(model)
    row: dict[str, Any] = {"size": vars(size), "steps": arguments.steps}
    if device == "cuda":
        row["device"] = torch.cuda.get_device_name()
        torch.set_float32_matmul_precision("high")
    steps: dict[str, Callable[[], Step]] = {
        "axon": lambda: axon_step(size, weights, device),
        "torch": lambda: torch_step(model, device, device == "cuda"),
    }
    for name, make in steps.items():
        step = make()
        found, first, milliseconds = losses(step, size, arguments.steps, device)
        row[name] = {"losses": found, "first_s": round(first, 2), "ms": round(milliseconds, 2)}
        text = json.dumps({name: row[name]})
        print(text, flush=True)
        if arguments.profile:
            print_profile(name, profile(step, size, device))
        with arguments.out.open("a") if arguments.out else nullcontext() as out:
            if out is not None:
                out.write(text + "\n")
    one, other = row["axon"]["losses"], row["torch"]["losses"]
    row["largest_difference"] = max(abs(a - b) for a, b in zip(one, other, strict=True))
    row["ratio"] = round(row["torch"]["ms"] / row["axon"]["ms"], 3)
    if arguments.seeds:
        row["seeds"] = other_seeds(size, arguments.seeds, arguments.steps, device)
        row["beyond_band"] = beyond_band(one, row["seeds"])
        row["torch_beyond_band"] = beyond_band(other, row["seeds"])
    told = ("largest_difference", "ratio", "beyond_band", "torch_beyond_band")
    print(json.dumps({key: row[key] for key in told if key in row}), flush=True)
    if arguments.out:
        with arguments.out.open("a") as out:
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
