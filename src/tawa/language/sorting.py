"""Sorting and counting, written in the tile language: bitonic networks of compare and swap."""

# Kernel code: what types mean here is the front end's matter.
# pyright: basic, reportArgumentType=false, reportAssignmentType=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

from tawa.language import core
from tawa.language.builtin import composite, composite_method
from tawa.language.dtypes import constexpr, int32
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


@composite
def compare_and_swap(
    x: Any, rows: constexpr, n: constexpr, distance: constexpr, stage: constexpr, down: constexpr
) -> Any:
    """One step of the network on a (rows, n) tensor: elements `distance` apart are ordered."""
    groups: constexpr = n // (2 * distance)
    pairs = core.permute(core.reshape(x, (rows, groups, 2, distance)), (0, 1, 3, 2))
    left, right = core.split(pairs)
    first = core.arange(0, groups)[None, :, None] * (2 * distance)
    descends = ((first >> stage) & 1) != down
    swap = (left > right) ^ core.broadcast_to(descends, left.shape)
    ordered = core.join(core.where(swap, right, left), core.where(swap, left, right))
    return core.reshape(core.permute(ordered, (0, 1, 3, 2)), (rows, n))


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
    y = core.reshape(x, (rows, n))
    for stage in core.static_range(1, stages + 1):
        for step in core.static_range(stage):
            y = compare_and_swap(y, rows, n, 2 ** (stage - 1 - step), stage, down)
    return core.reshape(y, x.shape)


@composite_method
def sort(x: Any, dim: Any = None, descending: constexpr = False) -> Any:
    """Sort along `dim` (the last one by default), whose size is a power of two."""
    rank: constexpr = len(x.shape)
    if is_last(dim, rank):
        return sort_rows(x, descending)
    turned = sort_rows(core.permute(x, to_last(dim, rank)), descending)
    return core.permute(turned, from_last(dim, rank))


@composite
def topk_rows(x: Any, k: constexpr) -> Any:
    """The `k` largest elements along the last dimension."""
    n: constexpr = x.shape[-1]
    rows: constexpr = rows_of(x.shape)
    parts = core.reshape(sort_rows(x, True), (rows, n // k, k))
    chosen = core.arange(0, n // k)[None, :, None] == 0
    kept = core.sum(core.where(chosen, parts, 0), 1, dtype=x.dtype)
    return core.reshape(kept, x.shape[:-1] + [k])


@composite_method
def topk(x: Any, k: constexpr, dim: Any = None) -> Any:
    """The `k` largest elements along `dim` (by default the last), largest first; powers of two."""
    rank: constexpr = len(x.shape)
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
    bits: constexpr = log2_exact(n)
    y = core.reshape(x, (rows, n))
    for bit in core.static_range(bits):
        distance: constexpr = 2**bit
        pairs = core.reshape(y, (rows, n // (2 * distance), 2, distance))
        left, right = core.split(core.permute(pairs, (0, 1, 3, 2)))
        y = core.reshape(core.permute(core.join(right, left), (0, 1, 3, 2)), (rows, n))
    return core.reshape(y, x.shape)


@composite_method
def flip(x: Any, dim: Any = None) -> Any:
    """The elements along `dim` (by default the last), a power of two, in reverse order."""
    rank: constexpr = len(x.shape)
    if is_last(dim, rank):
        return flip_rows(x)
    return core.permute(flip_rows(core.permute(x, to_last(dim, rank))), from_last(dim, rank))


@composite
def histogram(input: Any, num_bins: constexpr, mask: Any = None) -> Any:
    """How often each of 0, ..., `num_bins` - 1 occurs in a one-dimensional tensor, as int32."""
    hit = input[:, None] == core.arange(0, num_bins)[None, :]
    if mask is not None:
        hit = hit & mask[:, None]
    return core.sum(hit.to(int32), 0)
