"""What the instructions of `sm_90a` take: shapes, element types, alignments."""

from __future__ import annotations

from dataclasses import dataclass

from tawa.machine.figures import figure

_WGMMA = "PTX ISA 9.0, wgmma.mma_async"
_TENSOR = "PTX ISA 9.0, tensors and swizzling modes; cuTensorMapEncodeTiled"
_SETMAXNREG = "PTX ISA 9.0, setmaxnreg"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Instructions:
    """Shapes, element types and alignments (bytes where not said otherwise)."""

    target: str = figure("sm_90a", "documented", "PTX ISA 9.0, .target")
    """The architecture that machine code is for."""

    group_warps: int = figure(4, "documented", f"{_WGMMA}: a warp group is four warps")
    """Warps of a warp group."""
    mma_m: int = figure(64, "documented", f"{_WGMMA}: m64")
    """Rows that one matrix instruction of a warp group multiplies."""
    mma_k_bytes: int = figure(32, "documented", f"{_WGMMA}: k16 of 16 bits, k32 of 8, k8 of tf32")
    """Bytes of K that one matrix instruction consumes of a row."""
    mma_max_n: int = figure(256, "documented", f"{_WGMMA}: n8 to n256")
    mma_n_step: int = figure(8, "documented", f"{_WGMMA}: n in steps of 8")
    mma_elements: tuple[str, ...] = figure(
        ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "i8"),
        "documented",
        f"{_WGMMA}: f16, bf16, tf32, e4m3, e5m2, s8",
    )
    """Element types of operands, by their names in the IR (f32 as tf32)."""
    either_way_bytes: int = figure(
        2, "documented", f"{_WGMMA}: imm-trans-a and imm-trans-b for f16 and bf16 alone"
    )
    """Bytes of the elements that may be contiguous along either dimension."""
    warp_mma: tuple[int, int] = figure((16, 8), "documented", "PTX ISA 9.0, mma.sync: m16n8")
    """Rows and columns that one matrix instruction of a warp multiplies."""

    swizzles: tuple[int, ...] = figure((128, 64, 32), "documented", _TENSOR)
    """Bytes of the rows that a swizzle permutes, the widest first."""
    swizzle_alignment: int = figure(
        1024, "documented", f"{_TENSOR}: the 128-byte pattern repeats after 1024 bytes"
    )
    """What a tile in shared memory starts at a multiple of."""
    copy_unit: int = figure(16, "documented", f"{_TENSOR}: inner box extents of whole 16 bytes")
    """Bytes that bulk copies and the swizzles move at once, and arrays for them start at."""
    copy_alignment: int = figure(
        128, "documented", "PTX ISA 9.0, cp.async.bulk.tensor: shared memory aligned to 128 bytes"
    )
    """Bytes whose multiple a copied tile in shared memory starts at."""
    box_limit: int = figure(256, "documented", f"{_TENSOR}: boxDim up to 256")
    """Elements of one dimension of a TMA box."""
    tensor_rank: int = figure(5, "documented", f"{_TENSOR}: rank 1 to 5")
    tensor_size: int = figure(2**32, "documented", f"{_TENSOR}: globalDim up to 2^32")
    tensor_stride: int = figure(2**40, "documented", f"{_TENSOR}: globalStrides below 2^40")
    tensor_map_bytes: int = figure(128, "documented", f"{_TENSOR}: sizeof(CUtensorMap)")
    tensor_map_alignment: int = figure(64, "documented", _TENSOR)
    least_async_copy: int = figure(4, "documented", "PTX ISA 9.0, cp.async: cp-size 4, 8 or 16")
    """Bytes that an asynchronous copy through a pointer moves at least."""

    named_barriers: int = figure(16, "documented", "PTX ISA 9.0, barrier: 16 a CTA")
    register_step: int = figure(8, "documented", f"{_SETMAXNREG}: a multiple of 8")
    min_role_registers: int = figure(24, "documented", f"{_SETMAXNREG}: 24 to 256")
    """The fewest that a role may keep."""


SPECIAL = frozenset("exp exp2 log log2 sqrt rsqrt recip sin cos tanh sigmoid erf divf".split())
"""Functions that the special-function unit computes (CUDA C++ Programming Guide, throughput)."""

HALF_RATE = frozenset(
    "maxnumf minnumf maximumf minimumf truncf extf sitofp uitofp fptosi fptoui select".split()
)
"""Functions of 64 lanes a clock (the same table; FMNMX and F2FP measured, `costs.jsonl`)."""

LONG = SPECIAL | frozenset("divsi divui remsi remui divf_rn remf sqrt_rn pow mulhui".split())
"""Functions of more than a few instructions, or of the special-function unit's."""
