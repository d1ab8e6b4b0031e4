"""CuPPL beside its peers, in one run.

    python benchmarks/cuppl.py [--gpu] [--webppl FOLDER] [--largest PARTICLES]

The birth-death model at several sizes, against a filter written by hand in C (compiled here with
gcc) and, if `--webppl` names a folder into which it can be installed with npm, WebPPL. With `--gpu`
the same model and an epidemic run on the first GPU. Prints a table, and one JSON object a row into
benchmarks/results/cuppl.json.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples" / "cuppl"
sys.path.insert(0, str(EXAMPLES))

import crbd  # noqa: E402

from tawa import cuppl  # noqa: E402

EXACT = -307.273912
Row = dict[str, Any]


def cpu_seconds(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall and processor time of a call, and what it returns."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    found = work()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, found


def row(system: str, model: str, particles: int, seconds: float, **more: Any) -> Row:
    found = {"system": system, "model": model, "particles": particles, "seconds": seconds, **more}
    texts = (f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in more.items())
    shown = ", ".join(texts)
    print(f"{system:24} {model:8} {particles:>9} particles {seconds:9.4f} s   {shown}", flush=True)
    return found


def compile_times(path: Path, data: dict[str, Any]) -> Row:
    """The first answer of a new model, with everything that it takes."""
    start = time.perf_counter()
    model = cuppl.load(path)
    model.executable(suspend=True)
    compiled = time.perf_counter() - start
    model.smc(10, data=data, threads=1)
    return row("cuppl, compiling", path.stem, 0, compiled)


def c_filter(text: str, sizes: list[int]) -> list[Row]:
    """The hand-written filter, one thread."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return []
    out: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "filter"
        source = HERE / "crbd_filter.c"
        flags = ["-O3", "-march=native", "-o", str(binary), str(source), "-lm"]
        subprocess.run([compiler, *flags], check=True)
        for n in sizes:
            runs = [
                subprocess.run(
                    [str(binary), str(n), str(seed), str(crbd.RHO)], input=text, text=True,
                    capture_output=True, check=True,
                ).stdout.split()
                for seed in (1, 2, 3)
            ]  # fmt: skip
            best = min(float(r[1]) for r in runs)
            out.append(row("C, one thread", "crbd", n, best, log_evidence=float(runs[0][0])))
    return out


def on_cpu(name: str, data: dict[str, Any], sizes: list[int]) -> list[Row]:
    """CuPPL on one thread and on two."""
    model = cuppl.load(EXAMPLES / f"{name}.ppl")
    model.smc(100, data=data, threads=1)
    out: list[Row] = []
    for n in sizes:
        for threads in (1, 2):
            best: tuple[float, float, Any] = (math.inf, math.inf, None)
            for seed in (1, 2, 3):
                once = cpu_seconds(
                    lambda n=n, t=threads, s=seed: model.smc(
                        n, data=data, seed=s, threads=t, ess_threshold=1.0
                    )
                )
                best = min(best, once, key=lambda r: r[0])
            more = {"processor": best[1], "log_evidence": best[2].log_evidence}
            out.append(row(f"cuppl, {threads} thread(s)", name, n, best[0], **more))
    return out


def webppl(folder: Path, branches: list[tuple[float, float, bool]], sizes: list[int]) -> list[Row]:
    """WebPPL, without its start-up."""
    program = folder / "node_modules" / ".bin" / "webppl"
    if not program.exists():
        subprocess.run(["npm", "install", "--prefix", str(folder), "webppl@0.9.15"], check=True)
    leaves = sum(leaf for _, _, leaf in branches)
    prefactor = (leaves - 1) * math.log(2.0) - math.lgamma(leaves + 1.0)
    out: list[Row] = []
    for n in sizes:
        head = (
            f"var branches = {json.dumps(branches)}; var rho = {crbd.RHO};"
            f"var prefactor = {prefactor}; var particles = {n};\n"
        )
        source = folder / "crbd.wppl"
        source.write_text(head + (HERE / "crbd.wppl").read_text())
        command = [str(program), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        evidence, seconds = done.stdout.split()[:2]
        out.append(row("WebPPL", "crbd", n, float(seconds), log_evidence=float(evidence)))
    return out


def on_gpu(data: dict[str, dict[str, Any]]) -> list[Row]:
    """CuPPL on the first GPU: compile time, birth-death up to 1e7 particles, an epidemic."""
    out: list[Row] = []
    for name in ("crbd", "crbd_branches", "sir"):
        model = cuppl.load(EXAMPLES / f"{name}.ppl")
        start = time.perf_counter()
        model.gpu_device(suspend=True)
        out.append(row("cuppl GPU, compiling", name, 0, time.perf_counter() - start))
        sizes = [131_072] if name == "sir" else [10_000, 100_000, 1_000_000, 10_000_000]
        if name == "crbd":
            sizes.pop()
        for n in sizes:
            best, found = math.inf, None
            for seed in (1, 2, 3):
                start = time.perf_counter()
                found = model.smc(n, data=data[name], seed=seed, device="gpu", ess_threshold=1.0)
                best = min(best, time.perf_counter() - start)
            assert found is not None
            more = {
                "log_evidence": found.log_evidence,
                "memory": found.runs[0].device_memory,
                "device_seconds": found.runs[0].device_seconds,
            }
            out.append(row("cuppl, GPU", name, n, best, **more))
    return out


def epidemic() -> dict[str, Any]:
    """400 days of reports, made up with a fixed seed."""
    random = np.random.default_rng(1)
    population, s, i, r = 100_000, 99_990, 10, 0
    cases: list[int] = []
    for _ in range(400):
        infected = random.binomial(s, 1 - math.exp(-0.2 * i / population))
        recovered = random.binomial(i, 1 - math.exp(-0.1))
        waned = random.binomial(r, 1 - math.exp(-0.01))
        s, i, r = s - infected + waned, i + infected - recovered, r + recovered - waned
        cases.append(int(random.poisson(0.1 * infected + 0.001)))
    return {"cases": cases, "population": population}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--webppl", type=Path)
    parser.add_argument("--largest", type=int, default=100_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore", cuppl.InferenceWarning)
    tree = crbd.read_tree(EXAMPLES / "data" / "alcedinidae.phyjson")
    branches = crbd.branches(tree)
    data = {
        "crbd": {"tree": tree, "rho": crbd.RHO},
        "crbd_branches": {"branches": branches, "rho": crbd.RHO},
        "sir": epidemic(),
    }
    sizes = [n for n in (1000, 10_000, 100_000, 1_000_000) if n <= options.largest]
    text = "\n".join(f"{p} {a} {int(leaf)}" for p, a, leaf in branches)
    print(f"{platform.processor() or platform.machine()}; exact log evidence {EXACT}")
    rows = [compile_times(EXAMPLES / f"{name}.ppl", data[name]) for name in ("crbd", "sir")]
    rows += c_filter(text, sizes)
    for name in ("crbd", "crbd_branches"):
        rows += on_cpu(name, data[name], sizes)
    if options.webppl is not None:
        options.webppl.mkdir(parents=True, exist_ok=True)
        rows += webppl(options.webppl, branches, [n for n in sizes if n <= 10_000])
    if options.gpu:
        rows += on_gpu(data)
    results = HERE / "results" / "cuppl.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text("\n".join(json.dumps(r) for r in rows) + "\n")


if __name__ == "__main__":
    main()
