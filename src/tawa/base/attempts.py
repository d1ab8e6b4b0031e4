"""What attempts at compiling a kernel leave free, because one before needed more."""

from __future__ import annotations

from dataclasses import dataclass

MOST_RESERVED = 1 << 18
"""Bytes; when this much is set aside and a kernel still does not fit, fewer slots do not help."""


@dataclass(frozen=True)
class Slack:
    """What an attempt leaves free, because one before it turned out to need more."""

    bytes: int = 0
    """Of shared memory."""
    registers: int = 0
    """Of a thread."""
    stages: int = 2
    """Turns that schedules may spread an iteration over; with 0, loops keep their order."""


NO_SLACK = Slack()

ATTEMPTS = (Slack(), Slack(registers=8), Slack(registers=24), Slack(stages=1), Slack(stages=0))
"""What is tried, one after the other, while the assembler spills or serialises schedules."""
