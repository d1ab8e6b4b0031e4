"""Attention forward against cuDNN: fp16, 16384 tokens, [1 or more heads][rows][D], not causal.

Tawa's kernel is the sequential loop of `tawa.kernels.attention`; cuDNN is reached through PyTorch's
`scaled_dot_product_attention`. Contenders take turns: soak, measure, forward and backward.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from rows import Run
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tawa.kernels.attention import Configuration, attention
from tawa.runtime.timing import interleaved

TOKENS = 16384
CONFIGURATIONS = {
    64: (Configuration(192, 128, {"consumers": 3}), Configuration(128, 128)),
    128: (Configuration(128, 128, {"persistent": True}), Configuration(128, 128)),
    256: (Configuration(128, 64),),
}
MAX_ERROR = 1e-3


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--lengths", default="1024,2048,4096,8192,16384")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.2)
    options = parser.parse_args()
    torch.manual_seed(0)
    run = Run("attention", options.rows)
    for d, causal in ((128, False), (64, False), (256, False), (128, True)):
        for rows in map(int, options.lengths.split(",")):
            measure(run, d, rows, causal, options)


def error_of(out: torch.Tensor, inputs: tuple[torch.Tensor, ...], causal: bool) -> float:
    """Relative Frobenius error of the first heads against float64."""
    heads = slice(0, 2 if inputs[0].shape[1] <= 8192 else 1)
    q, k, v = (x[heads].double() for x in inputs)
    scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    if causal:
        scores.masked_fill_(torch.ones_like(scores[0], dtype=torch.bool).triu_(1), -torch.inf)
    exact = torch.softmax(scores, -1) @ v
    error = ((out[heads].double() - exact).norm() / exact.norm()).item()
    return error if error == error else float("inf")


def measure(run: Run, d: int, rows: int, causal: bool, options: argparse.Namespace) -> None:
    """One case: check every contender, time them in turn, write rows and print a line."""
    batch, heads = TOKENS // rows, 2048 // d
    shape = (batch * heads, rows, d)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3))
    four = [x.view(batch, heads, rows, d) for x in (q, k, v)]
    case = {"dtype": "fp16", "d": d, "rows": rows, "heads": shape[0], "causal": causal}
    works: dict[str, Any] = {}
    errors: dict[str, float] = {}

    def cudnn() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(*four, is_causal=causal)

    works["cudnn"], errors["cudnn"] = cudnn, error_of(cudnn().view(shape), (q, k, v), causal)
    out = torch.empty_like(q)
    for using in CONFIGURATIONS[d]:
        name = f"tawa {using.block_m}x{using.block_n} {using.options}"

        def tawa(using: Configuration = using) -> Any:
            return attention(q, k, v, out, causal=causal, using=using)

        out.fill_(float("nan"))
        tawa()
        errors[name] = error_of(out, (q, k, v), causal)
        if errors[name] < MAX_ERROR and not out.isnan().any():
            works[name] = tawa
        else:
            run.add(case, "tawa", None, config=name, error_text="wrong result: not timed")
    with run.sampler.sampling():
        times = interleaved(
            works,
            rounds=2,
            soak=options.soak,
            window=options.window,
            on_turn=run.sampler.turn,
        )
    flops = 4 * shape[0] * rows * rows * d // (2 if causal else 1)
    for name, timing in times.items():
        error = {"relative_frobenius": errors[name], "reference": "float64"}
        readings = run.sampler.readings(name)
        run.add(case, name.split()[0], timing, config=name, flops=flops, error=error, **readings)
    best = min(t.median for name, t in times.items() if name.startswith("tawa"))
    rate = {n: round(flops / t.median / 1e9) for n, t in times.items()}
    ratio = times["cudnn"].median / best
    print(f"d {d} rows {rows} causal {causal}: {rate} {ratio:.3f}x cudnn", flush=True)


if __name__ == "__main__":
    main()
