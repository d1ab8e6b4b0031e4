"""What a multiprocessor of compute capability 9.0 has, and what a launch may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_TABLE = "CUDA C++ Programming Guide, technical specifications, compute capability 9.0"
_DEVICE = "cuDeviceGetAttribute, on an H100 SXM and an H200"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Limits:
    """Counts and sizes, in bytes."""

    multiprocessors: int = figure(132, "documented", f"MULTIPROCESSOR_COUNT by {_DEVICE}")
    """Of the chip: a persistent kernel runs one CTA on each."""
    shared_bytes: int = figure(227 * 1024, "documented", f"{_TABLE}: of a thread block, 227 KB")
    """Dynamic shared memory that one CTA may use."""
    reserved_bytes: int = figure(
        1024, "documented", f"{_TABLE}: 228 KB of a multiprocessor, 1 KB of a block is the system's"
    )
    """Shared memory that the system keeps for each CTA."""
    registers: int = figure(64 * 1024, "documented", f"{_TABLE}: of a multiprocessor")
    """32-bit registers of a multiprocessor."""
    max_registers: int = figure(255, "documented", f"{_TABLE}: of a thread")
    """Registers of a thread."""
    register_unit: int = figure(
        256, "documented", "CUDA occupancy calculator: allocation unit of registers, a warp"
    )
    """Registers of a warp are allocated in multiples of this."""
    schedulers: int = figure(4, "documented", "CUDA C++ Programming Guide, 9.0: warp schedulers")
    """Warps of a multiprocessor that may issue an instruction in a cycle."""
    lanes: int = figure(32, "documented", f"{_TABLE}: warp size")
    """Threads of a warp."""
    cta_warps: int = figure(32, "documented", f"{_TABLE}: 1024 threads of a block")
    """Warps of a CTA."""
    threads: int = figure(2048, "documented", f"{_TABLE}: resident threads")
    """Threads that a multiprocessor holds."""
    ctas: int = figure(32, "documented", f"{_TABLE}: resident blocks")
    """CTAs that a multiprocessor holds."""
    largest_grid: tuple[int, int, int] = figure(
        (2**31 - 1, 2**16 - 1, 2**16 - 1), "documented", f"{_TABLE}: dimensions of a grid"
    )
    """Programs along each dimension of a grid."""
    word: int = figure(4, "documented", "PTX ISA, register state space")
    """Bytes of a register, and of a bank of shared memory."""
    line: int = figure(128, "documented", "CUDA C++ Programming Guide, global memory: a cache line")
    """Bytes of a line of L2, which rows of boxes and of swizzled tiles fill."""
    sector: int = figure(
        32, "documented", "CUDA C++ Programming Guide, global memory: transactions of 32 bytes"
    )
    """Bytes that memory moves at least."""

    def ctas_with(self, shared: int) -> int:
        """CTAs that fit a multiprocessor's shared memory with so many bytes each."""
        return (self.shared_bytes + self.reserved_bytes) // (shared + self.reserved_bytes)
