"""Attempts at a schedule: tighter ones while the assembler spills or serialises."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from tawa.base.attempts import ATTEMPTS, MANY_SPILLED, MOST_RESERVED, NO_SLACK, Slack
from tawa.base.spans import span_of
from tawa.codegen.lower import RegistersExceeded
from tawa.codegen.shared_memory import SharedMemoryExceeded
from tawa.driver.candidates import Candidate, Scheduled, Tried
from tawa.driver.compilation import Built, Compilation
from tawa.driver.compiled import spec_of
from tawa.driver.pipeline import choosing, dividing, passes, sizing
from tawa.ir.contracts import Pass
from tawa.ir.copying import copied
from tawa.ir.decisions.assembling import AttemptLeftOut, AttemptRejected
from tawa.ir.decisions.decision import Decision, Decisions
from tawa.pipeline.depths import Depths
from tawa.pipeline.schedule import ScheduleRejected
from tawa.runtime.assemble import Here, Job, Once, in_turn, start
from tawa.runtime.compile_log import missing_registers
from tawa.runtime.nvrtc import CompiledCuda, CudaCompileError


@dataclass(frozen=True)
class TooFewRegisters:
    """The assembler made nothing: an instruction needs more registers than a thread may have."""

    allowed: int
    needed: int


Outcome: TypeAlias = tuple[ModuleOp, ModuleOp] | SharedMemoryExceeded
"""The aref and the hopper module, or what shared memory lacks."""
Assembled: TypeAlias = CompiledCuda | TooFewRegisters
"""What comes of an attempt."""


def findings_of(product: Assembled) -> tuple[str, ...]:
    """What the assembler reports that costs speed, or keeps it from making anything."""
    if isinstance(product, TooFewRegisters):
        return (f"{product.needed} registers a thread for {product.allowed}",)
    return tuple(f"{f.kind}: {f.text}" for f in product.report.findings())


def asks_for_another(product: Assembled) -> bool:
    """Whether another schedule may mend what the assembler reports: all but indexed arrays."""
    if isinstance(product, TooFewRegisters):
        return True
    return any(found.kind != "local memory" for found in product.report.findings())


def spilled_bytes(product: Assembled) -> int:
    """Bytes of stores of registers that lie in memory, all over the code."""
    if isinstance(product, TooFewRegisters):
        return 0
    return sum(usage.spill_stores for usage in product.report.functions)


@dataclass(frozen=True)
class Divided:
    """A program with its roles, as partition leaves it; passes after it may change the module."""

    module: ModuleOp
    decided: Sequence[Decision]
    """What was decided up to there."""
    unverified: Sequence[str] = ()
    """The passes that made it: it is verified with what the next ones make of it."""


@dataclass
class Attempts:
    """The attempts of one compilation, from its tile module."""

    compilation: Compilation
    name: str
    tile: ModuleOp
    divided: Divided | None = None
    """The same program with its roles, if it was divided before."""
    unscheduled: ModuleOp | None = None
    """The aref module up to the first pass whose choices an attempt may make otherwise."""
    once: list[Decision] = field(default_factory=list[Decision])
    """What was decided up to there."""
    jobs: dict[str, Once] = field(default_factory=dict[str, Once])
    """What was begun, by text: the last attempt may come to the text of one before."""

    @cached_property
    def _candidates(self) -> Iterator[Candidate]:
        return self.candidates()

    @cached_property
    def first(self) -> Candidate:
        """The first attempt, up to its text."""
        return next(self._candidates)

    def best(self) -> Built:
        """The first attempt that the assembler neither spills nor serialises; or the last one."""
        if self.compilation.options.schedule:
            return self._pinned()
        candidates, first = self._candidates, self.first
        product = self._assembled(self._begin(first, Here))
        made = [(first, product)] if isinstance(product, CompiledCuda) else []
        if asks_for_another(product) and first.takes_registers:
            self._reject(first, product)
            hopeless = self._spilling_last(first, product)
            if hopeless is not None:
                return self._take(*hopeless)
            with closing(in_turn(candidates, self._begin)) as others:
                for candidate, job in others:
                    product = self._assembled(job)
                    if isinstance(product, CompiledCuda):
                        made.append((candidate, product))
                    if candidate.last or not asks_for_another(product):
                        break
                    self._reject(candidate, product)
        if made:
            return self._take(*made[-1])
        assert isinstance(product, TooFewRegisters)
        raise self._exceeded(product)

    def _spilling_last(
        self, first: Candidate, product: Assembled
    ) -> tuple[Candidate, CompiledCuda] | None:
        """The last attempt, if a kernel of one role spills much in the first one and in this.

        It needs few registers: those in between spill then as well, and it is taken in the end.
        """
        if not first.one_role or spilled_bytes(product) < MANY_SPILLED:
            return None
        last = self.lowered(self.scheduled(ATTEMPTS[-1], Decisions()))
        product = self._assembled(self._begin(last, Here))
        if not isinstance(product, CompiledCuda) or spilled_bytes(product) < MANY_SPILLED:
            return None
        left_out = (AttemptLeftOut(slack, "the last one spills, too") for slack in ATTEMPTS[1:-1])
        self.compilation.decided.merge(left_out)
        return last, product

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
            self.unscheduled = self._unscheduled(steps[:first], decided)
            self.once = [*decided.made]
        before = len(decided.made)
        module = work.run([steps[first]], copied(self.unscheduled), goes_on=True)
        work.took("aref", begin)
        return Scheduled(slack, decided, module, tuple(decided.made[before:]))

    def _unscheduled(self, steps: Sequence[Pass], decided: Decisions) -> ModuleOp:
        """The aref module up to the schedule, from the roles where they are known."""
        if self.divided is None:
            return self.compilation.run(steps, copied(self.tile), goes_on=True)
        decided.made += self.divided.decided
        self.compilation.unverified += self.divided.unverified
        rest = steps[dividing(steps) + 1 :]
        return self.compilation.run(rest, self.divided.module, goes_on=True)

    def lowered(self, scheduled: Scheduled) -> Candidate:
        """aref -> CUDA text; a depth that was free and does not fit is chosen smaller.

        If the least still does not fit, products are waited for in their iteration: in flight,
        they hold a slot more. At last tiles of straight-line code share slots.
        """
        work, unsized = self.compilation, self._unsized(scheduled)
        found = self._sized(scheduled, unsized)
        while isinstance(found, SharedMemoryExceeded):
            if work.options.num_stages is not None:
                raise found
            scheduled = self.scheduled(scheduled.slack, Decisions([*self.once]))
            unsized = self._unsized(scheduled)
            try:
                reserve = self._reserve(unsized, scheduled.slack.bytes, found)
            except SharedMemoryExceeded:
                slack = self._holding_less(scheduled.slack)
                if slack is None:
                    raise
                scheduled = self.scheduled(slack, Decisions([*self.once]))
                unsized = self._unsized(scheduled)
            else:
                scheduled = replace(scheduled, slack=replace(scheduled.slack, bytes=reserve))
            found = self._sized(scheduled, unsized)
        aref, module = found
        module = work.replaced("hopper", module)
        text, given = work.emitted(module), "cu" in work.override
        return Candidate(scheduled.slack, scheduled.decided, aref, module, text, given)

    def _holding_less(self, slack: Slack) -> Slack | None:
        """What holds fewer slots at a time, and as many products in flight as were asked for."""
        asked = self.compilation.options.mma_depth
        if slack.in_flight and asked is None:
            return replace(slack, in_flight=False)
        return None if slack.shared or asked else replace(slack, shared=True)

    def _unsized(self, scheduled: Scheduled) -> ModuleOp:
        """The aref module whose rings have no depth yet."""
        work = self.compilation
        steps = passes("aref", work.options, scheduled.decided, scheduled.slack)
        rest = steps[choosing(steps) + 1 : sizing(steps)]
        return work.timed("aref", lambda: work.run(rest, scheduled.module, goes_on=True))

    def _sized(self, scheduled: Scheduled, unsized: ModuleOp) -> Outcome:
        """The aref and the hopper module, or what shared memory lacks."""
        work, slack, decided = self.compilation, scheduled.slack, scheduled.decided
        steps = passes("aref", work.options, decided, slack)
        rest = steps[sizing(steps) :]
        aref = work.replaced("aref", work.timed("aref", lambda: work.run(rest, unsized)))
        try:
            steps = passes("hopper", work.options, decided, slack)
            return aref, work.timed("hopper", lambda: work.run(steps, aref))
        except SharedMemoryExceeded as error:
            return error

    def _reserve(self, unsized: ModuleOp, before: int, lacking: SharedMemoryExceeded) -> int:
        """The first number of bytes, in steps of what is lacking, that changes a depth.

        Raises SharedMemoryExceeded if none does.
        """
        options, step = self.compilation.options, lacking.excess
        counts = range(1, max(0, MOST_RESERVED - before) // step + 2)
        failed = Depths(options, Decisions(), before).of(unsized)

        def changes(count: int) -> bool:
            return Depths(options, Decisions(), before + count * step).of(unsized) != failed

        first = bisect_left(counts, True, key=changes)
        if before > MOST_RESERVED or first == len(counts):
            raise lacking
        return before + counts[first] * step

    def _timed(self, job: Job) -> CompiledCuda:
        return self.compilation.timed("cubin", job.result)

    def _assembled(self, job: Job) -> Assembled:
        """What the assembler makes of a candidate, or that it finds too few registers."""
        try:
            return self._timed(job)
        except CudaCompileError as error:
            few = missing_registers(str(error.found))
            if few is None:
                raise
            return TooFewRegisters(*few)

    def _exceeded(self, few: TooFewRegisters) -> RegistersExceeded:
        """The error of a kernel for which no attempt found the registers, in its user's words."""
        ctas = self.compilation.options.ctas_per_sm
        kernel = next(op for op in self.tile.ops if isinstance(op, func.FuncOp))
        shared = f", since ctas_per_sm={ctas} shares a multiprocessor's among its CTAs"
        return RegistersExceeded(
            "a product does not fit in the registers of a thread",
            span=span_of(kernel),
            expected=f"{few.needed} registers a thread, which the assembler asks for",
            found=f"{few.allowed} registers a thread{shared if ctas > 1 else ''}",
            hint="use smaller blocks" + (f", or leave ctas_per_sm below {ctas}" * (ctas > 1)),
        )

    def _begin(self, candidate: Candidate, kind: type[Here] | None = None) -> Job:
        target, text = self.compilation.options.target, candidate.text
        if text not in self.jobs:
            self.jobs[text] = Once((kind or start)(text, target, f"{self.name}.cu"))
        return self.jobs[text]

    def _reject(self, candidate: Candidate, product: Assembled) -> None:
        work = self.compilation
        work.decided.merge(candidate.decided.made)
        if isinstance(product, CompiledCuda):
            work.note(product)
        work.decided.add(AttemptRejected(candidate.slack, findings_of(product)))

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
