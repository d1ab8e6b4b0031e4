"""What the compiler has the assembler look at: CUDA texts, of which the first good one is taken."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from tawa.base.attempts import Slack
from tawa.base.remarks import Remarks

GIVEN_UP = re.compile(r"set_registers_down<(\d+)>")
"""How a role's text gives up registers, all but so many a thread."""


@dataclass(frozen=True)
class Candidate:
    """A kernel lowered to CUDA text with one attempt's choices."""

    slack: Slack
    remarks: Remarks
    said: Sequence[str]
    """The remarks about choices that take registers."""
    aref: str
    module: ModuleOp
    """Of the last level."""
    text: str

    @property
    def last(self) -> bool:
        """Whether nothing is left to try if it is not good: loops keep the order of the source."""
        return not self.slack.stages


@dataclass
class Tried:
    """Texts that were assembled, or needn't be.

    One that differs from another only by leaving fewer registers to its loading roles spills if the
    other does.
    """

    kept: dict[str, list[tuple[int, ...]]] = field(default_factory=dict[str, list[tuple[int, ...]]])
    """By the text without them, the registers that roles keep."""

    def add(self, text: str) -> None:
        """Remember a text."""
        self.kept.setdefault(GIVEN_UP.sub("", text), []).append(_registers(text))

    def has(self, text: str) -> bool:
        """Whether the text, or one that leaves each role as many registers, was added."""
        now = _registers(text)
        others = self.kept.get(GIVEN_UP.sub("", text), [])
        return any(all(a >= b for a, b in zip(other, now, strict=True)) for other in others)


def _registers(text: str) -> tuple[int, ...]:
    return tuple(map(int, GIVEN_UP.findall(text)))
