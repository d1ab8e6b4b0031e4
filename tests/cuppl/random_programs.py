"""What must hold for each random program.

Eight particles at once give the bits of one after the other, with and without resampling, on one
thread and on two; importance sampling, SMC and enumeration agree, on the results and on the
evidence. A program that draws from densities is compared with its twin of finite choices.
`scripts/cuppl_programs.py` tries more than a test has time for.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from host_device import HostDevice

from tawa import cuppl
from tawa.cuppl.cpu import executable as ex
from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.gpu.smc import run_on_gpu
from tawa.cuppl.inference.importance import run_importance
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.inference.smc import SmcRun, run_smc
from tawa.cuppl.lowering.pipeline import lower
from tawa.cuppl.typing.failures import FAILURES, UnboundedRecursion
from tawa.functional.errors import FunctionalError

SIGMAS = 6.0
PARTICLES = (4000, 100_000)
"""If so many seem to be wrong, more decide."""
MOST_PATHS = 200_000
Outcome = dict[object, float] | str
RUNTIME = {kind.__name__ for kind, _ in FAILURES.values()}
NO_WEIGHTS = "no weights"
TOO_MANY = UnboundedRecursion.__name__


def alone(model: cuppl.Model, lanes: bool, threads: int = 1) -> SmcRun:
    """A run of likelihood weighting, eight particles at once or not."""
    executable = ex.Executable.build(lower(model.elaborated, False), lanes=lanes)
    workers, _block = model.workers(None, threads)
    if executable.lowered.machine is not None:  # it has prompts
        return run_smc(executable, workers, 203, 7, 0.0, Limits())
    return run_importance(executable, workers, 203, 7, Limits())


def filtered(model: cuppl.Model, lanes: bool, threads: int = 1) -> SmcRun | str:
    """A run of SMC that resamples often, eight particles at once or not; or why it failed."""
    executable = ex.Executable.build(lower(model.elaborated, True), lanes=lanes)
    if executable.lowered.machine is None:
        return NO_WEIGHTS
    workers, _block = model.workers(None, threads)
    try:
        return run_smc(executable, workers, 203, 7, 0.9, Limits())
    except FunctionalError as error:
        return str(error)


def same(one: SmcRun | str, other: SmcRun | str) -> bool:
    """Whether two runs have the same bits, or failed alike."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return np.array_equal(one.results, other.results) and np.array_equal(
        one.log_weights, other.log_weights
    )


def outcome(
    source: str, method: str, particles: int = PARTICLES[0]
) -> tuple[Outcome, float, float]:
    """The probability of each result (or the error's name), the evidence, the effective sample size."""
    try:
        model = cuppl.model(source)
        if method == "enumerate":
            found, size = model.enumerate(max_paths=MOST_PATHS), math.inf
        else:
            found = getattr(model, method)(particles, seed=particles)
            size = 1.0 / (found.runs[0].relative_variance() + 1.0 / particles)
        return dict(found.probabilities()), found.log_evidence, size
    except FunctionalError as error:
        return type(error).__name__, -math.inf, 0.0


def apart(exact: tuple[Outcome, float, float], found: tuple[Outcome, float, float]) -> list[str]:
    """How an answer differs from the exact one, beyond what chance explains."""
    right, answer, size = exact[0], found[0], found[2]
    if isinstance(right, str) or isinstance(answer, str):
        # Enumeration meets every failure, sampling only those that are probable.
        met = right in RUNTIME and (right == answer or not isinstance(answer, str))
        return [] if met else [f"{answer} where enumeration has {right}"]
    out: list[str] = []
    for value in {*right, *answer}:
        p, q = right.get(value, 0.0), answer.get(value, 0.0)
        if abs(p - q) > SIGMAS * math.sqrt((p * (1.0 - p) + 1.0 / size) / size):
            out.append(f"{value} has {q}, not {p}")
    if abs(math.expm1(found[1] - exact[1])) > SIGMAS / math.sqrt(size):
        out.append(f"log evidence {found[1]}, not {exact[1]}")
    return out


def problems(source: str, finite: str | None = None) -> list[str]:
    """What is wrong with the answers for a program, of which a twin may be finite."""
    exact = outcome(finite or source, "enumerate")
    if exact[0] == TOO_MANY:
        return []
    out: list[str] = []
    for method in ("importance", "smc"):
        wrong = apart(exact, outcome(source, method))
        if wrong:
            wrong = apart(exact, outcome(source, method, PARTICLES[1]))
        out += [f"{method}: {one}" for one in wrong]
    if isinstance(exact[0], str):
        return out
    model = cuppl.model(source)
    for run in (alone, filtered):
        together = run(model, True)
        if not same(together, run(model, False)):
            out.append(f"{run.__name__}: together, particles have other bits than one by one")
        if not same(together, run(model, True, 2)):
            out.append(f"{run.__name__}: two threads give other bits than one")
    return out


def on_host(source: str, folder: Path) -> list[str]:
    """How the GPU's text, compiled for the host, differs from the CPU's code."""
    model = cuppl.model(source)
    lowered = model.gpu_code(True)
    device = HostDevice(lowered, folder)
    image = encode_inputs(model.elaborated, {})
    exact = filtered(model, True)
    exact = alone(model, True) if exact == NO_WEIGHTS else exact
    try:
        found = run_on_gpu(device, lowered, image, 203, 7, 0.9, Limits()).run
    except FunctionalError as error:
        found = str(error)
    return [] if same(exact, found) else ["the GPU's text gives other bits"]
