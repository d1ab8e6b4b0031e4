"""Programs, tensors, memory, shapes, reductions: the core of the tile language.

Names, signatures and semantics are Triton's. The bodies are empty: the front end gives the meaning
(`tawa.frontend`). `mask`, `other` and numbers are broadcast and converted as described in
`docs/language.md`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from tawa.language import dtypes
from tawa.language.builtin import builtin, method
from tawa.language.dtypes import constexpr, float32
from tawa.language.dtypes import dtype as dtype_class
from tawa.language.host import aggregate, constexpr_function, must_use_result
from tawa.language.host import get_int_dtype as get_int_dtype

Whole: TypeAlias = int | constexpr
Flag: TypeAlias = bool | constexpr
"""What is known when a kernel is compiled: a number, or a parameter that is one."""


def __getattr__(name: str) -> Any:
    """Types, too: `triton.language.core` has them."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(dtypes, name)


CONSTEXPR_0 = dtypes.constexpr(0)
"""A default value of parameters that kernels of others name."""

_unwrap_if_constexpr = constexpr_function(dtypes.unwrap)
_aggregate = aggregate


class PropagateNan:
    """Whether a NaN operand wins in `maximum`, `minimum` and `clamp`."""

    NONE = "none"
    ALL = "all"


# --- programs -----------------------------------------------------------------------------------


@builtin
def program_id(axis: Whole) -> Any:
    """Index of this program instance along grid axis 0, 1 or 2; int32."""


@builtin
def num_programs(axis: Whole) -> Any:
    """Size of the grid along axis 0, 1 or 2; int32."""


@builtin
def range(
    arg1: Any,
    arg2: Any = None,
    step: Any = None,
    num_stages: Whole | None = None,
    loop_unroll_factor: Whole | None = None,
    disallow_acc_multi_buffer: Flag = False,
    flatten: Flag = False,
    warp_specialize: Flag = False,
    disable_licm: Flag = False,
    row_ends: Any = None,
) -> Any:
    """Iterate in a `for` loop like Python's `range`, with wishes for how to compile the loop.

    `row_ends`, an integer for each row of the tiles that the loop carries, promises that iterations
    from that counter on change nothing in the row. In a causal attention all their keys are masked.
    Warp groups that share the rows then leave out iterations that none of their own rows needs. The
    simulator checks the promise.
    """


@builtin
def condition(arg1: Any, disable_licm: Flag = False) -> Any:
    """The condition of a `while` loop, with a wish for how to compile the loop."""


@builtin
def static_range(arg1: Any, arg2: Any = None, step: Any = None) -> Any:
    """Iterate in a `for` loop that is unrolled; the counter is a compile-time value."""


# --- making tensors -----------------------------------------------------------------------------


@builtin
def arange(start: Whole, end: Whole) -> Any:
    """The int32 tensor `start, start + 1, ..., end - 1`; the length is a power of two or of 8s."""


@builtin
def full(shape: Any, value: Any, dtype: dtype_class) -> Any:
    """A tensor of `shape` whose elements are all `value`."""


@builtin
def zeros(shape: Any, dtype: dtype_class) -> Any:
    """A tensor of zeros."""


@builtin
def to_tensor(x: Any) -> Any:
    """A number as a scalar value of its natural type (int32, float32, ...)."""


@builtin
def cast(
    input: Any,
    dtype: dtype_class,
    fp_downcast_rounding: str | None = None,
    bitcast: Flag = False,
) -> Any:
    """Convert to `dtype`; with `bitcast` keep the bits instead of the value."""


@method
def to(
    self: Any,
    dtype: dtype_class,
    fp_downcast_rounding: str | None = None,
    bitcast: Flag = False,
) -> Any:
    """Convert to `dtype`; with `bitcast` keep the bits instead of the value."""


# --- shapes -------------------------------------------------------------------------------------


@method
def broadcast_to(input: Any, *shape: Any) -> Any:
    """Repeat dimensions of size 1 to reach `shape`; a scalar fills it."""


@builtin
def broadcast(input: Any, other: Any) -> Any:
    """Both operands in their common shape."""


@method
def expand_dims(input: Any, axis: Any) -> Any:
    """Insert dimensions of size 1 before `axis` (an int or several)."""


@method
def reshape(input: Any, *shape: Any, can_reorder: Flag = False) -> Any:
    """The same elements under another shape, in row-major order."""


@method
def view(input: Any, *shape: Any) -> Any:
    """The same elements under another shape."""


@method
def ravel(x: Any, can_reorder: Flag = False) -> Any:
    """The same elements in one dimension."""


@method
def trans(input: Any, *dims: Any) -> Any:
    """Swap the last two dimensions, or permute all by `dims`."""


@method
def permute(input: Any, *dims: Any) -> Any:
    """Permute the dimensions by `dims`."""


@builtin
def join(a: Any, b: Any) -> Any:
    """Interleave two tensors along a new last dimension of size 2."""


@method
def split(a: Any) -> Any:
    """The two halves of a tensor whose last dimension has size 2."""


