"""The hardware table: limits and costs.

Sources: CUDA C++ Programming Guide, PTX ISA 9.0, measurements.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One GPU architecture. Sizes in bytes, times in clock cycles of the multiprocessor."""

    name: str
    multiprocessors: int
    shared_bytes: int
    """Dynamic shared memory that one CTA may use."""
    registers: int
    """32-bit registers of a multiprocessor."""
    warp_threads: int = 32
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
    named_barriers: int = 16
    max_registers: int = 255
    register_step: int = 8
    """`setmaxnreg` takes multiples of this."""
    min_role_registers: int = 24
    max_cluster: int = 8
    tensor_flops: int = 4096
    """Dense 16-bit floating-point operations a clock and multiprocessor."""


SM90A = Target("sm_90a", multiprocessors=132, shared_bytes=232448, registers=65536)
TARGETS = {SM90A.name: SM90A}
