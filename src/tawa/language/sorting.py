"""Sorting, written in the tile language: bitonic networks of compare and swap."""

# Kernel code: what types mean here is the front end's matter.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

from tawa.language import core
from tawa.language.builtin import composite, composite_method
from tawa.language.dtypes import constexpr, dtype, int8, int16, int32, int64
from tawa.language.host import constexpr_function


@constexpr_function
def log2_exact(n: int) -> int:
    """The exponent of a power of two; ValueError for other numbers."""
    if n < 1 or n & (n - 1):
        raise ValueError(f"{n} is not a power of two")
    return n.bit_length() - 1


@constexpr_function
def is_power_of_two(n: int) -> bool:
    """Whether a number is a power of two."""
    return n >= 1 and n & (n - 1) == 0


@constexpr_function
def rows_of(shape: tuple[int, ...]) -> int:
    """How many rows of the last dimension a shape has."""
    count = 1
    for size in shape[:-1]:
        count *= size
    return count


@constexpr_function
def exists(dim: int | None, rank: int) -> bool:
    """Whether there is a dimension `dim`."""
    return dim is None or -rank <= dim < rank


@constexpr_function
def is_last(dim: int | None, rank: int) -> bool:
    """Whether `dim` is the last of `rank` dimensions; None is."""
    return dim is None or dim % rank == rank - 1


@constexpr_function
def to_last(dim: int, rank: int) -> tuple[int, ...]:
    """The order of dimensions with `dim` moved to the end."""
    return (*(d for d in range(rank) if d != dim % rank), dim % rank)


@constexpr_function
def from_last(dim: int, rank: int) -> tuple[int, ...]:
    """The order that undoes `to_last`."""
    return tuple(rank - 1 if d == dim % rank else d - (d > dim % rank) for d in range(rank))


@constexpr_function
def bits_type(element: dtype) -> dtype:
    """The signed integers of as many bits as an element type."""
    return {8: int8, 16: int16, 32: int32, 64: int64}[element.primitive_bitwidth]


@composite
def flipped(k: Any) -> Any:
    """Signed bits of floats as integers of the same order, and back: bits below a sign turned."""
    wide: constexpr = k.dtype.primitive_bitwidth - 1
    return k ^ ((k >> wide) & ((1 << wide) - 1))


@composite
def keys(x: Any) -> Any:
    """Integers of at least 32 bits in the order of numbers: an instruction finds the larger of two.

    -0 comes before 0, and what is no number before or behind all numbers, as its sign says.
    """
    narrow: constexpr = x.dtype.primitive_bitwidth < 32
    k = core.to(x, bits_type(x.dtype), bitcast=True) if x.dtype.is_floating() else x
    k = core.to(k, int32) if narrow else k
    return flipped(k) if x.dtype.is_floating() else k


@composite
def from_keys(k: Any, element: Any) -> Any:
    """The numbers that keys stand for."""
    if element.is_floating():
        y = core.to(core.to(flipped(k), bits_type(element)), element, bitcast=True)
    else:
        y = core.to(k, element)
    return y


@composite
def compare_and_swap(x: Any, distance: constexpr, stage: constexpr, down: constexpr) -> Any:
    """One step of the network on (rows, n) keys: elements `distance` apart are ordered.

    Keys are whole numbers, of which one of a pair is the larger or both are the same: every key is
    kept exactly once. One instruction finds the larger of two of 32 bits, none of 64.
    """
    wide: constexpr = x.dtype.primitive_bitwidth > 32
    at = core.arange(0, x.shape[1])[None, :]
    partner = core.gather(x, core.broadcast_to(at ^ distance, x.shape), 1)
    # The second of a pair is to be the larger in a rising run, the first in a falling one.
    larger = core.broadcast_to(((at & distance) != 0) ^ (((at >> stage) & 1) != down), x.shape)
    if wide:
        y = core.where((partner > x) == larger, partner, x)
    else:
        y = core.where(larger, core.maximum(x, partner), core.minimum(x, partner))
    return y


