"""Axon's GPU path beside torch.compile: MLP, transformer block, LSTM step, three sizes each.

    python benchmarks/axon_gpu.py [--rows FOLDER] [--dry]

The programs are those of `examples/axon/`. Tawa compiles each program's kernels once; the other
sizes use them (the rows say how many compilations each size took). torch.compile compiles anew for
each size, which is its fastest mode. Both are timed as CUDA graphs (what the device does) and as
calls (with the host's part), in turn, and compared with float64. `--dry` compiles all kernels
without a device and prints each plan.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tawa import axon
from tawa.axon.gpu import library
from tawa.axon.gpu.compile import CompiledFunction, compile_for_device, plan_for_device
from tawa.axon.gpu.kernels import KernelCall

EXAMPLES = Path(__file__).parents[1] / "examples" / "axon"
MAX_ERROR = 5e-3
"""Relative Frobenius error against float64 that 16-bit results may have."""


@dataclass(frozen=True)
class Case:
    """One program at one size. `make` gives its arguments from a function that makes arrays."""

    name: str
    sizes: dict[str, int]
    flops: int
    make: Callable[[Callable[..., Any]], tuple[Any, ...]]
    statics: dict[str, int]


def cases() -> list[Case]:
    """All cases; the sizes of one program follow each other."""
    return [
        *(mlp(rows, d) for rows, d in ((256, 1024), (2048, 2048), (8192, 4096))),
        *(block(b, t, d) for b, t, d in ((1, 512, 1024), (2, 1024, 2048), (4, 2048, 2048))),
        *(lstm(b, d) for b, d in ((64, 512), (256, 1024), (1024, 2048))),
    ]


def mlp(rows: int, d: int) -> Case:
    """d -> 4d -> 4d -> d, with ReLU between."""
    widths = [(d, 4 * d), (4 * d, 4 * d), (4 * d, d)]

    def make(array: Callable[..., Any]) -> tuple[Any, ...]:
        layers = [(array(k, n, by=k**-0.5), array(n)) for k, n in widths]
        return (*layers, array(rows, d))

    flops = sum(2 * rows * k * n for k, n in widths)
    return Case("mlp", {"rows": rows, "d": d}, flops, make, {})


def block(b: int, t: int, d: int) -> Case:
    """A pre-norm decoder block: causal attention in heads of 128, gated MLP of width 4d."""

    def make(array: Callable[..., Any]) -> tuple[Any, ...]:
        attention = tuple(array(d, d, by=d**-0.5) for _ in range(4))
        inner = (array(d, 4 * d, by=d**-0.5), array(d, 4 * d, by=d**-0.5))
        gated = (*inner, array(4 * d, d, by=(4 * d) ** -0.5))
        return ((array(d), attention, array(d), gated), array(b, t, d))

    flops = 2 * b * t * d * d * (4 + 12) + 2 * b * t * t * d
    return Case("block", {"b": b, "t": t, "d": d}, flops, make, {"h": d // 128})


def lstm(b: int, d: int) -> Case:
    """One step for b sequences, input and state of width d."""

    def make(array: Callable[..., Any]) -> tuple[Any, ...]:
        weights = (array(d, 4 * d, by=d**-0.5), array(d, 4 * d, by=d**-0.5), array(4 * d))
        return (weights, (array(b, d), array(b, d)), array(b, d))

    return Case("lstm", {"b": b, "d": d}, 2 * b * 2 * d * 4 * d, make, {})


PROGRAMS = {"mlp": ("mlp.ax", "mlp"), "block": ("transformer.ax", "block"),
            "lstm": ("lstm.ax", "cell")}  # fmt: skip


def program(name: str) -> CompiledFunction:
    """The compiled function of a program."""
    file, definition = PROGRAMS[name]
    return axon.compile(axon.load(EXAMPLES / file)[definition])


def array(*shape: int, by: float = 1.0) -> Any:
    """An array that has nothing but a shape."""
    del by
    return np.broadcast_to(np.float16(0), shape)


def planned(case: Case) -> list[KernelCall]:
    """The kernels of a case."""
    plan = plan_for_device(program(case.name), case.make(array), case.statics)
    return [launch.call for launch in plan.launches]


def compile_one(job: tuple[int, int, int]) -> None:
    """Compile one variant of one kernel of a case, into the cache on disk."""
    case, kernel, variant = job
    call = planned(cases()[case])[kernel]
    library.compiled(call, call.variants[variant], {})


def compile_in_parallel() -> None:
    """Compile everything by as many processes as there are cores: measuring then waits for none."""
    first = {case.name: number for number, case in reversed(list(enumerate(cases())))}
    jobs = [
        (number, kernel, variant)
        for number in first.values()
        for kernel, call in enumerate(planned(cases()[number]))
        for variant in range(len(call.variants))
    ]
    start = time.perf_counter()
    with ProcessPoolExecutor() as pool:
        list(pool.map(compile_one, jobs))
    print(f"{len(jobs)} kernels compiled in {time.perf_counter() - start:.1f} s", flush=True)


def dry_run() -> None:
    """Compile every kernel of every case for the device, without one."""
    functions = {name: program(name) for name in PROGRAMS}
    for case in cases():
        before, start = axon.compilations(), time.perf_counter()
        plan = compile_for_device(functions[case.name], case.make(array), case.statics)
        made = axon.compilations() - before
        print(
            f"{case.name} {case.sizes}: {len(plan.launches)} launches, {made} kernels compiled, "
            f"{plan.memory.size / 2**20:.1f} MiB, {time.perf_counter() - start:.1f} s"
        )
        for launch in plan.launches:
            print(f"    {launch.call.group.kind} {launch.call.variant.name} {launch.call.grid}")


# On the device.


def reference_mlp(one: Any, two: Any, three: Any, x: Any) -> Any:
    """The MLP in PyTorch."""
    import torch

    x = torch.relu(x @ one[0] + one[1])
    x = torch.relu(x @ two[0] + two[1])
    return x @ three[0] + three[1]


def reference_block(weights: Any, x: Any, h: int) -> Any:
    """The block in PyTorch."""
    import torch.nn.functional as f

    n1, (wq, wk, wv, wo), n2, (gate, up, down) = weights
    b, t, d = x.shape

    def norm(x: Any, scale: Any) -> Any:
        return f.rms_norm(x, (d,), scale, 1e-5)

    y = norm(x, n1)
    q, k, v = ((y @ w).view(b, t, h, -1).transpose(1, 2) for w in (wq, wk, wv))
    o = f.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + o.transpose(1, 2).reshape(b, t, d) @ wo
    y = norm(x, n2)
    return x + (f.silu(y @ gate) * (y @ up)) @ down


def reference_lstm(weights: Any, state: Any, x: Any) -> Any:
    """The LSTM step in PyTorch."""
    import torch

    wx, wh, b = weights
    h, c = state
    i, f, g, o = (x @ wx + b + h @ wh).chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(c)
    return (h, c), h


REFERENCES = {"mlp": reference_mlp, "block": reference_block, "lstm": reference_lstm}


def flat(value: Any) -> list[Any]:
    """All arrays of nested tuples."""
    return [x for item in value for x in flat(item)] if isinstance(value, tuple) else [value]


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """Nested tuples with a function on each array."""
    if isinstance(value, tuple):
        return tuple(mapped(item, function) for item in value)
    return function(value)


def error_of(found: Any, exact: Any) -> float:
    """The largest relative Frobenius error of all results; inf for NaN."""
    errors = [
        ((a.double() - b).norm() / b.norm()).item()
        for a, b in zip(flat(found), flat(exact), strict=True)
    ]
    return max(e if e == e else float("inf") for e in errors)


def graph_of(work: Callable[[], Any]) -> Callable[[], Any]:
    """Work as a CUDA graph."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = work()

    def replay(held: Any = held) -> Any:
        graph.replay()
        return held

    return replay


