"""The hardware table: limits and costs.

Sources: CUDA C++ Programming Guide, PTX ISA 9.0, measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Costs:
    """Clock cycles that a warp's instruction holds its scheduler (or the unit it names).

    Sources: CUDA C++ Programming Guide (throughput of native arithmetic instructions), and, where
    marked, values fitted to measured attention kernels.
    """

    alu: int = 1
    """FADD, FMUL, FFMA, integer add and logic: 128 lanes a clock and multiprocessor."""
    half_rate: int = 2
    """Conversions, comparisons, minimum and maximum: 64 lanes a clock."""
    special: int = 8
    """Exponentials, logarithms, square roots: 16 lanes a clock."""
    shuffle: int = 30
    """Latency of a lane exchange that is waited for."""
    branch: int = 8
    """A branch that is mostly not taken, with the vote that decides it (assumed)."""
    barrier: int = 40
    """A barrier of a warp group, with the fence before it (assumed)."""
    stretch: float = 1.8
    """Ordinary code of one warp takes this times its pipes' bound (fitted)."""
    issue: int = 3
    """Instructions that lead to one matrix instruction."""
    group: int = 40
    """Control around a group of matrix instructions: waits, fences, barriers (fitted)."""
    lead: int = 30
    """From a group's first issue to its first cycle on the tensor core (assumed)."""
    tail: int = 60
    """From a group's last cycle on the tensor core to the end of its wait (assumed)."""


@dataclass(frozen=True)
class Timing:
    """What the timing machine needs beyond `Costs`, in clock cycles.

    Sources: `benchmarks/costs.py` on an H100, where not marked otherwise.
    """

    stretch: float = 1.07
    """Ordinary code takes this times its pipes' bound: a softmax alone."""
    capacity: tuple[float, float, float, float] = (1.0, 1.0, 0.97, 1.0)
    """Part of a scheduler's issue slots, half-rate pipe and special-function unit, and of shared
    memory, that several warps together reach: 3 warps' softmaxes take 8.4 cycles an exponential."""
    capacity_beside_tensor: tuple[float, float, float, float] = (0.7, 0.48, 0.73, 1.0)
    """The same as `capacity` while the tensor core works, which takes registers' ports: one warp's
    softmax takes 15.2 to 16.1 cycles an exponential instead of 10.3, two take 11.0 to 12.1 each,
    which is 0.73 of the special-function unit's rate. The half-rate pipe's: maxima in recorded
    attention kernels take 2.1 times as long."""
    work_favour: float = 0.1
    """How much more of a pipe a warp group's ordinary code gets than the one before it: of three
    groups' softmaxes, the last takes 24.2 cycles an exponential, the others 25.2."""
    scalar: float = 4.45
    """Of an index operation, each of which waits for the one before."""
    shuffle: float = 24.0
    """Of a lane exchange that is waited for."""
    jitter: float = 0.2
    """By how much work takes more or less time than its cost, at random (chosen)."""
    grain: float = 12.0
    """Work shorter than this is not shared with others (chosen)."""
    matrix_issue: float = 0.2
    """Of a matrix instruction's cycles, what its issue takes: 13 for N = 128, 26 for 256."""
    matrix_fence: float = 8.0
    """Fence and descriptors before a group of matrix instructions."""
    matrix_lead: float = 25.0
    """From a group's issue to its first cycle on a free tensor core; with the tail, 55."""
    matrix_tail: float = 30.0
    """From its last cycle to the waiting warps."""
    matrix_queue: float = 7.2
    """Matrix instructions of a warp group that need not have run when their issue is over."""
    matrix_favour: float = 0.2
    """How much more of the tensor core a warp group gets than the one before it: of two groups with
    32 instructions each, the second is done when the first has 26 done."""
    warp_matrix: float = 6.6
    """Of a scheduler for a matrix instruction of one warp, 16 x 8 x 16: 62% of the tensor core's
    rate (published for `mma.sync` of 16-bit operands, arXiv 2402.13499; not measured here)."""
    warp_matrix_latency: float = 33.0
    """From the issue of such an instruction to the next one that adds to its result (published)."""
    copy_issue: float = 8.0
    """Of the issuing thread, for a bulk copy (assumed)."""
    store_latency: float = 250.0
    """From the issue of a bulk store to its tile having been read: fitted on the product of
    K = 256 that stages its stores in one buffer."""
    store_issue: float = 85.0
    """Of the issuing thread, for the end of a group of bulk stores: 93 with one store in it."""
    store_wait: float = 50.0
    """Of a wait for stores that have read their tiles."""
    cold_us: float = 0.7
    """From a kernel's first bulk load to its arrival, beyond the table's times: descriptors and
    addresses are read (first waits of recorded kernels)."""
    arrive: float = 35.0
    """Of the arriving thread, and with it of its warp."""
    wait: float = 69.0
    """Of a wait for a phase that has completed."""
    barrier_latency: float = 56.0
    """From the end of the last arrival at an mbarrier to the waiting warps: 91 from its start."""
    meeting_arrive: float = 4.0
    """Of a thread that comes to a named barrier."""
    meeting_latency: float = 40.0
    """From the last arrival at a named barrier to the waiting warps."""
    cta_us: float = 0.18
    """From a CTA's end to the first instruction of the next one on its multiprocessor."""


