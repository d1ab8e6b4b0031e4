"""What recording a timeline costs: library GEMM and attention with and without timestamps.

    python benchmarks/instrumentation.py [--rows OUT]            on an H100: cost, traces, times
    python benchmarks/instrumentation.py --compile               anywhere: every kernel to a cubin
    python benchmarks/instrumentation.py --predict [--rows OUT]  anywhere: the times, predicted
    python benchmarks/instrumentation.py --table [--rows OUT]    both times side by side

Each case soaks, and takes turns with itself: plain, recorded, recorded, plain. Turns are short,
since the clock drifts by more than 1% in longer ones, and the cost is the median of what neighbours
differ by. OUT gets `timeline.jsonl` (cost),
`timeline-durations.jsonl` (clocks of each activity, measured or predicted, in the program's order)
and one trace a case for ui.perfetto.dev, of the first CTA.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tawa
from tawa.base.timeline import DETAILS
from tawa.driver.compiled import Compiled
from tawa.driver.jit import Kernel
from tawa.kernels.attention import attention
from tawa.kernels.gemm import matmul
from tawa.runtime.recorded import Launch, simulated
from tawa.runtime.sass import SassFunction, disassemble
from tawa.runtime.timing import Stopwatch, Timing
from tawa.simulate import predict_launch

RESULTS = Path(__file__).parent / "results"
SIZE = 8192
TOKENS = 16384
LIMIT_PERCENT = 3.0
CASES: tuple[dict[str, Any], ...] = (
    {"workload": "gemm", "m": SIZE, "n": SIZE, "k": 512, "dtype": "fp16"},
    {"workload": "gemm", "m": SIZE, "n": SIZE, "k": 2048, "dtype": "fp16"},
    {"workload": "gemm", "m": SIZE, "n": SIZE, "k": 8192, "dtype": "fp16"},
    {"workload": "attention", "d": 128, "rows": 4096, "heads": 64, "dtype": "fp16"},
    {"workload": "attention", "d": 64, "rows": 4096, "heads": 128, "dtype": "fp16"},
    {"workload": "attention", "d": 64, "rows": 4096, "heads": 128, "dtype": "fp16", "causal": True},
    {"workload": "attention", "d": 64, "rows": 1024, "heads": 512, "dtype": "fp16", "causal": True},
)

Work = Callable[[], Any]


def name_of(case: dict[str, Any]) -> str:
    """A file name for a case."""
    kind = case["workload"]
    if kind == "gemm":
        return f"{kind}-k{case['k']}"
    return f"{kind}-d{case['d']}" + (f"-causal-{case['rows']}" if case.get("causal") else "")


def work_of(case: dict[str, Any], empty: Callable[[tuple[int, ...]], Any]) -> tuple[Work, Any, int]:
    """What a case runs on arrays that `empty` makes, its output, and its operations."""
    if case["workload"] == "gemm":
        m, n, k = case["m"], case["n"], case["k"]
        a, b, c = empty((m, k)), empty((n, k)), empty((m, n))
        return (lambda: matmul(a, b.T, c)), c, 2 * m * n * k
    shape = case["heads"], case["rows"], case["d"]
    q, k, v, o = (empty(shape) for _ in range(4))
    causal = case.get("causal", False)
    flops = (2 if causal else 4) * case["heads"] * case["rows"] ** 2 * case["d"]
    return (lambda: attention(q, k, v, o, causal=causal)), o, flops


# --- on a GPU -----------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> None:
    """Measure every case; write rows, durations and traces."""
    import torch
    from rows import Run

    run, start, lines = Run("timeline", options.rows), time.perf_counter(), list[str]()
    torch.manual_seed(0)

    def random(shape: tuple[int, ...]) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float16)

    for case in CASES:
        plain, out, flops = work_of(case, random)
        out.fill_(float("nan"))
        plain()
        expected = out.clone()
        out.fill_(float("nan"))
        timeline = tawa.Timeline(kilobytes=options.kilobytes, detail=options.detail)
        recorded = recording(timeline, plain)
        recorded()
        same = torch.equal(out, expected)
        cost = timed({"plain": plain, "recorded": recorded}, options)
        keep_cost(run, case, cost, flops, same)
        percent = 100 * (cost.ratio - 1)
        verdict = "" if percent < LIMIT_PERCENT else f"  OVER {LIMIT_PERCENT} %"
        lines.append(
            f"{name_of(case):16} plain {cost.plain.median * 1e3:8.1f} us  recorded "
            f"{cost.recorded.median * 1e3:8.1f} us  cost {percent:+.2f} +- "
            f"{100 * cost.error:.2f} %{verdict}" + ("" if same else "  RESULTS DIFFER")
        )
        print(lines[-1], f" ({time.perf_counter() - start:.0f} s)", flush=True)
        launch = timeline.launch
        print(launch.render(), flush=True)
        timeline.save(options.rows / f"timeline-{name_of(case)}.json", ctas=launch.ctas[:1])
        keep_durations(options.rows, case, "measured", launch)
    print("\n".join(["", *lines]))


def recording(timeline: tawa.Timeline, work: Work) -> Work:
    """The same work, recorded."""

    def recorded() -> None:
        with timeline:
            work()

    return recorded


@dataclass(frozen=True)
class Cost:
    """Milliseconds of plain and recorded launches, and how much longer the recorded ones take."""

    plain: Timing
    recorded: Timing
    ratio: float
    """The median of rounds."""
    error: float
    """Of the median, from the rounds' median absolute deviation."""


