"""How long kernels of products take: what the library's models of GEMM and of convolution share.

An iteration of a program's loop takes about as long as the longest of what happens in it at once;
programs take turns on the multiprocessors, in waves; and a launch takes about as long as the longer
of that and of what memory takes. The terms are figures of the machine (`machine/products.py`),
fitted to GEMMs alone: convolutions have none of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tawa.machine.chips import SM_90A, Chip

LINE = SM_90A.line
"""Bytes of a row that one box, one swizzled row of shared memory and one line of L2 hold."""


@dataclass(frozen=True)
class Iteration:
    """An iteration of a tile's loop: a product along so many lines of K, and what it needs."""

    rows: int
    columns: int
    lines: float
    loaded: float
    """Bytes from L2."""
    written: float
    """Bytes that come to shared memory."""
    added: float = 0.0
    """Cycles that the products have to wait besides, whatever happens meanwhile."""
    rows_loaded: float = 0.0
    """Rows of boxes that come, each of a line or less, where they may be shorter than a line."""

    def parts(self, active: int, chip: Chip) -> dict[str, float]:
        """Cycles of what happens at once while so many multiprocessors are at work."""
        terms, groups = chip.products, self.rows / 64
        read = groups * (64 + self.columns) * self.lines * LINE
        return {
            "products": self.rows * (self.columns + terms.width) * self.lines / 32 + self.added,
            "L2": self.loaded * active * chip.clock_ghz / chip.l2_shared_gbs,
            "shared memory": (self.written + read) / terms.shared,
            "latency": terms.least + terms.each_line * self.lines,
            "arrival": self.rows_loaded * LINE / chip.ingest_bytes,
        }

    def cycles(self, active: int, chip: Chip) -> float:
        """Cycles of all of it."""
        norm = chip.products.overlap
        return sum(part**norm for part in self.parts(active, chip).values()) ** (1 / norm)


def waves_cycles(
    main: float, stored: float, waves: int, options: Mapping[str, Any], chip: Chip
) -> float:
    """Cycles of waves of tiles, each with so many of its loop and of what stores it."""
    if not options.get("persistent"):
        return waves * (main + stored) + (waves - 1) * chip.products.started
    if options.get("ping_pong"):
        # The last tile is stored by one of the two groups alone.
        return waves * max(main, (main + stored) / 2) + 2 * stored
    return waves * (main + stored)


def launch_us(
    cycles: float, moved: float, memory: float, chip: Chip, sharpness: float | None = None
) -> float:
    """Microseconds of a launch of so many cycles, and with so many microseconds of memory.

    `moved` are the lines that are loaded for each product of two elements: power. `sharpness` says
    how nearly the longer of both is the time, by default that of GEMMs.
    """
    terms, clock = chip.products, chip.clock_ghz * 1e3
    own, norm = cycles / clock * (1 + terms.energy * moved), sharpness or terms.sharpness
    return chip.timing.empty_us + terms.started / clock + (own**norm + memory**norm) ** (1 / norm)
