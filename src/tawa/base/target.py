"""What kernels are compiled for, under Triton's name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GPUTarget:
    """`triton.backends.compiler.GPUTarget`: a kind of GPUs, and the lanes of a warp."""

    backend: str = "cuda"
    arch: int | str = 90
    warp_size: int = 32
