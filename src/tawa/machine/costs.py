"""What instructions cost: read by the scheduler, the timing model and what records kernels."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_TABLE = "CUDA C++ Programming Guide, throughput of native arithmetic instructions, 9.0"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Costs:
    """Clock cycles that a warp's instruction holds its scheduler (or the unit it names)."""

    alu: int = figure(1, "documented", f"{_TABLE}: 128 lanes a clock")
    """FADD, FMUL, FFMA, integer add and logic."""
    half_rate: int = figure(2, "documented", f"{_TABLE}: 64 lanes a clock")
    """Conversions, comparisons, minimum and maximum."""
    special: int = figure(8, "documented", f"{_TABLE}: 16 lanes a clock")
    """Exponentials, logarithms, square roots."""
    shuffle: int = figure(
        24, "measured", "costs.jsonl, `shfl, 1 warps a scheduler, 1 chains`: 24.0"
    )
    """Latency of a lane exchange that is waited for."""
    matrix_lead: int = figure(
        25,
        "measured",
        "costs.jsonl, `wgmma n64, 1 groups`: 87 less 32, with the tail, which is 15 at least",
    )
    """From a group's first issue to its first cycle on a free tensor core."""
    matrix_tail: int = figure(
        30,
        "measured",
        "costs.jsonl, `wgmma n64, 1 groups`: 87 less 32, with the lead; 15 at least, which n64, "
        "n128 and n256 leave from the issue of 16 to their end beside seven (239, 463, 911)",
    )
    """From a group's last cycle on the tensor core to the waiting warps."""
    arrive: int = figure(35, "measured", "costs.jsonl, `mbarrier`: an arrival 35.4")
    """Of the thread that arrives at an mbarrier, and with it of its warp."""
    wait: int = figure(69, "measured", "costs.jsonl, `mbarrier`: a satisfied wait 69.2")
    """Of a wait for a phase that has completed."""
    mbarrier_latency: int = figure(
        56, "measured", "costs.jsonl, `mbarrier, two groups in turn`: 91.4, less the arrival's 35"
    )
    """From the end of the last arrival at an mbarrier to the waiting warps."""
    meeting_arrive: int = figure(
        4, "measured", "costs.jsonl, `named barrier`: arrive to sync 44.5, with the latency"
    )
    """Of a thread that comes to a named barrier."""
    meeting_latency: int = figure(
        40, "measured", "costs.jsonl, `named barrier`: sync of 128 43.6, of 256 39.2"
    )
    """From the last arrival at a named barrier to the waiting warps."""
    fence: float = figure(
        39.6,
        "measured",
        "costs.jsonl, `shared memory of a group`: a store and a fence 43.6, less the store's 4 in "
        "shared memory; a fence alone 33.6",
    )
    """Of a fence before the tensor core or a copy reads what was stored, beside the stores."""
    matrix_fence: float = figure(
        8.0, "measured", "costs.jsonl, `wgmma n64, 1 groups`: the first issued after 12"
    )
    """Fence and descriptors before a group of matrix instructions."""

    @property
    def barrier(self) -> int:
        """A barrier of a warp group."""
        return self.meeting_arrive + self.meeting_latency


DIVISIONS = {"quotient": 6, "divsi": 20, "divui": 20, "remsi": 22, "remui": 22}
"""Instructions of integer divisions (counted in machine code)."""

REMAINDER = 2
"""Instructions of a remainder whose quotient is there, or the other way round (counted)."""

COMPOUND = {"divf": (9, 1), "sqrt": (8, 1), "sigmoid": (4, 2), "tanh": (1, 1), "exp": (2, 1)}
"""Instructions of a function and how many of them are the special-function unit's (counted)."""
