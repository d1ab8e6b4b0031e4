"""What ptxas says about a kernel: registers, spills, local memory, lost matrix pipelines.

NVRTC's program log carries ptxas's remarks when the target is real (`sm_90a`). The codes below
are informational to ptxas, but each one costs speed, so they are reported as what they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "spill", "local memory", "setmaxnreg ignored", "wgmma serialised", "wgmma fence inserted"
]

CODES: dict[str, tuple[Kind, str]] = {
    "C7504": ("setmaxnreg ignored", "the kernel crosses compilation units"),
    "C7505": ("setmaxnreg ignored", "the kernel is compiled for debugging"),
    "C7506": ("setmaxnreg ignored", "the kernel calls an external function"),
    "C7507": ("setmaxnreg ignored", "a role needs more registers than it asked for"),
    "C7508": ("setmaxnreg ignored", "the register count at entry is unknown: add launch bounds"),
    "C7510": ("wgmma serialised", "the pipeline crosses a function boundary"),
    "C7511": ("wgmma serialised", "too few registers for the matrix pipeline"),
    "C7512": ("wgmma serialised", "too few registers for the function"),
    "C7513": ("wgmma serialised", "operand registers are written while in flight"),
    "C7514": ("wgmma serialised", "accumulators are read while in flight"),
    "C7515": ("wgmma serialised", "accumulators are written while in flight"),
    "C7516": ("wgmma serialised", "the matrix pipeline is ill formed"),
    "C7517": ("wgmma serialised", "a wait was inserted: overlap is lost"),
    "C7519": ("wgmma fence inserted", "a wgmma.fence is missing"),
}
"""ptxas's codes for lost performance: what each one is, and its usual cause."""


@dataclass(frozen=True)
class Finding:
    """One thing about the machine code that costs speed."""

    kind: Kind
    text: str
    code: str | None = None
    function: str | None = None

    def __str__(self) -> str:
        place = f" in {self.function}" if self.function else ""
        code = f" [{self.code}]" if self.code else ""
        return f"{self.kind}{place}: {self.text}{code}"


@dataclass(frozen=True)
class FunctionUsage:
    """The resources of one function; sizes in bytes a thread."""

    name: str
    registers: int = 0
    barriers: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0

    def findings(self) -> tuple[Finding, ...]:
        """Spills, or local memory that no spill explains."""
        if self.spill_stores or self.spill_loads:
            text = f"{self.spill_stores} bytes of spill stores, {self.spill_loads} of spill loads"
            return (Finding("spill", text, function=self.name),)
        if self.stack:
            text = f"{self.stack} bytes of stack: an array is indexed at run time"
            return (Finding("local memory", text, function=self.name),)
        return ()


@dataclass(frozen=True)
class CompileReport:
    """All that the log says; `remarks` are the coded findings in the log's order."""

    functions: tuple[FunctionUsage, ...] = ()
    remarks: tuple[Finding, ...] = ()

    def function(self, name: str) -> FunctionUsage:
        """The usage of kernel `name`; KeyError if the log does not mention it."""
        for usage in self.functions:
            if usage.name == name:
                return usage
        raise KeyError(name)

    def findings(self) -> tuple[Finding, ...]:
        """Everything that costs speed: spills, local memory and coded remarks."""
        return tuple(f for usage in self.functions for f in usage.findings()) + self.remarks

    def to_json(self) -> dict[str, Any]:
        """What JSON can hold of it: all."""
        return asdict(self)

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> CompileReport:
        """What `to_json` gave."""
        functions = tuple(FunctionUsage(**usage) for usage in found["functions"])
        return CompileReport(functions, tuple(Finding(**remark) for remark in found["remarks"]))

    def of_kind(self, kind: Kind) -> tuple[Finding, ...]:
        """The findings of one kind."""
        return tuple(finding for finding in self.findings() if finding.kind == kind)


_ENTRY = re.compile(r"(?:Function properties for|Compiling entry function) '?([\w$.]+)'?")
_MEMORY = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?")
_CODE = re.compile(r"\((C7\d{3})\)\s*(.*)")
_IN_FUNCTION = re.compile(r"in (?:the )?function '([\w$.]+)'")


def parse_log(log: str) -> CompileReport:
    """Read the log of one program, compiled with `--ptxas-options=-v`."""
    usages: dict[str, dict[str, int]] = {}
    remarks: dict[Finding, None] = {}
    name = ""
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            name = entry[1]
            usages.setdefault(name, {})
        elif memory := _MEMORY.search(line):
            sizes = zip(("stack", "spill_stores", "spill_loads"), memory.groups(), strict=True)
            usages.setdefault(name, {}).update({key: int(value) for key, value in sizes})
        elif used := _USED.search(line):
            usages.setdefault(name, {}).update(registers=int(used[1]), barriers=int(used[2] or 0))
        if (code := _CODE.search(line)) and code[1] in CODES:
            remarks[_remark(code[1], code[2])] = None
    functions = tuple(FunctionUsage(key, **values) for key, values in usages.items())
    return CompileReport(functions, tuple(remarks))


_FEW = re.compile(r"\(C7602\).*?registers \((\d+)\).*?register target of (\d+)")


def missing_registers(log: str) -> tuple[int, int] | None:
    """Registers that a thread may have, and that an instruction needs, if these are more."""
    found = _FEW.search(log)
    return (int(found[1]), int(found[2])) if found else None


def _remark(code: str, text: str) -> Finding:
    kind, cause = CODES[code]
    function = _IN_FUNCTION.search(text)
    return Finding(kind, f"{cause} ({text.strip()})", code, function[1] if function else None)
