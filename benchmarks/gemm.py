"""GEMM against cuBLAS and Triton: fp16 and bf16, M = N = 8192, K from 256 to 16384.

All configurations are compiled first, in processes. For each case every configuration of Triton
and of Tawa is checked and timed briefly; the best two of each and cuBLAS then take turns: soak,
measure, forward and backward. `--ablation` measures what each step of Tawa's compiler adds at one
K instead.
"""

from __future__ import annotations

import argparse
import faulthandler
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from contenders import (
    DTYPES,
    Problem,
    Tile,
    Work,
    compile_all,
    cublas,
    tawa_contenders,
    tawa_work,
    triton_contenders,
)
from rows import Run, seconds_since

from tawa.base.errors import TawaError
from tawa.runtime.timing import Stopwatch, Timing, interleaved

DEPTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
SIZE = 8192
FINALISTS = 2
"""Configurations of each contender that are measured at length."""
BRIEF = 3, 8
"""Executions of each configuration that warm up, and that choose the finalists by their median."""
HANG_SECONDS = 60
"""A configuration that takes longer to compile, check and time is taken to hang."""

MAX_ERROR = 1e-3
"""Relative Frobenius error (see `Problem.error`) above which a contender is not timed."""

ABLATION: tuple[tuple[str, Tile], ...] = (
    ("no specialisation", Tile(128, 128, options={"specialize": False, "num_stages": 3})),
    (
        "specialised",
        Tile(
            *(128, 128),
            options={"specialize": True, "consumers": 1, "num_stages": 3, "mma_depth": 0},
        ),
    ),
    (
        "two cooperative groups",
        Tile(128, 128, options={"consumers": 2, "num_stages": 3, "mma_depth": 0}),
    ),
    (
        "128x256 tile",
        Tile(128, 256, options={"consumers": 2, "num_stages": 3, "mma_depth": 0}),
    ),
    (
        "persistent",
        Tile(
            *(128, 256),
            options={"consumers": 2, "num_stages": 3, "mma_depth": 0, "persistent": True},
        ),
    ),
    (
        "tuned D and P",
        Tile(
            *(128, 256),
            options={"consumers": 2, "num_stages": 4, "mma_depth": 1, "persistent": True},
        ),
    ),
)
"""The steps from a kernel without roles to the tuned one, each adding to the one before."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", default="fp16,bf16")
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)), help="values of K")
    parser.add_argument("--size", type=int, default=SIZE, help="M and N")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--ablation", action="store_true", help="measure the compiler's steps")
    parser.add_argument("--soak", type=float, default=0.3, help="seconds before each measurement")
    parser.add_argument("--window", type=float, default=0.1, help="seconds of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--without", default="", help="contenders to leave out: triton, tawa")
    options = parser.parse_args()
    if options.ablation:
        torch.manual_seed(0)
        measure_ablation(options)
    else:
        measure_cases(options)


def measure_cases(options: argparse.Namespace) -> None:
    start, dtypes = time.perf_counter(), options.dtypes.split(",")
    impls = [impl for impl in ("triton", "tawa") if impl not in options.without]
    compile_all(dtypes, (options.size, options.size, SIZE), impls)
    print(f"compiled: {seconds_since(start)}", flush=True)
    torch.manual_seed(0)
    run, lines = Run("gemm", options.rows), list[str]()
    for dtype in dtypes:
        for depth in map(int, options.depths.split(",")):
            start = time.perf_counter()
            problem = Problem.random(options.size, options.size, depth, DTYPES[dtype])
            times = measure_case(run, problem, dtype, options)
            lines.append(summary(problem, dtype, times))
            print(lines[-1], seconds_since(start), flush=True)
    print("\n".join(["", *lines]))


def summary(problem: Problem, dtype: str, times: dict[str, Timing]) -> str:
    """One line: TFLOP/s of each contender, and Tawa's ratio to the others."""
    m, n, k = problem.shape
    parts = [f"{dtype} {m}x{n}x{k}:"]
    parts += [f"{name} {problem.flops / t.median / 1e9:.0f}" for name, t in times.items()]
    if "tawa" in times:
        for name in ("cublas", "triton"):
            if name in times:
                parts.append(f"{times[name].median / times['tawa'].median:.3f}x {name}")
    return "  ".join(parts)


