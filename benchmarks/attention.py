"""Attention forward beside cuDNN, FlashAttention-3 and Triton: bf16 and fp8, 16384 tokens.

    python benchmarks/attention.py [--rows FOLDER] [--lengths 512,1024] [--types fp8] [--ablation]

Tawa's kernel is the sequential loop of `tawa.kernels.attention` as the library launches it. cuDNN
is reached through PyTorch's `scaled_dot_product_attention` with its backend forced,
FlashAttention-3 through the package `fa3-fwd`, Triton's is the tutorial's form at the best of six
configurations. Tensors are [batch, rows, heads, D] for all but Triton. Contenders take turns: soak,
measure, forward and backward.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rows import Run
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from tawa.kernels.attention import Configuration, attention
from tawa.runtime.timing import Stopwatch, interleaved

TOKENS, WIDTH = 16384, 2048
MAX_ERROR = {"bf16": 5e-3, "fp8": 8e-2}
ABLATION: dict[str, dict[str, Any]] = {
    "no overlap": {"overlap": False},
    "two iterations' products in a turn": {},
    "and consumers taking turns": {"alternate": True},
    "and joined across tiles": {"persistent": True},
    "and both": {"alternate": True, "persistent": True},
}
"""Options of the library's kernel, with parts of the compiler's work left out."""

ABLATED = {128: (128, 128, {}), 64: (192, 128, {"consumers": 3})}
"""Its tile and other options, by head dimension."""


@dataclass(frozen=True)
class Case:
    """A shape: [TOKENS / rows, rows, WIDTH / d, d]."""

    d: int
    rows: int
    causal: bool
    dtype: str = "bf16"

    @property
    def flops(self) -> int:
        """Floating-point operations of both products; half of them if causal."""
        return 4 * TOKENS * WIDTH * self.rows // (2 if self.causal else 1)

    @property
    def row(self) -> dict[str, Any]:
        """What the result rows say of it."""
        heads = TOKENS // self.rows * (WIDTH // self.d)
        return {"dtype": self.dtype, "d": self.d, "rows": self.rows, "heads": heads,
                "causal": self.causal}  # fmt: skip


class Inputs:
    """Random operands of a case, an output, and the exact result of the first head."""

    def __init__(self, case: Case) -> None:
        shape = (TOKENS // case.rows, case.rows, WIDTH // case.d, case.d)
        plain = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
        if case.dtype == "fp8":
            plain = [x.to(torch.float8_e4m3fn) for x in plain]
        self.q, self.k, self.v = plain
        self.turned = [x.transpose(1, 2) for x in plain]
        self.out = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
        q, k, v = (x[0, 0].double() for x in self.turned)
        scores = q @ k.T * case.d**-0.5
        if case.causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), -torch.inf)
        self.exact = torch.softmax(scores, -1) @ v

    def error(self, first_head: torch.Tensor) -> float:
        """Relative Frobenius error of the first head."""
        error = ((first_head.double() - self.exact).norm() / self.exact.norm()).item()
        return error if error == error else math.inf


Contender = tuple[str, Callable[[], Any], float]
"""Configuration, work, and the error of what it computes."""


def tawa(case: Case, data: Inputs, using: Configuration | None = None) -> Contender:
    """The library's attention."""
    out = data.out.transpose(1, 2)

    def work() -> Any:
        return attention(*data.turned, out, causal=case.causal, using=using)

    out.fill_(math.nan)
    work()
    whole = math.inf if bool(out.isnan().any()) else data.error(out[0, 0])
    return (f"{using.block_m}x{using.block_n} {using.options}" if using else "", work, whole)


def cudnn(case: Case, data: Inputs) -> Contender | None:
    """cuDNN through PyTorch."""
    if case.dtype == "fp8":
        return None

    def work() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(*data.turned, is_causal=case.causal)

    return "", work, data.error(work()[0, 0])


def fa3(case: Case, data: Inputs) -> Contender | None:
    """FlashAttention-3, if its package is here."""
    try:
        from fa3_fwd_interface import flash_attn_func
    except ImportError:
        return None

    def work() -> Any:
        return flash_attn_func(data.q, data.k, data.v, causal=case.causal)

    found = work()
    found = found[0] if isinstance(found, tuple) else found
    return "", work, data.error(found[0, :, 0])


