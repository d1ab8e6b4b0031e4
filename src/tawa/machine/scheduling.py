"""What the modulo scheduler reckons with beside instructions' costs."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_ATTENTION = "the times of attention, attention.jsonl"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scheduling:
    """Cycles, where not said otherwise."""

    stretch: float = figure(1.8, "fitted", _ATTENTION)
    """Ordinary code of a warp beside a busy tensor core takes this times its pipes' bound.

    The timing model's parts of a pipe beside the tensor core, 0.7 and 0.48, say 1.5 to 2.2.
    """
    group: int = figure(40, "fitted", _ATTENTION)
    """Control around a group of matrix instructions: waits, fences, barriers."""
    issue: int = figure(3, "counted", "attention, D = 128: from one HGMMA of a group to the next")
    """Instructions that lead to one matrix instruction, with itself."""
    combine: int = figure(
        6,
        "measured",
        "costs.jsonl, `ffma+ex2, 1 warps a scheduler, 1 chains`: 22.99, ex2 alone 16.99",
    )
    """Of an op between two of variable latency: one that combines what a lane exchange brings."""
    branch: int = figure(
        8,
        "counted",
        "attention, D = 128: two comparisons, their disjunction, moves, the vote, the branch",
    )
    """A branch that is mostly not taken, with the vote that decides it."""
