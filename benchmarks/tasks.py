"""Programs of tasks under mappings, beside cuBLAS, this project's own tile kernels and a bound.

Products of 4096, 6144 and 8192; a batch of four; a dual product; a product with row sums;
attention. The program of a case stays the same: contenders of `tawa` differ in their mappings
alone. Each is checked against float64 on some of its rows and timed briefly; the best mappings
and the peers then take turns. The bound of fused cases is a plain product of as many operations;
`triton` and `triton-tutorial` are the best configurations of the fused benchmarks' kernels, whose
dual product ends in another function of the same two sums.
`--dry-run` compiles every mapping for the machine, without a device, and prints what the timing
model expects.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "examples" / "tasks"))

from tawa.tasks import Instance, Mapping

MAX_ERROR = 2e-3
"""Relative Frobenius error against float64 above which a contender is not timed."""
NEAR, MOST_NEAR = 1.03, 3
"""Mappings that are timed with the peers: those so near the fastest of short runs, and how many."""
CHECKED = 256
"""Rows of the first result that are compared."""

TRITON = {"triton": "fused_triton", "triton-tutorial": "fused_tutorial"}
"""Modules of Triton's kernels of the fused cases."""

Work = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A program with sizes: its task, shapes of outputs and inputs (f32 for 'sums'), operations."""

    name: str
    task: Any
    outputs: dict[str, tuple[int, ...]]
    inputs: dict[str, tuple[int, ...]]
    flops: int
    grid: str
    block: str
    scalars: tuple[float, ...] = ()
    product: tuple[int, int, int] | None = None

    def mappings(self) -> Iterator[tuple[str, Mapping]]:
        """Mappings to measure, by what they say."""
        if self.name == "attention":
            turns = {"persistent": True, "alternate": True}
            for rows, keys, groups, more, order in (
                (192, 80, 3, turns, 1),
                (192, 80, 3, turns, 8),
                (128, 128, 2, {"persistent": True}, 1),
                (128, 128, 2, {"persistent": True}, 8),
            ):
                shown = "".join(f", {option}" for option in more)
                yield (
                    f"{rows}x{keys}, {groups} groups{shown}, {order} heads together",
                    Mapping(
                        Instance(self.grid, tunables={"U": rows}),
                        Instance(
                            self.block, tunables={"V": keys}, warp_groups=groups, options=more,
                            tile_order=order,
                        ),
                    ),
                )  # fmt: skip
            return
        single = "gemm" in self.name and self.name not in ("dual_gemm", "gemm_reduction")
        for u, v, slots, more in (
            (128, 256, 4, {"persistent": True}),
            (256, 128, 4, {"persistent": True}),
            *([(256, 192, 3, {"persistent": True})] if single else []),
            (128, 256, 4, {}),
            (128, 256, 3, {"persistent": True}),
            (128, 256, 4, {"persistent": True, "cluster": 2}),
            (128, 128, 5, {"persistent": True, "ping_pong": True}),
            (128, 128, 4, {"persistent": True}),
        ):
            slots = slots if single else None  # as many as fit
            shown = "".join(f", {option}={value}" for option, value in more.items())
            yield (
                f"{u}x{v}, {slots or 'fitting'} slots{shown}",
                Mapping(
                    Instance(self.grid, tunables={"U": u, "V": v}),
                    Instance(self.block, warp_groups=2, pipeline=slots, options=more),
                ),
            )


def cases() -> Iterator[Case]:
    """Every case, in the order of the paper's figures."""
    import attention_tasks
    import batched_gemm_tasks
    import dual_gemm_tasks
    import gemm_reduction_tasks
    import gemm_tasks

    for n in (8192, 4096, 6144):
        square, one = {"a": (n, n), "b": (n, n)}, {"c": (n, n)}
        yield Case(
            "gemm", gemm_tasks.gemm, one, square, 2 * n**3, "gemm_grid", "gemm_block",
            product=(n, n, n),
        )  # fmt: skip
        batch = {"a": (4, n, n), "b": (4, n, n)}
        yield Case(
            "batched_gemm", batched_gemm_tasks.batched_gemm, {"c": (4, n, n)}, batch, 8 * n**3,
            "batched_gemm_grid", "gemm_block",
        )  # fmt: skip
        both = {"a": (n, n), "b1": (n, n), "b2": (n, n)}
        yield Case(
            "dual_gemm", dual_gemm_tasks.dual_gemm, one, both, 4 * n**3, "dual_gemm_grid",
            "dual_gemm_block", product=(n, n, 2 * n),
        )  # fmt: skip
        yield Case(
            "gemm_reduction", gemm_reduction_tasks.gemm_reduction, {**one, "sums": (n // 128, n)},
            square, 2 * n**3, "gemm_reduction_grid", "gemm_reduction_block", product=(n, n, n),
        )  # fmt: skip
    for rows in (2048, 4096, 8192, 16384):
        shape = 16384 // rows * 16, rows, 128
        yield Case(
            "attention", attention_tasks.attention, {"o": shape}, dict.fromkeys("qkv", shape),
            4 * shape[0] * rows * rows * 128, "attention_grid", "attend_block", (128**-0.5,),
        )  # fmt: skip


def exact(case: Case, inputs: dict[str, Any]) -> Any:
    """The first rows of the first result, in float64."""
    wide = {name: x.double() for name, x in inputs.items()} if case.name != "attention" else inputs
    if case.name == "attention":
        q, k, v = (x[0].double() for x in inputs.values())
        return (q[:CHECKED] @ k.T * case.scalars[0]).softmax(-1) @ v
    if case.name == "batched_gemm":
        return wide["a"][0, :CHECKED] @ wide["b"][0]
    rows = wide["a"][:CHECKED]
    if case.name == "dual_gemm":
        return rows @ wide["b1"] + rows @ wide["b2"]
    return rows @ wide["b"]


def peers(case: Case, inputs: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Work]:
    """What is measured beside the tasks: works that write the same outputs, or a bound."""
    import torch

    from tawa.kernels.attention import attention
    from tawa.kernels.gemm import matmul

    x, out = list(inputs.values()), outputs[next(iter(outputs))]
    if case.name == "attention":
        heads = [v[None] for v in x]
        sdpa = torch.nn.functional.scaled_dot_product_attention
        return {"tawa-tile": partial(attention, *heads), "torch": partial(sdpa, *heads)}
    if case.name == "batched_gemm":
        return {
            "cublas": partial(torch.bmm, *x, out=out),
            "tawa-tile": partial(matmul, *x, out),
        }
    assert case.product is not None
    m, n, k = case.product
    a, b = (torch.randn(s, device="cuda", dtype=torch.float16) for s in ((m, k), (k, n)))
    plain = torch.empty((m, n), device="cuda", dtype=torch.float16)
    if case.name == "gemm":
        return {"cublas": partial(torch.mm, *x, out=out), "tawa-tile": partial(matmul, *x, out)}

    def composed() -> None:
        if case.name == "dual_gemm":
            torch.addmm(torch.mm(x[0], x[1]), x[0], x[2], out=out)
        else:
            torch.mm(*x, out=out)
            torch.sum(x[0], 1, dtype=torch.float32)

    return {
        "torch": composed,
        "bound": partial(matmul, a, b, plain),
        **triton_works(case, inputs, outputs),
    }


def triton_works(case: Case, inputs: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Work]:
    """The fastest configurations of Triton's kernels, by short runs; those that fail are left."""
    from importlib import import_module

    from tawa.runtime.timing import Stopwatch, Timing

    watch, found = Stopwatch(), dict[str, Work]()
    given = [x if name == "a" else x.T.contiguous() for name, x in inputs.items()]
    given += [x.new_empty(x.shape[-1]) if name == "sums" else x for name, x in outputs.items()]
    for impl, module in TRITON.items():
        best = float("inf")
        for config, work in getattr(import_module(module), f"{case.name}_works")(*given):
            try:
                median = Timing(tuple(watch.times(work, 8))).median
            except Exception as failure:  # a peer's compiler may raise anything
                print(f"  {impl} {config}: {str(failure).splitlines()[:1]}", flush=True)
                continue
            if median < best:
                best, found[impl] = median, work
    return found


def arrays(case: Case, shapes: dict[str, tuple[int, ...]], fill: bool) -> dict[str, Any]:
    """Tensors on the device: random normal, or NaN."""
    import torch

    found: dict[str, Any] = {}
    for name, shape in shapes.items():
        dtype = torch.float32 if name == "sums" else torch.float16
        make = torch.randn(shape, device="cuda") if fill else torch.full(
            shape, float("nan"), device="cuda"
        )  # fmt: skip
        found[name] = make.to(dtype)
    return found


def error_of(case: Case, outputs: dict[str, Any], expected: Any) -> float:
    """Relative Frobenius error of the rows that are checked; infinite for NaN."""
    out = outputs[next(iter(outputs))]
    rows = (out[0] if out.ndim == 3 else out)[:CHECKED].double()
    error = float((rows - expected).norm() / expected.norm())
    return error if error == error else float("inf")


def measure(run: Any, case: Case, options: argparse.Namespace) -> str:
    """Time one case; returns a line with the ratios."""
    from tawa.runtime.timing import Stopwatch, Timing, interleaved

    inputs, outputs = arrays(case, case.inputs, True), arrays(case, case.outputs, False)
    expected = exact(case, inputs)
    name = {"kernel": case.name, "dtype": "fp16", **{k: list(v) for k, v in case.inputs.items()}}
    found: list[tuple[float, str, Work, float]] = []
    watch = Stopwatch()
    for config, mapping in case.mappings():
        if options.config not in config:
            continue
        work = partial(
            case.task, *outputs.values(), *inputs.values(), *case.scalars, mapping=mapping
        )
        try:
            for out in outputs.values():
                out.fill_(float("nan"))
            work()
            error = error_of(case, outputs, expected)
            if error > MAX_ERROR:
                raise ValueError(f"error {error}")
            median = Timing(tuple(watch.times(work, 8))).median
        except Exception as failure:
            run.add(name, "tawa", None, config=config, error_text=str(failure).splitlines()[0])
            continue
        print(f"  {case.name} {config}: {median:.3f} ms", flush=True)
        found.append((median, config, work, error))
    works = peers(case, inputs, outputs)
    configs: dict[str, dict[str, Any]] = {impl: {} for impl in works}
    best = min((median for median, *_ in found), default=0.0)
    near = sorted((f for f in found if f[0] <= NEAR * best), key=lambda f: f[0])[:MOST_NEAR]
    for place, (_, config, work, error) in enumerate(near):
        works[f"tawa {place}"] = work
        configs[f"tawa {place}"] = {
            "config": config, "error": {"value": error, "reference": "float64"}
        }  # fmt: skip
    with run.sampler.sampling():
        times = interleaved(
            works, soak=options.soak, window=options.window, on_turn=run.sampler.turn
        )
    ours = [impl for impl in times if impl.startswith("tawa ")]
    slower = sorted(ours, key=lambda impl: times[impl].median)[1:]
    times = {impl: timing for impl, timing in times.items() if impl not in slower}
    for impl, timing in times.items():
        more = {**configs[impl], **run.sampler.readings(impl)}
        run.add(name, impl.partition(" ")[0], timing, flops=case.flops, **more)
    rates = [
        f"{configs[i].get('config', i)} {t.median:.3f} ms {case.flops / t.median / 1e9:.0f}"
        for i, t in times.items()
    ]
    return f"{case.name} {next(iter(case.inputs.values()))}: {', '.join(rates)} TFLOP/s"


def dry_run(chosen: list[Case]) -> None:
    """Compile every mapping, and print what the timing model expects."""
    import numpy as np

    for case in chosen:
        shapes = {**case.outputs, **case.inputs}
        given = [
            np.empty(shape, np.float32 if name == "sums" else np.float16)
            for name, shape in shapes.items()
        ]
        for config, mapping in case.mappings():
            start = time.perf_counter()
            try:
                program = case.task.compile(*given, *case.scalars, mapping=mapping)
                found = sum(t.kernel_seconds for t in program.predict(*given, *case.scalars))
                text = f"{case.flops / found / 1e12:.0f} TFLOP/s predicted"
            except Exception as failure:
                text = str(failure).splitlines()[0]
            seconds = time.perf_counter() - start
            print(f"{case.name} {shapes}, {config}: {text} ({seconds:.1f} s)", flush=True)


def main() -> None:
    """Measure what was chosen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs, by default all")
    parser.add_argument("--size", type=int, help="only cases whose first input has such a size")
    parser.add_argument("--config", default="", help="only mappings that are called so, in part")
    parser.add_argument("--rows", type=Path, help="folder for the rows")
    parser.add_argument("--soak", type=float, default=0.3)
    parser.add_argument("--window", type=float, default=0.3)
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for cases")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    chosen = [
        case
        for case in cases()
        if (not options.names or case.name in options.names)
        and (options.size is None or options.size in next(iter(case.inputs.values())))
    ]
    if options.dry_run:
        dry_run(chosen)
        return
    import torch
    from rows import Run

    torch.manual_seed(0)
    run = Run("tasks", options.rows)
    lines, end = list[str](), time.monotonic() + options.limit
    for case in chosen:
        if time.monotonic() < end:
            lines.append(measure(run, case, options))
            print(lines[-1], flush=True)
    print("\n".join(["", *lines]))


if __name__ == "__main__":
    main()
