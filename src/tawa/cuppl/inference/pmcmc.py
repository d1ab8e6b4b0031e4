"""Particle Markov chain Monte Carlo (Andrieu, Doucet and Holenstein, JRSS B 2010).

`independent_chain` is particle independent Metropolis-Hastings, `gibbs_chain` particle Gibbs, and
`marginal_chain` particle marginal Metropolis-Hastings over the choices of a prior program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import FIELD, Executable, Workers
from tawa.cuppl.inference.record import Record
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.inference.smc import Smc, SmcRun, run_smc
from tawa.cuppl.natives import control as k
from tawa.cuppl.natives import trace as tn
from tawa.cuppl.typing.failures import HEAP_FULL, TRACE_FULL, AllWeightsZero
from tawa.functional.errors import FunctionalError

__all__ = ["Draws", "Proposals", "gibbs_chain", "independent_chain", "marginal_chain"]

FIRST_ATTEMPTS = 100
"""How often a chain may try to find a first run that has weight."""
FIRST_HEAP = 1 << 20
"""Words of the first heap for results of a prior."""

Words = npt.NDArray[np.int64]


@dataclass(slots=True)
class Draws:
    """Results of a chain, a column each."""

    columns: list[Words] = field(default_factory=list[Words])
    log_evidence: list[float] = field(default_factory=list[float])
    accepted: int = 0
    memory: list[Words] = field(default_factory=list[Words])
    parameters: list[object] = field(default_factory=list[object])


def _pick(run: SmcRun, random: np.random.Generator) -> int:
    """A particle in proportion to its weight."""
    weights = np.exp(run.log_weights - run.log_weights.max())
    return int(random.choice(len(weights), p=weights / weights.sum()))


def independent_chain(
    executable: Executable, workers: Workers, draws: int, particles: int, seed: int, limits: Limits
) -> Draws:
    """Each iteration proposes a particle of a new SMC run."""
    random = np.random.Generator(np.random.Philox(key=seed))
    out = Draws()
    evidence, column = -math.inf, np.zeros(0, dtype=np.int64)
    attempts = 0
    while len(out.columns) < draws:
        stream = 1024 + 4 * attempts
        attempts += 1
        try:
            run = run_smc(executable, workers, particles, seed, 0.5, limits, stream=stream)
        except AllWeightsZero:
            if attempts >= FIRST_ATTEMPTS and not out.columns:
                raise
            if out.columns:  # a proposal without weight is rejected
                out.columns.append(column)
                out.log_evidence.append(evidence)
            continue
        if math.log(random.random()) < run.log_evidence - evidence:
            evidence = run.log_evidence
            column = run.results[:, _pick(run, random)].copy()
            out.memory.extend(run.memory)
            out.accepted += 1
        out.columns.append(column)
        out.log_evidence.append(evidence)
    return out


@dataclass(slots=True)
class _Conditional(Smc):
    """SMC in which slot 0 replays a path: (key, key, particle) for each step."""

    path: Words | None = None
    history: list[Words] = field(default_factory=list[Words])

    def start(self) -> None:
        """Also set the path, and come back after every step."""
        Smc.start(self)
        self.control[k.TURNS] = 1
        if self.path is not None:
            self.control[k.RETAINED] = 1
            self.control[k.PATH] = self.path.ctypes.data

    def turned(self, parents: Words) -> None:
        """Remember who descends from whom."""
        self.history.append(parents[: self.particles].copy())

    def lineage(self, index: int) -> Words:
        """The path of the particle that ends in a slot."""
        slots = [index]
        for parents in reversed(self.history):
            slots.append(int(parents[slots[-1]]))
        slots.reverse()
        key = (self.seed & 0xFFFFFFFF, self.seed >> 32 & 0xFFFFFFFF)
        rows = [(*key, slot) for slot in slots]
        for step, slot in enumerate(slots):
            if slot == 0 and self.path is not None:
                old = self.path[3 * step : 3 * step + 3].tolist()
                rows[step] = (old[0], old[1], old[2])
        return np.array(rows, dtype=np.int64).reshape(-1)


def gibbs_chain(
    executable: Executable, workers: Workers, draws: int, particles: int, seed: int, limits: Limits
) -> Draws:
    """Each iteration runs SMC around the particle that the one before it chose."""
    random = np.random.Generator(np.random.Philox(key=seed))
    out = Draws()
    path: Words | None = None
    for iteration in range(draws):
        smc, run = _conditional_run(
            executable, workers, particles, seed ^ (iteration + 1) << 33, limits, path
        )
        index = _pick(run, random)
        path = smc.lineage(index)
        out.columns.append(run.results[:, index].copy())
        out.log_evidence.append(run.log_evidence)
        out.memory.extend(run.memory)
        out.accepted += index != 0
    return out


def _conditional_run(
    executable: Executable, workers: Workers, particles: int, seed: int, limits: Limits,
    path: Words | None,
) -> tuple[_Conditional, SmcRun]:  # fmt: skip
    """One run around a path; the first one, which has none, is tried until it has weight."""
    for attempt in range(FIRST_ATTEMPTS):
        # Every step resamples: 2 is above any share of effective particles.
        smc = _Conditional(
            executable, workers, particles, seed ^ attempt << 56, 2.0, limits, None, path=path
        )  # fmt: skip
        try:
            return smc, smc.run()
        except AllWeightsZero:
            if path is not None or attempt == FIRST_ATTEMPTS - 1:
                raise
    raise AssertionError("the loop returns or raises")


def marginal_chain(
    prior: Executable,
    workers: Workers,
    estimate: Callable[[Words, int], float],
    draws: int,
    seed: int,
    limits: Limits,
) -> Draws:
    """Metropolis-Hastings over the choices of `prior`, one at a time.

    `estimate(words, iteration)` is an unbiased estimate's logarithm of the likelihood of the
    prior's result.
    """
    random = np.random.Generator(np.random.Philox(key=seed))
    out = Draws()
    proposals, record = Proposals(prior, workers, seed, limits, out.memory), Record()
    weight, column = -math.inf, proposals.result.copy()
    for iteration in range(draws):
        count = int(record.words[tn.OLD_COUNT])
        proposed = int(random.integers(count)) if count and weight > -math.inf else -1
        ratio = proposals.propose(record, proposed, iteration)
        new = estimate(proposals.result, iteration) if ratio > -math.inf else -math.inf
        change = math.inf if proposed < 0 else new - weight + ratio
        if new > -math.inf and math.log(random.random()) < change:
            proposals.accept(record)
            weight, column = new, proposals.result.copy()
            out.accepted += 1
        out.columns.append(column)
        out.log_evidence.append(weight)
    return out


@dataclass(slots=True)
class Proposals:
    """Runs of a prior program of whose choices one, or all, are drawn anew."""

    prior: Executable
    workers: Workers
    seed: int
    limits: Limits
    memory: list[Words]
    """Heaps that results refer to: the last one has room."""
    control: Words = field(default_factory=lambda: np.zeros(tn.CHAIN_WORDS, dtype=np.int64))
    result: Words = field(init=False)
    """Of the last run."""

    def __post_init__(self) -> None:
        self.result = np.zeros(max(1, len(self.prior.lowered.results)), dtype=np.int64)
        c, seed = self.control, self.seed
        c[tn.SEED_LOW], c[tn.SEED_HIGH] = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
        c[tn.SCRATCH], c[tn.FUEL] = self.result.ctypes.data, self.limits.max_steps
        self.new_heap(FIRST_HEAP)

    def new_heap(self, words: int) -> None:
        """A heap; the old ones stay for the results that are in them."""
        self.memory.append(np.empty(words, dtype=np.int64))
        context, base = self.workers.contexts[0], self.memory[-1].ctypes.data
        context[FIELD["heap"]], context[FIELD["heap_end"]] = base, base + 8 * words

    def propose(self, record: Record, proposed: int, iteration: int) -> float:
        """Run with one choice drawn anew (all, if it is -1): log of the ratio of densities."""
        self.control[tn.ITERATION] = iteration

        def work(thread: int, context: Words) -> int:
            del thread
            context[FIELD["draw"]] = context[FIELD["made"]] = 0
            given = [self.control.ctypes.data, record.words.ctypes.data, proposed]
            return self.prior.call("traced_run", context, given)

        while (status := self.workers.run(work)[0]) in (TRACE_FULL, HEAP_FULL):
            if status == TRACE_FULL:
                record.grow()
            elif 16 * len(self.memory[-1]) > self.limits.max_memory:
                raise self.error(status, iteration)
            else:
                self.new_heap(2 * len(self.memory[-1]))
        if status == tn.REJECTED:
            return -math.inf
        if status:
            raise self.error(status, iteration)
        words = record.words
        ratio = float(words[tn.RATIO : tn.RATIO + 1].view(np.float64)[0])
        old, new = int(words[tn.OLD_COUNT]), int(words[tn.COUNT])
        return ratio + (math.log(old / new) if old and new else 0.0)

    def error(self, status: int, iteration: int) -> FunctionalError:
        """The error of a run that failed."""
        site = int(self.workers.contexts[0][FIELD["site"]])
        return failure(self.prior.lowered.elaborated, status, site, self.seed, 0, iteration)

    def accept(self, record: Record) -> None:
        """Be where the last run was."""
        self.prior.call("accept_run", self.workers.contexts[0], [record.words.ctypes.data])