@builtin
def cat(input: Any, other: Any, can_reorder: Flag = False, dim: Whole = 0) -> Any:
    """Two tensors one after the other along dimension `dim`; the others agree."""


@method
def gather(src: Any, index: Any, axis: Whole) -> Any:
    """Elements of `src` at the positions `index` along `axis`; the other dimensions agree."""


@method
def extract_slice(input: Any, offsets: Any, sizes: Any) -> Any:
    """The window of `sizes` elements that starts at `offsets` (one number a dimension).

    Offsets may be computed as the program runs; a window has to lie inside the tensor. A matrix
    product reads a window of a loaded tile where the tile lies, without a copy, if its rows are
    whole and come in groups of 8 at one distance: one load then serves every shifted window.
    """


@method
def item(self: Any) -> Any:
    """The element of a tensor that has one, as a scalar."""


@method
def histogram(input: Any, num_bins: Whole, mask: Any = None) -> Any:
    """How often each of 0, ..., `num_bins` - 1 occurs in a one-dimensional tensor, as int32."""


# --- memory -------------------------------------------------------------------------------------


@builtin
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: Flag = False,
) -> Any:
    """Read from pointers, or from a block pointer; `other` fills where `mask` is false."""


@method
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    boundary_check: Any = (),
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    """Write to pointers, or to a block pointer, where `mask` is true."""


@builtin
def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> Any:
    """A pointer to a block of a tensor; `advance` moves it."""


@must_use_result("`tl.advance` gives the moved pointer, and leaves its argument where it was.")
@method
def advance(base: Any, offsets: Any) -> Any:
    """A block pointer moved by `offsets` elements in each dimension."""


@builtin
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: str = "zero"
) -> Any:
    """Describe a tensor in global memory for loads and stores of blocks."""


@builtin
def load_tensor_descriptor(desc: Any, offsets: Any, eviction_policy: str = "") -> Any:
    """The block at `offsets`; elements outside the tensor are 0. Also `desc.load(offsets)`.

    `eviction_policy` is how L2 treats the lines that it reads, as of `load`.
    """


@builtin
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> None:
    """Write a block; elements outside are dropped. Also `desc.store(offsets, value)`."""


@builtin
def descriptor_atomic_add(desc: Any, offsets: Any, value: Any) -> None:
    """Add a block atomically: `desc.atomic_add(offsets, value)`."""


@builtin
def descriptor_atomic_max(desc: Any, offsets: Any, value: Any) -> None:
    """Take the maximum with a block atomically: `desc.atomic_max(offsets, value)`."""


@builtin
def descriptor_atomic_min(desc: Any, offsets: Any, value: Any) -> None:
    """Take the minimum with a block atomically: `desc.atomic_min(offsets, value)`."""


@builtin
def descriptor_atomic_and(desc: Any, offsets: Any, value: Any) -> None:
    """And a block atomically: `desc.atomic_and(offsets, value)`."""


@builtin
def descriptor_atomic_or(desc: Any, offsets: Any, value: Any) -> None:
    """Or a block atomically: `desc.atomic_or(offsets, value)`."""


@builtin
def descriptor_atomic_xor(desc: Any, offsets: Any, value: Any) -> None:
    """Exclusive-or a block atomically: `desc.atomic_xor(offsets, value)`."""


