"""Effective samples a second of many chains on a GPU, beside those of BlackJAX and NumPyro.

    python benchmarks/cuppl_chains.py [--models arK,garch11] [--chains 1024] [--seconds 160]

Draws after a warm-up, all in double precision. An effective sample is counted for the quantity of
which there are fewest. Times are of second calls, so without compilation, from the starts of the
chains to their draws on the host, warm-up included; `device_ms` is what kernels take of one more
call (`device_run_ms`), and `call_ms` is of the whole call, with its diagnostics. Effective samples
are ArviZ's `bulk`. Peers run in processes of their own, with a time limit. Before that, chains on
the GPU are compared with those of the CPU, bit for bit. Rows go to `results/cuppl-chains.jsonl`.
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

import numpy as np
from cuppl_nuts_models import PROGRAMS, observed
from rows import commit

from tawa import cuppl
from tawa.cuppl.results.chains import bulk_sample_size, r_hat
from tawa.runtime import driver

HERE = Path(__file__).parent
MODELS = "eight_schools_noncentered,arK,kidscore_interaction,garch11,hmm_example"
PEERS = "chees:100,chees:50,chees:300,meads:1000,numpyro:100"
"""Samplers, and how many transitions warm them up."""


def same_draws(model: cuppl.Model, data: dict[str, Any]) -> bool:
    """Whether some chains of the GPU are those of the CPU."""
    given: dict[str, Any] = {"warm_up": 40, "chains": 48, "data": data, "pooled": True, "seed": 1}
    here, there = (model.nuts(10, device=device, **given) for device in ("cpu", "gpu"))
    words = [[run.words for run in posterior.runs] for posterior in (here, there)]
    return np.array_equal(*words)


def summary(columns: list[np.ndarray[Any, Any]]) -> dict[str, Any]:
    """Facts about draws, (chains, draws) of each quantity."""
    return {
        "ess": round(min(bulk_sample_size(one) for one in columns)),
        "r_hat": round(max(r_hat(one) for one in columns), 4),
        "means": [float(f"{one.mean():.5g}") for one in columns],
        "sds": [float(f"{one.std():.5g}") for one in columns],
    }


class Watched:
    """A device with an event before and after each launch."""

    def __init__(self, device: Any) -> None:
        self.device, self.events = device, list[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def record(self) -> None:
        """An event after what was launched so far."""
        self.events.append(driver.checked("cuEventCreate", 0))
        driver.checked("cuEventRecord", self.events[-1], self.device.stream)

    def launch(self, steps: Any, control: int) -> None:
        """Launch kernels."""
        self.record()
        self.device.launch(steps, control)
        self.record()

    @property
    def milliseconds(self) -> float:
        """That all launches have taken."""
        pairs = zip(self.events[::2], self.events[1::2], strict=True)
        return sum(float(driver.checked("cuEventElapsedTime", *pair)) for pair in pairs)


def on_the_device(model: cuppl.Model, draws: int, given: dict[str, Any]) -> dict[str, Any]:
    """How long kernels run in a call, how many they are, and how long the call takes."""
    device = model.chains_device(given["chains"])
    watched = Watched(device)
    model.use_chains_device(watched)
    posterior = model.nuts(draws, seed=2, **given)
    model.use_chains_device(device)
    return {
        "device_ms": round(watched.milliseconds, 2),
        "launches": len(watched.events) // 2,
        "device_run_ms": round(1000 * posterior.runs[0].device_seconds, 2),
    }


def ours(model: cuppl.Model, data: dict[str, Any], args: Any) -> dict[str, Any]:
    """Milliseconds for an effective sample."""
    given: dict[str, Any] = {
        "warm_up": args.warm_up, "chains": args.chains, "data": data, "pooled": True,
        "device": "gpu",
    }  # fmt: skip
    model.nuts(args.draws, **given)
    seconds, calls, sizes, found = list[float](), list[float](), list[int](), dict[str, Any]()
    for seed in range(1, 4):
        begin = time.perf_counter()
        posterior = model.nuts(args.draws, seed=seed, **given)
        calls.append(time.perf_counter() - begin)
        seconds.append(posterior.runs[0].device_seconds)
        names = posterior.columns
        found = summary([posterior.chains_of(name) for name in names])
        sizes.append(found["ess"])
        found["n_steps"] = float(posterior.statistics["n_steps"].mean())
        found["divergent"] = posterior.diagnostics["divergent"]
    found |= on_the_device(model, args.draws, given)
    found["seconds"], found["sizes"] = seconds, sizes
    found["call_ms"] = round(1000 * statistics.median(calls), 1)
    return found


def theirs(peer: str, warm_up: int, name: str, data: dict[str, Any], args: Any) -> dict[str, Any]:
    """The same for a peer, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "draws.npz")
        command = [
            args.python, str(HERE / "cuppl_chains_peers.py"), peer, name, str(args.chains),
            str(warm_up), str(args.draws), out,
        ]  # fmt: skip
        environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        try:
            done = subprocess.run(
                command, input=json.dumps(data), capture_output=True, text=True, env=environment,
                timeout=args.patience,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"error_text": f"not done in {args.patience} s"}
        if done.returncode:
            return {"error_text": (done.stderr.strip().splitlines() or ["?"])[-1][:300]}
        facts = json.loads(done.stdout.splitlines()[-1])
        draws = np.load(out)["draws"]
    found = summary([draws[:, :, q] for q in range(draws.shape[2])])
    return {**found, "seconds": facts["seconds"], "sizes": [found["ess"]], **facts["more"]}