def measure_case(
    run: Run, problem: Problem, dtype: str, options: argparse.Namespace
) -> dict[str, Timing]:
    """Time the best configurations of each contender in turn and write their rows."""
    case = describe(problem, dtype)
    works: dict[str, Work] = {"cublas": cublas(problem)}
    chosen: dict[str, dict[str, Any]] = {"cublas": {"error": problem.error(works["cublas"])}}
    for impl, candidates in (("triton", triton_contenders), ("tawa", tawa_contenders)):
        if impl in options.without:
            continue
        for place, found in enumerate(best_of(run, case, impl, candidates(problem), problem)):
            works[f"{impl} {place}"], chosen[f"{impl} {place}"] = found
    with run.sampler.sampling():
        times = interleaved(
            works,
            rounds=options.rounds,
            soak=options.soak,
            window=options.window,
            on_turn=run.sampler.turn,
        )
    fastest: dict[str, Timing] = {}
    for name, timing in times.items():
        impl, readings = name.split()[0], run.sampler.readings(name)
        run.add(case, impl, timing, flops=problem.flops, **chosen[name], **readings)
        if impl not in fastest or timing.median < fastest[impl].median:
            fastest[impl] = timing
    return fastest


def describe(problem: Problem, dtype: str) -> dict[str, Any]:
    """The case, completely."""
    m, n, k = problem.shape
    return {"m": m, "n": n, "k": k, "dtype": dtype, "layout": "NT", "accumulate": "fp32"}


def best_of(
    run: Run,
    case: dict[str, Any],
    impl: str,
    candidates: Iterator[tuple[str, Work]],
    problem: Problem,
) -> list[tuple[Work, dict[str, Any]]]:
    """The fastest correct candidates, by short runs; each that fails gets a row that says why.

    Short runs rank within a few percent only (the power limit acts later), hence several.
    """
    correct: list[tuple[float, Work, dict[str, Any]]] = []
    watch = Stopwatch()
    for config, work in candidates:
        print(f"  {impl:7} {config:80}", end="", flush=True)
        watchdog(HANG_SECONDS)
        try:
            error = problem.error(work)
        except Exception as failure:  # a peer's compiler may raise anything
            run.add(case, impl, None, config=config, error_text=describe_failure(failure))
            continue
        if not error["relative_frobenius"] < MAX_ERROR:
            text = "wrong result: not timed"
            print(f" {text}: {error}", flush=True)
            run.add(case, impl, None, config=config, error=error, error_text=text)
            continue
        watch.times(work, BRIEF[0])
        median = Timing(tuple(watch.times(work, BRIEF[1]))).median
        print(f" {problem.flops / median / 1e9:6.0f} TFLOP/s", flush=True)
        correct.append((median, work, {"config": config, "error": error}))
    watchdog(None)
    correct.sort(key=lambda candidate: candidate[0])
    return [candidate[1:] for candidate in correct[:FINALISTS]]


def watchdog(seconds: float | None) -> None:
    """End the process, showing where it stands, unless called again within `seconds`."""
    if seconds is None:
        faulthandler.cancel_dump_traceback_later()
    else:
        faulthandler.dump_traceback_later(seconds, exit=True)


def describe_failure(failure: Exception) -> str:
    """The first line of an error, with its class."""
    text = failure.render() if isinstance(failure, TawaError) else str(failure)
    line = next((part for part in text.splitlines() if part.strip()), "")
    print(f" failed: {type(failure).__name__}: {text}"[:2000], flush=True)
    return f"{type(failure).__name__}: {line}"[:300]


def measure_ablation(options: argparse.Namespace) -> None:
    """Time each step of `ABLATION`, in turn with cuBLAS, at the largest K asked for."""
    run = Run("gemm-ablation", options.rows)
    depth, dtype = max(map(int, options.depths.split(","))), options.dtypes.split(",")[0]
    problem = Problem.random(options.size, options.size, depth, DTYPES[dtype])
    case = describe(problem, dtype)
    works: dict[str, Work] = {"cublas": cublas(problem)}
    chosen: dict[str, dict[str, Any]] = {"cublas": {"error": problem.error(works["cublas"])}}
    for step, tile in ABLATION:
        work = tawa_work(problem, tile)
        for found in best_of(run, case, "tawa", iter([(str(tile), work)]), problem):
            works[step], chosen[step] = found
    with run.sampler.sampling():
        times = interleaved(
            works,
            rounds=options.rounds,
            soak=options.soak,
            window=options.window,
            on_turn=run.sampler.turn,
        )
    print()
    for step, timing in times.items():
        impl = "cublas" if step == "cublas" else "tawa"
        readings = run.sampler.readings(step)
        run.add(
            {**case, "step": step}, impl, timing, flops=problem.flops, **chosen[step], **readings
        )
        rate = problem.flops / timing.median / 1e9
        ratio = times["cublas"].median / timing.median
        print(f"{step:24} {timing.median:8.3f} ms {rate:5.0f} TFLOP/s {ratio:.3f}x cublas")


if __name__ == "__main__":
    main()