def measure(run: Any, case: Case, function: CompiledFunction, options: Any) -> None:
    """One case: check both, time them as graphs and as calls, write rows and print a line."""
    import torch

    from tawa.runtime.timing import interleaved

    def normal(*shape: int, by: float = 1.0) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float16) * by

    arguments = case.make(normal)
    reference, statics = REFERENCES[case.name], case.statics
    before, start = axon.compilations(), time.perf_counter()
    found = function(*arguments, **statics)
    torch.cuda.synchronize()
    seconds = {"tawa": time.perf_counter() - start}
    compiled = axon.compilations() - before
    exact = reference(*mapped(arguments, lambda x: x.double()), **statics)
    errors = {"tawa": error_of(found, exact)}
    works: dict[str, Callable[[], Any]] = {"tawa": lambda: function(*arguments, **statics)}
    start = time.perf_counter()
    torch._dynamo.reset()
    peer = torch.compile(reference, dynamic=False)
    try:
        errors["torch.compile"] = error_of(peer(*arguments, **statics), exact)
        works["torch.compile"] = lambda: peer(*arguments, **statics)
    except Exception as error:
        run.add(case_of(case), "torch.compile", None, error_text=f"{error}"[:300])
        errors["torch"] = error_of(reference(*arguments, **statics), exact)
        works["torch"] = lambda: reference(*arguments, **statics)
    torch.cuda.synchronize()
    seconds["torch.compile"] = time.perf_counter() - start
    del exact
    if not errors["tawa"] < MAX_ERROR:
        run.add(case_of(case), "tawa", None, error_text=f"error {errors['tawa']:.3g}: not timed")
        print(f"{case.name} {case.sizes}: WRONG, error {errors['tawa']:.3g}", flush=True)
        return
    timed = {f"{name} graph": graph_of(work) for name, work in works.items()}
    timed |= {f"{name} call": work for name, work in works.items()}
    again = error_of(timed["tawa graph"](), found)
    times = interleaved(timed, rounds=4, soak=options.soak, window=options.window)
    for name, timing in times.items():
        impl, _, mode = name.rpartition(" ")
        error = {"relative_frobenius": errors[impl], "reference": "float64"}
        run.add(case_of(case), impl, timing, config=mode, flops=case.flops, error=error,
                compilations=compiled if impl == "tawa" else None,
                compile_seconds=round(seconds.get(impl, 0), 2))  # fmt: skip
    report(case, times, errors, compiled, again)


