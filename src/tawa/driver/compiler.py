"""The pipeline: a kernel's stages by file extension; each can be dumped, replaced, started from.

    Python source -> tile -> aref -> hopper -> cu -> cubin

Compiling touches no device and reads nothing but its arguments; they are the cache key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tawa.aref.passes.async_dots import AsyncDots
from tawa.aref.passes.conditional_rescaling import ConditionalRescaling
from tawa.aref.passes.cursors import Cursors
from tawa.aref.passes.last_iteration_peeling import LastIterationPeeling
from tawa.aref.passes.named_barrier_ping_pong import NamedBarrierPingPong
from tawa.aref.passes.own_masks import OwnMasks
from tawa.aref.passes.partial_sums import PartialSums
from tawa.aref.passes.ping_pong import PingPong
from tawa.aref.passes.prefetch import Prefetch
from tawa.aref.passes.register_prefetch import RegisterPrefetch
from tawa.aref.passes.resident_operands import ResidentOperands
from tawa.aref.passes.sink_reads import SinkReads
from tawa.aref.passes.transposes import Transposes
from tawa.aref.passes.warp_products import WarpProducts
from tawa.aref.passes.zero_products import ZeroProducts
from tawa.base.attempts import ATTEMPTS, MOST_RESERVED, NO_SLACK, Slack
from tawa.base.errors import TawaError
from tawa.base.locks import one_at_a_time
from tawa.base.options import Options
from tawa.base.remarks import Remarks
from tawa.codegen.lower import REGISTERS, LowerToHopper
from tawa.codegen.shared_memory import SharedMemoryExceeded
from tawa.driver import compile_cache as kept
from tawa.driver.candidates import Candidate, Scheduled, Tried
from tawa.driver.compiled import Compiled, StageNotReadable, read_module, spec_of
from tawa.driver.neighbours import beside
from tawa.driver.recording import require_no_text
from tawa.frontend import JITFunction, lower_to_tile, parse_argument
from tawa.hopper.emit import SPEC_LINE, emit
from tawa.hopper.passes.define import DefineRegisters, NarrowProducts
from tawa.hopper.passes.occupancy import Occupancy, ShareMultiprocessor, may_share
from tawa.hopper.passes.redundant_barriers import RedundantBarrierElimination
from tawa.hopper.passes.roundings import separate_roundings
from tawa.hopper.recording.instrument import Instrument, disturbed
from tawa.ir.tidy import Tidy
from tawa.ir.verification import Verifier
from tawa.partition.partition import Partition
from tawa.pipeline.depths import Depths
from tawa.pipeline.schedule import NO_SCHEDULE, ScheduleLoops, ScheduleRejected
from tawa.runtime.assemble import Here, Job, in_turn, start
from tawa.runtime.compile_log import parse_log
from tawa.runtime.nvrtc import CompiledCuda, compile_cuda
from tawa.runtime.spec import KernelSpec
from tawa.tile.passes.accumulate import FuseAccumulate
from tawa.tile.passes.carried_pointers import CarriedPointers
from tawa.tile.passes.descriptors import HoistDescriptors
from tawa.tile.passes.partial_dead_code import PartialDeadCode
from tawa.tile.passes.reciprocals import Reciprocals
from tawa.tile.passes.simplify import Simplify
from tawa.tile.passes.widen import WidenAccumulators

T = TypeVar("T")

CHOICES = (ScheduleLoops.name, RegisterPrefetch.name, REGISTERS)
"""Passes whose choices take registers, and are made otherwise when the assembler spills."""


class PassFailed(TawaError):
    """A pass of the compiler made a module that does not verify."""

    explanation = (
        "This is a bug in the compiler. The message names the pass and draws the op; the modules "
        "before and after the pass are written to the dump folder, if there is one. Please report "
        "it with them."
    )


class Pass(Protocol):
    """IR in, IR out: changes the module, or returns a new one."""

    @property
    def name(self) -> str:
        """The pass's name."""
        ...

    def apply(self, module: ModuleOp) -> ModuleOp | None:
        """Run it."""
        ...


