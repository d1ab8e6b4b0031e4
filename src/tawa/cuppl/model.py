"""A program with its inference methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tawa.base.cores import cores
from tawa.base.user_frames import entries, entry
from tawa.cuppl.approximations import approximated
from tawa.cuppl.chains import chains_posterior
from tawa.cuppl.core.ir import Type
from tawa.cuppl.cpu.executable import Executable, Workers
from tawa.cuppl.cpu.memory import encode_inputs
from tawa.cuppl.elaboration.elaborate import elaborate
from tawa.cuppl.elaboration.shared import Elaborated
from tawa.cuppl.inference.adaptation import Plan
from tawa.cuppl.inference.checkpoint import Checkpoint, Folder, checkpoint_of
from tawa.cuppl.inference.density import GRADIENT, LEVELS, Density
from tawa.cuppl.inference.enumeration import run_enumeration
from tawa.cuppl.inference.importance import run_importance
from tawa.cuppl.inference.mh import Chain, run_chains
from tawa.cuppl.inference.pathfinder import find_path
from tawa.cuppl.inference.pmcmc import gibbs_chain, independent_chain
from tawa.cuppl.inference.settings import Limits, check_memory, check_settings, counts
from tawa.cuppl.inference.smc import run_smc
from tawa.cuppl.inference.variational import fit_normal
from tawa.cuppl.lowering.continuous import lower_continuous
from tawa.cuppl.lowering.pipeline import Lowered, lower
from tawa.cuppl.lowering.traced import lower_enumerated, lower_traced
from tawa.cuppl.particle_chains import (
    Marginal,
    marginal_posterior,
    nested_posterior,
    particle_chains,
)
from tawa.cuppl.populations import device_for, gpu_posterior
from tawa.cuppl.results.chains import ChainPosterior
from tawa.cuppl.results.posterior import Posterior, Run
from tawa.cuppl.tempered import tempered_posterior
from tawa.cuppl.typing.errors import UnsupportedMethod
from tawa.cuppl.typing.language import checked_program, is_worth_keeping
from tawa.functional import syntax as s
from tawa.functional.garbage import collection_paused
from tawa.functional.language import CheckedModule, read_source, require_text
from tawa.functional.terms import Con

__all__ = ["Model", "load", "model"]


@entries
@dataclass(repr=False)
class Model:
    """A checked program. Compiled code is kept for each way of running it."""

    module: CheckedModule
    main: str = "main"
    source: str = ""
    file: str = "<model>"
    _elaborated: Elaborated | None = None
    _executables: dict[str, Executable] = field(default_factory=dict[str, Executable])
    _devices: dict[tuple[bool, int], tuple[Lowered, Any]] = field(
        default_factory=dict[tuple[bool, int], tuple[Lowered, Any]]
    )
    _chains_device: Any = None
    _chains_kernels: Any = None

    def __repr__(self) -> str:
        """The file, and the type of what runs."""
        scheme = self.module.schemes.get(self.main)
        type_ = self.module.inference.printer().scheme(scheme) if scheme else "missing"
        return f"<model {self.file}: {self.main} : {type_}>"

    @property
    @collection_paused()
    def elaborated(self) -> Elaborated:
        """The program in the core."""
        if self._elaborated is None:
            self._elaborated = elaborate(self.module, self.main)
        return self._elaborated

    @collection_paused()
    def executable(self, suspend: bool) -> Executable:
        """Compiled code; with `suspend`, it stops at every weight."""
        key = f"suspend={suspend}"
        if key not in self._executables:
            if (
                self._elaborated is None
                and self.source
                and not self.module.imports
                and is_worth_keeping(self.source)
            ):
                parts = ["executable", key, self.file, self.source, self.main]
                found = Executable.kept(parts, lambda: lower(self.elaborated, suspend))
                self._elaborated = found.lowered.elaborated
            else:
                found = Executable.build(lower(self.elaborated, suspend))
            self._executables[key] = found
        return self._executables[key]

    @collection_paused()
    def traced(self, entry: str) -> Executable:
        """Code that records its choices."""
        if entry not in self._executables:
            lowering = lower_enumerated if entry == "enumerate_paths" else lower_traced
            lowered = lowering(self.elaborated)
            self._executables[entry] = Executable.build(lowered, entry)
        return self._executables[entry]

    @property
    def names(self) -> list[str]:
        """Names of the parts of the result."""
        result = self.elaborated.result
        assert isinstance(result, Con)
        definitions = self.module.syntax.definitions()
        body: s.Expression = next(d for d in definitions if d.name == self.main).body
        while isinstance(body, s.Let):
            body = body.body
        if result.name != "tuple":
            return [body.name if isinstance(body, s.Name) else "result"]
        items = body.items if isinstance(body, s.Tuple) else ()
        names = [i.name if isinstance(i, s.Name) else "" for i in items]
        names += [""] * (len(result.arguments) - len(names))
        return [n if n and names.count(n) == 1 else str(k) for k, n in enumerate(names)]

    def workers(self, data: Mapping[str, Any] | None, threads: int | None) -> tuple[Workers, Any]:
        """Threads, and the memory of the inputs that they read."""
        image = encode_inputs(self.elaborated, data or {})
        block = np.zeros(len(image.words), dtype=np.int64)
        block[:] = image.at(block.ctypes.data)
        (count,) = counts(threads=cores() if threads is None else threads)
        return Workers(count, block.ctypes.data, inputs_size=block.nbytes), block

    def checkpoint(
        self, given: Folder, data: Mapping[str, Any] | None, device: str, *settings: object
    ) -> Checkpoint | None:
        """Where a run with some settings is kept, and goes on from."""
        return checkpoint_of(given, self, data, device, settings)

    def importance(
        self,
        particles: int = 10_000,
        *,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        runs: int = 1,
        threads: int | None = None,
        limits: Limits | None = None,
        device: str = "cpu",
    ) -> Posterior:
        """Likelihood weighting: draws from the prior, weighted by the observations."""
        particles, runs = counts(particles=particles, runs=runs)
        check_settings(seed, device)
        if device != "cpu":
            return gpu_posterior(self, "importance", particles, data, seed, runs, 0.0, limits)
        executable = self.executable(suspend=False)
        workers, block = self.workers(data, threads)
        found: list[Run] = []
        for run in range(runs):
            if executable.lowered.machine is not None:
                one = run_smc(
                    executable, workers, particles, seed + run, 0.0, limits or Limits()
                )  # fmt: skip
            else:
                one = run_importance(executable, workers, particles, seed + run, limits or Limits())
            found.append(Run.of(one))
            found[-1].memory.append(block)
        posterior = Posterior(self.elaborated, found, self.names, "importance")
        posterior.warn()
        return posterior

    def smc(
        self,
        particles: int = 10_000,
        *,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        runs: int = 1,
        ess_threshold: float = 0.5,
        threads: int | None = None,
        limits: Limits | None = None,
        progress: bool = False,
        device: str = "cpu",
        devices: int = 1,
        checkpoint: Folder = None,
    ) -> Posterior:
        """Sequential Monte Carlo: resamples after a weight when the effective sample size is low.

        `ess_threshold` is a fraction of the particles: 1 resamples at every weight. `device` is
        `cpu` or `gpu`; both give the same draws and the same answer, also if so many GPUs
        (`devices`) share the particles. With `checkpoint`, a folder, a run that is broken off goes
        on from there, with the same answer.
        """
        particles, runs, devices = counts(particles=particles, runs=runs, devices=devices)
        check_settings(seed, device, devices=devices, ess_threshold=ess_threshold)
        kept = self.checkpoint(checkpoint, data, device, "smc", particles, seed, ess_threshold)
        if device != "cpu":
            return gpu_posterior(
                self, "smc", particles, data, seed, runs, ess_threshold, limits, devices
            )
        executable = self.executable(suspend=True)
        if executable.lowered.machine is None:
            return self.importance(
                particles, data=data, seed=seed, runs=runs, threads=threads, limits=limits
            )
        workers, block = self.workers(data, threads)
        found: list[Run] = []
        with _bar("smc", progress) as report:
            for run in range(runs):
                one = run_smc(
                    executable, workers, particles, seed + run, ess_threshold, limits or Limits(),
                    report, place=kept.place(f"run-{run}") if kept else None,
                )  # fmt: skip
                found.append(Run.of(one))
                found[-1].memory.append(block)
        posterior = Posterior(self.elaborated, found, self.names, "smc")
        posterior.warn()
        return posterior

    def mh(
        self,
        draws: int = 10_000,
        *,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        chains: int = 4,
        burn: int | None = None,
        thin: int = 1,
        threads: int | None = None,
        limits: Limits | None = None,
        progress: bool = False,
        first: int = 0,
    ) -> Posterior:
        """Lightweight Metropolis-Hastings: one choice at a time is drawn anew.

        `draws` results are kept of each chain, one every `thin` iterations, after `burn` (by
        default as many as are kept). `first` is the number of the first chain, which sets its
        random numbers apart from those of the others.
        """
        draws, chains, thin = counts(draws=draws, chains=chains, thin=thin)
        check_settings(seed)
        executable = self.traced("mh_chain")
        workers, block = self.workers(data, 1)
        self.check_draws(draws * chains)
        burn, first = counts(0, burn=draws * thin if burn is None else burn, first=first)
        all_chains = [
            Chain(executable, n, draws, burn, thin, seed, limits or Limits(), workers.inputs)
            for n in range(first, first + chains)
        ]
        with _bar("mh", progress) as report:
            run_chains(all_chains, threads or cores(), report)
        runs = [
            Run(c.rows[: len(c.references)], np.full(draws, 1.0 / draws), 0.0,
                np.arange(draws), [c.heap, block], draws)
            for c in all_chains
        ]  # fmt: skip
        accepted = float(np.mean([c.accepted for c in all_chains]))
        posterior = ChainPosterior(self.elaborated, runs, self.names, "mh", {"accepted": accepted})
        posterior.warn()
        return posterior

    def tempered(
        self,
        particles: int = 1000,
        *,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        sweeps: int = 5,
        ess_threshold: float = 0.5,
        threads: int | None = None,
        limits: Limits | None = None,
        progress: bool = False,
    ) -> Posterior:
        """From the prior to the posterior by powers of the weight, for any program.

        The power grows from 0 to 1, each time by as much as leaves the share `ess_threshold` of the
        particles effective. They are resampled then, and each is moved as `mh` does, `sweeps` times
        as often as it has choices; floats also walk. So posteriors that are far narrower than the
        prior, or have several modes, are reached, and the evidence is estimated.
        """
        return tempered_posterior(
            self, particles, data, seed, sweeps, ess_threshold, threads, limits, progress
        )

    def nuts(
        self,
        draws: int = 1000,
        *,
        warm_up: int = 1000,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        chains: int = 4,
        target: float = 0.8,
        metric: str = "auto",
        pooled: bool = False,
        max_doublings: int = 10,
        threads: int | None = None,
        limits: Limits | None = None,
        progress: bool = False,
        device: str = "cpu",
        checkpoint: Folder = None,
    ) -> Posterior:
        """The no-U-turn sampler, for programs with a fixed number of continuous choices.

        `metric` is `dense` (a covariance is learned where the warm-up has three draws for each
        value), `diagonal` (variances), `low_rank` (variances, and up to 64 directions in which
        values go together; for programs of many values) or `auto`: dense for at most 64 values,
        else diagonal. With `pooled`, chains learn one step size and one metric together: many
        chains need a short warm-up then. Chains run on `threads`, by default all cores, or on the
        `gpu` (`device`); the draws do not depend on that. A trajectory has at most
        2**`max_doublings` - 1 steps. `target` is the acceptance that the step size is chosen for.
        Chains that diverge in the warm-up raise it, up to 0.95.
        """
        (max_doublings,) = counts(max_doublings=max_doublings)
        plan = Plan(draws, warm_up, seed, target, 0, metric, max_doublings, pooled)
        with _bar("nuts", progress) as report:
            return chains_posterior(
                self, plan, data, chains, threads, limits, report, device, checkpoint
            )

    def hmc(
        self,
        draws: int = 1000,
        *,
        leapfrogs: int = 16,
        warm_up: int = 1000,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        chains: int = 4,
        target: float = 0.8,
        metric: str = "auto",
        pooled: bool = False,
        threads: int | None = None,
        limits: Limits | None = None,
        progress: bool = False,
        device: str = "cpu",
        checkpoint: Folder = None,
    ) -> Posterior:
        """Hamiltonian Monte Carlo with a fixed number of leapfrog steps; settings as for `nuts`."""
        (leapfrogs,) = counts(leapfrogs=leapfrogs)
        plan = Plan(draws, warm_up, seed, target, leapfrogs, metric, pooled=pooled)
        with _bar("hmc", progress) as report:
            return chains_posterior(
                self, plan, data, chains, threads, limits, report, device, checkpoint
            )

    def density(
        self,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        limits: Limits | None = None,
        levels: int = LEVELS,
    ) -> tuple[Density, Any]:
        """The log density on unconstrained reals with its gradient, and memory to keep alive.

        The thread that evaluates it has room for `levels` nested calls.
        """
        workers, block = self.workers(data, 1)
        return self.density_of(workers.inputs, limits or Limits(), seed, levels), block

    def density_of(self, inputs: int, limits: Limits, seed: int, levels: int) -> Density:
        """The same for inputs in memory."""
        words = self.elaborated.layouts.words(self.elaborated.result)
        references = [word is Type.REF for word in words]
        return Density(self.gradient_code(), inputs, references, limits, seed, levels)

    def gradient_code(self) -> Executable:
        """The differentiated program. Raises UnsupportedMethod if it has no gradient."""
        if "gradient" not in self._executables:
            lowered = lower_continuous(self.elaborated)
            if lowered is None:
                raise UnsupportedMethod("a program that uses `shift` has no gradient")
            self._executables["gradient"] = Executable.build(lowered, GRADIENT)
        return self._executables["gradient"]

    def chains_device(self, chains: int) -> Any:
        """Kernels of the differentiated program, for so many chains on the first GPU.

        They are compiled once for chains that have a lane, and once for those that have a warp.
        """
        from tawa.cuppl.gpu.chains import ChainsKernels

        lowered = self.gradient_code().lowered
        if self._chains_device is not None:
            return self._chains_device
        if self._chains_kernels is None:
            self._chains_kernels = ChainsKernels(lowered)
        return self._chains_kernels.device(chains)

    def use_chains_device(self, device: Any) -> None:
        """Run chains on this device from now on."""
        self._chains_device = device

    def pathfinder(
        self,
        draws: int = 1000,
        *,
        paths: int = 4,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        limits: Limits | None = None,
    ) -> Posterior:
        """Pathfinder: normal approximations on the way to modes, for continuous choices.

        Each of the `paths` climbs from a start of its own and gives `draws` draws, which weigh by
        how much likelier the program makes them than the mixture of all normals does; so the
        evidence is estimated too. `diagnostics` has Pareto's k: above 0.7 take `nuts` instead.
        """
        (paths,) = counts(paths=paths)
        return approximated(self, "pathfinder", find_path, draws, paths, data, seed, limits)

    def advi(
        self,
        draws: int = 1000,
        *,
        steps: int = 2000,
        full_rank: bool = True,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        limits: Limits | None = None,
    ) -> Posterior:
        """Variational inference: the normal that diverges least, for continuous choices.

        Its covariance is whole, or diagonal without `full_rank`. Draws are weighed as those of
        `pathfinder`, from whose normal the `steps` start.
        """
        fit = partial(fit_normal, steps=counts(steps=steps)[0], full=full_rank)
        return approximated(self, "advi", fit, draws, 1, data, seed, limits)

    def pimh(
        self,
        draws: int = 1000,
        *,
        particles: int = 100,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        chains: int = 2,
        threads: int | None = None,
        limits: Limits | None = None,
    ) -> Posterior:
        """Particle independent Metropolis-Hastings: every proposal is a new SMC run."""
        return particle_chains(
            self, "pimh", independent_chain, draws, particles, data, seed, chains, threads, limits
        )

    def particle_gibbs(
        self,
        draws: int = 1000,
        *,
        particles: int = 100,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        chains: int = 2,
        threads: int | None = None,
        limits: Limits | None = None,
    ) -> Posterior:
        """Particle Gibbs: SMC runs that each keep the particle chosen before."""
        return particle_chains(
            self,
            "particle Gibbs",
            gibbs_chain,
            draws,
            particles,
            data,
            seed,
            chains,
            threads,
            limits,
        )

    def check_draws(self, draws: int) -> None:
        """Raise BadSetting for more draws of chains than memory holds."""
        words = len(self.elaborated.layouts.words(self.elaborated.result))
        check_memory("draws", draws, 2 * words + 2)

    def pmmh(
        self,
        draws: int = 1000,
        *,
        parameters: str = "theta",
        prior: str = "prior",
        particles: int = 100,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        threads: int | None = None,
        limits: Limits | None = None,
    ) -> Posterior:
        """Particle marginal Metropolis-Hastings over an input of the program.

        The program has `input theta : ...` and `def prior () = ...`, which draws a value of that
        type; the chain is over the choices of `prior`, and SMC estimates the likelihood of `main`.
        The draws that come back are those of the parameters.
        """
        marginal = Marginal(self, Model(self.module, prior), parameters, dict(data or {}))
        return marginal_posterior(marginal, draws, particles, seed, threads, limits)

    def smc2(
        self,
        draws: int = 200,
        *,
        parameters: str = "theta",
        prior: str = "prior",
        particles: int = 100,
        sweeps: int = 1,
        ess_threshold: float = 0.5,
        data: Mapping[str, Any] | None = None,
        seed: int = 0,
        limits: Limits | None = None,
        progress: bool = False,
    ) -> Posterior:
        """SMC over an input of the program, of whose values each has a filter of `particles`.

        The program is as for `pmmh`. `draws` values of the prior go from one weight of `main` to
        the next together. When fewer than the share `ess_threshold` of them are effective they are
        resampled, and their choices are moved, each about `sweeps` times. So the evidence is
        estimated, and several modes are found.
        """
        marginal = Marginal(self, Model(self.module, prior), parameters, dict(data or {}))
        return nested_posterior(
            marginal, draws, particles, seed, sweeps, ess_threshold, limits, progress
        )

    def enumerate(
        self,
        *,
        data: Mapping[str, Any] | None = None,
        tolerance: float = 0.0,
        max_paths: int = 10_000_000,
        limits: Limits | None = None,
    ) -> Posterior:
        """The exact posterior of a program with finite choices.

        Paths whose prior probability is below `tolerance` are dropped, so that programs with
        unboundedly many choices come to an end; `diagnostics["pruned"]` is what was dropped.
        """
        check_settings(0, tolerance=tolerance)
        (max_paths,) = counts(max_paths=max_paths)
        executable = self.traced("enumerate_paths")
        workers, block = self.workers(data, 1)
        found = run_enumeration(executable, workers, tolerance, max_paths, limits or Limits())
        total = float(np.logaddexp.reduce(found.log_weights))
        weights = np.exp(found.log_weights - total)
        run = Run(found.words, weights, total, np.arange(len(weights)), [*found.memory, block])
        more = {"paths": float(found.paths), "pruned": found.pruned}
        return Posterior(self.elaborated, [run], self.names, "enumeration", more, exact=True)

    def gpu_code(self, suspend: bool) -> Lowered:
        """The program as the GPU runs it: no function calls itself."""
        return lower(self.elaborated, suspend, explicit_recursion=True)

    def gpu_device(self, suspend: bool, devices: int = 1) -> tuple[Lowered, Any]:
        """Code and kernels for the first GPUs, compiled once. Raises NoDevice without them."""
        key = (suspend, devices)
        if key not in self._devices:
            lowered = self.gpu_code(suspend)
            self._devices[key] = (lowered, device_for(lowered, devices))
        return self._devices[key]

    def use_device(self, suspend: bool, lowered: Lowered, device: Any) -> None:
        """Run on this device from now on; `lowered` is the code that it was made for."""
        self._devices[suspend, 1] = (lowered, device)


def _bar(title: str, shown: bool) -> Any:
    from tawa.cuppl.results.progress import progress_bar

    return progress_bar(title, shown)


@entry
@collection_paused()
def model(source: str, *, file: str = "<model>", main: str = "main") -> Model:
    """A model from program text. Raises FunctionalError if it is not a well-typed program."""
    return Model(checked_program(require_text(source), file), main, source, file)


@entry
def load(path: str | Path, *, main: str = "main") -> Model:
    """A model from a `.ppl` file."""
    path = path if isinstance(path, Path) else Path(require_text(path))
    return model(read_source(path), file=str(path), main=main)
