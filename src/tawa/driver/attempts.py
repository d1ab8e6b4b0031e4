"""Attempts at a schedule: tighter ones while the assembler spills or serialises."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp

from tawa.base.attempts import ATTEMPTS, MOST_RESERVED, NO_SLACK, Slack
from tawa.codegen.shared_memory import SharedMemoryExceeded
from tawa.driver.candidates import Candidate, Scheduled, Tried
from tawa.driver.compilation import Built, Compilation
from tawa.driver.compiled import spec_of
from tawa.driver.pipeline import choosing, passes
from tawa.ir.decisions.assembling import AttemptRejected
from tawa.ir.decisions.decision import Decisions
from tawa.pipeline.schedule import ScheduleRejected
from tawa.runtime.assemble import Here, Job, in_turn, start
from tawa.runtime.nvrtc import CompiledCuda


@dataclass
class Attempts:
    """The attempts of one compilation, from its tile module."""

    compilation: Compilation
    name: str
    tile: ModuleOp
    unscheduled: ModuleOp | None = None
    """The aref module up to the first pass whose choices an attempt may make otherwise."""

    def best(self) -> Built:
        """The first attempt that the assembler neither spills nor serialises; or the last one."""
        if self.compilation.options.schedule:
            return self._pinned()
        candidates = self.candidates()
        first = next(candidates)
        product = self._timed(self._begin(first, Here))
        if product.report.findings() and first.takes_registers:
            self._reject(first, product)
            with closing(in_turn(candidates, self._begin)) as others:
                for candidate, job in others:
                    product = self._timed(job)
                    if candidate.last or not product.report.findings():
                        return self._take(candidate, product)
                    self._reject(candidate, product)
        return self._take(first, product)

    def candidates(self) -> Iterator[Candidate]:
        """What to assemble until something is good: texts that differ, the last one in any case.

        Whoever asks for the second has rejected the first.
        """
        tried = Tried(self.compilation.options.machine)
        for number, slack in enumerate(ATTEMPTS):
            if tried.exhausted and slack.stages > 1:
                continue  # what has no schedule has none with fewer registers
            scheduled = self.scheduled(slack, Decisions())
            if tried.needless(scheduled):
                continue
            candidate = self.lowered(scheduled)
            if not tried.add(candidate, scheduled):
                continue
            if number and slack.stages > 1 and (scheduled.gave_up or not candidate.takes_registers):
                tried.exhausted = True
                continue
            self.compilation.report(f"attempt {number + 1} of at most {len(ATTEMPTS)}, {slack}")
            yield candidate

    def scheduled(self, slack: Slack, decided: Decisions) -> Scheduled:
        """The aref module up to these choices; what comes before them is done once."""
        work, begin = self.compilation, time.perf_counter()
        steps = passes("aref", work.options, decided, slack)
        first = choosing(steps)
        if self.unscheduled is None:
            self.unscheduled = work.run(steps[:first], self.tile.clone())
        before = len(decided.made)
        module = work.run([steps[first]], self.unscheduled.clone())
        work.took("aref", begin)
        return Scheduled(slack, decided, module, tuple(decided.made[before:]))

    def lowered(self, scheduled: Scheduled) -> Candidate:
        """aref -> CUDA text; a depth that was free and does not fit is chosen smaller."""
        work, decided = self.compilation, scheduled.decided
        while True:
            slack = scheduled.slack
            steps = passes("aref", work.options, decided, slack)
            rest = steps[choosing(steps) + 1 :], scheduled.module
            aref = work.replaced("aref", work.timed("aref", lambda: work.run(*rest)))  # noqa: B023
            try:
                steps = passes("hopper", work.options, decided, slack)
                module = work.timed("hopper", lambda: work.run(steps, aref))  # noqa: B023
                break
            except SharedMemoryExceeded as error:
                if work.options.num_stages is not None or slack.bytes > MOST_RESERVED:
                    raise
                slack = replace(slack, bytes=slack.bytes + error.excess)
                scheduled = self.scheduled(slack, decided)
        module = work.replaced("hopper", module)
        given = "cu" in work.override
        return Candidate(slack, decided, aref, module, work.emitted(module), given)

    def _timed(self, job: Job) -> CompiledCuda:
        return self.compilation.timed("cubin", job.result)

    def _begin(self, candidate: Candidate, kind: type[Here] | None = None) -> Job:
        target = self.compilation.options.target
        return (kind or start)(candidate.text, target, f"{self.name}.cu")

    def _reject(self, candidate: Candidate, product: CompiledCuda) -> None:
        work = self.compilation
        work.decided.merge(candidate.decided.made)
        work.note(product)
        found = tuple(f"{f.kind}: {f.text}" for f in product.report.findings())
        work.decided.add(AttemptRejected(candidate.slack, found))

    def _take(self, candidate: Candidate, product: CompiledCuda) -> Built:
        """The candidate with its machine code as what is compiled."""
        work = self.compilation
        work.decided.merge(candidate.decided.made)
        work.keep("aref", candidate.aref)
        work.keep("hopper", candidate.module)
        work.keep("cu", candidate.text)
        return work.built(self.name, spec_of(candidate.module), product)

    def _pinned(self) -> Built:
        """The kernel with the schedule that was asked for."""
        candidate = self.lowered(self.scheduled(NO_SLACK, Decisions()))
        built = self._take(candidate, self._timed(self._begin(candidate, Here)))
        if built.findings:
            raise ScheduleRejected(
                f"the assembler can't do with schedule {self.compilation.options.schedule} "
                f"of {self.name}",
                expected="machine code without spills and serialised products",
                found="; ".join(f"{f.kind}: {f.text}" for f in built.findings),
                hint="another `schedule`, or none: then the compiler takes one that it can",
            )
        return built