def passes(stage: str, options: Options, remarks: Remarks, slack: Slack) -> list[Pass]:
    """The passes that lead to a stage from the one before."""
    table: dict[str, Callable[[], list[Any]]] = {
        "tile": lambda: [Simplify()],
        "aref": lambda: [
            HoistDescriptors(),
            FuseAccumulate(),
            # After fusing, which saves a rounding.
            WidenAccumulators(),
            PartialDeadCode(remarks),
            Reciprocals(),
            CarriedPointers(),
            Partition(options, remarks),
            # Before everything that takes products for those of warp groups.
            WarpProducts(options, remarks),
            # While loads, gets and products are as partition leaves them.
            Transposes(remarks),
            # Once rings are final.
            LastIterationPeeling(remarks),
            OwnMasks(remarks),
            # Before the schedule, which counts what is skipped as cheap.
            ConditionalRescaling(),
            PartialSums(),
            ScheduleLoops(
                options, remarks, slack.registers, slack.stages, slack.joined, slack.narrow
            ),
            # Where a pipeline's first turn stands apart.
            ZeroProducts(),
            AsyncDots(options, remarks),
            # Once products say what they stage.
            RegisterPrefetch(remarks, enabled=not slack.registers and slack.stages > 1),
            SinkReads(),
            # Once products say where they read their operands.
            ResidentOperands(remarks, enabled=not slack.registers and slack.stages > 1),
            PingPong(remarks),
            NamedBarrierPingPong(options, remarks),
            # Before what depends on the depth: how far loads run ahead.
            Depths(options, remarks, slack.bytes),
            Prefetch(options, remarks),
            # After all passes that add or move puts and gets.
            Cursors(),
            Tidy(),
        ],
        "hopper": lambda: [
            LowerToHopper(options, remarks, slack.narrow, slack.registers),
            Tidy(),
            # Once everything lies where it does in shared memory.
            RedundantBarrierElimination(remarks),
            *separate_roundings(options),
        ],
    }
    return table[stage]()


def _choosing(steps: Sequence[Pass]) -> int:
    """The first pass whose choices an attempt may make otherwise."""
    return next(i for i, step in enumerate(steps) if step.name == ScheduleLoops.name)


def silent(step: str) -> None:
    """Show nothing of what is being done."""


