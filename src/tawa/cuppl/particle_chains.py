"""Posteriors by chains whose steps are runs of SMC: particle MCMC."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import Executable
from tawa.cuppl.cpu.memory import Decoder, encode_inputs, example_value
from tawa.cuppl.inference.pmcmc import Draws, marginal_chain
from tawa.cuppl.inference.settings import Limits, check_settings, counts
from tawa.cuppl.inference.smc import run_smc
from tawa.cuppl.lowering.traced import lower_traced
from tawa.cuppl.results.chains import ChainPosterior
from tawa.cuppl.results.posterior import Posterior, Run
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.failures import AllWeightsZero

if TYPE_CHECKING:
    from tawa.cuppl.model import Model

__all__ = ["marginal_posterior", "particle_chains"]


def particle_chains(
    model: Model, method: str, run_chain: Callable[..., Draws], draws: int, particles: int,
    data: Mapping[str, Any] | None, seed: int, chains: int, threads: int | None,
    limits: Limits | None,
) -> Posterior:  # fmt: skip
    """Draws of chains that keep, or draw anew, a particle of each run of SMC."""
    draws, chains, particles = counts(draws=draws, chains=chains, particles=particles)
    check_settings(seed)
    executable = model.executable(suspend=True)
    if executable.lowered.machine is None:
        raise UnsupportedMethod(
            f"{method} needs a program with observations", hint="use importance sampling"
        )
    model.check_draws(draws * chains)
    workers, block = model.workers(data, threads or 1)
    runs: list[Run] = []
    accepted = 0
    for chain in range(chains):
        one = run_chain(
            executable, workers, draws, particles, seed + (chain << 48), limits or Limits()
        )
        accepted += one.accepted
        runs.append(_chain_run(one, draws, block))
    return _posterior(model, runs, method, accepted / (chains * draws))


def marginal_posterior(
    model: Model, source: Model, parameters: str, draws: int, particles: int,
    data: Mapping[str, Any] | None, seed: int, threads: int | None, limits: Limits | None,
) -> Posterior:  # fmt: skip
    """Draws of an input of a program, which `source` draws from its prior."""
    draws, particles = counts(draws=draws, particles=particles)
    check_settings(seed)
    lowered = lower_traced(source.elaborated)
    proposals = Executable.build(lowered, "traced_run accept_run")
    given = dict(data or {})
    own = {s.name: given[s.name] for s in source.elaborated.inputs if s.name in given}
    workers, block = source.workers(own, 1)
    decoder = Decoder(source.elaborated)
    executable = model.executable(suspend=True)
    first = {**given, parameters: example_value(source.elaborated.result)}
    smc_workers = model.workers(first, threads)

    def estimate(words: npt.NDArray[np.int64], iteration: int) -> float:
        value = decoder.decode(source.elaborated.result, words.tolist())
        image = encode_inputs(model.elaborated, {**given, parameters: value})
        memory = np.zeros(len(image.words), dtype=np.int64)
        memory[:] = image.at(memory.ctypes.data)
        smc_workers[0].use_inputs(memory.ctypes.data)
        try:
            run = run_smc(
                executable, smc_workers[0], particles, seed + 1, 0.5, limits or Limits(),
                stream=1024 + 4 * iteration,
            )  # fmt: skip
        except AllWeightsZero:
            return -math.inf
        return run.log_evidence

    one = marginal_chain(proposals, workers, estimate, draws, seed, limits or Limits())
    run = _chain_run(one, draws, block)
    return _posterior(source, [run], "pmmh", one.accepted / draws)


def _chain_run(draws: Draws, count: int, block: Any) -> Run:
    words = np.array(draws.columns, dtype=np.int64).T.copy()
    weights = np.full(count, 1.0 / count)
    return Run(words, weights, 0.0, np.arange(count), [*draws.memory, block], count)


def _posterior(model: Model, runs: list[Run], method: str, accepted: float) -> Posterior:
    posterior = ChainPosterior(model.elaborated, runs, model.names, method, {"accepted": accepted})
    posterior.warn()
    return posterior