def case_of(case: Case) -> dict[str, Any]:
    """The case as rows name it."""
    return {"program": case.name, "dtype": "fp16", **case.sizes}


def report(case: Case, times: Any, errors: Any, compiled: int, again: float) -> None:
    """A line: times in microseconds, ratios to the peer, errors."""
    peer = next(name for name in errors if name != "tawa")
    shown = {name: round(t.median * 1e3, 1) for name, t in times.items()}
    graph, call = (
        times[f"{peer} {mode}"].median / times[f"tawa {mode}"].median for mode in ("graph", "call")
    )
    rate = case.flops / times["tawa graph"].median / 1e9
    print(
        f"{case.name} {case.sizes}: us {shown} | {graph:.3f}x as graphs, {call:.3f}x as calls | "
        f"{rate:.0f} TFLOP/s | errors {errors['tawa']:.1e} {errors[peer]:.1e} | "
        f"{compiled} compiled | replay differs by {again:.1e}",
        flush=True,
    )


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--dry", action="store_true", help="only compile, without a device")
    parser.add_argument("--only", default="", help="comma-separated programs")
    parser.add_argument("--soak", type=float, default=0.08)
    parser.add_argument("--window", type=float, default=0.08)
    options = parser.parse_args()
    if options.dry:
        dry_run()
        return
    compile_in_parallel()
    import torch
    from rows import Run

    torch.manual_seed(0)
    run = Run("axon-gpu", options.rows)
    functions = {name: program(name) for name in PROGRAMS}
    for case in cases():
        if case.name in (options.only or case.name).split(","):
            try:
                measure(run, case, functions[case.name], options)
            except Exception as error:
                run.add(case_of(case), "tawa", None, error_text=f"{error}"[:300])
                print(f"{case.name} {case.sizes}: FAILED {type(error).__name__}: {error}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
