"""The chips: an H100 and an H200, the same multiprocessors beside different memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tawa.machine.choices import Choices
from tawa.machine.costs import Costs
from tawa.machine.figures import Figure, Source, figures
from tawa.machine.instructions import Instructions
from tawa.machine.limits import Limits
from tawa.machine.memory import Memory
from tawa.machine.products import FusedProducts, Products
from tawa.machine.scheduling import Scheduling
from tawa.machine.thresholds import Thresholds
from tawa.machine.timing import Timing


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Architecture(Limits, Instructions):
    """What all chips of one architecture share: limits, instructions, and where passes decide."""

    thresholds: Thresholds = Thresholds()

    @property
    def group_threads(self) -> int:
        """Threads of a warp group."""
        return self.group_warps * self.lanes

    @property
    def warps(self) -> int:
        """Warps that a multiprocessor holds."""
        return self.threads // self.lanes

    @property
    def role_registers(self) -> int:
        """Registers of a thread of two warp groups beside one that keeps the fewest."""
        left = self.registers // self.group_threads - self.min_role_registers
        return left // 2 // self.register_step * self.register_step

    @property
    def large_accumulators(self) -> int:
        """Registers of accumulators that leave a warp group's other values a fifth of them."""
        return self.role_registers * 4 // 5

    @property
    def registers_of_four(self) -> int:
        """Registers of a thread where four warp groups have as many each."""
        return self.registers // (4 * self.group_threads)

    @property
    def room_registers(self) -> int:
        """Registers of one of four tiles that a thread can hold: two operands, a result, the next.

        Of one tile beside which others have room, and of tiles that a loop may fetch.
        """
        return (self.max_registers + 1) // 4

    @property
    def few_registers(self) -> int:
        """Registers of a scale and an offset of the two rows that a thread has of 64.

        Of what a loop loads beside its products that it may load an iteration ahead.
        """
        return self.thresholds.statistics_registers // 2

    @property
    def resident_registers(self) -> int:
        """Registers of an operand of a byte an element, as wide as the widest product.

        Of one that may stay in registers through a loop.
        """
        return self.mma_m * self.mma_max_n // (self.word * self.group_threads)

    @property
    def group_access(self) -> int:
        """Bytes that a warp group moves at once, each thread as much as one access can."""
        return self.group_threads * self.copy_unit

    @property
    def words_at_once(self) -> int:
        """Words that one access of a thread moves at most."""
        return self.copy_unit // self.word

    @property
    def copied_rows(self) -> int:
        """Rows of a line each that a warp group copies at once."""
        return self.group_access // self.line

    @property
    def panel_columns(self) -> int:
        """Columns of 16 bits of a panel of the widest swizzle."""
        return self.swizzles[0] * 8 // 16

    @property
    def tile_elements(self) -> int:
        """Elements of a warp group's tile whose registers are no row statistics."""
        return self.thresholds.statistics_registers * self.group_threads