SPECIAL = frozenset("exp exp2 log log2 sqrt rsqrt recip sin cos tanh sigmoid erf divf".split())
HALF_RATE = frozenset(
    "maxnumf minnumf maximumf minimumf truncf extf sitofp uitofp fptosi fptoui select".split()
)


@dataclass(frozen=True)
class Target:
    """One GPU architecture. Sizes in bytes, times in clock cycles of the multiprocessor."""

    name: str
    multiprocessors: int
    shared_bytes: int
    """Dynamic shared memory that one CTA may use."""
    registers: int
    """32-bit registers of a multiprocessor."""
    group_warps: int = 4
    """Warps of a warp group."""
    mma_m: int = 64
    mma_k_bytes: int = 32
    """Bytes of K that one matrix instruction consumes of a row."""
    mma_max_n: int = 256
    mma_n_step: int = 8
    swizzles: tuple[int, ...] = (128, 64, 32)
    box_limit: int = 256
    """Elements of one dimension of a TMA box."""
    max_registers: int = 255
    register_step: int = 8
    """`setmaxnreg` takes multiples of this."""
    min_role_registers: int = 24
    costs: Costs = Costs()
    timing: Timing = Timing()
    tensor_flops: int = 4096
    """Dense 16-bit floating-point operations a clock and multiprocessor."""
    clock_ghz: float = 1.755
    """Clock under light load; a power-capped card runs matrix products at 1.25 to 1.6."""
    matrix_latency: int = 60
    """From a matrix instruction's issue to its start, and from its end to the waiting warps."""
    copy_latency: int = 800
    """From the issue of a bulk copy to its first byte (L2 hit and DRAM mixed)."""
    copy_bytes: float = 46.0
    """Bytes a clock that L2 gives each multiprocessor when all ask (6154 a clock for all)."""
    l2_gbs: float = 7600.0
    """Gigabytes a second that L2 gives all multiprocessors if each reads something else."""
    ingest_bytes: float = 75.0
    """Bytes a clock that a multiprocessor takes in when 4 (76) or 12 (73) read the same."""
    l2_store_gbs: float = 4000.0
    """Gigabytes a second that all can write to L2."""
    load_latency: float = 260.0
    """Cycles from a bulk load's turn to its first byte from L2 (345 for 1 KB, with the wait)."""
    miss_latency: float = 470.0
    """Further cycles if it comes from device memory."""
    shared_memory_bytes: float = 128.0
    """Bytes a clock that shared memory reads or writes."""
    l2_bytes: int = 50 * 2**20
    """What is written and fits here does not wait for device memory."""
    memory_gbs: float = 2890.0
    """Gigabytes a second that device memory sustains, half of them written (a copy of 268 MB)."""
    barrier_latency: int = 30
    """From the last arrival to the waiting warps."""
    launch_us: float = 6.0
    """Of a kernel's time between events, outside the kernel (hand-written kernels' drain too)."""
    empty_us: float = 3.8
    """Between events around a kernel that does nothing."""

    def divided(self, ctas: int) -> Target:
        """What each of so many CTAs of a multiprocessor may use."""
        if ctas == 1:
            return self
        shared = (self.shared_bytes + CTA_BYTES) // ctas - CTA_BYTES
        return replace(self, shared_bytes=shared, registers=self.registers // ctas)


CTA_BYTES = 1024
"""Shared memory that the system keeps for each CTA."""

SM90A = Target("sm_90a", multiprocessors=132, shared_bytes=232448, registers=65536)
TARGETS = {SM90A.name: SM90A}