def add(shared: dict[str, Any], case: dict[str, Any], impl: str, found: dict[str, Any]) -> float:
    """Write a row, and a line for people; effective samples a second."""
    made: dict[str, Any] = {**shared, "case": case, "impl": impl, **found}
    rate = 0.0
    if "seconds" in made:
        spent = statistics.median(made["seconds"])
        rate = statistics.median(made.pop("sizes")) / spent
        made["ms"] = 1000 / max(rate, 1e-9)
        made["seconds"] = [round(one, 4) for one in made["seconds"]]
        shown = f"{rate:12,.0f} ess/s {spent:8.4f} s, ess {made['ess']}, r_hat {made['r_hat']}"
        if "call_ms" in made:
            shown += f", kernels {made['device_ms']} of {made['device_run_ms']} ms"
            shown += f" ({made['launches']} launches), call {made['call_ms']} ms"
    else:
        shown = made["error_text"]
    with (Path(shared["out"]) / "cuppl-chains.jsonl").open("a") as file:
        file.write(json.dumps({k: v for k, v in made.items() if k != "out"}) + "\n")
    print(f"{case['model']:26} {impl:14} {shown}", flush=True)
    return rate


def main() -> None:
    """Measure all models in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--chains", type=int, default=1024)
    parser.add_argument("--warm-up", type=int, default=20, help="transitions before ours")
    parser.add_argument("--peers", default=PEERS)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--python", default=sys.executable, help="a Python that has JAX")
    parser.add_argument("--patience", type=int, default=40, help="seconds for a peer")
    parser.add_argument("--seconds", type=float, default=1e9, help="no peer starts after that")
    parser.add_argument("--out", default=str(HERE / "results"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    begin = time.monotonic()
    shared = {
        "run": f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}", "commit": commit(),
        "suite": "cuppl-chains", "device": driver.device(0).name, "out": args.out,
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "numpy": metadata.version("numpy"),
    }  # fmt: skip
    data = observed()
    case = {"chains": args.chains, "warm_up": args.warm_up, "draws": args.draws}
    rates: dict[str, float] = {}
    for name in args.models.split(","):
        model = cuppl.model(PROGRAMS[name])
        found = {"bits_as_on_the_cpu": same_draws(model, data[name])}
        print(f"{name:26} as on the CPU: {found['bits_as_on_the_cpu']}", flush=True)
        found |= ours(model, data[name], args)
        rates[name] = add(shared, {"model": name, **case}, "tawa", found)
    for peer, _, warm_up in (one.partition(":") for one in args.peers.split(",")):
        for name in args.models.split(","):
            if time.monotonic() - begin > args.seconds:
                continue
            found = theirs(peer, int(warm_up), name, data[name], args)
            rate = add(shared, {"model": name, **case, "warm_up": int(warm_up)}, peer, found)
            if rate:
                print(f"{'':26} {rates[name] / rate:.2f} times {peer}'s", flush=True)


if __name__ == "__main__":
    main()