@method
def atomic_add(
    pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> Any:
    """Add atomically; gives the old elements."""


@method
def atomic_max(
    pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> Any:
    """Take the maximum atomically; gives the old elements."""


@method
def atomic_min(
    pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> Any:
    """Take the minimum atomically; gives the old elements."""


@method
def atomic_and(
    pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> Any:
    """And atomically; gives the old elements."""


@method
def atomic_or(
    pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> Any:
    """Or atomically; gives the old elements."""


@method
def atomic_xor(
    pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> Any:
    """Exclusive or, atomically; gives the old elements."""


@method
def atomic_xchg(
    pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None
) -> Any:
    """Exchange atomically; gives the old elements."""


@method
def atomic_cas(
    pointer: Any, cmp: Any, val: Any, sem: str | None = None, scope: str | None = None
) -> Any:
    """Store `val` where memory equals `cmp`, atomically; gives the old elements."""


# --- dot products, selection, reductions --------------------------------------------------------


@builtin
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: str | None = None,
    allow_tf32: Flag | None = None,
    max_num_imprecise_acc: Whole | None = None,
    out_dtype: dtype_class = float32,
) -> Any:
    """Matrix product of (M, K) and (K, N) tiles, plus `acc`; rank 3 operands are batches."""


@builtin
def where(condition: Any, x: Any, y: Any) -> Any:
    """Elements of `x` where `condition` holds, of `y` elsewhere."""


@method
def sum(
    input: Any,
    axis: Whole | None = None,
    keep_dims: Flag = False,
    dtype: dtype_class | None = None,
) -> Any:
    """Sum along `axis` (all axes by default). Small integers are summed in 32 bits."""


@method
def max(
    input: Any,
    axis: Whole | None = None,
    return_indices: Flag = False,
    return_indices_tie_break_left: Flag = True,
    keep_dims: Flag = False,
) -> Any:
    """Maximum along `axis`; NaN loses. Types below 32 bits give 32-bit results."""


@method
def min(
    input: Any,
    axis: Whole | None = None,
    return_indices: Flag = False,
    return_indices_tie_break_left: Flag = True,
    keep_dims: Flag = False,
) -> Any:
    """Minimum along `axis`; NaN loses. Types below 32 bits give 32-bit results."""


@method
def argmax(
    input: Any,
    axis: Whole | None = None,
    tie_break_left: Flag = True,
    keep_dims: Flag = False,
) -> Any:
    """Position of the maximum along `axis`: of several, the first."""


@method
def argmin(
    input: Any,
    axis: Whole | None = None,
    tie_break_left: Flag = True,
    keep_dims: Flag = False,
) -> Any:
    """Position of the minimum along `axis`: of several, the first."""


@method
def xor_sum(input: Any, axis: Whole | None = None, keep_dims: Flag = False) -> Any:
    """Exclusive or along `axis`."""


@method
def reduce_or(input: Any, axis: Whole | None = None, keep_dims: Flag = False) -> Any:
    """Bitwise or along `axis`."""


@method
def reduce(input: Any, axis: Whole | None, combine_fn: Any, keep_dims: Flag = False) -> Any:
    """Combine along `axis` with a jitted function of two scalars, in any order.

    The function has to be associative and commutative: `associative_scan` keeps the order of its
    operands, `reduce` does not, as in Triton.
    """


@method
def cumsum(
    input: Any,
    axis: Whole = 0,
    reverse: Flag = False,
    dtype: dtype_class | None = None,
) -> Any:
    """Running sum along `axis`."""


@method
def cumprod(input: Any, axis: Whole = 0, reverse: Flag = False) -> Any:
    """Running product along `axis`."""


@method
def associative_scan(input: Any, axis: Whole, combine_fn: Any, reverse: Flag = False) -> Any:
    """Running combination along `axis` with a jitted associative function of two scalars."""


@builtin
def maximum(x: Any, y: Any, propagate_nan: str = PropagateNan.NONE) -> Any:
    """The larger of each two elements; a NaN loses unless `PropagateNan.ALL`."""


@builtin
def minimum(x: Any, y: Any, propagate_nan: str = PropagateNan.NONE) -> Any:
    """The smaller of each two elements; a NaN loses unless `PropagateNan.ALL`."""


@builtin
def clamp(x: Any, min: Any, max: Any, propagate_nan: str = PropagateNan.NONE) -> Any:
    """Limit to the range `min` to `max`."""


@builtin
def inline_asm_elementwise(
    asm: str, constraints: str, args: Any, dtype: Any, is_pure: Flag, pack: int
) -> Any:
    """PTX with operands `$0`, `$1`, ...: `pack` elements of each tensor of `args` at a time."""


@builtin
def map_elementwise(scalar_fn: Any, *args: Any, pack: Whole = 1) -> Any:
    """A jitted function of scalars, applied to the elements of tensors of one shape."""


# --- arithmetic by name -------------------------------------------------------------------------


@builtin
def add(x: Any, y: Any, sanitize_overflow: Flag = True) -> Any:
    """`x + y`."""


@builtin
def sub(x: Any, y: Any, sanitize_overflow: Flag = True) -> Any:
    """`x - y`."""


@builtin
def mul(x: Any, y: Any, sanitize_overflow: Flag = True) -> Any:
    """`x * y`."""


@method
def logical_and(self: Any, other: Any) -> Any:
    """`self and other`, of bools."""


@method
def logical_or(self: Any, other: Any) -> Any:
    """`self or other`, of bools."""


# --- compile time and debugging -----------------------------------------------------------------


@builtin
def static_assert(cond: Any, msg: str = "") -> None:
    """Stop compiling with `msg` unless the compile-time `cond` holds."""


@builtin
def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None) -> None:
    """Print while compiling."""


@builtin
def device_assert(cond: Any, msg: str = "", mask: Any = None) -> None:
    """Stop the program with `msg` unless `cond` holds."""


@builtin
def device_print(prefix: str, *args: Any, hex: Flag = False) -> None:
    """Print while the kernel runs."""


@builtin
def debug_barrier() -> None:
    """All threads of the program wait for each other."""


@builtin
def multiple_of(input: Any, values: Any) -> Any:
    """Promise that values are multiples of a number; gives `input`."""


@builtin
def max_contiguous(input: Any, values: Any) -> Any:
    """Promise that values are contiguous in blocks; gives `input`."""


@builtin
def max_constancy(input: Any, values: Any) -> Any:
    """Promise that values are constant in blocks; gives `input`."""


@builtin
def assume(cond: Any) -> None:
    """Promise that `cond` holds; lower bounds (`n > 0`) and divisors (`n % 8 == 0`) are used."""


@builtin
def assume_disjoint(*arguments: Any) -> None:
    """Promise that nothing written through one of these arguments is accessed through another."""
