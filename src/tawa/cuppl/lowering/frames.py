"""The machine of `machine.py`, and what its frames hold."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.cuppl.core.ir import Function, Type

__all__ = [
    "DISPATCH", "DONE", "DONE_POINT", "DRAW_MASK", "ENTRY_POINT", "FINAL_POINT", "MACHINE",
    "MARK_POINT", "SEGMENT", "SUSPENDED", "TOP_MASK", "Frame", "Machine", "point_word",
]  # fmt: skip

MACHINE = "machine"
SEGMENT = "segment"
DISPATCH = "dispatch"
TOP_MASK = (1 << 34) - 1
DRAW_MASK = (1 << 32) - 1
SUSPENDED = 0
DONE = -1
ENTRY_POINT, FINAL_POINT, DONE_POINT, MARK_POINT = 0, 1, 2, 3


@dataclass(slots=True)
class Frame:
    """The words under a resume point: which of them are references."""

    words: tuple[Type, ...]

    @property
    def references(self) -> tuple[bool, ...]:
        """True for each reference."""
        return tuple(w is Type.REF for w in self.words)


@dataclass(slots=True)
class Machine:
    """The resumable function, the frames by resume point, and the room to keep free."""

    function: Function
    frames: list[Frame]
    slack: int
    """Words that must stay free above the limit, for one suspension."""
    results: tuple[Type, ...]
    header: int
    """State words before the stack: 2, or 4 with a memo table."""
    joins: tuple[str, ...] = ()
    """Blocks at which control arrives from several calls, or again and again: on a machine that
    runs particles side by side, this is where they meet."""


def point_word(point: int, size: int) -> int:
    """The word on top of a frame."""
    return size << 32 | point