@composite
def sort_rows(x: Any, descending: constexpr) -> Any:
    """Sort along the last dimension."""
    n: constexpr = x.shape[-1]
    core.static_assert(
        is_power_of_two(n), "`tl.sort` and `tl.topk` need a size that is a power of two"
    )
    rows: constexpr = rows_of(x.shape)
    stages: constexpr = log2_exact(n)
    down: constexpr = 1 if descending else 0
    y = keys(core.reshape(x, (rows, n)))
    for stage in core.static_range(1, stages + 1):
        for step in core.static_range(stage):
            y = compare_and_swap(y, 2 ** (stage - 1 - step), stage, down)
    return core.reshape(from_keys(y, x.dtype), x.shape)


@composite_method
def sort(x: Any, dim: Any = None, descending: constexpr = False) -> Any:
    """Sort along `dim` (the last one by default), whose size is a power of two."""
    rank: constexpr = len(x.shape)
    core.static_assert(exists(dim, rank), "`tl.sort` goes along a dimension that there is")
    if is_last(dim, rank):
        return sort_rows(x, descending)
    turned = sort_rows(core.permute(x, to_last(dim, rank)), descending)
    return core.permute(turned, from_last(dim, rank))


@constexpr_function
def turning_bit(n: int, k: int) -> int:
    """The bit of positions that says which way a run of `k` among `n` is sorted; 0 in the last."""
    return log2_exact(n) - (n > k)


@composite
def merged(x: Any, steps: constexpr, bit: constexpr) -> Any:
    """Runs of 2 ** `steps` sorted, falling where the `bit` of their positions is 0."""
    y = x
    for step in core.static_range(steps):
        y = compare_and_swap(y, 2 ** (steps - 1 - step), bit, 1)
    return y


@composite
def topk_rows(x: Any, k: constexpr) -> Any:
    """The `k` largest elements along the last dimension.

    Runs of `k`, those of one half falling and those of the other rising: the larger of each pair
    across the halves are the `k` largest of both runs, in an order that one merge sorts.
    """
    n: constexpr = x.shape[-1]
    core.static_assert(
        is_power_of_two(n) and is_power_of_two(k) and k <= n,
        "`tl.topk` needs sizes that are powers of two",
    )
    rows: constexpr = rows_of(x.shape)
    stages: constexpr = log2_exact(k)
    y = keys(core.reshape(x, (rows, n)))
    for stage in core.static_range(1, stages):
        y = merged(y, stage, stage)
    y = merged(y, stages, turning_bit(n, k))
    for halving in core.static_range(log2_exact(n) - stages):
        size: constexpr = n // 2 ** (halving + 1)
        y = core.max(core.reshape(y, (rows, 2, size)), 1)
        y = merged(y, stages, turning_bit(size, k))
    return core.reshape(from_keys(y, x.dtype), x.shape[:-1] + [k])


@composite_method
def topk(x: Any, k: constexpr, dim: Any = None) -> Any:
    """The `k` largest elements along `dim` (by default the last), largest first; powers of two."""
    rank: constexpr = len(x.shape)
    core.static_assert(exists(dim, rank), "`tl.topk` goes along a dimension that there is")
    if is_last(dim, rank):
        return topk_rows(x, k)
    turned = topk_rows(core.permute(x, to_last(dim, rank)), k)
    return core.permute(turned, from_last(dim, rank))


@composite
def flip_rows(x: Any) -> Any:
    """The elements along the last dimension in reverse order."""
    n: constexpr = x.shape[-1]
    core.static_assert(is_power_of_two(n), "`tl.flip` needs a size that is a power of two")
    rows: constexpr = rows_of(x.shape)
    y = core.reshape(x, (rows, n))
    backwards = core.broadcast_to(n - 1 - core.arange(0, n)[None, :], y.shape)
    return core.reshape(core.gather(y, backwards, 1), x.shape)


@composite_method
def flip(x: Any, dim: Any = None) -> Any:
    """The elements along `dim` (by default the last), a power of two, in reverse order."""
    rank: constexpr = len(x.shape)
    core.static_assert(exists(dim, rank), "`tl.flip` goes along a dimension that there is")
    if is_last(dim, rank):
        return flip_rows(x)
    return core.permute(flip_rows(core.permute(x, to_last(dim, rank))), from_last(dim, rank))
