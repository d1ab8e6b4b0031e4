"""How well predictions rank schedules and configurations: rank correlations with measured times.

    python benchmarks/ranking.py --dry             # compile and predict only; needs no GPU
    python benchmarks/ranking.py                   # measure too; writes rows (suite `ranking`)
    python benchmarks/ranking.py --only schedules  # the solver's schedules of one kernel each
    python benchmarks/ranking.py --again           # predict what was measured last; needs no GPU

Every case has ten or more candidates. Those of `schedules` are one kernel whose loop is ordered in
all ways that the solver prefers, one after the other (the launch option `schedule`), and in the
order of the source; the others differ in tile, warp groups, stages, products in flight, persistence
and clusters. All are predicted at one clock, `--clock`: which clock a candidate really gets is
decided by its power, which the model does not know.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from prediction import RESULTS, Launch, attention_launch, gemm_launch, recorded

from tawa.base.errors import TawaError
from tawa.simulate import predict_launch

# After this folder, which has modules of the same names.
sys.path.append(str(Path(__file__).parents[1] / "examples"))

FEW = 3
"""Candidates with the shortest predictions, which `autotune` would measure."""

SCHEDULES = 16
"""Schedules that are asked for; those that the assembler rejects are no candidates."""

SIZE = 8192
TOKENS = 16384
PERSISTENT = {"persistent": True, "consumers": 2}
PING_PONG = {**PERSISTENT, "ping_pong": True}

GEMM = (
    (128, 128, {**PERSISTENT, "num_stages": 4}),
    (128, 128, {**PING_PONG, "num_stages": 4}),
    (128, 128, {"consumers": 2, "num_stages": 3, "mma_depth": 0}),
    (128, 128, {"specialize": False, "num_stages": 3}),
    (128, 192, {**PERSISTENT, "num_stages": 4}),
    (128, 192, {**PING_PONG, "num_stages": 4, "staging": 4}),
    (128, 192, {**PING_PONG, "num_stages": 5, "staging": 1}),
    (128, 192, {**PING_PONG, "num_stages": 5, "staging": 1, "cluster": 2}),
    (128, 256, {**PERSISTENT, "num_stages": 4, "mma_depth": 1}),
    (128, 256, {**PERSISTENT, "num_stages": 3, "mma_depth": 0}),
    (128, 256, {"consumers": 2, "num_stages": 3, "mma_depth": 0}),
    (256, 128, {**PERSISTENT, "num_stages": 4}),
    (256, 192, {**PERSISTENT, "num_stages": 3}),
    (256, 200, {**PERSISTENT, "num_stages": 3}),
    (192, 192, {**PERSISTENT, "consumers": 3, "num_stages": 4}),
)
"""Tiles (M, N; K is 64) and options."""

ATTENTION = {
    128: (
        (128, 128, {"persistent": True}),
        (128, 128, {}),
        (128, 128, {"num_stages": 1}),
        (128, 128, {"overlap": False}),
        (128, 112, {}),
        (128, 96, {}),
        (128, 80, {}),
        (128, 64, {}),
        (128, 64, {"overlap": False}),
        (128, 32, {}),
        (192, 80, {"consumers": 3}),
        (192, 64, {"consumers": 3}),
        (192, 96, {"consumers": 3, "overlap": False}),
    ),
    64: (
        (192, 128, {"consumers": 3}),
        (192, 128, {"consumers": 3, "overlap": False}),
        (192, 96, {"consumers": 3}),
        (192, 64, {"consumers": 3}),
        (128, 128, {}),
        (128, 128, {"persistent": True}),
        (128, 128, {"overlap": False}),
        (128, 192, {}),
        (128, 96, {}),
        (128, 64, {}),
        (128, 32, {}),
        (192, 32, {"consumers": 3}),
    ),
}
"""Query rows and keys of a tile, and options, by head dimension."""


@dataclass
class Candidate:
    """A configuration, what the model says of it, and, later, what it took."""

    config: str
    launch: Launch | None = None
    predicted_us: float = 0.0
    bound: str = ""
    seconds: float = 0.0
    """That the prediction took."""
    kernel: str = ""
    """Which program it is: the beginning of its CUDA text's hash."""
    measured_us: float = 0.0
    failure: str = ""


@dataclass
class Case:
    """A problem and its candidates."""

    name: str
    case: dict[str, Any]
    make: Callable[[dict[str, Any], str], Launch]
    configs: list[str]
    candidates: list[Candidate] = field(default_factory=list)


def text_of(options: dict[str, Any]) -> str:
    """Options as the GEMM suite writes them."""
    return ",".join(f"{name}={value}" for name, value in options.items())


