"""Where passes decide otherwise: sizes from which on something pays, registers that code takes.

What follows from other figures is a property of the chip (`chips.py`); what stands here does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_LOG = "docs/performance-log.md"
_TIMED = "thresholds.jsonl, times in parts of those with it:"
_POINTERS = "registers of loading warp groups in kernels that load through pointers, without spills"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Thresholds:
    """Registers are those of a thread."""

    addresses: int = figure(28, "counted", "attention's and products' kernels, without spills")
    """Registers that addresses, counters and row statistics take in a scheduled loop."""
    statistics_registers: int = figure(
        8, "counted", "attention: four statistics of the two rows that a thread has of 64"
    )
    """A value of fewer registers is a row statistic, which `addresses` covers."""
    loader_registers: tuple[int, int, int] = figure((4, 40, 56), "counted", _POINTERS)
    """Of a role that copies through pointers: for an address, beside them, at least."""
    loader_spare: int = figure(24, "counted", _POINTERS + ", where consumers need them")
    """Registers that such a role does without where its consumers need them."""
    seldom_registers: int = figure(
        40,
        "counted",
        "a copying role whose tiles are boxes, in attention with two CTAs a multiprocessor: none "
        "spilled, of 24 registers 24 bytes",
    )
    """Of such a role that copies through pointers only where a tile is no box."""
    moving_registers: int = figure(32, "counted", "a moving role with four blocks, without spills")
    """Registers of a moving role that can hold four blocks of a tile."""
    beside_accumulators: int = figure(
        24,
        "counted",
        "products of two accumulators, two consumers: of 240 registers 208 without spills, 216 "
        "with 720 bytes; four consumers: of 120 registers 88 with 48 bytes",
    )
    """Registers beside accumulators without which code is refused; spills begin a step before."""
    exchange_gain: float = figure(
        2.5,
        "measured",
        f"{_TIMED} with 1.25 three kernels 1.01 to 1.09, with 5 a transposition 3.32",
    )
    """How many times as many sectors a store has to touch before an exchange pays."""
    shuffle_gain: float = figure(
        2.0, "measured", f"{_LOG}: accumulators of halves, pairs of neighbours against eight"
    )
    """The same where lanes of a warp exchange the tile by shuffles."""
    line_gain: float = figure(
        2.0, "counted", f"{_LOG}: sums of f32, 8 lines for 2 neighbours a thread as for 4"
    )
    """How many times as many lines they have to touch, where sectors are no more."""
    exchange_bytes: int = figure(
        48 * 1024, "documented", "CUDA C++ Programming Guide: what every kernel may have of it"
    )
    """Shared memory that an exchange before a store may take."""
    occupancy_cuts: tuple[float, float] = figure(
        (0.33, 0.45),
        "measured",
        f"{_LOG}: a causal convolution, 90 registers to 64, 0.89 of the time; {_TIMED} half and "
        "twice of the second change one kernel, 0.999 and 1.001",
    )
    """Of its registers, what code is asked to do without for more CTAs: in general, and if its
    warps meet in loops."""
    address_work: int = figure(
        150, "measured", f"{_TIMED} with 75 a product of 4-bit weights 1.02, with 300 none changes"
    )
    """Instructions an iteration for addresses that are too many for one loading warp group."""
    hiding_slots: int = figure(
        8, "measured", f"{_TIMED} with 4 four kernels 1.01 to 1.09, with 16 one 1.001"
    )
    """Slots of a ring beyond which more hide no more latency."""
    shared_slots: int = figure(
        3, "measured", f"{_TIMED} with 2 a product of gathered rows 1.94, with 6 none changes"
    )
    """Slots that hide the loads of a CTA which shares its multiprocessor with another."""
