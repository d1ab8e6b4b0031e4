"""Kernels that fuse products with other work, against Triton and against torch's operators.

The Tawa kernels are those of `examples/`: sequential, with nothing in them about warps or stages.
Triton is there twice: in the form and with the configurations of its tutorials
(`fused_tutorial.py`), and with tensor descriptors and configurations tuned by hand
(`fused_triton.py`). All configurations are compiled first, in processes. Each is checked against
float64 and timed briefly; the best two of each contender, the composition of torch's operators
(cuBLAS and elementwise kernels) and a bound then take turns: soak, measure, forward and backward.
The bound is `tawa.kernels.gemm` on a plain product of as many operations (the best of the four
tiles that it expects most of), or a copy of as many bytes: what this device gives to any kernel of
that work. `--dry-run` only compiles Tawa's configurations, without a device.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fused_cases import Case, Work, cases
from fused_compile import compile_all, dry_run

PEERS = {"tutorial": "fused_tutorial", "triton": "fused_triton"}
"""Modules of Triton's kernels by the name of the contender."""

MAX_ERROR = 2e-3
"""Relative Frobenius error against float64 above which a contender is not timed."""

FINALISTS = 2
"""Configurations of each contender that are measured at length."""

BRIEF = 3, 8
"""Executions of each configuration that warm up, and that choose the finalists by their median."""