@dataclass
class Pipeline:
    """One compilation under way."""

    options: Options
    dump: Path | None = None
    override: Mapping[str, str] = field(default_factory=dict[str, str])
    remarks: Remarks = field(default_factory=Remarks)
    stages: dict[str, str | bytes] = field(default_factory=dict[str, "str | bytes"])
    timings: dict[str, float] = field(default_factory=dict[str, float])
    verifier: Verifier = field(default_factory=Verifier)
    report: Callable[[str], None] = silent
    """Takes sentences that say what is being done."""
    unscheduled: ModuleOp | None = None
    """The aref module up to the first pass whose choices an attempt may make otherwise."""

    def run(self, name: str, start: str, module: ModuleOp) -> Compiled:
        """Go on from an IR stage to machine code."""
        module = self._replaced(start, module)
        if start == "tile":
            return self._first_good(name, module)
        if start == "aref":
            module = self._replaced("hopper", self.level("hopper", module))
        text = self.override.get("cu") or self._timed("cu", lambda: emit(module))
        return self.assemble(name, text, spec_of(module))

    def level(self, stage: str, module: ModuleOp, slack: Slack = NO_SLACK) -> ModuleOp:
        """Run the passes of one stage."""
        steps = passes(stage, self.options, self.remarks, slack)
        return self._timed(stage, lambda: self._run(steps, module))

    def _first_good(self, name: str, tile: ModuleOp) -> Compiled:
        """Reject schedules that the assembler spills or serialises; take tighter ones."""
        if self.options.schedule:
            return self._pinned(name, tile)
        candidates = self._candidates(tile)
        first = next(candidates)
        built = self._timed("cubin", lambda: self._begin(name, first, Here).result())
        if built.report.findings() and first.said:
            self._reject(first, built)
            with closing(in_turn(candidates, lambda c: self._begin(name, c))) as others:
                for candidate, job in others:
                    built = self._timed("cubin", job.result)
                    if candidate.last or not built.report.findings():
                        return self._defined(self._take(name, candidate, built))
                    self._reject(candidate, built)
        return self._defined(self._take(name, first, built))

    def _candidates(self, tile: ModuleOp) -> Iterator[Candidate]:
        """What to assemble until something is good: texts that differ, the last one in any case.

        Whoever asks for the second has rejected the first.
        """
        tried = Tried(self.options.machine)
        for number, slack in enumerate(ATTEMPTS):
            if tried.exhausted and slack.stages > 1:
                continue  # what has no schedule has none with fewer registers
            scheduled = self._scheduled(tile, slack, Remarks())
            if tried.needless(scheduled):
                continue
            candidate = self._lowered(tile, scheduled)
            if not tried.add(candidate, scheduled):
                continue
            if number and slack.stages > 1 and (scheduled.gave_up or not candidate.said):
                tried.exhausted = True
                continue
            self.report(f"attempt {number + 1} of at most {len(ATTEMPTS)}, {slack}")
            yield candidate

    def _begin(self, name: str, candidate: Candidate, kind: type[Here] | None = None) -> Job:
        return (kind or start)(candidate.text, self.options.target, f"{name}.cu")

    def _reject(self, candidate: Candidate, built: CompiledCuda) -> None:
        why = "; ".join(f"{finding.kind}: {finding.text}" for finding in built.report.findings())
        self.remarks.add(candidate.remarks)
        self._report_assembler(built)
        self.remarks.say(ScheduleLoops.name, f"rejected with {candidate.slack}: {why}")

    def _take(self, name: str, candidate: Candidate, built: CompiledCuda) -> Compiled:
        """The candidate with its machine code as what is compiled."""
        self.remarks.add(candidate.remarks)
        self._keep("aref", str(candidate.aref))
        self._keep("hopper", str(candidate.module))
        self._keep("cu", candidate.text)
        return self._compiled(name, spec_of(candidate.module), built)

    def _pinned(self, name: str, tile: ModuleOp) -> Compiled:
        """The kernel with the schedule that was asked for."""
        candidate = self._lowered(tile, self._scheduled(tile, NO_SLACK, Remarks()))
        built = self._timed("cubin", lambda: self._begin(name, candidate, Here).result())
        compiled = self._take(name, candidate, built)
        if compiled.findings:
            raise ScheduleRejected(
                f"the assembler can't do with schedule {self.options.schedule} of {name}",
                expected="machine code without spills and serialised products",
                found="; ".join(compiled.findings),
                hint="another `schedule`, or none: then the compiler takes one that it can",
            )
        return compiled

    def _shared(self, compiled: Compiled) -> Compiled:
        """The kernel with fewer registers, if that lets more CTAs onto a multiprocessor."""
        text, spec = str(compiled.stages["hopper"]), compiled.spec
        if self.options.ctas_per_sm > 1 or compiled.findings or not may_share(text):
            return compiled
        if not self.override.keys().isdisjoint(("hopper", "cu")):
            return compiled
        report = parse_log(compiled.log)
        if not report.functions:
            return compiled  # a remark says that the log is empty
        registers = report.function(spec.entry).registers
        module = compiled.module("hopper")
        machine, shared = self.options.machine, spec.shared_bytes
        taken = Occupancy.of(module, machine, spec.threads, registers, shared)
        for ctas in taken.more:
            ShareMultiprocessor(ctas).apply(module)
            fuller = self.finish(compiled.name, module)
            if not fuller.findings:
                said = f"registers for {ctas} CTAs on a multiprocessor"
                self.remarks.say(ShareMultiprocessor.name, said)
                return replace(fuller, remarks=tuple(self.remarks.lines))
        self.stages = dict(compiled.stages)
        return compiled

    def _defined(self, compiled: Compiled) -> Compiled:
        """The kernel with defined registers and narrow products if it spills."""
        spills = [finding for finding in compiled.findings if finding.startswith("spill")]
        if not spills:
            return self._shared(compiled)
        if not self.override.keys().isdisjoint(("hopper", "cu")):
            return compiled
        module = compiled.module("hopper")
        changes = [step for step in (DefineRegisters(), NarrowProducts()) if step.apply(module)]
        for step in changes:
            self.remarks.say(step.name, f"{step.CHANGE}, because of {spills[0]}")
        return self.finish(compiled.name, module) if changes else compiled

    def _lowered(self, tile: ModuleOp, scheduled: Scheduled) -> Candidate:
        """aref -> CUDA text; a depth that was free and does not fit is chosen smaller."""
        remarks = scheduled.remarks
        while True:
            slack = scheduled.slack
            steps = passes("aref", self.options, remarks, slack)
            rest = steps[_choosing(steps) + 1 :], scheduled.module
            aref = self._override("aref", self._timed("aref", lambda: self._run(*rest)))  # noqa: B023
            try:
                steps = passes("hopper", self.options, remarks, slack)
                module = self._timed("hopper", lambda: self._run(steps, aref))  # noqa: B023
                break
            except SharedMemoryExceeded as error:
                if self.options.num_stages is not None or slack.bytes > MOST_RESERVED:
                    raise
                slack = replace(slack, bytes=slack.bytes + error.excess)
                scheduled = self._scheduled(tile, slack, remarks)
        module = self._override("hopper", module)
        cuda = self.override.get("cu") or self._timed("cu", lambda: emit(module))
        said = [line for line in remarks.lines if line.startswith(CHOICES)]
        return Candidate(slack, remarks, said, aref, module, cuda)

    def _scheduled(self, tile: ModuleOp, slack: Slack, remarks: Remarks) -> Scheduled:
        """The aref module up to these choices; what comes before them is done once."""
        start = time.perf_counter()
        steps = passes("aref", self.options, remarks, slack)
        first = _choosing(steps)
        if self.unscheduled is None:
            self.unscheduled = self._run(steps[:first], tile.clone())
        schedule = steps[first]
        assert isinstance(schedule, ScheduleLoops)
        module = self._run([schedule], self.unscheduled.clone())
        self._took("aref", start)
        gave_up = any(NO_SCHEDULE in line for line in remarks.lines)
        return Scheduled(slack, remarks, module, tuple(schedule.chosen), gave_up)

    def _run(self, steps: Iterable[Pass], module: ModuleOp) -> ModuleOp:
        for step in steps:
            before = str(module) if self.dump else ""
            module = step.apply(module) or module
            try:
                self.verifier.verify(module)
            except (VerifyException, ValueError) as error:
                self._failed(step.name, before, module)
                raise PassFailed(f"pass {step.name} broke the module", found=str(error)) from error
        return module

    def _failed(self, name: str, before: str, module: ModuleOp) -> None:
        if self.dump:
            self.dump.mkdir(parents=True, exist_ok=True)
            (self.dump / f"before-{name}.mlir").write_text(before)
            (self.dump / f"after-{name}.mlir").write_text(str(module))

    def _replaced(self, stage: str, module: ModuleOp) -> ModuleOp:
        """The user's text of this stage instead, if there is one; kept."""
        module = self._override(stage, module)
        self._keep(stage, str(module))
        return module

    def _override(self, stage: str, module: ModuleOp) -> ModuleOp:
        return read_module(self.override[stage], stage) if stage in self.override else module

    def _keep(self, stage: str, content: str | bytes) -> None:
        self.stages[stage] = content
        if self.dump:
            self.dump.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            (self.dump / f"kernel.{stage}").write_bytes(data)

    def _timed(self, stage: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self._took(stage, start)
        return result

    def _took(self, stage: str, start: float) -> None:
        self.timings[stage] = self.timings.get(stage, 0.0) + time.perf_counter() - start

    def finish(self, name: str, module: ModuleOp) -> Compiled:
        """A hopper module to machine code."""
        self._keep("hopper", str(module))
        return self.assemble(name, self._timed("cu", lambda: emit(module)), spec_of(module))

    def assemble(self, name: str, text: str, spec: KernelSpec) -> Compiled:
        """CUDA C++ to machine code."""
        self._keep("cu", text)
        built = self._timed(
            "cubin", lambda: compile_cuda(text, self.options.target, name=f"{name}.cu")
        )
        return self._compiled(name, spec, built)

    def _report_assembler(self, built: CompiledCuda) -> None:
        if not built.report.functions:
            self.remarks.say("assembler", "it left no log: spills would not be seen")
        for u in built.report.functions:
            self.remarks.say("assembler", f"{u.name}: {u.registers} registers a thread at entry")
        for finding in built.report.findings():
            self.remarks.say("assembler", f"{finding.kind}: {finding.text}")

    def _compiled(self, name: str, spec: KernelSpec, built: CompiledCuda) -> Compiled:
        """What the stages that are kept and the machine code make."""
        self._keep("ptx", built.ptx)
        self._keep("cubin", built.cubin)
        self._report_assembler(built)
        found = tuple(f"{finding.kind}: {finding.text}" for finding in built.report.findings())
        stages, remarks = dict(self.stages), tuple(self.remarks.lines)
        return Compiled(name, stages, spec, built.log, remarks, self.timings, found)


@one_at_a_time
def compile_kernel(
    fn: JITFunction,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
    options: Options,
    *,
    start: tuple[str, str] | None = None,
    override: Mapping[str, str] | None = None,
    dump_dir: Path | None = None,
    report: Callable[[str], None] = silent,
) -> Compiled:
    """Compile a kernel for argument types (by name, as `parse_argument` reads them).

    `start` is a stage and its text to start from instead of the source; `override` replaces stages
    by texts; `dump_dir` gets every stage as it is made. Without these, the disk cache is used.
    `report` is told what is being done.
    """
    plain = start is None and not override and dump_dir is None
    key = kept.key_of(fn, signature, constexprs, options) if plain else None
    if key is not None and (found := kept.find(key, fn.__name__)) is not None:
        return found
    if options.timeline:
        require_no_text(fn.__name__, start, override)
        without = replace(options, timeline=False)
        found = compile_kernel(
            *(fn, signature, constexprs, without),
            start=start,
            override=override,
            dump_dir=dump_dir,
            report=report,
        )
        compiled = _instrumented(found, options, dump_dir)
        if key is not None:
            kept.keep(key, compiled)
        return compiled
    pipeline = Pipeline(options, dump_dir, dict(override or {}), report=report)
    if start is not None:
        return resume(fn.__name__, start, pipeline)
    module = pipeline.level("tile", _tile(pipeline, fn, signature, constexprs))
    compiled = pipeline.run(fn.__name__, "tile", module)
    if not override:
        compiled = beside(compiled, options, partial(_from_tile, fn.__name__, dump_dir))
    if key is not None:
        kept.keep(key, compiled)
    return compiled


def _from_tile(name: str, dump: Path | None, options: Options, tile: ModuleOp) -> Compiled:
    return Pipeline(options, dump).run(name, "tile", tile)


def _instrumented(plain: Compiled, options: Options, dump: Path | None) -> Compiled:
    """A compiled kernel that records its timeline. No choice was made with timestamps in view."""
    attempts: list[Compiled] = []
    for instrument in Instrument.attempts(options.timeline):
        module = plain.module("hopper")
        instrument.apply(module)
        module.verify()
        remarks = Remarks([r for r in plain.remarks if not r.startswith("assembler")])
        before = {s: plain.stages[s] for s in ("tile", "aref") if s in plain.stages}
        attempts.append(Pipeline(options, dump, {}, remarks, before).finish(plain.name, module))
        if len(attempts[-1].findings) <= len(plain.findings):
            return attempts[-1]
    return replace(attempts[-1], spec=disturbed(attempts[-1].spec, attempts[-1].findings))


def resume(name: str, start: tuple[str, str], pipeline: Pipeline) -> Compiled:
    """Compile from the text of a stage: `tile`, `aref`, `hopper` or `cu`."""
    stage, text = start
    if stage != "cu":
        return pipeline.run(name, stage, read_module(text, stage))
    first = text.partition("\n")[0]
    if not first.startswith(SPEC_LINE):
        raise StageNotReadable(
            "the .cu stage cannot be read",
            expected=f"a first line `{SPEC_LINE}...`, which says how to launch it",
            found=repr(first[:60]),
        )
    return pipeline.assemble(name, text, KernelSpec.from_json(first.removeprefix(SPEC_LINE)))


def _tile(
    pipeline: Pipeline,
    fn: JITFunction,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
) -> ModuleOp:
    begin = time.perf_counter()
    module = lower_to_tile(fn, {n: parse_argument(t) for n, t in signature.items()}, constexprs)
    pipeline.timings["tile"] = time.perf_counter() - begin
    return module
