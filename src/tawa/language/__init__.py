"""The tile language: `import tawa.language as tl`.

Names, signatures and semantics are those of `triton.language`, so that a kernel written for
Triton runs unmodified. Functions have a meaning only inside kernels (`@tawa.jit`).
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false

from tawa.language import core, extra, libdevice, math, scaled, sorting, standard
from tawa.language.builtin import Builtin, Composite, LanguageFunction, OutsideKernel
from tawa.language.core import (
    PropagateNan,
    add,
    advance,
    arange,
    argmax,
    argmin,
    associative_scan,
    assume,
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    broadcast,
    broadcast_to,
    cast,
    cat,
    clamp,
    cumprod,
    cumsum,
    debug_barrier,
    device_assert,
    device_print,
    dot,
    expand_dims,
    full,
    gather,
    histogram,
    inline_asm_elementwise,
    join,
    load,
    load_tensor_descriptor,
    make_block_ptr,
    make_tensor_descriptor,
    map_elementwise,
    max,
    max_constancy,
    max_contiguous,
    maximum,
    min,
    minimum,
    mul,
    multiple_of,
    num_programs,
    permute,
    program_id,
    range,
    ravel,
    reduce,
    reduce_or,
    reshape,
    split,
    static_assert,
    static_print,
    static_range,
    store,
    store_tensor_descriptor,
    sub,
    sum,
    to_tensor,
    trans,
    view,
    where,
    xor_sum,
    zeros,
)  # fmt: skip
from tawa.language.dtypes import (
    bfloat16,
    block_type,
    const,
    constexpr,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    pointer_type,
    tensor,
    tensor_descriptor,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip
from tawa.language.host import ConstexprFunction, constexpr_function, next_power_of_2
from tawa.language.math import (
    abs,
    ceil,
    cos,
    div_rn,
    erf,
    exp,
    exp2,
    fdiv,
    floor,
    fma,
    log,
    log2,
    rsqrt,
    sin,
    sqrt,
    sqrt_rn,
    umulhi,
)  # fmt: skip
from tawa.language.scaled import dot_scaled
from tawa.language.sorting import flip, sort, topk
from tawa.language.standard import (
    cdiv,
    interleave,
    pair_uniform_to_normal,
    philox,
    rand,
    rand4x,
    randint,
    randint4x,
    randn,
    randn4x,
    sigmoid,
    softmax,
    squeeze,
    swizzle2d,
    uint_to_uniform_float,
    unsqueeze,
    zeros_like,
)  # fmt: skip

_experimental_make_tensor_descriptor = make_tensor_descriptor
_experimental_descriptor_load = load_tensor_descriptor
_experimental_descriptor_store = store_tensor_descriptor
float8e4m3 = float8e4nv
pi32_t = pointer_type(int32)
TRITON_MAX_TENSOR_NUMEL = constexpr(1 << 20)
"""Elements of the largest tensor."""
void = None

__all__ = [name for name in dir() if not name.startswith("_")]  # pyright: ignore[reportUnsupportedDunderAll]