def torch_works(name: str) -> Callable[..., Any]:
    """The composition of torch's operators; takes the inputs and then the outputs."""
    import torch
    import torch.nn.functional as F

    def dual_gemm(a: Any, b1: Any, b2: Any, c: Any) -> Any:
        return torch.mul(F.silu(F.linear(a, b1)), F.linear(a, b2), out=c)

    def gemm_reduction(a: Any, b: Any, c: Any, sums: Any) -> Any:
        torch.mm(a, b.T, out=c)
        return torch.sum(a, 1, dtype=torch.float32, out=sums)

    def gemm_layernorm(x: Any, w: Any, bias: Any, weight: Any, shift: Any, y: Any) -> Any:
        half = [v.half() for v in (bias, weight, shift)]
        return y.copy_(F.layer_norm(F.linear(x, w, half[0]), (w.shape[0],), *half[1:]))

    def linear_attention(q: Any, k: Any, v: Any, o: Any, chunk: int = 128) -> Any:
        heads, rows, d = q.shape
        q, k, v = (x.view(heads, rows // chunk, chunk, d) for x in (q, k, v))
        states = torch.matmul(k.transpose(2, 3), v).float()
        states = torch.cumsum(states, 1) - states
        scores = torch.matmul(q, k.transpose(2, 3)).tril_()
        found = torch.matmul(scores, v) + torch.matmul(q, states.half())
        return o.copy_(found.view(heads, rows, d))

    def fused_mlp(x: Any, w1: Any, w2: Any, y: Any) -> Any:
        return torch.mm(F.gelu(F.linear(x, w1), approximate="tanh"), w2.T, out=y)

    return locals()[name]


def exact_results(name: str, arrays: dict[str, Any]) -> list[Any]:
    """The outputs in float64, from inputs in float64."""
    import torch
    import torch.nn.functional as F

    x = list(arrays.values())
    if name == "dual_gemm":
        return [F.silu(x[0] @ x[1].T) * (x[0] @ x[2].T)]
    if name == "gemm_reduction":
        return [x[0] @ x[1].T, x[0].sum(1)]
    if name == "gemm_layernorm":
        return [F.layer_norm(x[0] @ x[1].T + x[2], (x[1].shape[0],), x[3], x[4])]
    if name == "linear_attention":
        return [torch.tril(x[0] @ x[1].transpose(1, 2)) @ x[2]]
    return [F.gelu(x[0] @ x[1].T, approximate="tanh") @ x[2].T]


@dataclass
class Problem:
    """A case's tensors on the device and its exact results."""

    case: Case
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    exact: list[Any]

    @staticmethod
    def make(case: Case) -> Problem:
        """Random normal inputs, outputs of NaN."""
        import torch

        def random(name: str, shape: tuple[int, ...]) -> Any:
            dtype = torch.float32 if len(shape) == 1 else torch.float16
            return (torch.randn(shape, device="cuda") * case.scale.get(name, 1.0)).to(dtype)

        inputs = {name: random(name, shape) for name, shape in case.inputs.items()}
        outputs = {name: random(name, shape) for name, shape in case.outputs.items()}
        part = {name: x[: case.checked].double() for name, x in inputs.items()}
        return Problem(case, inputs, outputs, exact_results(case.name, part))

    @property
    def arrays(self) -> dict[str, Any]:
        """Inputs, then outputs."""
        return {**self.inputs, **self.outputs}

    def error(self, work: Work) -> float:
        """The largest relative Frobenius error of the outputs; infinite for NaN."""
        for output in self.outputs.values():
            output.fill_(float("nan"))
        work()
        worst = 0.0
        for output, exact in zip(self.outputs.values(), self.exact, strict=True):
            found = output[: self.case.checked].double()
            error = ((found - exact).norm() / exact.norm()).item()
            complete = bool(output.isfinite().all()) and error == error
            worst = max(worst, error if complete else float("inf"))
        return worst


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--cases", default="", help="comma-separated names")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.15)
    parser.add_argument("--dry-run", action="store_true", help="compile, on no device")
    options = parser.parse_args()
    chosen = [c for c in cases() if c.name in (options.cases or c.name).split(",")]
    if options.dry_run:
        sys.exit(sum(dry_run(case) for case in chosen))
    import torch
    from rows import Run, seconds_since

    start = time.perf_counter()
    compile_all(chosen, *PEERS.values())
    print(f"compiled: {seconds_since(start)}", flush=True)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    run, lines = Run("fused", options.rows), list[str]()
    for case in chosen:
        start = time.perf_counter()
        lines.append(measure(run, Problem.make(case), options))
        print(f"{lines[-1]}  ({seconds_since(start)})", flush=True)
        torch.cuda.empty_cache()
    print("\n".join(["", *lines]))


def bound(case: Case) -> tuple[str, Work]:
    """What bounds the case on this device, and the work that measures it."""
    import torch

    from tawa.kernels.gemm import Product, configurations, matmul
    from tawa.runtime.timing import Stopwatch, Timing

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    if case.product is None:
        source = random(case.bytes // 4)
        return f"a copy of {case.bytes} bytes", partial(torch.empty_like(source).copy_, source)
    m, n, k = case.product
    a, b = random(m, k), random(n, k).T
    c, watch = torch.empty((m, n), device="cuda", dtype=torch.float16), Stopwatch()
    likely = sorted(configurations(), key=lambda found: found.microseconds(Product(m, n, k)))
    works = [partial(matmul, a, b, c, config) for config in likely[:4]]
    for work in works:
        watch.times_for(work, 0.02)
    times = [Timing(tuple(watch.times_for(work, 0.03))).median for work in works]
    return f"a product of {m}x{n}x{k}", works[times.index(min(times))]


def contenders(problem: Problem) -> dict[str, Iterator[tuple[str, Work]]]:
    """The configurations of each implementation."""
    case, arrays = problem.case, list(problem.arrays.values())
    return {
        "tawa": case.launches(problem.arrays),
        **{
            name: getattr(importlib.import_module(module), f"{case.name}_works")(*arrays)
            for name, module in PEERS.items()
        },
        "torch": iter([("composition", partial(torch_works(case.name), *arrays))]),
    }


def measure(run: Any, problem: Problem, options: argparse.Namespace) -> str:
    """Time one case's best configurations in turn; returns a line with the ratios."""
    from tawa.runtime.timing import interleaved

    case = problem.case
    works: dict[str, Work] = {}
    chosen: dict[str, dict[str, Any]] = {}
    for impl, candidates in contenders(problem).items():
        for place, (work, more) in enumerate(best_of(run, problem, impl, candidates)):
            works[f"{impl} {place}"], chosen[f"{impl} {place}"] = work, more
    text, works["bound"] = bound(case)
    chosen["bound"] = {"config": text}
    with run.sampler.sampling():
        times = interleaved(
            works, soak=options.soak, window=options.window, on_turn=run.sampler.turn
        )
    fastest: dict[str, float] = {}
    for name, timing in times.items():
        impl = name.split()[0]
        more = {**chosen[name], **run.sampler.readings(name)}
        run.add(describe(case), impl, timing, flops=case.flops, bytes=case.bytes, **more)
        fastest[impl] = min(timing.median, fastest.get(impl, timing.median))
    return summary(case, fastest)


def describe(case: Case) -> dict[str, Any]:
    """The case, completely."""
    return {"kernel": case.name, "dtype": "fp16", **case.sizes}


def summary(case: Case, fastest: dict[str, float]) -> str:
    """One line: each contender's rate, and how many times faster Tawa is."""
    parts = [f"{case.name:18} {' '.join(map(str, case.sizes.values())):18}"]
    for impl, ms in fastest.items():
        rate, bandwidth = case.flops / ms / 1e9, case.bytes / ms / 1e6
        parts.append(f"{impl} {ms:.3f} ms {rate:.0f} TFLOP/s {bandwidth:.0f} GB/s")
    for peer in (*PEERS, "torch"):
        if peer in fastest and "tawa" in fastest:
            most = f" (at most {fastest[peer] / fastest['bound']:.2f})"
            parts.append(f"{fastest[peer] / fastest['tawa']:.3f}x {peer}{most}")
    return "  ".join(parts)


def best_of(
    run: Any, problem: Problem, impl: str, candidates: Iterator[tuple[str, Work]]
) -> list[tuple[Work, dict[str, Any]]]:
    """The fastest correct candidates, by short runs; each that fails gets a row that says why."""
    from gemm import HANG_SECONDS, describe_failure, watchdog

    from tawa.runtime.timing import Stopwatch, Timing

    correct: list[tuple[float, Work, dict[str, Any]]] = []
    watch, case = Stopwatch(), problem.case
    for config, work in candidates:
        print(f"  {impl:8} {config:70}", end="", flush=True)
        watchdog(HANG_SECONDS)
        start = time.perf_counter()
        try:
            error = problem.error(work)
        except Exception as failure:  # a peer's compiler may raise anything
            text = describe_failure(failure)
            run.add(describe(case), impl, None, config=config, error_text=text)
            continue
        seconds = time.perf_counter() - start
        if not error < MAX_ERROR:
            text = f"wrong result: not timed ({error:.1e})"
            print(f" {text}", flush=True)
            run.add(describe(case), impl, None, config=config, error_text=text)
            continue
        watch.times(work, BRIEF[0])
        median = Timing(tuple(watch.times(work, BRIEF[1]))).median
        rate = case.flops / median / 1e9
        print(f" {median:8.3f} ms {rate:5.0f} TFLOP/s  {error:.1e}  {seconds:.1f} s", flush=True)
        more = {"relative_frobenius": error, "reference": "float64"}
        correct.append((median, work, {"config": config, "error": more}))
    watchdog(None)
    correct.sort(key=lambda candidate: candidate[0])
    return [candidate[1:] for candidate in correct[:FINALISTS]]


if __name__ == "__main__":
    main()
