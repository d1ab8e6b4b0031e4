"""Independent runs and chains in other processes, or on other machines.

An island is one run of sequential Monte Carlo or one chain. It is a pure function of the program,
the data and its seed, so it does not matter where it runs: the posterior is the one that the same
method of `Model` gives with the same seed. What travels is the program's text, and arrays back.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from multiprocessing import get_context
from typing import Any, Protocol

from tawa.base.user_frames import entries
from tawa.cuppl.model import Model, model
from tawa.cuppl.results.chains import ChainPosterior
from tawa.cuppl.results.posterior import InferenceWarning, Posterior, Run
from tawa.cuppl.typing.errors import BadSetting

__all__ = ["Executor", "Islands", "ProcessExecutor", "RayExecutor"]


@dataclass(frozen=True, slots=True)
class Task:
    """One island: what to call of which program."""

    source: str
    file: str
    main: str
    method: str
    arguments: dict[str, Any] = field(hash=False)


Found = tuple[list[Run], dict[str, float]]


class Executor(Protocol):
    """Something that runs tasks elsewhere."""

    def map(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> list[Found]:
        """`work` of each task, in their order."""
        ...


@lru_cache(maxsize=8)
def _model(source: str, file: str, main: str) -> Model:
    return model(source, file=file, main=main)


def run_task(task: Task) -> Found:
    """Run an island here, with one thread."""
    program = _model(task.source, task.file, task.main)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InferenceWarning)  # it is about all islands together
        posterior = getattr(program, task.method)(**task.arguments)
    return [run.portable() for run in posterior.runs], posterior.diagnostics


class ProcessExecutor:
    """Processes of this machine."""

    def __init__(self, workers: int | None = None) -> None:
        self.pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))

    def map(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> list[Found]:
        """`work` of each task, in their order."""
        return list(self.pool.map(work, tasks))

    def close(self) -> None:
        """End the processes."""
        self.pool.shutdown()


class RayExecutor:
    """A Ray cluster: `options` are those of `ray.init` (an `address`, say), if it is not running.

    Raises ImportError, which says what to install, without Ray. All nodes need Tawa.
    """

    def __init__(self, **options: Any) -> None:
        try:
            self.ray: Any = import_module("ray")
        except ImportError as error:
            raise ImportError("RayExecutor needs Ray: pip install 'tawa[ray]'") from error
        if not self.ray.is_initialized():
            self.ray.init(**options)

    def map(self, work: Callable[[Task], Found], tasks: Sequence[Task]) -> list[Found]:
        """`work` of each task, in their order."""
        remote = self.ray.remote(work)
        return self.ray.get([remote.remote(task) for task in tasks])

    def close(self) -> None:
        """Leave the cluster."""
        self.ray.shutdown()


@entries
@dataclass
class Islands:
    """A model whose independent runs, or chains, are given to an executor."""

    model: Model
    executor: Executor

    def smc(self, particles: int = 10_000, *, runs: int = 1, **options: Any) -> Posterior:
        """`Model.smc`, one island a run."""
        return self._runs("smc", particles, runs, options)

    def importance(self, particles: int = 10_000, *, runs: int = 1, **options: Any) -> Posterior:
        """`Model.importance`, one island a run."""
        return self._runs("importance", particles, runs, options)

    def mh(self, draws: int = 10_000, *, chains: int = 4, **options: Any) -> Posterior:
        """`Model.mh`, one island a chain."""
        return self._chains("mh", draws, options, [{"first": n} for n in range(chains)])

    def nuts(self, draws: int = 1000, *, chains: int = 4, **options: Any) -> Posterior:
        """`Model.nuts`, one island a chain."""
        return self._seeded("nuts", draws, chains, options, lambda n: 7919 * n)

    def hmc(self, draws: int = 1000, *, chains: int = 4, **options: Any) -> Posterior:
        """`Model.hmc`, one island a chain."""
        return self._seeded("hmc", draws, chains, options, lambda n: 7919 * n)

    def pimh(self, draws: int = 1000, *, chains: int = 2, **options: Any) -> Posterior:
        """`Model.pimh`, one island a chain."""
        return self._seeded("pimh", draws, chains, options, lambda n: n << 48)

    def particle_gibbs(self, draws: int = 1000, *, chains: int = 2, **options: Any) -> Posterior:
        """`Model.particle_gibbs`, one island a chain."""
        return self._seeded("particle_gibbs", draws, chains, options, lambda n: n << 48)

    def _found(self, method: str, each: Sequence[dict[str, Any]]) -> list[Found]:
        one = self.model
        tasks = [Task(one.source, one.file, one.main, method, arguments) for arguments in each]
        return self.executor.map(run_task, tasks)

    def _runs(self, method: str, particles: int, runs: int, options: dict[str, Any]) -> Posterior:
        seed = options.pop("seed", 0)
        each = [
            {"threads": 1, **options, "particles": particles, "seed": seed + n}
            for n in range(runs)
        ]  # fmt: skip
        found = [run for island, _ in self._found(method, each) for run in island]
        posterior = Posterior(self.model.elaborated, found, self.model.names, method)
        posterior.warn()
        return posterior

    def _seeded(
        self, method: str, draws: int, chains: int, options: dict[str, Any],
        offset: Callable[[int], int],
    ) -> Posterior:  # fmt: skip
        if options.get("pooled"):
            raise BadSetting(
                "islands do not learn together", found="`pooled`",
                hint="give each island a model's `nuts` with all its chains, or leave `pooled` out",
            )  # fmt: skip
        seed = options.pop("seed", 0)
        each = [{"seed": seed + offset(n)} for n in range(chains)]
        return self._chains(method, draws, options, each)

    def _chains(
        self, method: str, draws: int, options: dict[str, Any], each: Sequence[dict[str, Any]]
    ) -> Posterior:
        shared = {**options, "draws": draws, "chains": 1}
        found = self._found(method, [{**shared, **own} for own in each])
        runs = [run for island, _ in found for run in island]
        diagnostics = {"accepted": sum(d["accepted"] for _, d in found) / len(found)}
        if method in ("nuts", "hmc"):
            diagnostics["divergent"] = sum(d["divergent"] for _, d in found)
            diagnostics["e_bfmi"] = min(d["e_bfmi"] for _, d in found)
        posterior = ChainPosterior(
            self.model.elaborated, runs, self.model.names, method.replace("_", " "), diagnostics
        )
        posterior.warn()
        return posterior
