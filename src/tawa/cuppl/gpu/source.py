"""The whole CUDA C++ text of a program: prelude, functions, kernels."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

from tawa.cuppl.core.ir import Program
from tawa.cuppl.cpu.executable import NATIVE_MODULES, main_wrapper, taped_wrapper
from tawa.cuppl.gpu.cuda import PRELUDE, emit_cuda
from tawa.cuppl.gpu.turns import machine_text
from tawa.cuppl.gpu.warps import for_warps, most_slots, warp_texts
from tawa.cuppl.lowering.frames import ENTRY_POINT, FINAL_POINT, MACHINE
from tawa.cuppl.lowering.guards import mark_fallible
from tawa.cuppl.lowering.pipeline import Lowered
from tawa.cuppl.lowering.suspension import recursive_functions
from tawa.cuppl.natives import nuts, tape
from tawa.cuppl.natives.collect import CONTINUATION_LAYOUT
from tawa.cuppl.translation.native import link, translate
from tawa.cuppl.typing.errors import UnsupportedMethod

__all__ = [
    "BLOCK", "CHAINS_BLOCK", "LANES_TOGETHER", "WARPS_A_MULTIPROCESSOR", "block_of_warps",
    "chains_source", "cuda_source", "shared_slots",
]  # fmt: skip

BLOCK = 256
"""Threads of a block: one particle each."""
CHAINS_BLOCK = 128
"""Threads of a block where chains have a lane: a warp for each scheduler of a multiprocessor."""
WARPS_A_MULTIPROCESSOR = 8
"""Warps of chains that run at the same time, by their registers."""
SHARED_BYTES = 48 << 10
"""That a block may have."""
BYTES_OF_A_SLOT = 8 * 33
"""A row of `lane_terms`, for each warp."""
BY_LANES = {"product": "product_by_rows"}
"""Natives whose lanes share better what another one computes, with the same bits."""

KERNELS = Path(__file__).with_name("kernels.cuh")
COLLECT = Path(__file__).with_name("collect.cuh")
PARTICLES = Path(__file__).with_name("particles.cuh")
SHARES = Path(__file__).with_name("shares.cuh")
CHAINS = Path(__file__).with_name("chains.cuh")
LANES = Path(__file__).with_name("lanes.cuh")
_QUALIFIERS = """\
#pragma nv_diag_suppress 177, 550
#define DEVICE static __device__
#define OUTLINE static __device__ __noinline__
#define INLINE static __device__ __forceinline__
#define INLINE_MEMBER __device__ __forceinline__
#define DEVICE_MEMBER __device__
#define UNROLL _Pragma("unroll")
#define KERNEL extern "C" __global__ __launch_bounds__(BLOCK, 2)
#define CHAINS_KERNEL extern "C" __global__ __launch_bounds__(BLOCK, 256 / BLOCK)
#define SMALL_KERNEL extern "C" __global__ __launch_bounds__(BLOCK, 4)
#define SHARED __shared__
#define TABLE static __device__ const
#define WARP 32
#define ALL_LANES 0xFFFFFFFFu
"""
_ANY_MEMORY = """\
#define MEMORY(address) reinterpret_cast<void*>(address)
"""
_GLOBAL_MEMORY = """\
#define MEMORY(address) __cvta_global_to_generic((size_t)(address))
"""
_SUMS = """\
// Over a warp; every lane must ask.
INLINE u64 warp_sum(u64 value) {
  for (int half = WARP / 2; half > 0; half /= 2) value += __shfl_xor_sync(ALL_LANES, value, half);
  return value;
}
INLINE u64 warp_max(u64 value) {
  for (int half = WARP / 2; half > 0; half /= 2) {
    u64 other = __shfl_xor_sync(ALL_LANES, value, half);
    if (other > value) value = other;
  }
  return value;
}
// Over this lane and those before it.
INLINE u64 warp_prefix(u64 value) {
  for (int reach = 1; reach < WARP; reach *= 2) {
    u64 other = __shfl_up_sync(ALL_LANES, value, reach);
    if (threadIdx.x % WARP >= reach) value += other;
  }
  return value;
}
"""
_WARPS = """\
// A bit for each lane of the warp that says yes; every lane must ask.
INLINE unsigned warp_ballot(bool yes) { return __ballot_sync(ALL_LANES, yes); }
INLINE int bits_in(unsigned lanes) { return __popc(lanes); }
// The next numbers of a counter, the same for all lanes.
INLINE i64 warp_grab(u64* counter, i64 count) {
  i64 first = 0;
  if (threadIdx.x % WARP == 0) first = (i64)atomicAdd(counter, (u64)count);
  return __shfl_sync(ALL_LANES, first, 0);
}
// The point that most lanes are at; -1 if all are idle.
INLINE int warp_choose(int point) {
  unsigned same = __match_any_sync(ALL_LANES, point);
  unsigned rank = point == IDLE ? 0u : (unsigned)__popc(same) << 16 | (point + 1);
  return (int)(__reduce_max_sync(ALL_LANES, rank) & 0xFFFFu) - 1;
}
"""
LANES_TOGETHER = """\
INLINE void warp_sync() { __syncwarp(); }
// All threads of the block that have not ended.
INLINE void block_sync() { __syncthreads(); }
INLINE bool warp_all(bool yes) { return __all_sync(ALL_LANES, yes); }
INLINE bool warp_any(bool yes) { return __any_sync(ALL_LANES, yes); }
INLINE unsigned warp_add(unsigned word) { return __reduce_add_sync(ALL_LANES, word); }
INLINE unsigned warp_min(unsigned word) { return __reduce_min_sync(ALL_LANES, word); }
INLINE unsigned warp_max(unsigned word) { return __reduce_max_sync(ALL_LANES, word); }
// A bit for each lane that has the same word.
INLINE unsigned warp_match(unsigned word) { return __match_any_sync(ALL_LANES, word); }
INLINE double warp_word(double x, int lane) { return __shfl_sync(ALL_LANES, x, lane); }
INLINE int first_of(unsigned lanes) { return __ffs(lanes) - 1; }
"""


def device_program(lowered: Lowered) -> Program:
    """The lowered program with what the kernels call."""
    program = Program(dict(lowered.program.functions))
    program.add(main_wrapper(lowered))
    roots = [
        "exp",
        "log",
        "next_uniform",
        "offspring_before",
        "next_chunk",
        "object_words",
        "marked",
    ]
    if lowered.machine is None:
        roots += ["run_once"]
    else:
        roots += ["restore_draw", MACHINE]
    assert len(NATIVE_MODULES) > 0  # importing them has registered the natives
    for name in roots:
        if name not in program.functions:
            program.add(deepcopy(translate(name)))
    link(program)
    mark_fallible(program)
    return program.reachable(roots)


def cuda_source(
    lowered: Lowered,
    qualifiers: str = _QUALIFIERS + _ANY_MEMORY,
    block: int = BLOCK,
    warps: str = _WARPS,
    sums: str = _SUMS,
    shares: bool = False,
) -> str:
    """CUDA C++ for a program, whose particles may be shared among devices.

    Other qualifiers make it plain C++, for tests without a GPU.
    """
    flag = "HAS_MACHINE" if lowered.machine else "HAS_MAIN"
    head = f"#define BLOCK {block}\n#define {flag} 1\n"
    head += f"enum {{ FINAL_POINT = {FINAL_POINT}, ENTRY_POINT = {ENTRY_POINT}, "
    head += f"CONTINUATION_LAYOUT = {CONTINUATION_LAYOUT} }};\n"
    head += "#define HAS_SHARES 1\n" if shares else ""
    program = device_program(lowered)
    whole = Program(dict(program.functions))
    program.functions.pop(MACHINE, None)
    parts = [head, qualifiers, PRELUDE, emit_cuda(program), PARTICLES.read_text()]
    if lowered.machine is not None:
        points, turns = machine_text(lowered.machine, whole)
        parts += [points, warps, turns]
    kernels = (KERNELS, COLLECT, SHARES) if shares else (KERNELS, COLLECT)
    return "\n".join((*parts, sums, *(path.read_text() for path in kernels)))


def chains_program(lowered: Lowered, together: bool) -> Program:
    """A differentiated program, with what makes chains of it."""
    program = Program(dict(lowered.program.functions))
    if recursive_functions(program):
        raise UnsupportedMethod(
            "chains of a program that recurses do not run on a GPU",
            expected="loops (`iter`, `fold`, `range_fold`, ...)",
            hint="leave `device` out: chains run on all cores then",
        )
    program.add(taped_wrapper(lowered))
    assert len(NATIVE_MODULES) > 0  # importing them has registered the natives
    roots = ["run_chain", "find_step", "find_start"]
    for name in roots:
        program.add(deepcopy(translate(name)))
    if together:
        for name, instead in BY_LANES.items():
            program.add(replace(translate(instead), name=name))
    link(program)
    mark_fallible(program)
    program = program.reachable(roots)
    return for_warps(program) if together else program


def shared_slots(lowered: Lowered) -> int:
    """Slots of the loops over data that lanes share in a differentiated program; 0 if none."""
    return most_slots(chains_program(lowered, together=True))


def block_of_warps(slots: int) -> int:
    """Threads of a block of chains that have a warp each.

    All that a multiprocessor runs at the same time meet, unless the terms of shared loops have no
    room then.
    """
    warps = WARPS_A_MULTIPROCESSOR
    while warps * slots * BYTES_OF_A_SLOT > SHARED_BYTES:
        warps //= 2
    return 32 * warps


def chains_source(
    lowered: Lowered,
    qualifiers: str = _QUALIFIERS + _GLOBAL_MEMORY,
    block: int | None = None,
    together: str | None = None,
) -> str:
    """CUDA C++ for chains of a differentiated program, each of which has one lane.

    With `together`, the text of what lanes do together, a chain has all lanes of a warp.
    Raises UnsupportedMethod if the program recurses: no function calls itself on a GPU.
    """
    program = chains_program(lowered, together is not None)
    slots = most_slots(program) if together is not None else 0
    if block is None:
        block = CHAINS_BLOCK if together is None else block_of_warps(slots)
    head = f"#define BLOCK {block}\nenum {{ METER_WORDS = {tape.METER_WORDS}, "
    head += f"DIMENSION = {tape.DIMENSION}, SAMPLER_WORDS = {nuts.SAMPLER_WORDS}, "
    head += f"WORK = {nuts.WORK} }};\n"
    parts = [head, qualifiers, PRELUDE]
    if together is None:
        parts.append(emit_cuda(program))
    else:
        parts += [f"#define TOGETHER 1\nenum {{ MOST_SLOTS = {max(1, slots)} }};", together]
        parts += [LANES.read_text(), emit_cuda(program, warp_texts(program))]
    return "\n".join((*parts, CHAINS.read_text()))
