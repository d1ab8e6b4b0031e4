"""Which arrays of a launch overlap, of the pairs that matter to its kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tawa.runtime.arrays import (
    ELEMENT_BYTES,
    has_extent,
    is_array,
    is_stand_in,
    pointer_of,
    view,
)
from tawa.runtime.descriptor import TensorDescriptor
from tawa.runtime.kinds import part_named

Pair = tuple[str, str]
Alike = tuple[str, str, str, str]
"""Two arrays and two integers, of which each counts addresses of one of them."""


class Reach(NamedTuple):
    """The bytes that an array may touch: blocks of `block`, multiples of `step` bytes apart."""

    begin: int
    end: int
    block: int
    step: int


EVERYWHERE = Reach(0, 1 << 64, 1 << 64, 0)
"""Of an address that does not say how far its elements reach."""


def overlapping(
    pairs: Sequence[Pair], arguments: Mapping[str, Any], alike: Sequence[Alike] = ()
) -> tuple[tuple[Pair, ...], tuple[Pair, ...]]:
    """The pairs whose arrays may have bytes in common, and those of them that are one array.

    With these, the pairs of integers that are equal, of those that `alike` lists for such arrays.
    """
    met: list[Pair] = []
    same: list[Pair] = []
    values = {name: part_named(name, arguments) for pair in pairs for name in pair}
    reaches = {name: reach(value) for name, value in values.items()}
    for pair in pairs:
        first, second = (reaches[name] for name in pair)
        if first is not None and second is not None and meet(first, second):
            met.append(pair)
            same += [pair] if _are_one(*(values[name] for name in pair)) else []
    for one, other, first, second in alike:
        if (one, other) in same and (first, second) not in same:
            same += [(first, second)] if _are_equal(arguments[first], arguments[second]) else []
    return tuple(met), tuple(same)


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two integers are equal; example types are not."""
    return not isinstance(one, str) and one == other


def _are_one(one: Any, other: Any) -> bool:
    """Whether two arrays begin at one address; of descriptors, whether they describe the same."""
    if isinstance(one, TensorDescriptor) or isinstance(other, TensorDescriptor):
        described = [d.geometry for d in (one, other) if isinstance(d, TensorDescriptor)]
        alike = len(described) == 2 and described[0] is described[1]
        return alike and one.pointer() == other.pointer()
    first, second = view(one), view(other)
    return first.pointer == second.pointer and first.element_type == second.element_type


def meet(one: Reach, other: Reach) -> bool:
    """Whether two arrays may have bytes in common."""
    if one.end <= other.begin or other.end <= one.begin:
        return False
    step = math.gcd(one.step, other.step)
    if not step:
        return True
    ahead = (other.begin - one.begin) % step
    return not (one.block <= ahead and ahead + other.block <= step)


def reach(value: Any) -> Reach | None:
    """The bytes of an array or of a descriptor's tensor; None of anything else, and of no bytes."""
    if isinstance(value, TensorDescriptor):
        if goes_around(value):
            return reach(value.base)
        size = ELEMENT_BYTES[view(value.base).element_type]
        return _reach(pointer_of(value.base), size, value.shape, value.strides)
    if is_stand_in(value):
        return None
    if hasattr(value, "data_ptr") and not has_extent(value):
        return EVERYWHERE
    if hasattr(value, "get_device") and value.is_contiguous():
        begin, bytes_ = value.data_ptr(), value.nbytes
        return Reach(begin, begin + bytes_, bytes_, 0) if bytes_ else None
    if not is_array(value):
        return None
    found = view(value)
    return _reach(found.pointer, ELEMENT_BYTES[found.element_type], found.shape, found.strides)


def end_of(tensor: Any) -> int:
    """The address behind the last byte of a tensor of PyTorch, however its elements lie."""
    begin: int = tensor.data_ptr()
    if not all(tensor.shape):
        return begin
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return begin + (last + 1) * tensor.element_size()


def goes_around(descriptor: TensorDescriptor) -> bool:
    """Whether a tensor reaches around all addresses: blocks that exist are those of its base."""
    return descriptor.geometry.reach >= 1 << 63


def _reach(at: int, size: int, shape: Sequence[int], strides: Sequence[int]) -> Reach | None:
    if not all(shape):
        return None
    begin, last, block, rest = at, at, size, 0
    for extent, stride in sorted(zip(shape, strides, strict=True), key=lambda d: abs(d[1])):
        far = (extent - 1) * stride * size
        begin, last = begin + min(far, 0), last + max(far, 0)
        if abs(stride) * size <= block and not rest:
            block += abs(far)
        elif extent > 1:
            rest = math.gcd(rest, abs(stride) * size)
    return Reach(begin, last + size, block, rest)
