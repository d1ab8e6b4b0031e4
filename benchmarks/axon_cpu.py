"""Processor time of Axon programs on the CPU, beside PyTorch's on the same numbers.

    python benchmarks/axon_cpu.py

An MLP, a transformer block, a residual network and an LSTM, as they are in `examples/axon`,
compiled with `axon.compile(..., device="cpu")`, the weights bound; the same with PyTorch's layers,
in `inference_mode`. The time is the process's, of all its threads, and the least of several rounds
that take turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tawa import axon
from tawa.axon.cpu.compile import CpuFunction

EXAMPLES = Path(__file__).parents[1] / "examples" / "axon"


def numbers(*shapes: tuple[int, ...], scale: float = 0.05) -> list[np.ndarray]:
    """Random arrays."""
    random = np.random.default_rng(3)
    return [(scale * random.normal(size=shape)).astype(np.float32) for shape in shapes]


def compiled(file: str, name: str, threads: int) -> CpuFunction:
    """A function of an example on the CPU."""
    return axon.compile(axon.load(EXAMPLES / file)[name], device="cpu", threads=threads)


def mlp(threads: int) -> Any:
    """Three layers of 1024, 256 rows."""
    w1, w2, w3, x = numbers((784, 1024), (1024, 1024), (1024, 10), (256, 784))
    b1, b2, b3 = numbers((1024,), (1024,), (10,))
    fast = compiled("mlp.ax", "mlp", threads)
    t = [torch.from_numpy(a) for a in (w1, b1, w2, b2, w3, b3, x)]
    layers = [(t[0].T.contiguous(), t[1]), (t[2].T.contiguous(), t[3]), (t[4].T.contiguous(), t[5])]

    def theirs() -> Any:
        y = t[6]
        for w, b in layers[:2]:
            y = functional.linear(y, w, b).relu()
        return functional.linear(y, *layers[2])

    fast = fast.bind((w1, b1), (w2, b2), (w3, b3))
    return lambda: fast(x), theirs


def block(threads: int) -> Any:
    """A GPT-2 block: 768 wide, 12 heads, 2 sequences of 128."""
    d = 768
    g1, o1, g2, o2 = (a + 1 for a in numbers((d,), (d,), (d,), (d,)))
    wqkv, wo, w1, w2, x = numbers((d, 3 * d), (d, d), (d, 4 * d), (4 * d, d), (2, 128, d))
    bqkv, bo, b1, b2 = numbers((3 * d,), (d,), (4 * d,), (d,))
    fast = compiled("gpt2.ax", "block", threads)
    weights = ((g1, o1), (wqkv, bqkv, wo, bo), (g2, o2), (w1, b1, w2, b2))
    names = ("g1 o1 wqkv bqkv wo bo g2 o2 w1 b1 w2 b2 x").split()
    t = {name: torch.from_numpy(value) for name, value in zip(names, (
        g1, o1, wqkv, bqkv, wo, bo, g2, o2, w1, b1, w2, b2, x), strict=True)}  # fmt: skip
    for name in ("wqkv", "wo", "w1", "w2"):
        t[name] = t[name].T.contiguous()

    def theirs() -> Any:
        y = functional.layer_norm(t["x"], (d,), t["g1"], t["o1"])
        q, k, v = functional.linear(y, t["wqkv"], t["bqkv"]).chunk(3, -1)
        q, k, v = (z.view(2, 128, 12, 64).transpose(1, 2) for z in (q, k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = t["x"] + functional.linear(
            mixed.transpose(1, 2).reshape(2, 128, d), t["wo"], t["bo"])  # fmt: skip
        y = functional.layer_norm(x, (d,), t["g2"], t["o2"])
        y = functional.gelu(functional.linear(y, t["w1"], t["b1"]))
        return x + functional.linear(y, t["w2"], t["b2"])

    fast = fast.bind(weights)
    return lambda: fast(x, h=12), theirs


def resnet(threads: int) -> Any:
    """Three residual blocks of 64 channels on 4 images of 56 x 56."""
    c = 64
    stem, w, x = numbers((c, 3, 3, 3), (c, c, 3, 3), (4, 3, 56, 56))
    head, bias = numbers((c, 100), (100,))
    scale, offset, mean, variance = (np.abs(a) + 1 for a in numbers(*[(c,)] * 4))
    part = (w, scale, offset, mean, variance)
    fast = compiled("resnet.ax", "resnet", threads)
    t = [torch.from_numpy(a) for a in (stem, w, scale, offset, mean, variance, head, bias, x)]

    def norm(y: Any) -> Any:
        z = functional.conv2d(y, t[1], padding=1)
        return functional.batch_norm(z, t[4], t[5], t[2], t[3])

    def theirs() -> Any:
        y = functional.conv2d(t[8], t[0], padding=1).relu()
        for _ in range(3):
            y = (y + norm(norm(y).relu())).relu()
        return y.mean((2, 3)) @ t[6] + t[7]

    fast = fast.bind(stem, part, part, part, (head, bias))
    return lambda: fast(x), theirs


def lstm(threads: int) -> Any:
    """64 steps of 256 units, 32 sequences."""
    n, i, b, steps = 256, 128, 32, 64
    wx, wh, bias, xs = numbers((i, 4 * n), (n, 4 * n), (4 * n,), (steps, b, i))
    state = (np.zeros((b, n), np.float32), np.zeros((b, n), np.float32))
    fast = compiled("lstm.ax", "lstm", threads)
    layer = torch.nn.LSTM(i, n)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.from_numpy(wx.T))
        layer.weight_hh_l0.copy_(torch.from_numpy(wh.T))
        layer.bias_ih_l0.copy_(torch.from_numpy(bias))
        layer.bias_hh_l0.zero_()
    rows = torch.from_numpy(xs)

    fast = fast.bind((wx, wh, bias), state)
    return lambda: fast(xs)[1], lambda: layer(rows)[0]


PROGRAMS: dict[str, Callable[[int], Any]] = {
    "mlp": mlp, "block": block, "resnet": resnet, "lstm": lstm,
}  # fmt: skip


def spent(run: Callable[[], Any], times: int) -> float:
    """Processor seconds of one run, as the mean of several."""
    start = time.process_time()
    for _ in range(times):
        run()
    return (time.process_time() - start) / times


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.programs:
        mine, theirs = PROGRAMS[name](arguments.threads)
        with torch.inference_mode():
            difference = np.abs(np.asarray(mine()) - theirs().numpy()).max()
            rounds = [(spent(mine, 5), spent(theirs, 5)) for _ in range(arguments.rounds)]
        one, other = (min(column) for column in zip(*rounds, strict=True))
        print(f"{name}: {one * 1e3:.2f} ms, PyTorch {other * 1e3:.2f} ms, ratio {one / other:.2f}, "
              f"largest difference {difference:.1e}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