SM_90A = Architecture()
"""Hopper."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Chip(Memory, Architecture):
    """One GPU. Sizes in bytes, times in clock cycles of the multiprocessor."""

    name: str = field(metadata={"figure": False})
    sources: Mapping[str, Source] = field(
        metadata={"figure": False}, hash=False, compare=False, repr=False
    )
    """Where those figures come from that only this chip has."""
    costs: Costs = Costs()
    scheduling: Scheduling = Scheduling()
    timing: Timing = Timing()
    products: Products = Products()
    fused_products: FusedProducts = FusedProducts()
    choice: Choices = Choices()

    def __repr__(self) -> str:
        return f"<chip {self.name}>"

    @property
    def figures(self) -> Iterator[Figure]:
        """All figures, with their sources."""
        return figures(self, self.sources)

    def matrix_cycles(self, columns: int) -> int:
        """Cycles of the tensor core for so many columns, of one step along K."""
        return 2 * self.mma_m * columns * (self.mma_k_bytes // 2) // self.tensor_flops

    @property
    def scheduled_lead(self) -> int:
        """Cycles that the scheduler leaves between a group's issue and its first product.

        A fence and the descriptors come before the first instruction.
        """
        return round(self.costs.matrix_fence + self.costs.matrix_lead)

    @property
    def scheduled_tail(self) -> int:
        """Cycles that the scheduler leaves between a group's last product and its readers.

        They give back the slots that the products have read, by an arrival, before they go on.
        """
        return self.costs.matrix_tail + self.costs.arrive

    @property
    def banks(self) -> int:
        """Banks of shared memory: words that it moves in a clock."""
        return int(self.shared_memory_bytes) // self.word

    @property
    def branch_elements(self) -> int:
        """Elements of a warp group's tile whose work, an instruction each, is two branches long."""
        return 2 * self.scheduling.branch * self.group_threads

    @property
    def scanned_elements(self) -> int:
        """Neighbours that one thread adds up in the time of a scan over the lanes of a warp.

        Such a scan takes, for each power of two below the lanes, an exchange and an addition.
        """
        steps = self.lanes.bit_length() - 1
        return round(steps * (self.costs.shuffle + self.timing.scalar) / self.timing.scalar)

    @property
    def statistics_cycles(self) -> int:
        """Cycles of a maximum of as many registers as row statistics have."""
        return self.thresholds.statistics_registers * self.costs.half_rate

    @property
    def combined_parts(self) -> int:
        """Parts, one of each warp, that every thread combines no later than lanes sharing them."""
        parts = self.words_at_once
        while self._combining(2 * parts, 2 * parts) <= self._combining(2 * parts):
            parts *= 2
        return parts

    def _combining(self, parts: int, each: int = 0) -> float:
        """Cycles until all warps have combined so many parts, of which a lane takes `each`.

        Warps read one after the other; what a lane has it adds up one by one, and what lanes have
        by an exchange and an addition for each power of two.
        """
        each = each or self.words_at_once
        reads = parts * each // self.words_at_once
        steps = (parts // each).bit_length() - 1
        scalar = self.timing.scalar
        return reads + (each - 1) * scalar + steps * (self.costs.shuffle + scalar)

    @property
    def lane_exchanges(self) -> int:
        """Exchanges between lanes that take no longer than one through shared memory."""
        return int((self.costs.barrier + self.timing.fetch_latency) // self.costs.shuffle)

    @property
    def lane_moves(self) -> int:
        """Registers that other lanes give in the time of an exchange through shared memory.

        Their shuffles do not wait for each other: each more takes the time of an instruction.
        """
        saved = self.costs.barrier + self.timing.fetch_latency - self.costs.shuffle
        return 1 << int(saved // self.timing.scalar).bit_length() - 1

    @property
    def remade_work(self) -> int:
        """Instructions that make a value again in the time of a load from shared memory.

        What takes longer is kept, if need be in memory, where it would have to be loaded from.
        """
        return round(self.timing.fetch_latency / self.costs.alu)

    @property
    def fetched_columns(self) -> int:
        """Columns of a product whose operands take as long to fetch as it takes to multiply."""
        rows = self.mma_m * self.mma_k_bytes / self.shared_memory_bytes
        column = self.matrix_cycles(self.mma_n_step) / self.mma_n_step
        return round(rows / (column - self.mma_k_bytes / self.shared_memory_bytes))

    @property
    def copy_latency(self) -> int:
        """Cycles from the issue of a copy from device memory to the end of a wait for it."""
        return round(self.load_latency + self.miss_latency) + self.costs.wait

    @property
    def l2_share(self) -> float:
        """Bytes a clock that L2 gives each multiprocessor, when each reads something else."""
        return self.l2_gbs / self.clock_ghz / self.multiprocessors

    def divided(self, ctas: int) -> Chip:
        """What each of so many CTAs of a multiprocessor may use."""
        if ctas == 1:
            return self
        shared = (self.shared_bytes + self.reserved_bytes) // ctas - self.reserved_bytes
        return replace(self, shared_bytes=shared, registers=self.registers // ctas)


H100 = Chip(
    name="h100",
    l2_bytes=50 * 2**20,
    memory_gbs=2890.0,
    clock_ghz=1.755,
    capped_ghz=1.5,
    sources={
        "l2_bytes": Source("documented", "L2_CACHE_SIZE by cuDeviceGetAttribute"),
        "memory_gbs": Source("measured", "a copy of 268 MB"),
        "clock_ghz": Source("measured", "short kernels' clocks over their times"),
        "capped_ghz": Source("measured", "clocks.jsonl, large products: 1.28 to 1.6"),
    },
)
"""NVIDIA H100 80GB HBM3 (SXM)."""

H200 = replace(
    H100,
    name="h200",
    l2_bytes=60 * 2**20,
    memory_gbs=4300.0,
    sources={
        "l2_bytes": Source("documented", "L2_CACHE_SIZE by cuDeviceGetAttribute: 60 MB"),
        "memory_gbs": Source("measured", "a copy of 8.6 GB through PyTorch: 2.0 ms"),
        "clock_ghz": Source("measured", "choice.jsonl: 1.755, the median of 311 readings of NVML"),
        "capped_ghz": Source(
            "measured", "fused.jsonl, large products at 690 W: 1.31 to 1.58 by NVML"
        ),
    },
)
"""NVIDIA H200 (SXM)."""

CHIPS = {chip.name: chip for chip in (H100, H200)}

DEFAULT = H100
"""What is compiled for where there is no device."""


def chip(name: str | None) -> Chip:
    """The chip of a name in `CHIPS`; the default for None."""
    return CHIPS[name] if name else DEFAULT


def chip_of(name: str) -> Chip:
    """The chip whose product name a device has; the default for other Hopper cards."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return next((chip for chip in CHIPS.values() if chip.name in words), DEFAULT)
