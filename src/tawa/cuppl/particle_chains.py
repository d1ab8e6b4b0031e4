"""Posteriors by chains whose steps are runs of SMC: particle MCMC."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import Executable, Workers
from tawa.cuppl.cpu.memory import Decoder, encode_inputs, example_value
from tawa.cuppl.inference.nested import Filter, run_nested
from tawa.cuppl.inference.pmcmc import Draws, marginal_chain
from tawa.cuppl.inference.settings import Limits, check_settings, counts
from tawa.cuppl.inference.smc import run_smc
from tawa.cuppl.inference.weights import relative_weights
from tawa.cuppl.results.chains import ChainPosterior
from tawa.cuppl.results.posterior import Posterior, Run
from tawa.cuppl.results.progress import progress_bar
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.failures import AllWeightsZero

if TYPE_CHECKING:
    from tawa.cuppl.model import Model

__all__ = ["Marginal", "marginal_posterior", "nested_posterior", "particle_chains"]


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


@dataclass(slots=True)
class Marginal:
    """A program with an input that another one draws, the prior."""

    model: Model
    source: Model
    parameters: str
    data: dict[str, Any]

    @property
    def proposals(self) -> Executable:
        """Code of the prior that records its choices."""
        return self.source.traced("traced_run accept_run")

    def prior_workers(self) -> tuple[Workers, Any]:
        """A thread for the prior, and the memory of its inputs."""
        inputs = self.source.elaborated.inputs
        own = {s.name: self.data[s.name] for s in inputs if s.name in self.data}
        return self.source.workers(own, 1)

    def inputs(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Memory of the program's inputs, with a result of the prior."""
        result = self.source.elaborated.result
        value = Decoder(self.source.elaborated).decode(result, words.tolist())
        image = encode_inputs(self.model.elaborated, {**self.data, self.parameters: value})
        memory = np.zeros(len(image.words), dtype=np.int64)
        memory[:] = image.at(memory.ctypes.data)
        return memory


def marginal_posterior(
    marginal: Marginal, draws: int, particles: int, seed: int, threads: int | None,
    limits: Limits | None,
) -> Posterior:  # fmt: skip
    """Draws of an input of a program by a chain over the choices of its prior."""
    draws, particles = counts(draws=draws, particles=particles)
    check_settings(seed)
    source, executable = marginal.source, marginal.model.executable(suspend=True)
    workers, block = marginal.prior_workers()
    first = {**marginal.data, marginal.parameters: example_value(source.elaborated.result)}
    smc_workers = marginal.model.workers(first, threads)

    def estimate(words: npt.NDArray[np.int64], iteration: int) -> float:
        memory = marginal.inputs(words)
        smc_workers[0].use_inputs(memory.ctypes.data)
        try:
            run = run_smc(
                executable, smc_workers[0], particles, seed + 1, 0.5, limits or Limits(),
                stream=1024 + 4 * iteration,
            )  # fmt: skip
        except AllWeightsZero:
            return -math.inf
        return run.log_evidence

    one = marginal_chain(marginal.proposals, workers, estimate, draws, seed, limits or Limits())
    run = _chain_run(one, draws, block)
    return _posterior(source, [run], "pmmh", one.accepted / draws)


def nested_posterior(
    marginal: Marginal, draws: int, particles: int, seed: int, sweeps: int, threshold: float,
    limits: Limits | None, progress: bool,
) -> Posterior:  # fmt: skip
    """Draws of an input of a program by SMC whose particles are filters, and the evidence."""
    draws, particles, sweeps = counts(draws=draws, particles=particles, sweeps=sweeps)
    check_settings(seed, ess_threshold=threshold)
    source, executable = marginal.source, marginal.model.executable(suspend=True)
    if executable.lowered.machine is None:
        raise UnsupportedMethod(
            "smc2 needs a program with observations", hint="use importance sampling"
        )
    workers, block = marginal.prior_workers()

    def new_filter(words: npt.NDArray[np.int64], stream: int) -> Filter:
        memory = marginal.inputs(words)
        own = Workers(1, memory.ctypes.data, inputs_size=memory.nbytes)
        made = Filter(
            executable, own, particles, seed + 1, 0.5, limits or Limits(), None, stream,
            inputs=memory,
        )  # fmt: skip
        made.begin()
        return made

    with progress_bar("smc2", progress) as report:
        found = run_nested(
            marginal.proposals, workers, new_filter, draws, seed, threshold, sweeps,
            limits or Limits(), report,
        )  # fmt: skip
    relative = relative_weights(found.log_weights)
    run = Run(
        found.words, relative / relative.sum(), found.log_evidence, found.ancestors,
        [*found.memory, block], found.steps, found.resampled,
    )  # fmt: skip
    more = {"accepted": found.accepted}
    posterior = Posterior(source.elaborated, [run], source.names, "smc2", more)
    posterior.warn()
    return posterior


def _chain_run(draws: Draws, count: int, block: Any) -> Run:
    words = np.array(draws.columns, dtype=np.int64).T.copy()
    weights = np.full(count, 1.0 / count)
    return Run(words, weights, 0.0, np.arange(count), [*draws.memory, block], count)


def _posterior(model: Model, runs: list[Run], method: str, accepted: float) -> Posterior:
    posterior = ChainPosterior(model.elaborated, runs, model.names, method, {"accepted": accepted})
    posterior.warn()
    return posterior
