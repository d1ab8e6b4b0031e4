"""What attempts at compiling a kernel leave free, because one before needed more."""

from __future__ import annotations

from dataclasses import dataclass

MOST_RESERVED = 1 << 18
"""Bytes; when this much is set aside and a kernel still does not fit, fewer slots do not help."""

MANY_SPILLED = 1 << 9
"""Bytes of spill stores; where one role spills as many at first and at last, schedules do not help.

Seen in kernels of libraries: of four that spilled 652 to 5290 bytes at first, the two whose last
attempt spilled so much had no better one; the others had 376 and 56 bytes at last.
"""


@dataclass(frozen=True)
class Slack:
    """What an attempt leaves free, because one before it turned out to need more."""

    bytes: int = 0
    """Of shared memory."""
    registers: int = 0
    """Of a thread."""
    stages: int = 2
    """Iterations that schedules may spread an iteration over; with 0, loops keep their order."""
    narrow: bool = False
    """Whether loading roles keep the fewest registers, so that the others get the most."""
    joined: bool = True
    """Whether pipelined loops may run on from tile to tile."""
    in_flight: bool = True
    """Whether products may be in flight when a loop's next iteration begins, and hold its slots."""
    shared: bool = False
    """Whether tiles of straight-line code share slots; products are waited for one by one."""

    def __str__(self) -> str:
        parts = [f"{self.registers} registers to spare", f"{self.stages} stages"]
        parts += ["few registers for loads"] * self.narrow
        parts += ["tiles one by one"] * (not self.joined)
        parts += ["products waited for"] * (not self.in_flight)
        parts += ["tiles that share slots"] * self.shared
        return ", ".join(parts)


NO_SLACK = Slack()

ATTEMPTS = (
    Slack(),
    Slack(narrow=True),
    Slack(narrow=True, registers=8),
    Slack(narrow=True, registers=24),
    Slack(narrow=True, joined=False),
    Slack(registers=8),
    Slack(registers=24),
    Slack(stages=1),
    Slack(stages=0),
)
"""What is tried, one after the other, while the assembler spills or serialises schedules."""

MARGINS = tuple(sorted({slack.registers for slack in ATTEMPTS}))
"""Registers that attempts leave free, in the order in which they come: each tightens the last."""
