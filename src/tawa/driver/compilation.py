"""One compilation under way: runs passes, has CUDA text assembled, keeps the stages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tawa.base.attempts import NO_SLACK, Slack
from tawa.base.errors import TawaError
from tawa.base.kernel_spec import KernelSpec
from tawa.base.knobs import VERIFY
from tawa.base.options import Options
from tawa.driver.compiled import Compiled, read_module, remember, spec_of, text_of
from tawa.driver.pipeline import passes
from tawa.hopper.emit import emit
from tawa.ir.contracts import Pass
from tawa.ir.decisions.assembling import CostsSpeed, EntryRegisters, NoLog
from tawa.ir.decisions.decision import Decision, Decisions
from tawa.ir.text import Kept
from tawa.ir.verification import Verifier
from tawa.runtime.compile_log import Finding
from tawa.runtime.nvrtc import CompiledCuda, compile_cuda

T = TypeVar("T")


class PassFailed(TawaError):
    """A pass of the compiler made a module that does not verify."""

    explanation = (
        "This is a bug in the compiler. The message names the pass and draws the op; the modules "
        "before and after the pass are written to the dump folder, if there is one. Please report "
        "it with them."
    )


@dataclass(frozen=True)
class Built:
    """A kernel with its machine code, its stages as IR: what later choices about it are made by."""

    name: str
    stages: Mapping[str, ModuleOp | str]
    """By level, and `cu`; a level is text if it was compiled before."""
    spec: KernelSpec
    product: CompiledCuda
    decisions: tuple[Decision, ...]
    timings: dict[str, float]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the assembler reports that costs speed."""
        return self.product.report.findings()

    def module(self, stage: str) -> ModuleOp:
        """The IR of a level; not to be changed."""
        found = self.stages[stage]
        assert isinstance(found, ModuleOp)
        return found

    def compiled(self) -> Compiled:
        """The kernel as the user gets it, its stages printed."""
        texts: dict[str, str | bytes] = {}
        kept: Kept = {}
        for stage, found in self.stages.items():
            texts[stage] = text = text_of(found, kept)
            if isinstance(found, ModuleOp):
                remember(stage, text, found)
        stages = {**texts, "ptx": self.product.ptx, "cubin": self.product.cubin}
        product = self.product
        return Compiled(
            self.name, stages, self.spec, product.log, product.report, self.decisions, self.timings
        )


def silent(step: str) -> None:
    """Show nothing of what is being done."""


@dataclass
class Compilation:
    """What the passes of one kernel share."""

    options: Options
    dump: Path | None = None
    override: Mapping[str, str] = field(default_factory=dict[str, str])
    decided: Decisions = field(default_factory=Decisions)
    stages: dict[str, ModuleOp | str] = field(default_factory=dict[str, "ModuleOp | str"])
    timings: dict[str, float] = field(default_factory=dict[str, float])
    verifier: Verifier = field(default_factory=Verifier)
    report: Callable[[str], None] = silent
    """Takes sentences that say what is being done."""
    unverified: list[str] = field(default_factory=list[str])
    """The passes since the last verification, in order."""

    def level(self, stage: str, module: ModuleOp, slack: Slack = NO_SLACK) -> ModuleOp:
        """Run the passes of one stage."""
        steps = passes(stage, self.options, self.decided, slack)
        return self.timed(stage, lambda: self.run(steps, module))

    def run(self, steps: Iterable[Pass], module: ModuleOp, *, goes_on: bool = False) -> ModuleOp:
        """Run passes, one after the other; verify what they made. Raises `PassFailed`.

        Where the same level `goes_on` with other passes, it is verified after those.
        """
        each = VERIFY.get() or self.dump is not None
        for step in steps:
            before = module.clone() if self.dump else module
            module = step.apply(module) or module
            if each:
                self._verify(f"pass {step.name}", before, module)
            self.unverified.append(step.name)
        if not goes_on:
            if not each:
                self._verify(f"one of the passes {', '.join(self.unverified)}", module, module)
            self.unverified.clear()
        return module

    def _verify(self, name: str, before: ModuleOp, module: ModuleOp) -> None:
        try:
            self.verifier.verify(module)
        except (VerifyException, ValueError) as error:
            self._failed(name.removeprefix("pass "), before, module)
            hint = None if self.dump else f"set {VERIFY.name}=1 to see which pass it is"
            raise PassFailed(f"{name} broke the module", found=str(error), hint=hint) from error

    def _failed(self, name: str, before: ModuleOp, module: ModuleOp) -> None:
        if self.dump:
            self.dump.mkdir(parents=True, exist_ok=True)
            (self.dump / f"before-{name}.mlir").write_text(text_of(before))
            (self.dump / f"after-{name}.mlir").write_text(text_of(module))

    def replaced(self, stage: str, module: ModuleOp) -> ModuleOp:
        """The user's text of this stage instead, if there is one."""
        return read_module(self.override[stage], stage) if stage in self.override else module

    @property
    def ends_in_text(self) -> bool:
        """Whether the user gave the last level or the CUDA text: nothing there is decided again."""
        return not self.override.keys().isdisjoint(("hopper", "cu"))

    def emitted(self, module: ModuleOp) -> str:
        """The CUDA text of a module of the last level, or the user's."""
        return self.override.get("cu") or self.timed("cu", lambda: emit(module))

    def keep(self, stage: str, content: ModuleOp | str) -> None:
        """Keep a stage for the user."""
        self.stages[stage] = content
        if self.dump:
            self._write(stage, text_of(content).encode())

    def _write(self, stage: str, content: bytes) -> None:
        """Put a stage into the folder that the user asked for."""
        if self.dump:
            self.dump.mkdir(parents=True, exist_ok=True)
            (self.dump / f"kernel.{stage}").write_bytes(content)

    def timed(self, stage: str, work: Callable[[], T]) -> T:
        """Do some of a stage's work, and count its time."""
        start = time.perf_counter()
        result = work()
        self.took(stage, start)
        return result

    def took(self, stage: str, start: float) -> None:
        """Count the time from `start` as a stage's."""
        self.timings[stage] = self.timings.get(stage, 0.0) + time.perf_counter() - start

    def finish(self, name: str, module: ModuleOp) -> Built:
        """A hopper module to machine code."""
        self.keep("hopper", module)
        return self.assemble(name, self.timed("cu", lambda: emit(module)), spec_of(module))

    def assemble(self, name: str, text: str, spec: KernelSpec) -> Built:
        """CUDA C++ to machine code."""
        self.keep("cu", text)
        product = self.timed(
            "cubin", lambda: compile_cuda(text, self.options.target, name=f"{name}.cu")
        )
        return self.built(name, spec, product)

    def built(self, name: str, spec: KernelSpec, product: CompiledCuda) -> Built:
        """What the stages that are kept and the machine code make."""
        self.note(product)
        self._write("ptx", product.ptx.encode())
        self._write("cubin", product.cubin)
        stages, decisions = dict(self.stages), tuple(self.decided.made)
        return Built(name, stages, spec, product, decisions, self.timings)

    def note(self, product: CompiledCuda) -> None:
        """Record what the assembler reports."""
        report = product.report
        if not report.functions:
            self.decided.merge([NoLog()])
        self.decided.merge(EntryRegisters(u.name, u.registers) for u in report.functions)
        self.decided.merge(CostsSpeed(f.kind, f.text) for f in report.findings())
