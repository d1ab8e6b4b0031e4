"""The pipeline: a kernel's stages by file extension; each can be dumped, replaced, started from.

    Python source -> tile -> aref -> hopper -> cu -> cubin

Compiling touches no device and reads nothing but its arguments; they are the cache key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import dce
from xdsl.utils.exceptions import VerifyException

from tawa.aref.alternate import Alternate
from tawa.aref.async_dots import AsyncDots
from tawa.aref.cursors import Cursors
from tawa.aref.depths import Depths
from tawa.aref.guards import Guards
from tawa.aref.lower import REGISTERS, LowerToHopper
from tawa.aref.partial_sums import PartialSums
from tawa.aref.ping_pong import PingPong
from tawa.aref.prefetch import Prefetch
from tawa.aref.resident_operands import ResidentOperands
from tawa.aref.schedule import NO_SCHEDULE, ScheduleLoops, ScheduleRejected
from tawa.aref.shared_memory import SharedMemoryExceeded
from tawa.aref.sink_reads import SinkReads
from tawa.aref.tiles_ahead import TilesAhead
from tawa.aref.transposes import Transposes
from tawa.aref.warp_products import WarpProducts
from tawa.aref.zero_products import ZeroProducts
from tawa.base.attempts import ATTEMPTS, MOST_RESERVED, NO_SLACK, Slack
from tawa.base.errors import TawaError
from tawa.base.options import Options
from tawa.base.remarks import Remarks
from tawa.compiled import Compiled, StageNotReadable, read_module, spec_of
from tawa.frontend import JITFunction, lower_to_tile, parse_argument
from tawa.frontend.dependencies import dependency_text
from tawa.frontend.function import is_jit_function
from tawa.hopper.define import DefineRegisters
from tawa.hopper.emit import SPEC_LINE, emit
from tawa.hopper.instrument import Instrument, NotInstrumentable, disturbed
from tawa.runtime.cache import content_key, default_cache
from tawa.runtime.nvrtc import compile_cuda, version
from tawa.runtime.spec import KernelSpec
from tawa.tile.accumulate import FuseAccumulate
from tawa.tile.descriptors import HoistDescriptors
from tawa.tile.lower import Partition
from tawa.tile.partial_dead_code import PartialDeadCode
from tawa.tile.reciprocals import Reciprocals
from tawa.tile.simplify import Simplify
from tawa.tile.widen import WidenAccumulators

T = TypeVar("T")

CHOICES = (ScheduleLoops.name, TilesAhead.name, REGISTERS)
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


class Tidy:
    """Drop what is computed twice or for nothing."""

    name = "tidy"

    def apply(self, module: ModuleOp) -> None:
        """Common subexpressions, then dead ops."""
        cse(module)
        dce(module)


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
            Partition(options, remarks),
            # Before everything that takes products for those of warp groups.
            WarpProducts(options, remarks),
            # While loads, gets and products are as partition leaves them.
            Transposes(remarks),
            # Before the schedule, which counts what is skipped as cheap.
            Guards(),
            PartialSums(),
            ScheduleLoops(
                options, remarks, slack.registers, slack.stages, slack.joined, slack.narrow
            ),
            # Where a pipeline's first turn stands apart.
            ZeroProducts(),
            AsyncDots(options, remarks),
            # Once products say what they stage.
            TilesAhead(remarks, enabled=not slack.registers and slack.stages > 1),
            SinkReads(),
            # Once products say where they read their operands.
            ResidentOperands(remarks, enabled=not slack.registers and slack.stages > 1),
            PingPong(remarks),
            Alternate(options, remarks),
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
        ],
    }
    return table[stage]()


@dataclass
class Pipeline:
    """One compilation under way."""

    options: Options
    dump: Path | None = None
    override: Mapping[str, str] = field(default_factory=dict[str, str])
    remarks: Remarks = field(default_factory=Remarks)
    stages: dict[str, str | bytes] = field(default_factory=dict[str, "str | bytes"])
    timings: dict[str, float] = field(default_factory=dict[str, float])

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
        return self._timed(stage, lambda: self._passes(stage, module, slack))

    def _first_good(self, name: str, tile: ModuleOp) -> Compiled:
        """Reject schedules that the assembler spills or serialises; take tighter ones."""
        if self.options.schedule:
            return self._pinned(name, tile)
        *attempts, last = ATTEMPTS
        rejected = exhausted = False
        tried: set[str] = set()
        for slack in attempts:
            if exhausted and slack.stages > 1:
                continue  # what has no schedule has none with fewer registers
            start = len(self.remarks.spoken)
            compiled = self._attempt(name, tile, slack, tried)
            if compiled is None:
                continue
            said = [s for s in self.remarks.spoken[start:] if s.startswith(CHOICES)]
            gave_up = not said or any(NO_SCHEDULE in line for line in said)
            if rejected and gave_up and slack.stages > 1:
                exhausted = True  # fewer stages may have a schedule that needs no more registers
                continue
            if not compiled.findings or not (rejected or said):
                return self._defined(compiled)
            why = "; ".join(compiled.findings)
            self.remarks.say(ScheduleLoops.name, f"rejected with {slack}: {why}")
            rejected = True
        compiled = self._attempt(name, tile, last)
        assert compiled is not None
        return self._defined(compiled)

    def _pinned(self, name: str, tile: ModuleOp) -> Compiled:
        """The kernel with the schedule that was asked for."""
        compiled = self._attempt(name, tile, NO_SLACK)
        assert compiled is not None
        if compiled.findings:
            raise ScheduleRejected(
                f"the assembler can't do with schedule {self.options.schedule} of {name}",
                expected="machine code without spills and serialised products",
                found="; ".join(compiled.findings),
                hint="another `schedule`, or none: then the compiler takes one that it can",
            )
        return compiled

    def _defined(self, compiled: Compiled) -> Compiled:
        """The kernel with defined registers if it spills: that leaves more to its loops."""
        spills = [finding for finding in compiled.findings if finding.startswith("spill")]
        if not spills or not self.override.keys().isdisjoint(("hopper", "cu")):
            return compiled
        module = compiled.module("hopper")
        if not DefineRegisters().apply(module):
            return compiled
        self.remarks.say(
            DefineRegisters.name, f"accumulators start as zeros, because of {spills[0]}"
        )
        return self.finish(compiled.name, module)

    def _attempt(
        self, name: str, tile: ModuleOp, slack: Slack, tried: set[str] | None = None
    ) -> Compiled | None:
        """tile -> machine code; a depth that was free and does not fit is chosen smaller.

        None if the CUDA text is one of those `tried`, to which it is added.
        """
        while True:
            aref = self._replaced("aref", self.level("aref", tile.clone(), slack))
            try:
                module = self._replaced("hopper", self.level("hopper", aref, slack))
                break
            except SharedMemoryExceeded as error:
                if self.options.num_stages is not None or slack.bytes > MOST_RESERVED:
                    raise
                slack = replace(slack, bytes=slack.bytes + error.excess)
        text = self.override.get("cu") or self._timed("cu", lambda: emit(module))
        if tried is not None:
            if text in tried:
                return None
            tried.add(text)
        return self.assemble(name, text, spec_of(module))

    def _passes(self, stage: str, module: ModuleOp, slack: Slack) -> ModuleOp:
        for step in passes(stage, self.options, self.remarks, slack):
            before = str(module) if self.dump else ""
            module = step.apply(module) or module
            try:
                module.verify()
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
        """The user's text of this stage instead, if there is one."""
        if stage in self.override:
            module = read_module(self.override[stage], stage)
        self._keep(stage, str(module))
        return module

    def _keep(self, stage: str, content: str | bytes) -> None:
        self.stages[stage] = content
        if self.dump:
            self.dump.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            (self.dump / f"kernel.{stage}").write_bytes(data)

    def _timed(self, stage: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self.timings[stage] = self.timings.get(stage, 0.0) + time.perf_counter() - start
        return result

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
        self._keep("ptx", built.ptx)
        self._keep("cubin", built.cubin)
        for usage in built.report.functions:
            self.remarks.say(
                "assembler", f"{usage.name}: {usage.registers} registers a thread at entry"
            )
        for finding in built.report.findings():
            self.remarks.say("assembler", f"{finding.kind}: {finding.text}")
        found = tuple(f"{finding.kind}: {finding.text}" for finding in built.report.findings())
        stages, remarks = dict(self.stages), tuple(self.remarks.lines)
        return Compiled(name, stages, spec, built.log, remarks, self.timings, found)


def compile_kernel(
    fn: JITFunction,
    signature: Mapping[str, str],
    constexprs: Mapping[str, object],
    options: Options,
    *,
    start: tuple[str, str] | None = None,
    override: Mapping[str, str] | None = None,
    dump_dir: Path | None = None,
) -> Compiled:
    """Compile a kernel for argument types (by name, as `parse_argument` reads them).

    `start` is a stage and its text to start from instead of the source; `override` replaces stages
    by texts; `dump_dir` gets every stage as it is made. Without these, the disk cache is used.
    """
    plain = start is None and not override and dump_dir is None
    key = _key(fn, signature, constexprs, options) if plain else None
    if key is not None and (found := _cached(key, fn.__name__)) is not None:
        return found
    if options.timeline:
        _require_no_text(fn.__name__, start, override)
        without = replace(options, timeline=False)
        found = compile_kernel(
            *(fn, signature, constexprs, without), start=start, override=override, dump_dir=dump_dir
        )
        compiled = _instrumented(found, options, dump_dir)
        if key is not None:
            _store(key, compiled)
        return compiled
    pipeline = Pipeline(options, dump_dir, dict(override or {}))
    if start is not None:
        return resume(fn.__name__, start, pipeline)
    module = pipeline.level("tile", _tile(pipeline, fn, signature, constexprs))
    compiled = pipeline.run(fn.__name__, "tile", module)
    if key is not None:
        _store(key, compiled)
    return compiled


def _require_no_text(
    name: str, start: tuple[str, str] | None, override: Mapping[str, str] | None
) -> None:
    if "cu" in {*(override or {}), start[0] if start else ""}:
        raise NotInstrumentable(
            f"{name} can't record its timeline", found="CUDA text given for its `.cu` stage"
        )


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
    types = [parse_argument(text) for text in signature.values()]
    begin = time.perf_counter()
    module = lower_to_tile(fn, types, constexprs)
    pipeline.timings["tile"] = time.perf_counter() - begin
    return module


def _key(
    fn: JITFunction, signature: Mapping[str, str], constants: Mapping[str, object], options: Options
) -> str:
    """What a compilation depends on: the kernel, all it refers to, types, constants, compilers."""
    functions = [cast(Any, c) for c in constants.values() if is_jit_function(c)]
    called = [dependency_text(JITFunction(c)) for c in functions]
    parts = [repr(dict(signature)), repr(dict(constants)), repr(options)]
    return content_key(dependency_text(fn), *called, *parts, version(), _own_version())


@cache
def _own_version() -> str:
    """The content of the compiler's own source, so that a changed compiler misses the cache."""
    root = Path(__file__).parent
    folders = ("base", "language", "frontend", "tile", "aref", "hopper", "runtime")
    files: Iterable[Path] = (p for f in folders for p in sorted((root / f).rglob("*.py")))
    return content_key(*(p.read_bytes() for p in (*files, Path(__file__))))


def _cached(key: str, name: str) -> Compiled | None:
    entry = default_cache().get(key)
    if entry is None:
        return None
    texts = {s: entry[s].decode() for s in ("tile", "aref", "hopper", "cu", "ptx") if s in entry}
    extra: dict[str, Any] = json.loads(entry["json"])
    stages: dict[str, str | bytes] = {**texts, "cubin": entry["cubin"]}
    spec = KernelSpec.from_json(extra["spec"])
    remarks, findings = tuple(extra["remarks"]), tuple(extra["findings"])
    return Compiled(name, stages, spec, extra["log"], remarks, findings=findings)


def _store(key: str, compiled: Compiled) -> None:
    extra = {
        "spec": compiled.spec.to_json(),
        "log": compiled.log,
        "remarks": compiled.remarks,
        "findings": compiled.findings,
    }
    entry = {
        stage: content.encode() if isinstance(content, str) else content
        for stage, content in compiled.stages.items()
    }
    default_cache().put(key, {**entry, "json": json.dumps(extra).encode()})
