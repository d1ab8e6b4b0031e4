"""What the modulo scheduler reckons with beside instructions' costs."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_ATTENTION = "the times of attention, attention.jsonl"

_SLACK = "not measured by itself; without it 14 kernels of attention get other schedules, untimed"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scheduling:
    """Cycles, where not said otherwise."""

    stretch: float = figure(1.8, "fitted", _ATTENTION)
    """Ordinary code of a warp beside a busy tensor core takes this times its pipes' bound.

    The timing model's parts of a pipe beside the tensor core, 0.7 and 0.48, say 1.5 to 2.2.
    """
    group: int = figure(40, "fitted", _ATTENTION)
    """Control around a group of matrix instructions: waits, fences, barriers."""
    issue: int = figure(3, "chosen", "not measured by itself")
    """Instructions that lead to one matrix instruction."""
    lead_slack: int = figure(5, "chosen", _SLACK)
    """Added to the measured lead of a group of matrix instructions."""
    tail_slack: int = figure(30, "chosen", _SLACK)
    """Added to their measured tail: what follows the wait is late rather than early."""
    shuffle_slack: int = figure(6, "chosen", _SLACK)
    """Added to the measured latency of a lane exchange: of the op that combines what it brings."""
    branch: int = figure(8, "chosen", "not measured by itself")
    """A branch that is mostly not taken, with the vote that decides it."""
