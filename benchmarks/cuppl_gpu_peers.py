"""NumPyro on the same GPU: likelihood weighting of models that it can express.

A regression with 50 points and a chain of 100 hidden states, both with as many particles as the
caller likes. NumPyro's model is traced once for all particles (`vmap`) and compiled (`jit`); it is
timed from a key to the evidence and a posterior mean on the host, after a first call.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from cuppl_cases import CURVE
from rows import Run

from tawa import cuppl
from tawa.runtime.timing import Timing

REGRESSION = CURVE.replace("NOISE", "0.3")
CHAIN = """
input ys : vector[float]

def step s y = let next = sample (normal s 1) in observe (normal next 5.0) y; next

def main () = fold step 0.0 ys
"""
REPETITIONS = 11


def inputs() -> dict[str, dict[str, Any]]:
    """Data of both models, made up with a fixed seed."""
    random = np.random.default_rng(3)
    xs = np.linspace(-1, 1, 50)
    ys = 0.3 - 0.7 * xs + 0.5 * xs * xs + 0.3 * random.normal(size=50)
    states = np.cumsum(random.normal(size=100)) + 0.5 * random.normal(size=100)
    return {"regression": {"xs": xs, "ys": ys}, "chain": {"ys": states}}


def numpyro_models() -> dict[str, Callable[..., Any]]:
    """The same models in NumPyro; each returns the value whose mean is taken."""
    numpyro: Any = import_module("numpyro")
    dist: Any = import_module("numpyro.distributions")
    scan: Any = import_module("numpyro.contrib.control_flow").scan

    def regression(xs: Any, ys: Any) -> Any:
        a, b, c = (numpyro.sample(name, dist.Normal(0, 1)) for name in "abc")
        numpyro.sample("y", dist.Normal(a + b * xs + c * xs * xs, 0.3), obs=ys)
        return a

    def chain(ys: Any) -> Any:
        def step(state: Any, y: Any) -> tuple[Any, None]:
            state = numpyro.sample("state", dist.Normal(state, 1.0))
            numpyro.sample("y", dist.Normal(state, 5.0), obs=y)
            return state, None

        return scan(step, 0.0, ys)[0]

    return {"regression": regression, "chain": chain}


def weighted(model: Callable[..., Any], n: int, data: list[Any]) -> Callable[[Any], Any]:
    """Likelihood weighting: from a key to the log evidence and a posterior mean."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    logsumexp: Any = import_module("jax.scipy.special").logsumexp
    handlers: Any = import_module("numpyro.handlers")

    def one(key: Any) -> tuple[Any, Any]:
        with handlers.seed(rng_seed=key), handlers.trace() as trace:
            value = model(*data)
        seen = [s for s in trace.values() if s["type"] == "sample" and s["is_observed"]]
        return sum(jnp.sum(s["fn"].log_prob(s["value"])) for s in seen), value

    def run(key: Any) -> tuple[Any, Any]:
        weights, values = jax.vmap(one)(jax.random.split(key, n))
        total = logsumexp(weights)
        return total - math.log(n), jnp.sum(jnp.exp(weights - total) * values)

    return jax.jit(run)


def numpyro_times(name: str, n: int, wide: bool) -> tuple[Timing, float]:
    """Milliseconds of NumPyro's runs, and the last run's log evidence."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax: Any = import_module("jax")
    import_module("numpyro").enable_x64(wide)
    data = [jax.numpy.asarray(value) for value in inputs()[name].values()]
    run = weighted(numpyro_models()[name], n, data)
    jax.block_until_ready(run(jax.random.PRNGKey(0)))
    times: list[float] = []
    evidence = 0.0
    for seed in range(1, REPETITIONS + 1):
        begin = time.perf_counter()
        evidence, _ = (float(x) for x in run(jax.random.PRNGKey(seed)))
        times.append(1000 * (time.perf_counter() - begin))
    return Timing(tuple(times)), evidence


def tawa_times(name: str, n: int) -> tuple[Timing, Timing, float]:
    """Milliseconds on the device, and of the whole call with all results; the log evidence."""
    model = cuppl.model(REGRESSION if name == "regression" else CHAIN)
    data = inputs()[name]
    model.importance(n, data=data, device="gpu")
    device: list[float] = []
    whole: list[float] = []
    evidence = 0.0
    for seed in range(1, REPETITIONS + 1):
        begin = time.perf_counter()
        found = model.importance(n, data=data, seed=seed, device="gpu")
        whole.append(1000 * (time.perf_counter() - begin))
        device.append(1000 * found.runs[0].device_seconds)
        evidence = found.log_evidence
    return Timing(tuple(device)), Timing(tuple(whole)), evidence


def compare(run: Run, name: str, n: int) -> None:
    """One model, beside NumPyro in single and in double precision."""
    device, whole, evidence = tawa_times(name, n)
    case = {"model": name, "particles": n, "method": "importance"}
    run.add(case, "tawa", device, log_evidence=evidence, call_ms=round(whole.median, 3))
    print(f"{name:14} {n:>9} {device.median:9.2f} ms ({whole.median:.2f} with all results), "
          f"log Z {evidence:.3f}", flush=True)  # fmt: skip
    for wide in (False, True):
        impl = f"numpyro float{64 if wide else 32}"
        try:
            timing, evidence = numpyro_times(name, n, wide)
        except ImportError as error:
            print(f"{name:14} {impl}: {error}")
            return
        run.add(case, impl, timing, log_evidence=evidence)
        print(f"{name:14} {n:>9} {timing.median:9.2f} ms {impl}, log Z {evidence:.3f}", flush=True)
