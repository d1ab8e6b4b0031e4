"""`triton.language.target_info`: what kernels are compiled for, as they ask when they are."""

from __future__ import annotations

from tawa.base.target import GPUTarget
from tawa.language.host import constexpr_function


def current_target() -> GPUTarget:
    """What kernels are compiled for: a Hopper GPU, whether or not there is one."""
    return GPUTarget()


@constexpr_function
def is_cuda() -> bool:
    """Whether that is one of NVIDIA's."""
    return current_target().backend == "cuda"


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether its compute capability is at least this one."""
    return int(current_target().arch) >= 10 * major + minor


@constexpr_function
def is_hip() -> bool:
    """Whether it is one of AMD's."""
    return current_target().backend == "hip"


is_hip_cdna3 = is_hip_cdna4 = is_hip
"""Whether it is one of these: it is none of AMD's."""
