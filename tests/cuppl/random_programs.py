"""What must hold for each random program.

Eight particles at once give the bits of one after the other, with and without resampling, on one
thread and on two; importance sampling, SMC and enumeration agree, on the results and on the
evidence. A program that draws from densities is compared with its twin of finite choices.
`scripts/cuppl_programs.py` tries more than a test has time for.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from host_device import HostDevice

from tawa import cuppl
from tawa.cuppl.cpu import executable as ex
from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.gpu.smc import run_on_gpu
from tawa.cuppl.inference.importance import run_importance
from tawa.cuppl.inference.settings import Limits
from tawa.cuppl.inference.smc import SmcRun, run_smc
from tawa.cuppl.lowering.pipeline import Lowered, lower
from tawa.cuppl.typing.failures import FAILURES, UnboundedRecursion
from tawa.functional.errors import FunctionalError

SIGMAS = 6.0
PARTICLES = (4000, 100_000)
"""If so many seem to be wrong, more decide."""
MOST_PATHS = 200_000
Outcome = dict[object, float] | str
RUNTIME = {kind.__name__ for kind, _ in FAILURES.values()}
PARTICLES_ONCE = 203
TOO_MANY = UnboundedRecursion.__name__


def one_by_one(model: cuppl.Model, suspend: bool) -> ex.Executable:
    """Code in which no eight particles run at once."""
    return ex.Executable.build(lower(model.elaborated, suspend), lanes=False)


def run_once(model: cuppl.Model, code: ex.Executable, threads: int = 1) -> SmcRun | str:
    """A run, with resampling as often as there are weights if it stops there; or why it failed."""
    workers, _block = model.workers(None, threads)
    try:
        if code.lowered.machine is None:
            return run_importance(code, workers, PARTICLES_ONCE, 7, Limits())
        return run_smc(code, workers, PARTICLES_ONCE, 7, 0.9, Limits())
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
    model: cuppl.Model, method: str, particles: int = PARTICLES[0]
) -> tuple[Outcome, float, float]:
    """The probability of each result (or the error's name), the evidence, the effective sample size."""
    try:
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
    model = cuppl.model(source)
    exact = outcome(cuppl.model(finite) if finite else model, "enumerate")
    if exact[0] == TOO_MANY:
        return []
    out: list[str] = []
    for method in ("importance", "smc"):
        wrong = apart(exact, outcome(model, method))
        if wrong:
            wrong = apart(exact, outcome(model, method, PARTICLES[1]))
        out += [f"{method}: {one}" for one in wrong]
    if isinstance(exact[0], str):
        return out
    for suspend in (False, True):
        lanes, scalar = model.executable(suspend), one_by_one(model, suspend)
        together = run_once(model, lanes)
        if not same(together, run_once(model, scalar)):
            out.append(f"suspend={suspend}: together, particles have other bits than one by one")
        if not same(together, run_once(model, lanes, 2)):
            out.append(f"suspend={suspend}: two threads give other bits than one")
    return out


def on_host(source: str, folder: Path) -> list[str]:
    """How the GPU's text, compiled for the host, differs from the CPU's code."""
    model = cuppl.model(source)
    lowered = model.gpu_code(True)
    return _other_bits(model, lowered, HostDevice(lowered, folder))


def on_gpu(source: str) -> list[str]:
    """How the first GPU's results differ from the CPU's."""
    model = cuppl.model(source)
    return _other_bits(model, *model.gpu_device(True))


def _other_bits(model: cuppl.Model, lowered: Lowered, device: Any) -> list[str]:
    """How a device's results, or its error, differ from the CPU's."""
    image = encode_inputs(model.elaborated, {})
    exact = run_once(model, model.executable(suspend=True))
    try:
        found = run_on_gpu(device, lowered, image, PARTICLES_ONCE, 7, 0.9, Limits()).run
    except FunctionalError as error:
        found = str(error)
    return [] if same(exact, found) else ["the GPU's text gives other bits"]
