"""What the assembler reports, and what is decided because of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from tawa.base.attempts import Slack
from tawa.ir.decisions.decision import Decision

Why: TypeAlias = Literal[
    "no schedule found", "the assembler has seen it", "the last one spills, too"
]
"""Why an attempt is not made."""


class Assembled(Decision):
    """What the assembler's log says of the machine code."""

    by = "assembler"


@dataclass(frozen=True)
class NoLog(Assembled):
    """The assembler left no log."""

    @property
    def sentence(self) -> str:
        """What that means."""
        return "it left no log: spills would not be seen"


@dataclass(frozen=True)
class EntryRegisters(Assembled):
    """Registers of a thread when a kernel starts."""

    function: str
    registers: int

    @property
    def sentence(self) -> str:
        """How many."""
        return f"{self.function}: {self.registers} registers a thread at entry"


@dataclass(frozen=True)
class CostsSpeed(Assembled):
    """Something about the machine code that costs speed."""

    kind: str
    text: str

    @property
    def sentence(self) -> str:
        """What."""
        return f"{self.kind}: {self.text}"


class _OfAttempts(Decision):
    by = "schedule"


@dataclass(frozen=True)
class AttemptRejected(_OfAttempts):
    """An attempt's machine code is not good: the next one leaves more free."""

    slack: Slack
    findings: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What it left free, and what the assembler found."""
        return f"rejected with {self.slack}: {'; '.join(self.findings)}"


@dataclass(frozen=True)
class AttemptLeftOut(_OfAttempts):
    """An attempt is not worth the assembler's time."""

    slack: Slack
    why: Why

    @property
    def sentence(self) -> str:
        """What it would have left free, and why it was not made."""
        return f"left out with {self.slack}: {self.why}"


@dataclass(frozen=True)
class RegistersDefined(Decision):
    """Accumulators are defined before their first product, because of a spill."""

    spill: str
    by = "define-registers"

    @property
    def sentence(self) -> str:
        """What is done, and why."""
        return f"accumulators start as zeros, because of {self.spill}"


@dataclass(frozen=True)
class ProductsNarrowed(Decision):
    """Warps' products fetch operands late, because of a spill."""

    spill: str
    by = "narrow-products"

    @property
    def sentence(self) -> str:
        """What is done, and why."""
        return f"warps fetch operands of their products step by step, because of {self.spill}"


class _OfSharing(Decision):
    by = "share-multiprocessor"


@dataclass(frozen=True)
class RegistersForMore(_OfSharing):
    """Machine code with so few registers that more CTAs share a multiprocessor."""

    ctas: int

    @property
    def sentence(self) -> str:
        """How many."""
        return f"registers for {self.ctas} CTAs on a multiprocessor"


@dataclass(frozen=True)
class CompiledForNeighbours(_OfSharing):
    """The kernel was compiled again, all choices made for several CTAs on a multiprocessor."""

    ctas: int

    @property
    def sentence(self) -> str:
        """How many."""
        return f"compiled for {self.ctas} CTAs on a multiprocessor"


@dataclass(frozen=True)
class OnlySimulated(Decision):
    """A kernel that does not compile runs on NumPy arrays alone."""

    why: str
    error: str
    by = "simulator"

    @property
    def sentence(self) -> str:
        """Why."""
        return f"{self.why}: {self.error}"
