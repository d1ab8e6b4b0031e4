"""The clock inside the library's attention and the products' kernels: rows for predictions.

    python benchmarks/launch_clocks.py [--rows FOLDER] [--suites attention,gemm]     on an H100
    python benchmarks/launch_clocks.py --compile                anywhere: all kernels, in parallel

A power-capped device chooses its clock by itself, and NVML's reading is an average over pauses too.
Here kernels that record their roles (`tawa.Timeline(detail="tiles")`) take turns with plain ones,
without a pause between them; their headers hold the device's timer and the multiprocessors' clocks,
whose slope is the clock. Where all CTAs are recorded, a row also has how many cycles passed from
the first one's begin to the last one's end (`cycles`). Cases are those of `attention.py` and, with
their configurations, of the rows of `gemm.py`.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import prediction

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
SOAK, WINDOW = 0.3, 0.12
"""Seconds that a kernel runs before it is timed, and is timed in all."""
READINGS, RECORDED = 8, 2
"""How often the clock is read, and how many launches are recorded each time (the last is read)."""
CTAS = 133
"""That may record: more than an H100 has multiprocessors, so where fewer did, all have."""
CACHED = 16384
"""Rows of the attentions whose kernels are compiled beforehand, and the shortest ones."""

Case = tuple[dict[str, Any], str, int, Callable[[], Any]]
"""What the row says, the configuration, operations, and the work."""


def attentions() -> Iterator[Case]:
    """The benchmark's shapes of 16-bit elements; results are checked."""
    from attention import MAX_ERROR, Inputs
    from attention import Case as Shape
    from attention import tawa as library

    for case in shapes():
        shape = Shape(case["d"], case["rows"], case["causal"])
        _, work, error = library(shape, Inputs(shape))
        assert error < MAX_ERROR[shape.dtype], f"{shape}: wrong result ({error})"
        yield shape.row, "", shape.flops, work


def shapes() -> Iterator[dict[str, Any]]:
    """Head dimension, rows and mask of every attention."""
    for d in (64, 128, 256):
        for causal in (False, True):
            for rows in LENGTHS:
                heads = prediction.TOKENS // rows * (2048 // d)
                yield {"dtype": "bf16", "d": d, "rows": rows, "heads": heads, "causal": causal}


def products() -> Iterator[Case]:
    """The fp16 rows of suite `gemm`, with their configurations."""
    import torch
    from contenders import Problem, Tile, tawa_work

    for row in prediction.rows(("gemm",)):
        case = row["case"]
        if case["dtype"] == "fp16":
            blocks, group, *rest = row["config"].split()
            named = (part.split("=") for part in rest[0].split(",")) if rest else ()
            options = {name: ast.literal_eval(value) for name, value in named}
            tile = Tile(*map(int, blocks.split("x")), int(group[1:]), options)
            problem = Problem.random(case["m"], case["n"], case["k"], torch.float16)
            yield case, row["config"], problem.flops, tawa_work(problem, tile)


SUITES = {"attention": attentions, "gemm": products}


def measure(folder: Path | None, suites: list[str]) -> None:
    """Time every case, read the clock inside it, and write rows."""
    import torch
    from rows import Run

    from tawa.runtime.timing import Timing

    torch.manual_seed(0)
    run = Run("clocks", folder)
    for case, config, flops, work in (c for suite in suites for c in SUITES[suite]()):
        times, more = read(run.sampler, work)
        found = Timing(tuple(times))
        run.add(case, "tawa", found, flops=flops, config=config, **more)
        print(case, f"{found.median * 1e3:.1f} us at {more['kernel_clock_mhz']} MHz", flush=True)


def read(sampler: Any, work: Callable[[], Any]) -> tuple[list[float], dict[str, Any]]:
    """Milliseconds of plain launches, and what launches between them recorded."""
    import tawa
    from tawa.runtime.timing import Stopwatch

    watch = Stopwatch()
    timelines = [tawa.Timeline(ctas=CTAS, kilobytes=4, detail="tiles") for _ in range(READINGS)]
    for timeline in timelines:  # what takes memory, or compiles, would be a pause later
        with timeline:
            work()
    times: list[float] = []
    recorded: list[float] = []
    with sampler.sampling():
        watch.times_for(work, SOAK)
        sampler.turn("plain")
        for timeline in timelines:
            times += watch.times_for(work, WINDOW / READINGS)
            with timeline:
                recorded += watch.times(work, RECORDED)
    launches = [timeline.launch for timeline in timelines]
    clocks = [round(1e3 * launch.clock_ghz) for launch in launches]
    more: dict[str, Any] = {
        "kernel_clock_mhz": round(statistics.median(clocks)),
        "clocks": clocks,
        "ms_recorded": round(statistics.median(recorded), 6),
        **sampler.readings("plain"),
    }
    if len(launches[0].ctas) < CTAS:
        more["cycles"] = round(statistics.median(launch.cycles for launch in launches))
    return times, more


def compile_all(suites: list[str]) -> None:
    """Compile all kernels, plain and recording roles."""
    jobs: list[tuple[str, dict[str, Any], str]] = []
    if "attention" in suites:
        jobs += [("attention", c, "") for c in shapes() if c["rows"] in (1024, CACHED)]
    if "gemm" in suites:
        rows = {r["config"]: r for r in prediction.rows(("gemm",)) if r["case"]["dtype"] == "fp16"}
        jobs += [("gemm", row["case"], config) for config, row in rows.items()]
    with ProcessPoolExecutor() as pool:
        list(pool.map(_compile, jobs))


def _compile(job: tuple[str, dict[str, Any], str]) -> None:
    suite, case, config = job
    for timeline in (False, "tiles"):
        prediction.LAUNCHES[suite](case, config, timeline=timeline)


def main() -> None:
    """Measure, or only compile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--compile", action="store_true", help="compile only; needs no GPU")
    options = parser.parse_args()
    suites = options.suites.split(",")
    if options.compile:
        compile_all(suites)
    else:
        measure(options.rows, suites)


if __name__ == "__main__":
    main()