def timed(works: dict[str, Work], options: argparse.Namespace) -> Cost:
    """Time plain and recorded launches in turn, a few at a time."""
    watch = Stopwatch()
    soaked = watch.times_for(works["plain"], options.soak)
    count = max(3, round(options.window * 1e3 / statistics.median(soaked)))
    times: dict[str, list[float]] = {name: [] for name in works}
    ratios: list[float] = []
    for number in range(options.rounds):
        found = {n: watch.times(works[n], count) for n in sorted(works, reverse=number % 2 == 0)}
        ratios.append(statistics.median(found["recorded"]) / statistics.median(found["plain"]))
        for name, more in found.items():
            times[name] += more
    ratio = statistics.median(ratios)
    deviation = statistics.median(abs(r - ratio) for r in ratios)
    error = 1.86 * deviation / math.sqrt(len(ratios))
    return Cost(Timing(tuple(times["plain"])), Timing(tuple(times["recorded"])), ratio, error)


def keep_cost(run: Any, case: dict[str, Any], cost: Cost, flops: int, same: bool) -> None:
    """Write the rows of a case."""
    shared = {"flops": flops, "same_results": same}
    run.add(case, "tawa", cost.plain, config="plain", ratio=1.0, **shared)
    numbers = {"ratio": round(cost.ratio, 5), "ratio_error": round(cost.error, 5)}
    run.add(case, "tawa", cost.recorded, config="recorded", **numbers, **shared)


# --- anywhere -----------------------------------------------------------------------------------


@dataclass
class Caught:
    """A launch that was only asked for."""

    kernel: Kernel
    grid: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def compile(self, timeline: bool | str) -> Compiled:
        """The kernel, with or without timestamps."""
        return self.kernel.compile(*self.args, **self.kwargs, timeline=timeline)

    def predicted(self, clock_ghz: float, detail: str) -> Launch:
        """The recorded launch as the simulator times it."""
        compiled = self.compile(detail)
        names = [p.name for p in self.kernel.parameters]
        given = {**dict(zip(names, self.args, strict=False)), **self.kwargs}
        values = [given[name] for name in compiled.spec.arguments]
        module = compiled.module("hopper")
        found = predict_launch(module, self.grid, values, clock_ghz=clock_ghz, timeline=True)
        assert found.first is not None
        return simulated(compiled.spec, self.grid, found.first.stamps, clock_ghz)


