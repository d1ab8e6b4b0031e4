"""CuPPL on a GPU where memory counts: growing vectors, and a thousand million particles.

    python benchmarks/cuppl_gpu_sizes.py [--rows FOLDER] [--only mixture,epidemic,largest,devices]
        [--particles 1e9] [--devices 2]

A mixture whose particles grow vectors of clusters, the epidemic of `cuppl_gpu.py`, and the
birth-death model with as many particles as one asks for, whose answers are known; and the same
with its particles on several GPUs of one host beside one GPU.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from cuppl_cases import LAMBDA, LOG_Z, MU, birth_death, epidemic
from cuppl_gpu import load
from rows import Run

from tawa import cuppl
from tawa.runtime.timing import Timing

GIB = 2**30
MIXTURE = """
input ys : vector[float]

def step (counts, means) y =
  let k = sample (categorical (counts ++ [1.0])) in
  let means = if k < length means then means else means ++ [sample (normal 0 3)] in
  let counts = tabulate (length means) (fn j ->
    (if j < length counts then counts.[j] else 0.0) + (if j == k then 1.0 else 0.0)) in
  observe (normal means.[k] 0.5) y;
  (counts, means)

def main () = let (counts, means) = fold step ([], []) ys in length means
"""


def points() -> dict[str, Any]:
    """30 points of two clusters, made up with a fixed seed."""
    random = np.random.default_rng(1)
    centre = np.where(random.random(30) < 0.4, -2.0, 1.5)
    return {"ys": centre + 0.5 * random.normal(size=30)}


def timed(model: cuppl.Model, data: dict[str, Any], n: int, runs: int, **more: Any) -> Any:
    """Some runs with other seeds after a first one: the posterior, times, and seconds of calls."""
    model.smc(min(n, 10_000), data=data, device="gpu", **more)
    begin = time.perf_counter()
    found = model.smc(n, data=data, runs=runs, seed=100, device="gpu", **more)
    call = (time.perf_counter() - begin) / runs
    return found, Timing(tuple(1000 * one.device_seconds for one in found.runs)), call


def mixture(run: Run) -> None:
    """A million particles, and whether a few have the CPU's bits."""
    model, data = cuppl.model(MIXTURE), points()
    here, there = (model.smc(20_000, data=data, seed=1, device=d) for d in ("cpu", "gpu"))
    same = here.log_evidence == there.log_evidence and np.array_equal(here[0], there[0])
    found, timing, call = timed(model, data, 1_000_000, 5)
    case = {"model": "growing mixture", "particles": 1_000_000}
    run.add(case, "tawa", timing, call_ms=round(1000 * call, 1), bits_as_on_the_cpu=bool(same))
    print(
        f"mixture           1000000 {timing.median:9.1f} ms ({1000 * call:.1f} with all results), "
        f"log Z {found.log_evidence:.4f} +- {found.log_evidence_error:.4f}, "
        f"{found.mean(0):.3f} clusters; bits as on the CPU: {same}",
        flush=True,
    )


def days(run: Run) -> None:
    """131,072 particles through 400 days."""
    model, data = load("sir"), epidemic()
    for ess in (0.5, 1.0):
        _, timing, _ = timed(model, data, 131_072, 5, ess_threshold=ess)
        case = {"model": "sir", "particles": 131_072, "steps": 400, "ess_threshold": ess}
        run.add(case, "tawa", timing)
        print(
            f"sir                131072 {timing.median:9.1f} ms (least {min(timing.times):.1f}), "
            f"ess_threshold {ess}",
            flush=True,
        )


def largest(run: Run, n: int) -> None:
    """Birth-death with many particles, against the exact answers."""
    limits = cuppl.Limits(max_memory=1 << 38)
    data = birth_death()["crbd_branches"]
    found, timing, call = timed(load("crbd_branches"), data, n, 1, limits=limits, ess_threshold=1.0)
    one = found.runs[0]
    means = {name: found.expectation(name) for name in ("lambda", "mu")}
    error = {"log_evidence": [found.log_evidence, LOG_Z, found.log_evidence_error]}
    for name, exact in (("lambda", LAMBDA), ("mu", MU)):
        error[name] = [means[name][0], exact, means[name][1]]
    worst = max(abs(value - exact) / away for value, exact, away in error.values())
    run.add(
        {"model": "crbd_branches", "particles": n, "ess_threshold": 1.0}, "tawa", timing,
        error=error, standard_errors=round(worst, 2), bytes_allocated=one.device_memory,
        rows=one.device_rows, call_ms=round(1000 * call, 1),
    )  # fmt: skip
    print(
        f"crbd_branches {n:>11} {timing.median:9.1f} ms ({1000 * call:.0f} with all results), "
        f"{one.device_memory / GIB:.2f} GiB, {worst:.2f} standard errors at most: {error}",
        flush=True,
    )


def shared(run: Run, count: int, sizes: tuple[int, ...] = (1_000_000, 10_000_000)) -> None:
    """Birth-death on some devices together, beside one."""
    model, data = load("crbd_branches"), birth_death()["crbd_branches"]
    for n in sizes:
        given: dict[str, Any] = {"ess_threshold": 1.0}
        one, alone, _ = timed(model, data, n, 3, **given)
        several, together, _ = timed(model, data, n, 3, devices=count, **given)
        same = all(
            np.array_equal(a.words, b.words) and a.log_evidence == b.log_evidence
            for a, b in zip(one.runs, several.runs, strict=True)
        )
        ratio = alone.median / together.median
        case = {"model": "crbd_branches", "particles": n, "devices": count}
        run.add(case, "tawa", together, one_device_ms=alone.median, same_bits=same)
        print(
            f"crbd_branches {n:>11} {alone.median:9.1f} ms on one device, {together.median:.1f} on "
            f"{count}: {ratio:.2f} times as fast; the same bits: {same}",
            flush=True,
        )


def main() -> None:
    """Measure and write rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--only", default="mixture,epidemic,largest")
    parser.add_argument("--particles", type=float, default=1e9, help="of the largest case")
    parser.add_argument("--devices", type=int, default=2, help="GPUs that share particles")
    given = parser.parse_args()
    warnings.simplefilter("ignore", cuppl.InferenceWarning)
    run, wanted = Run("cuppl-gpu-sizes", given.rows), given.only.split(",")
    if "mixture" in wanted:
        mixture(run)
    if "epidemic" in wanted:
        days(run)
    if "largest" in wanted:
        largest(run, int(given.particles))
    if "devices" in wanted:
        shared(run, given.devices)


if __name__ == "__main__":
    main()
