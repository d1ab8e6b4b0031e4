"""What the L2 cache and device memory give, which differs by chip; and the clock."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_COPIES = "costs.jsonl, `copies from L2, boxes of 128 rows"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Memory:
    """Sizes in bytes, rates in GB/s of all multiprocessors where not said otherwise."""

    l2_bytes: int
    """What is written and fits here does not wait for device memory."""
    memory_gbs: float
    """What device memory sustains, half of it written (a copy of much more than L2 holds)."""
    clock_ghz: float
    """Clock of the multiprocessors under light load."""
    capped_ghz: float
    """Clock that the power limit leaves large products: what predictions compare launches at."""

    l2_gbs: float = figure(7600.0, "measured", f"{_COPIES}, 1 CTAs load each`: 7505 to 7731")
    """What L2 gives if each multiprocessor reads something else."""
    l2_shared_gbs: float = figure(
        17000.0, "measured", f"{_COPIES}, 4 CTAs load each` 16816, 12: 17424"
    )
    """What L2 gives if several read the same at about the same time."""
    ingest_bytes: float = figure(75.0, "measured", f"{_COPIES}, 4 CTAs load each` 76.0, 12: 73.1")
    """Bytes a clock that one multiprocessor takes in."""
    l2_store_gbs: float = figure(4000.0, "measured", "costs.jsonl, `stores to L2`: 3999")
    """What all can write to L2."""
    load_latency: float = figure(
        260.0,
        "measured",
        "costs.jsonl, `copy latency, box of 8 rows`: 345, less a wait, the issue and the bytes",
    )
    """Cycles from a bulk load's iteration to its first byte from L2."""
    miss_latency: float = figure(
        470.0,
        "measured",
        "costs.jsonl, `copy latency, box of 8 rows`: 824 from memory, 345 from L2",
    )
    """Further cycles if it comes from device memory."""
    shared_memory_bytes: float = figure(
        128.0, "measured", "costs.jsonl, `shared memory of a group`: 4 stmatrix.x4 of 4 warps, 67.6"
    )
    """Bytes a clock that shared memory reads or writes."""
    tensor_flops: int = figure(
        4096, "measured", "costs.jsonl, `wgmma n64, 1 groups`: N / 2 cycles for m64nNk16"
    )
    """Dense 16-bit floating-point operations a clock and multiprocessor."""

    @property
    def shared_reads(self) -> float:
        """Bytes that multiprocessors load for each that L2 reads, if all load the same."""
        return self.l2_shared_gbs / self.l2_gbs
