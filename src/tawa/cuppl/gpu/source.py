"""The whole CUDA C++ text of a program: prelude, functions, kernels."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

from ..executable import NATIVE_MODULES, machine_wrapper, main_wrapper
from ..ir import Program
from ..lowering.guards import mark_fallible
from ..lowering.pipeline import Lowered
from ..native import link, translate
from .cuda import PRELUDE, emit_cuda

__all__ = ["BLOCK", "cuda_source"]

BLOCK = 256
"""Threads of a block: one particle each."""

KERNELS = Path(__file__).with_name("kernels.cuh")
_QUALIFIERS = """\
#pragma nv_diag_suppress 177, 550
#define DEVICE static __device__
#define OUTLINE static __device__ __noinline__
#define INLINE static __device__ __forceinline__
#define KERNEL extern "C" __global__ __launch_bounds__(BLOCK)
#define SHARED __shared__
#define TABLE static __device__ const
"""


def device_program(lowered: Lowered) -> Program:
    """The lowered program with what the kernels call."""
    program = Program(dict(lowered.program.functions))
    program.add(machine_wrapper(lowered))
    program.add(main_wrapper(lowered))
    roots = ["exp", "log", "next_uniform", "offspring_before", "next_chunk"]
    roots += ["run_particle", "collect"] if lowered.machine else ["run_once", "collect_results"]
    assert len(NATIVE_MODULES) > 0  # importing them has registered the natives
    for name in roots:
        if name not in program.functions:
            program.add(deepcopy(translate(name)))
    link(program)
    mark_fallible(program)
    return program.reachable(roots)


def cuda_source(lowered: Lowered, qualifiers: str = _QUALIFIERS, block: int = BLOCK) -> str:
    """CUDA C++ for a program. Other qualifiers make it plain C++, for tests without a GPU."""
    flag = "HAS_MACHINE" if lowered.machine else "HAS_MAIN"
    head = f"#define BLOCK {block}\n#define {flag} 1\n"
    program = emit_cuda(device_program(lowered))
    return "\n".join((head, qualifiers, PRELUDE, program, KERNELS.read_text()))
