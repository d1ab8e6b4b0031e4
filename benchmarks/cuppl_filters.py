"""Bootstrap filters beside the package `particles`, one thread.

    python benchmarks/cuppl_filters.py [--peers PYTHON] [--models linear,volatility]

Both resample systematically below half of the particles, over 200 observations; `particles` gets
its models from `cuppl_filters_peers.py`. Times are processor seconds, the least of several runs,
compilation apart. Of the linear model the evidence is known: the Kalman filter's is printed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tawa import cuppl

HERE = Path(__file__).parent
SIZES = {1_000: 20, 10_000: 6, 100_000: 3}
"""Particles, and how many runs."""
ONE_CORE = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")
STEP = """
input y : vector[KIND]
def main () =
  fold (fn x v ->
    let n = sample (normal MEAN SD) in
    observe OBSERVED v;
    n) (sample (normal 0 1)) y
"""


def _program(mean: str, sd: str, observed: str, kind: str = "float") -> str:
    parts = {"MEAN": mean, "SD": sd, "OBSERVED": observed, "KIND": kind}
    text = STEP
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


PROGRAMS = {
    "linear": _program("(0.9 * x)", "0.5", "(normal n 0.7)"),
    "volatility": _program("(-1.0 + 0.95 * (x + 1.0))", "0.3", "(normal 0 (exp (0.5 * n)))"),
    "growth": _program("(0.5 * x + 25.0 * x / (1.0 + x * x))", "3.0", "(normal (0.05 * n * n) 1)"),
    "counts": _program("(0.9 * x)", "0.5", "(poisson (exp n))", "int"),
}


def observed(model: str) -> list[float]:
    """Data that the model itself makes up."""
    random = np.random.default_rng(3)
    x, y = float(random.normal()), list[float]()
    for _ in range(200):
        e, d = random.normal(size=2)
        match model:
            case "volatility":
                x = -1.0 + 0.95 * (x + 1.0) + 0.3 * e
                y.append(float(np.exp(0.5 * x) * d))
            case "growth":
                x = 0.5 * x + 25.0 * x / (1.0 + x * x) + 3.0 * e
                y.append(float(0.05 * x * x + d))
            case _:
                x = 0.9 * x + 0.5 * e
                count = model == "counts"
                y.append(int(random.poisson(np.exp(x))) if count else float(x + 0.7 * d))
    return y


def kalman(y: list[float]) -> float:
    """The log evidence of the linear model."""
    mean, variance, total = 0.0, 1.0, 0.0
    for v in y:
        mean, variance = 0.9 * mean, 0.81 * variance + 0.25
        spread = variance + 0.49
        total -= 0.5 * (math.log(2.0 * math.pi * spread) + (v - mean) ** 2 / spread)
        gain = variance / spread
        mean, variance = mean + gain * (v - mean), (1.0 - gain) * variance
    return total


def ours(model: str, y: list[float]) -> dict[str, Any]:
    """The least seconds for each number of particles, and an estimate of the evidence."""
    program, found = cuppl.model(PROGRAMS[model]), dict[str, Any]()
    for particles, runs in SIZES.items():
        spent = list[float]()
        for seed in range(runs):
            begin = time.process_time()
            posterior = program.smc(particles, data={"y": y}, seed=seed, threads=1)
            spent.append(time.process_time() - begin)
        found[str(particles)] = [min(spent[1:]), posterior.log_evidence]
    return found


def theirs(python: str, model: str, y: list[float]) -> dict[str, Any]:
    """The same of `particles`."""
    given = json.dumps({"y": y, "sizes": SIZES})
    done = subprocess.run(
        [python, str(HERE / "cuppl_filters_peers.py"), model], input=given, text=True,
        stdout=subprocess.PIPE, check=True, env={**os.environ, **dict.fromkeys(ONE_CORE, "1")},
    )  # fmt: skip
    return json.loads(done.stdout)


def main() -> None:
    """Measure all models in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="a Python that has `particles`")
    parser.add_argument("--models", default=",".join(PROGRAMS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for model in given.models.split(","):
        y = observed(model)
        mine = ours(model, y)
        other = theirs(given.peers, model, y) if given.peers else {}
        if model == "linear":
            print(f"{model:12} log evidence {kalman(y):.4f}, exactly")
        for particles, (seconds, evidence) in mine.items():
            nanoseconds = 1e9 * seconds / (int(particles) * len(y))
            line = f"{model:12} {particles:>7} {nanoseconds:6.1f} ns a step, {evidence:.3f}"
            if other:
                peer, theirs_evidence = other[particles]
                line += f"; particles {theirs_evidence:.3f}, {peer / seconds:.2f} times as long"
            print(line, flush=True)


if __name__ == "__main__":
    main()
