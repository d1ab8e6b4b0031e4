"""Which options a kernel got that its caller had left open."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.ir.decisions.decision import Decision, Record


@dataclass(frozen=True)
class Considered(Record):
    """A candidate, and how long a launch is predicted to take with it."""

    options: str
    microseconds: float

    def __str__(self) -> str:
        return f"{self.options} {self.microseconds:.1f} us"


@dataclass(frozen=True)
class Chosen(Decision):
    """The candidate that was taken for the sizes of a launch."""

    by = "choice"
    taken: Considered
    written: Considered
    """The kernel with the options as its caller gave them."""
    others: tuple[Considered, ...]
    """The first of the rest, the best first."""

    @property
    def sentence(self) -> str:
        """What was taken, what it is predicted to gain, and what else there was."""
        rest = [c for c in (self.written, *self.others) if c != self.taken]
        shown = ", ".join(map(str, rest))
        return f"{self.taken} predicted (an ordering, not a time), of: {shown}"


@dataclass(frozen=True)
class RolesLeftOut(Decision):
    """One role does everything: what several would hold does not fit in shared memory."""

    by = "choice"
    bytes: int
    """That are lacking."""

    @property
    def sentence(self) -> str:
        """Why."""
        return f"one role does everything: several lack {self.bytes} bytes of shared memory"


@dataclass(frozen=True)
class WishLeftOpen(Decision):
    """An option that was wished for is not met, and is the compiler's choice instead."""

    by = "choice"
    option: str
    asked: int
    instead: str = "does not fit in shared memory: as many as fit"

    @property
    def sentence(self) -> str:
        """Which, and why."""
        return f"{self.option}={self.asked} {self.instead}"
