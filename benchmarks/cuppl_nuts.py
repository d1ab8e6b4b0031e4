"""Effective samples a second of NUTS, beside NumPyro's, on one core.

    python benchmarks/cuppl_nuts.py [--peers PYTHON] [--seeds 3] [--models arK,garch11]

One chain of 1,000 draws after 1,000 to warm up, from default settings, for each seed; NumPyro with
a diagonal and with a dense metric. An effective sample is counted by ArviZ's bulk estimate, for the
quantity of which a chain has the fewest. Times are processor seconds, warm-up included, compilation
apart. Rows go to `results/cuppl-nuts.jsonl`: `ms` is for one effective sample.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import arviz
import numpy as np
from cuppl_nuts_models import PROGRAMS, observed
from rows import commit

from tawa import cuppl

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "cuppl-nuts.jsonl"
ONE_CORE = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
}


def least_effective(columns: list[np.ndarray[Any, Any]]) -> float:
    """The bulk effective sample size of the quantity that has the fewest."""
    return min(float(arviz.ess(column[None])) for column in columns)


def ours(model: str, data: dict[str, Any], seeds: int) -> dict[str, Any]:
    """Milliseconds for an effective sample, of each seed."""
    program = cuppl.model(PROGRAMS[model])
    begin = time.process_time()
    program.nuts(2, warm_up=2, chains=1, data=data)
    first, spent, sizes = time.process_time() - begin, list[float](), list[float]()
    for seed in range(seeds):
        begin = time.process_time()
        posterior = program.nuts(1000, chains=1, threads=1, data=data, seed=seed)
        spent.append(time.process_time() - begin)
        sizes.append(least_effective([posterior[name] for name in posterior.columns]))
    return {"seconds": spent, "sizes": sizes, "first": first}


def theirs(
    python: str, model: str, data: dict[str, Any], metric: str, seeds: int
) -> dict[str, Any]:
    """The same for NumPyro."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "draws.npz")
        command = [python, str(HERE / "cuppl_nuts_numpyro.py"), model, metric, str(seeds), out]
        done = subprocess.run(
            command, input=json.dumps(data), capture_output=True, text=True,
            env={**os.environ, **ONE_CORE},
        )  # fmt: skip
        if done.returncode:
            return {"error_text": (done.stderr.strip().splitlines() or ["?"])[-1]}
        found = json.loads(done.stdout)
        draws = np.load(out)
        found["sizes"] = [least_effective(list(draws[str(s)].T)) for s in range(seeds)]
        return found


def row(shared: dict[str, Any], model: str, impl: str, found: dict[str, Any]) -> dict[str, Any]:
    """Write a row, and a line for people."""
    made: dict[str, Any] = {**shared, "case": {"model": model, "draws": 1000}, "impl": impl}
    made["load"] = round(os.getloadavg()[0], 1)
    if "error_text" in found:
        made["error_text"] = found["error_text"]
        shown = made["error_text"]
    else:
        ms = [1000 * t / n for t, n in zip(found["seconds"], found["sizes"], strict=True)]
        made |= {
            "ms": round(statistics.median(ms), 5), "ms_min": round(min(ms), 5),
            "ms_max": round(max(ms), 5), "reps": len(ms),
            "ess": [round(size, 1) for size in found["sizes"]],
            "seconds": [round(t, 4) for t in found["seconds"]],
            "seconds_to_first": round(found["first"], 2),
        }  # fmt: skip
        shown = f"{1000 / made['ms']:10.1f} effective samples a second"
    if "version" in found:
        made["peer_version"] = found["version"]
    with RESULTS.open("a") as file:
        file.write(json.dumps(made) + "\n")
    print(f"{model:28} {impl:18} {shown}", flush=True)
    return made


def main() -> None:
    """Measure all models in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="a Python that has NumPyro")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default=",".join(PROGRAMS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE))
    from cuppl import processor

    shared = {
        "run": f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}", "suite": "cuppl-nuts",
        "device": processor(), "commit": commit(),
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "versions": {p: metadata.version(p) for p in ("llvmlite", "numpy", "arviz")},
    }  # fmt: skip
    data = observed()
    for model in given.models.split(","):
        best = row(shared, model, "tawa", ours(model, data[model], given.seeds))
        for metric in ("diagonal", "dense") if given.peers else ():
            found = theirs(given.peers, model, data[model], metric, given.seeds)
            peer = row(shared, model, f"numpyro {metric}", found)
            if "ms" in peer:
                print(f"{'':28} {peer['ms'] / best['ms']:.2f} times NumPyro's", flush=True)


if __name__ == "__main__":
    main()