def triton(case: Case, data: Inputs) -> Contender | None:
    """The fastest of Triton's configurations."""
    if case.dtype == "fp8":
        return None
    from attention_triton import contenders

    heads = [x.reshape(-1, case.rows, case.d) for x in map(torch.Tensor.contiguous, data.turned)]
    out = torch.empty_like(heads[0])
    best: Contender | None = None
    least = math.inf
    for name, work in contenders(*heads, out, causal=case.causal):
        try:
            seconds = min(Stopwatch().times_for(work, 0.01))
        except Exception as error:
            print(f"triton {name}: {type(error).__name__}", flush=True)
            continue
        if seconds < least:
            least, best = seconds, (name, work, data.error(out[0]))
    return best


def measure(run: Run, case: Case, works: dict[str, Contender], options: Any) -> dict[str, float]:
    """Time the contenders whose results are right; write rows; medians in milliseconds."""
    right = {n: w for n, (_, w, error) in works.items() if error < MAX_ERROR[case.dtype]}
    for name in works.keys() - right.keys():
        print(f"{name}: wrong result, not timed: {works[name][2]}", flush=True)
        run.add(case.row, name, None, config=works[name][0], error_text="wrong result: not timed")
    with run.sampler.sampling():
        times = interleaved(
            right, rounds=2, soak=options.soak, window=options.window, on_turn=run.sampler.turn
        )
    for name, timing in times.items():
        config, _, error = works[name]
        run.add(
            case.row, name, timing, config=config, flops=case.flops,
            error={"relative_frobenius": error, "reference": "float64, the first head"},
            **run.sampler.readings(name),
        )  # fmt: skip
    return {name: timing.median for name, timing in times.items()}


def compare(run: Run, case: Case, options: Any) -> float | None:
    """One case against all peers; the ratio to the best of cuDNN and FlashAttention-3."""
    data = Inputs(case)
    found = {"tawa": tawa(case, data), "cudnn": cudnn(case, data), "fa3": fa3(case, data)}
    if not options.no_triton:
        found["triton"] = triton(case, data)
    times = measure(run, case, {n: c for n, c in found.items() if c is not None}, options)
    rates = {n: round(case.flops / t / 1e9) for n, t in times.items()}
    best = min((times[n] for n in ("cudnn", "fa3") if n in times), default=math.nan)
    ratio = best / times["tawa"] if "tawa" in times else math.nan
    mask = "causal" if case.causal else "full"
    beside = times["triton"] / times["tawa"] if {"triton", "tawa"} <= times.keys() else math.nan
    print(f"{case.dtype} d {case.d:3} rows {case.rows:5} {mask:6} {rates} "
          f"{ratio:.3f}x the best peer, {beside:.2f}x Triton", flush=True)  # fmt: skip
    return ratio


def ablation(run: Run, options: Any) -> None:
    """What parts of the compiler's work are worth."""
    for d, (block_m, block_n, plain) in ABLATED.items():
        steps = {n: Configuration(block_m, block_n, plain | more) for n, more in ABLATION.items()}
        for rows in (1024, 4096):
            case = Case(d, rows, False)
            data = Inputs(case)
            works = {name: tawa(case, data, using) for name, using in steps.items()}
            times = measure(run, case, works, options)
            print(d, {n: round(case.flops / t / 1e9) for n, t in times.items()}, flush=True)


def compile_step(step: tuple[int, str]) -> None:
    """Compile a step of the ablation into the cache, in a process that touches no device."""
    from prediction import attention_launch

    d, name = step
    block_m, block_n, plain = ABLATED[d]
    case = Case(d, 4096, False).row
    attention_launch(case, f"tawa {block_m}x{block_n} {plain | ABLATION[name]}")


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192,16384")
    parser.add_argument("--dims", default="64,128,256")
    parser.add_argument("--types", default="bf16,fp8", help="bf16, fp8 (e4m3) or both")
    parser.add_argument("--no-triton", action="store_true")
    parser.add_argument("--ablation", action="store_true", help="only the ablation")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.12)
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.ablation:
        with ProcessPoolExecutor() as pool:
            list(pool.map(compile_step, [(d, name) for d in ABLATED for name in ABLATION]))
        ablation(Run("attention-ablation", options.rows), options)
        return
    run = Run("attention", options.rows)
    lengths = [int(n) for n in options.lengths.split(",")]
    narrow = [n for n in (1024, 4096, 16384) if n in lengths]
    for dtype in options.types.split(","):
        ratios: list[float] = []
        for d in map(int, options.dims.split(",")):
            for causal in (False, True):
                for rows in narrow if dtype == "fp8" else lengths:
                    ratio = compare(run, Case(d, rows, causal, dtype), options)
                    ratios += [ratio] if ratio is not None and ratio == ratio else []
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            least = f"least {min(ratios):.3f}"
            print(f"{dtype}, {len(ratios)} shapes: geometric mean {mean:.3f}, {least}")


if __name__ == "__main__":
    main()
