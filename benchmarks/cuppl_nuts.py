"""Effective samples a second of NUTS beside NumPyro, BlackJAX, nutpie and Stan, on one core.

    python benchmarks/cuppl_nuts.py [--peers PYTHON] [--stan PYTHON] [--seeds 3] [--patience 60]
        [--models arK]

One chain of 1,000 draws after 1,000 to warm up, from default settings, for each seed, one system
after the other; NumPyro and BlackJAX with a diagonal and with a dense metric. An effective sample
is counted by ArviZ's bulk estimate, for the quantity of which a chain has the fewest. Times are
processor seconds, compilation apart. Rows go to `results/cuppl-nuts.jsonl`: `ms` is for one
effective sample, warm-up included. Rates are of the sums over all seeds. A system that has spent
`--patience` processor seconds on a model gets no more seeds there.
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
from contextlib import suppress
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


class Ours:
    """Chains of CuPPL's."""

    version = ""

    def __init__(self, model: str, data: dict[str, Any]) -> None:
        self.program, self.data = cuppl.model(PROGRAMS[model]), data
        begin = time.process_time()
        self.program.nuts(2, warm_up=2, chains=1, data=data)
        self.first = time.process_time() - begin

    def seconds(self, seed: int, draws: int) -> tuple[float, cuppl.Posterior]:
        """Processor seconds of a chain."""
        begin = time.process_time()
        found = self.program.nuts(draws, chains=1, threads=1, data=self.data, seed=seed)
        return time.process_time() - begin, found

    def chain(self, seed: int) -> dict[str, Any]:
        """What a chain takes, its warm-up alone, and its effective samples."""
        warming, _ = self.seconds(seed, 1)
        seconds, posterior = self.seconds(seed, 1000)
        size = least_effective([posterior[name] for name in posterior.columns])
        return {"seconds": seconds, "warming": warming, "size": size}


class Theirs:
    """A peer's chains, in a process that answers for one seed after the other."""

    def __init__(self, command: list[str], data: dict[str, Any], folder: Path) -> None:
        self.out = folder / f"{'-'.join(command[2:])}-{Path(command[1]).stem}.npy"
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env={**os.environ, **ONE_CORE},
        )  # fmt: skip
        self.say({"data": data, "out": str(self.out)})
        self.first, self.version = 0.0, ""
        assert self.process.stdout is not None
        self.process.stdout.readline()  # nothing else runs while it compiles

    def say(self, what: Any) -> None:
        """A line for the process."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def chain(self, seed: int) -> dict[str, Any]:
        """What a chain takes, its warm-up alone, and its effective samples."""
        assert self.process.stdout is not None
        self.say(seed)
        found = json.loads(self.process.stdout.readline())
        self.first, self.version = found.pop("first"), found.pop("version")
        return {**found, "size": least_effective(list(np.load(self.out).T))}

    def end(self) -> None:
        """Let the process go, with those that it started."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it ended by itself
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def peers(given: argparse.Namespace, model: str) -> dict[str, list[str]]:
    """The commands of the systems to compare with."""
    found: dict[str, list[str]] = {}
    if given.peers:
        for system in ("numpyro", "blackjax"):
            for metric in ("diagonal", "dense"):
                script = str(HERE / "cuppl_nuts_numpyro.py")
                found[f"{system} {metric}"] = [given.peers, script, model, system, metric]
        found["nutpie"] = [given.peers, str(HERE / "cuppl_nuts_nutpie.py"), model]
    if given.stan:
        found["stan"] = [given.stan, str(HERE / "cuppl_nuts_stan.py"), model]
    wanted = given.systems.split(",") if given.systems else list(found)
    return {name: command for name, command in found.items() if name in wanted}


def measured(
    model: str, data: dict[str, Any], commands: dict[str, list[str]], seeds: int, patience: float
) -> dict[str, dict[str, Any]]:
    """Seconds and effective samples of all systems, one after the other for each seed."""
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        own = Ours(model, data)
        systems: dict[str, Any] = {"tawa": own}
        systems |= {name: Theirs(c, data, Path(folder)) for name, c in commands.items()}
        for seed in range(seeds):
            for name, system in systems.items():
                if over(rows.get(name, {}), patience):
                    continue
                try:
                    one = system.chain(seed)
                except (ValueError, OSError) as error:
                    rows[name] = {"error_text": str(error) or type(error).__name__}
                    continue
                kept = rows.setdefault(name, {"seconds": [], "warming": [], "sizes": []})
                kept["seconds"].append(one["seconds"])
                kept["warming"].append(one["warming"])
                kept["sizes"].append(one["size"])
                kept["first"], kept["version"] = system.first, system.version
        for system in systems.values():
            if system is not own:
                system.end()
    return rows


def over(found: dict[str, Any], patience: float) -> bool:
    """Whether a system gets no more seeds."""
    return "error_text" in found or sum(found.get("seconds", ())) > patience


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
            "warming": [round(t, 4) for t in found["warming"]],
            "seconds_to_first": round(found["first"], 2),
        }  # fmt: skip
        shown = f"{1000 / made['ms']:10.1f} effective samples a second"
    if found.get("version"):
        made["peer_version"] = found["version"]
    with RESULTS.open("a") as file:
        file.write(json.dumps(made) + "\n")
    print(f"{model:28} {impl:18} {shown}", flush=True)
    return made


def main() -> None:
    """Measure all models in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="a Python that has NumPyro, BlackJAX, nutpie and PyMC")
    parser.add_argument("--stan", help="a Python that has PyStan")
    parser.add_argument("--systems", help="those of the peers to measure, with commas")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--patience", type=float, default=1e9, help="seconds for a system")
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
        rows = measured(model, data[model], peers(given, model), given.seeds, given.patience)
        own = rows["tawa"]
        for name, found in rows.items():
            row(shared, model, name, found)
            if name != "tawa" and "sizes" in found:
                whole, after = (rate(own, part) / rate(found, part) for part in (0.0, 1.0))
                print(
                    f"{'':28} {whole:.2f} times that; {after:.2f} without the warm-up", flush=True
                )


def rate(found: dict[str, Any], warm_up: float) -> float:
    """Effective samples a second over all seeds, less so much of the warm-up."""
    seconds = sum(found["seconds"]) - warm_up * sum(found["warming"])
    return sum(found["sizes"]) / seconds


if __name__ == "__main__":
    main()