@contextmanager
def catching() -> Iterator[list[Caught]]:
    """Launches inside are only noted."""
    found: list[Caught] = []

    def note(self: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        found.append(Caught(self, grid, args, kwargs))

    before = Kernel._launch
    Kernel._launch = note  # pyright: ignore
    try:
        yield found
    finally:
        Kernel._launch = before


def caught(case: dict[str, Any]) -> Caught:
    """What a case launches, on NumPy arrays that nobody touches."""
    work, _, _ = work_of(case, lambda shape: np.empty(shape, np.float16))
    with catching() as launches:
        work()
    (launch,) = launches
    return launch


def compile_all(options: argparse.Namespace) -> None:
    """Compile every kernel with and without timestamps and say what they add to machine code."""
    with ProcessPoolExecutor() as pool:
        for said in pool.map(added, CASES, [options.detail] * len(CASES)):
            print(said, flush=True)


def added(case: dict[str, Any], detail: str) -> str:
    """What timestamps add to a case's machine code."""
    launch = caught(case)
    both = [launch.compile(timeline) for timeline in (False, detail)]
    codes = [next(iter(disassemble(c.cubin).values())) for c in both]
    turns = [turn(code) for code in codes]
    timeline = both[1].spec.timeline
    said = (*both[1].findings, *(timeline.notes if timeline is not None else ()))
    points = sum("SR_CLOCKLO" in i.text for i in turns[1])
    return (
        f"{name_of(case):16} {len(codes[0].instructions)} -> {len(codes[1].instructions)} "
        f"instructions; a turn of the products' loop {len(turns[0])} -> {len(turns[1])} "
        f"with {points} points; {'; '.join(said) or 'no findings'}"
    )


def turn(code: SassFunction) -> tuple[Any, ...]:
    """The instructions of the smallest loop with several matrix instructions."""
    loops = [x.body for x in code.loops if sum(i.is_a("HGMMA") for i in x.body) > 1]
    return min(loops, key=len)


def predict_all(options: argparse.Namespace) -> None:
    """Predict every case's durations, at the clock that was measured where there is one."""
    clocks = {json.dumps(r["case"]): r["clock_ghz"] for r in durations(options.rows, "measured")}
    for case in CASES:
        launch = caught(case).predicted(clocks.get(json.dumps(case), options.clock), options.detail)
        print(f"{name_of(case)}: {launch.render()}", flush=True)
        keep_durations(options.rows, case, "predicted", launch)


# --- durations ------------------------------------------------------------------------------------


def keep_durations(folder: Path, case: dict[str, Any], impl: str, launch: Launch) -> None:
    """Append a row for each activity of a launch."""
    shared = {
        "case": case,
        "impl": impl,
        "detail": launch.table.detail,
        "clock_ghz": round(launch.clock_ghz, 4),
        "recorders": len(launch.tracks),
        "cycles": round(launch.cycles),
        "missing": launch.missing(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "timeline-durations.jsonl").open("a") as file:
        seen: Counter[tuple[str, str]] = Counter()
        for found in launch.durations():
            row, named = found.as_row(), (found.role, found.activity.name)
            file.write(json.dumps({**shared, "number": seen[named], **row}) + "\n")
            seen[named] += 1


def durations(folder: Path, impl: str) -> list[dict[str, Any]]:
    """The rows of an implementation that are there."""
    path = folder / "timeline-durations.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [row for row in rows if row["impl"] == impl and "name" in row]


def table(options: argparse.Namespace) -> None:
    """Print measured and predicted medians of each activity, the last of each."""
    both = [
        {(json.dumps(r["case"]), r["number"], r["role"], r["name"]): r for r in rows}
        for rows in (durations(options.rows, impl) for impl in ("measured", "predicted"))
    ]
    for case in CASES:
        print(f"\n{name_of(case)}: median clocks, measured and predicted")
        for key, row in both[0].items():
            if key[0] == json.dumps(case):
                other = both[1].get(key)
                predicted = f"{other['median']:8.0f}" if other else f"{'-':>8}"
                print(f"  {row['role']:6} {row['median']:8.0f} {predicted}  {row['name']}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, default=RESULTS, help="folder of rows and traces")
    parser.add_argument("--compile", action="store_true", help="compile only; needs no GPU")
    parser.add_argument("--predict", action="store_true", help="predict only; needs no GPU")
    parser.add_argument("--table", action="store_true", help="compare durations; needs no GPU")
    parser.add_argument("--detail", choices=DETAILS, default="coarse", help="how many points")
    parser.add_argument("--clock", type=float, default=1.5, help="GHz of predictions")
    parser.add_argument("--kilobytes", type=int, default=64, help="for each warp group")
    parser.add_argument("--soak", type=float, default=0.3, help="seconds before each case")
    parser.add_argument("--window", type=float, default=0.004, help="seconds of each turn")
    parser.add_argument("--rounds", type=int, default=80)
    options = parser.parse_args()
    chosen = [compile_all] * options.compile + [predict_all] * options.predict
    chosen += [table] * options.table
    for step in chosen or [measure]:
        step(options)


if __name__ == "__main__":
    main()
