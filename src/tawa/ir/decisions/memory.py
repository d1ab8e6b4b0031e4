"""Shared memory and registers: how deep rings are, how far loads run ahead, what roles get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tawa.ir.decisions.decision import Decision, Record


@dataclass(frozen=True)
class RingDepth(Decision):
    """How many slots the rings of the innermost loops have."""

    slots: int
    slot_bytes: int
    chosen: Literal["asked", "most", "fewer"]
    """Asked for, as many as shared memory holds, or fewer than that."""
    by = "depths"

    @property
    def sentence(self) -> str:
        """How many, of what size, and why."""
        why = {
            "asked": "asked for",
            "most": "what shared memory holds",
            "fewer": "fewer than shared memory holds: for another CTA, or all that are filled",
        }[self.chosen]
        return f"{self.slots} slots of {self.slot_bytes} bytes in the loop ({why})"


@dataclass(frozen=True)
class SlotsShared(Decision):
    """Tiles that are loaded one after the other have the slots of one ring."""

    tiles: int
    by = "shared-slots"

    @property
    def sentence(self) -> str:
        """How many tiles."""
        return f"{self.tiles} tiles loaded in turn share a ring's slots ({self.place('kernel')})"


class _OfPrefetch(Decision):
    by = "prefetch"


@dataclass(frozen=True)
class LoadsStay(_OfPrefetch):
    """The loads of a role that also computes do not run ahead."""

    why: str

    @property
    def sentence(self) -> str:
        """Which loads, and why."""
        return f"the loads of {self.place('a loop')} do not run ahead: {self.why}"


@dataclass(frozen=True)
class LoadsRunAhead(_OfPrefetch):
    """The loads of a role that also computes run ahead of their uses."""

    iterations: int

    @property
    def sentence(self) -> str:
        """How far, where."""
        return f"loads run {self.iterations} iterations ahead ({self.place('loop')})"


@dataclass(frozen=True)
class Part(Record):
    """A part of shared memory."""

    name: str
    bytes: int


@dataclass(frozen=True)
class MemoryLaidOut(Decision):
    """Where everything lies in shared memory is fixed."""

    total: int
    parts: tuple[Part, ...]
    threads: int
    """Of a CTA."""
    by = "lower-to-hopper"

    @property
    def sentence(self) -> str:
        """How much of it is what."""
        parts = ", ".join(f"{part.name} {part.bytes}" for part in self.parts)
        return f"shared memory {self.total} bytes ({parts}), {self.threads} threads"


@dataclass(frozen=True)
class RegistersShared(Decision):
    """How many registers a loading and a computing thread get."""

    loading: int
    computing: int
    by = "registers"
    takes_registers = True

    @property
    def sentence(self) -> str:
        """How many each."""
        return f"{self.loading} a loading thread, {self.computing} a computing one"


@dataclass(frozen=True)
class BarriersLeftOut(Decision):
    """Barriers of warps' products that order nothing are gone."""

    count: int
    role: str
    by = "redundant-barrier-elimination"

    @property
    def sentence(self) -> str:
        """How many of which role."""
        return f"{self.count} meeting(s) of role {self.role} order nothing and are left out"
