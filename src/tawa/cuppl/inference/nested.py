"""SMC within SMC: a population of parameters, each with a filter (Chopin, Jacob and others 2013).

All filters go on by a weight at a time, and parameters weigh what their filters estimate. When too
few of them count they are resampled, and moved by particle marginal Metropolis-Hastings: a choice
of the prior is drawn anew or walks, and a new filter runs to where the others are.

A filter is a pure function of parameters and stream, so a copy of it is the same run again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tawa.cuppl.cpu.executable import Executable, Workers
from tawa.cuppl.inference.pmcmc import Proposals
from tawa.cuppl.inference.population import effective, parents_of, scales_of
from tawa.cuppl.inference.record import Record
from tawa.cuppl.inference.settings import Limits, failure
from tawa.cuppl.inference.smc import Smc
from tawa.cuppl.natives import control as k
from tawa.cuppl.natives import trace as tn
from tawa.cuppl.typing.failures import ALL_ZERO, AllWeightsZero

__all__ = ["Filter", "Nested", "run_nested"]

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.int64]
FIRST_STREAM = 1024
STREAMS_APART = 4


@dataclass(slots=True)
class Filter(Smc):
    """A run that goes on by so many weights."""

    inputs: object = None
    """Memory of the parameters and of the data, to keep alive."""
    ended: bool = False

    def go_on(self, last: int) -> float:
        """Run to a weight, or to the end; log of the evidence until there, or minus infinity."""
        try:
            while not self.ended and int(self.control[k.STEP]) < last:
                self.control[k.TURNS] = last - int(self.control[k.STEP])
                self.ended = self.turn()
        except AllWeightsZero:
            self.ended = True
            return -math.inf
        before = float(self.control[k.LOG_Z : k.LOG_Z + 1].view(np.float64)[0])
        return before + float(np.logaddexp.reduce(self.logw)) - math.log(self.particles)


@dataclass(slots=True)
class Nested:
    """Results of the prior (a column each) with their log weights."""

    words: Words
    log_weights: Floats
    log_evidence: float
    ancestors: Words
    steps: int
    resampled: int
    accepted: float
    memory: list[Words]


@dataclass(slots=True)
class _Member:
    """Parameters, with their filter."""

    result: Words
    record: Record = field(default_factory=lambda: Record(16, 32))
    stream: int = 0
    filter: Filter | None = None
    log_evidence: float = -math.inf


@dataclass(slots=True)
class _Population:
    """All parameters, and what is needed to filter with others."""

    proposals: Proposals
    new_filter: Callable[[Words, int], Filter]
    members: list[_Member]
    random: np.random.Generator
    step: int = 0
    streams: int = 0
    iteration: int = 0
    accepted: int = 0
    proposed: int = 0

    def start(self) -> None:
        """Draw all from the prior; those that it rejects have no filter."""
        for one in self.members:
            if self.propose(one.record, -1) > -math.inf:
                self.settle(one, *self.filtered(), 0.0)

    def propose(self, record: Record, choice: int) -> float:
        """Run the prior, with random numbers of its own."""
        self.iteration += 1
        return self.proposals.propose(record, choice, self.iteration)

    def filtered(self) -> tuple[Filter, int]:
        """A filter for what the prior has just given, and its stream."""
        stream = FIRST_STREAM + STREAMS_APART * self.streams
        self.streams += 1
        return self.new_filter(self.proposals.result, stream), stream

    def settle(self, one: _Member, found: Filter, stream: int, log_evidence: float) -> None:
        """Be where the prior has just gone."""
        self.proposals.accept(one.record)
        one.result = self.proposals.result.copy()
        one.filter, one.stream, one.log_evidence = found, stream, log_evidence

    def go_on(self) -> Floats:
        """One weight more: what is added to the log of the evidence of each."""
        self.step += 1
        added = np.full(len(self.members), -math.inf)
        for index, one in enumerate(self.members):
            if one.filter is not None and one.log_evidence > -math.inf:
                now = one.filter.go_on(self.step)
                added[index], one.log_evidence = now - one.log_evidence, now
        return added

    @property
    def ended(self) -> bool:
        """Whether no filter goes on."""
        return all(one.filter is None or one.filter.ended for one in self.members)

    def resample(self, parents: Words) -> None:
        """Copy members; their filters run again."""
        for slot in np.flatnonzero(parents != np.arange(len(parents))).tolist():
            one, parent = self.members[slot], self.members[int(parents[slot])]
            one.record.take(parent.record)
            one.result, one.stream = parent.result, parent.stream
            one.log_evidence, one.filter = parent.log_evidence, None

    def move(self, sweeps: int) -> None:
        """Move each choice of each member about so many times."""
        scales = scales_of([one.record for one in self.members])
        for one in self.members:
            one.record.walk_by(scales)
            for _ in range(sweeps * int(one.record.words[tn.OLD_COUNT])):
                self.move_once(one)
            if one.filter is None:
                one.filter = self.new_filter(one.result, one.stream)
                one.filter.go_on(self.step)

    def move_once(self, one: _Member) -> None:
        """Accept parameters, with a new filter, or not."""
        count = int(one.record.words[tn.OLD_COUNT])
        self.proposed += 1
        ratio = self.propose(one.record, int(self.random.integers(count)))
        level = math.log(self.random.random())
        if ratio == -math.inf:
            return
        found, stream = self.filtered()
        now = found.go_on(self.step)
        if level < now - one.log_evidence + ratio:
            self.settle(one, found, stream, now)
            self.accepted += 1


def run_nested(
    prior: Executable, workers: Workers, new_filter: Callable[[Words, int], Filter], count: int,
    seed: int, threshold: float, sweeps: int, limits: Limits,
    report: Callable[[int], None] | None = None,
) -> Nested:  # fmt: skip
    """Run `count` parameters with their filters to the end; `new_filter` makes one of a result."""
    proposals = Proposals(prior, workers, seed, limits, [])
    random = np.random.Generator(np.random.Philox(key=seed & (1 << 64) - 1))
    members = [_Member(np.zeros_like(proposals.result)) for _ in range(count)]
    all_members = _Population(proposals, new_filter, members, random)
    all_members.start()
    weights = np.array([0.0 if one.filter else -math.inf for one in all_members.members])
    ancestors, log_evidence, resampled = np.arange(count), 0.0, 0
    while weights.max() > -math.inf and not all_members.ended:
        weights = weights + all_members.go_on()
        if weights.max() > -math.inf and effective(weights) < threshold * count:
            log_evidence += float(np.logaddexp.reduce(weights)) - math.log(count)
            parents = parents_of(weights, random)
            all_members.resample(parents)
            all_members.move(sweeps)
            ancestors, weights, resampled = ancestors[parents], np.zeros(count), resampled + 1
        if report is not None:
            report(all_members.step)
    if weights.max() == -math.inf:
        raise failure(prior.lowered.elaborated, ALL_ZERO, 1 << 60, seed, 0, all_members.step)
    log_evidence += float(np.logaddexp.reduce(weights)) - math.log(count)
    columns = [one.result for one in all_members.members]
    return Nested(
        np.array(columns).T.copy(), weights, log_evidence, ancestors, all_members.step, resampled,
        all_members.accepted / max(1, all_members.proposed), proposals.memory,
    )  # fmt: skip