def cases() -> Iterator[Case]:
    """Products with a short and a long K, and attention with two head dimensions."""
    gemm = [f"{m}x{n}x64 g8 {text_of(o)}".strip() for m, n, o in GEMM]
    for depth in (512, 4096):
        case = {"m": SIZE, "n": SIZE, "k": depth, "dtype": "fp16"}
        yield Case(f"gemm K={depth}", case, gemm_launch, gemm)
    for d, configurations in ATTENTION.items():
        rows = 4096
        heads = TOKENS // rows * 2048 // d
        case = {"dtype": "fp16", "d": d, "rows": rows, "heads": heads, "causal": False}
        configs = [f"tawa {m}x{n} {o}" for m, n, o in configurations]
        yield Case(f"attention D={d}", case, attention_launch, configs)
    yield from schedules()


def schedules() -> Iterator[Case]:
    """Kernels whose loops have products between ordinary code, each in one configuration."""
    orders = [{"schedule": rank} for rank in range(SCHEDULES)] + [{"overlap": False}]
    case = {"dtype": "fp16", "d": 128, "rows": 4096, "heads": 64, "causal": False}
    configs = [f"tawa 128x128 {order}" for order in orders]
    yield Case("schedules of attention", case, attention_launch, configs)
    case = {"dtype": "fp16", "kernel": "fused_mlp", "m": 65536, "d": 256, "hidden": 1024}
    configs = [str({"block": (128, 64)} | order) for order in orders]
    yield Case("schedules of fused MLP", case, fused_mlp_launch, configs)


def fused_mlp_launch(case: dict[str, Any], config: str) -> Launch:
    """The launch of a row of the fused MLP."""
    m, d, hidden = case["m"], case["d"], case["hidden"]
    shapes = (m, d), (hidden, d), (d, hidden), (m, d)
    arrays = [np.empty(shape, np.float16) for shape in shapes]
    kernel = import_module("fused_mlp")
    return recorded(kernel.fused_mlp, lambda: kernel.launch(*arrays, **ast.literal_eval(config)))


def predict(number: int, config: str, clock_ghz: float) -> Candidate:
    """Compile a candidate of a case into the cache, and predict it, in a process of its own.

    What does not compile is kept with its reason.
    """
    case, found = list(cases())[number], Candidate(config)
    try:
        compiled, grid, args = case.make(case.case, config)
        start = time.process_time()
        predicted = predict_launch(compiled.module("hopper"), grid, args, clock_ghz=clock_ghz)
    except TawaError as error:
        found.failure = f"{type(error).__name__}: {error.message}"
        return found
    found.seconds = time.process_time() - start
    found.kernel = hashlib.sha256(str(compiled.stages["cu"]).encode()).hexdigest()[:12]
    found.predicted_us, found.bound = predicted.us, predicted.bound
    return found


def prepared(only: str, processes: int, clock_ghz: float) -> Iterator[Case]:
    """The cases whose name has `only`, all of their candidates compiled and predicted."""
    chosen = [(number, case) for number, case in enumerate(cases()) if only in case.name]
    with ProcessPoolExecutor(processes) as pool:
        asked = [
            [pool.submit(predict, number, config, clock_ghz) for config in case.configs]
            for number, case in chosen
        ]
        for (_, case), futures in zip(chosen, asked, strict=True):
            case.candidates = [future.result() for future in futures]
    for _, case in chosen:
        for candidate in case.candidates:
            if not candidate.failure:
                candidate.launch = case.make(case.case, candidate.config)
        yield case


def measure(case: Case, soak: float, window: float) -> None:
    """Time every candidate in turn, on arrays of random numbers."""
    import torch

    from tawa.runtime import launch
    from tawa.runtime.descriptor import TensorDescriptor
    from tawa.runtime.timing import interleaved

    arrays: dict[tuple[int, ...], list[Any]] = {}

    def on_device(value: Any, used: dict[tuple[int, ...], int]) -> Any:
        if not isinstance(value, TensorDescriptor):
            return value
        shape = tuple(value.shape)
        number = used[shape] = used.get(shape, -1) + 1
        pool = arrays.setdefault(shape, [])
        if number == len(pool):
            pool.append(torch.randn(shape, device="cuda", dtype=torch.float16))
        return TensorDescriptor.from_tensor(pool[number], list(value.block_shape))

    works: dict[str, Callable[[], Any]] = {}
    for found in case.candidates:
        if found.launch is None or found.failure:
            continue
        compiled, grid, args = found.launch
        used: dict[tuple[int, ...], int] = {}
        moved = [on_device(value, used) for value in args]
        launcher = launch.load(compiled.spec, compiled.cubin)
        works[found.config] = lambda run=launcher, g=grid, a=moved: run.launch(g, *a)
        works[found.config]()
    torch.cuda.synchronize()
    times = interleaved(works, rounds=2, soak=soak, window=window)
    for found in case.candidates:
        if found.config in times:
            found.measured_us = times[found.config].median * 1e3


def recall(case: Case) -> None:
    """Give candidates the times of the last run that has them, of the same programs.

    A schedule's number stands for another order once the compiler or its solver changes.
    """
    rows = map(json.loads, (RESULTS / "ranking.jsonl").read_text().splitlines())
    known = {row.get("kernel"): row for row in rows if row["case"] == case.case and "ms" in row}
    for found in case.candidates:
        if found.kernel in known:
            found.measured_us = known[found.kernel]["ms"] * 1e3


def ranks(values: list[float]) -> Any:
    """Ranks from 0, the mean rank for equal values."""
    order = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)
    data = np.asarray(values)
    for value in set(values):
        order[data == value] = order[data == value].mean()
    return order


def spearman(a: list[float], b: list[float]) -> float:
    """Spearman's rank correlation."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def kendall(a: list[float], b: list[float]) -> float:
    """Kendall's rank correlation (tau-a): pairs in the same order less those in the other."""
    x, y = np.asarray(a), np.asarray(b)
    upper = np.triu_indices(len(a), 1)
    same = np.sign(x[:, None] - x)[upper] * np.sign(y[:, None] - y)[upper]
    return float(same.mean())


def report(case: Case) -> dict[str, Any]:
    """Print a case's candidates, fastest predicted first; its correlation and lost time."""
    print(f"\n{case.name}")
    good = [c for c in case.candidates if not c.failure]
    for c in sorted(good, key=lambda c: c.predicted_us):
        measured = f"measured {c.measured_us:8.1f} us" if c.measured_us else ""
        text = f"predicted {c.predicted_us:8.1f} us, {c.bound:8} {c.seconds:.2f} s  {measured}"
        print(f"  {c.config:80} {text}", flush=True)
    for c in case.candidates:
        if c.failure:
            print(f"  {c.config:80} {c.failure[:120]}", flush=True)
    timed = [c for c in good if c.measured_us]
    if len(timed) < 3:
        return {}
    both = [c.predicted_us for c in timed], [c.measured_us for c in timed]
    found, pairs = spearman(*both), kendall(*both)
    chosen = min(timed, key=lambda c: c.predicted_us)
    best = min(timed, key=lambda c: c.measured_us)
    lost = chosen.measured_us / best.measured_us - 1
    first = timed[0].measured_us / best.measured_us - 1
    few = sorted(timed, key=lambda c: c.predicted_us)[:FEW]
    left = min(c.measured_us for c in few) / best.measured_us - 1
    print(
        f"  Spearman {found:.3f}, Kendall {pairs:.3f} over {len(timed)}; off the best: "
        f"{first:.1%} the first, {lost:.1%} the first predicted, {left:.1%} the best of {FEW}"
    )
    return {
        "spearman": round(found, 4), "kendall": round(pairs, 4), "candidates": len(timed),
        "first": round(first, 4), "lost": round(lost, 4), "lost_of_few": round(left, 4),
    }  # fmt: skip


def main() -> None:
    """Predict, and unless it is a dry run measure, every case whose name matches."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--dry", action="store_true", help="compile and predict only")
    parser.add_argument("--again", action="store_true", help="compare with the last run's times")
    parser.add_argument("--only", default="", help="part of the names of the cases to take")
    parser.add_argument(
        "--processes", type=int, default=len(os.sched_getaffinity(0)), help="compiling"
    )
    parser.add_argument("--clock", type=float, default=1.5, help="GHz, of all predictions")
    parser.add_argument("--soak", type=float, default=0.1)
    parser.add_argument("--window", type=float, default=0.1)
    options = parser.parse_args()
    run: Any = None
    for case in prepared(options.only, options.processes, options.clock):
        if options.again:
            recall(case)
        elif not options.dry:
            from rows import Run  # needs a device

            run = run or Run("ranking", options.rows)
            measure(case, options.soak, options.window)
        found = report(case)
        for c in case.candidates if run is not None else ():
            times = {"ms": c.measured_us / 1e3} if c.measured_us else {"error_text": c.failure}
            more: dict[str, Any] = {"predicted_ms": c.predicted_us / 1e3, "kernel": c.kernel}
            more["clock_mhz"] = options.clock * 1e3
            run.add(case.case, "tawa", None, config=c.config, **times, **more)
        if run is not None and found:
            run.add(case.case, "tawa", None, **found)


if __name__ == "__main__":
    main()
