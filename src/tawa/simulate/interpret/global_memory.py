"""Global memory: the launch's arrays at their own addresses, and tensor maps over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from tawa.base.numerics import Array, decode, encode, storage_dtype
from tawa.base.types import NAMES, byte_size
from tawa.ir.scalars.table import FUNCTIONS


class OutsideMemory(Exception):
    """An address that lies in no array; carries the address and what is near."""


@dataclass(frozen=True)
class Allocation:
    """One array of the launch: `bytes` is a flat view of its memory, `first` its address."""

    name: str
    first: int
    bytes: Array
    writable: bool


def _flat_bytes(array: Array) -> tuple[int, Array]:
    """The address and the bytes that an array of any (non-negative) strides spans."""
    if any(stride < 0 for stride in array.strides):
        raise ValueError("arrays with negative strides are not supported")
    size = array.itemsize * (array.size > 0)
    span = size + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if size)
    view = np.lib.stride_tricks.as_strided(
        array, (span // max(1, array.itemsize),), (array.itemsize,)
    )
    return array.ctypes.data, view.view(np.uint8)


class GlobalMemory:
    """Every array of a launch. Addresses are the arrays' own."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.changes = 0
        """How often a store has changed something."""

    def add(self, array: Array, name: str) -> int:
        """Make an array's memory accessible; returns its address."""
        first, flat = _flat_bytes(array)
        self.allocations.append(Allocation(name, first, flat, bool(array.flags.writeable)))
        return first

    def find(self, low: int, high: int) -> Allocation:
        """The array that holds the addresses from `low` up to `high`."""
        for allocation in self.allocations:
            if allocation.first <= low and high <= allocation.first + len(allocation.bytes):
                return allocation
        raise OutsideMemory(self._describe(low, high))

    def _describe(self, low: int, high: int) -> str:
        def reach(array: Allocation) -> int:
            """How many bytes the access reaches out of an array."""
            return max(array.first - low, high - array.first - len(array.bytes))

        nearest = min(self.allocations, key=reach, default=None)
        if nearest is None:
            return f"{high - low} bytes; the launch has no arrays"
        at, size = low - nearest.first, len(nearest.bytes)
        return f"bytes {at} to {high - nearest.first} of {nearest.name}, which has {size}"

    def load(self, at: Array, element: Attribute, count: int) -> Array:
        """`count` consecutive elements from each address: `[len(at), count]`."""
        size, dtype = byte_size(element), storage_dtype(element)
        if not len(at):
            return decode(np.zeros((0, count), dtype), element)
        where = at[:, None] + np.arange(count * size)
        held = self.find(int(where.min()), int(where.max()) + 1)
        return decode(held.bytes[where - held.first].view(dtype), element)

    def store(self, at: Array, values: Array, element: Attribute) -> None:
        """Write `values[i]` consecutively from `at[i]` on."""
        if not len(at):
            return
        size = byte_size(element)
        where = at[:, None] + np.arange(int(values.shape[1]) * size)
        held = self.find(int(where.min()), int(where.max()) + 1)
        if not held.writable:
            raise OutsideMemory(f"{held.name}, which is read-only")
        stored = np.ascontiguousarray(encode(values, element)).view(np.uint8).reshape(where.shape)
        self.changes += not np.array_equal(held.bytes[where - held.first], stored)
        held.bytes[where - held.first] = stored


@dataclass(frozen=True)
class TensorMap:
    """What a 128-byte tensor map says; sizes in elements, the innermost dimension last.

    The box lands in shared memory row by row, `box[-1]` elements a row; with a swizzle, bits 4..6
    of each byte address are xor-ed with bits 7..9 (64 bytes: 4..5 with 7..8; 32: 4 with 7), as
    the CUDA driver API describes the interleaved layouts of `cuTensorMapEncodeTiled`.
    """

    address: int
    element: Attribute
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    fill: str

    @property
    def bytes(self) -> int:
        """Bytes of one box, in shared memory and at the mbarrier."""
        return int(np.prod(self.box)) * byte_size(self.element)

    def _places(self, coordinates: Sequence[int]) -> tuple[Array, Array]:
        """Offsets in elements of a box's elements, and which of them lie in the tensor."""
        offset = np.zeros(self.box, np.int64)
        inside = np.ones(self.box, bool)
        for axis, (first, extent) in enumerate(zip(coordinates, self.box, strict=True)):
            shape = [1] * len(self.box)
            shape[axis] = extent
            at = (first + np.arange(extent, dtype=np.int64)).reshape(shape)
            inside &= (at >= 0) & (at < self.shape[axis])
            offset = offset + at * self.strides[axis]
        return offset.reshape(-1), inside.reshape(-1)

    def read(self, memory: GlobalMemory, coordinates: Sequence[int]) -> Array:
        """The bytes of one box, outside ones filled; not yet swizzled."""
        size = byte_size(self.element)
        offset, inside = self._places(coordinates)
        box = np.zeros((len(offset), size), np.uint8)
        if self.fill == "nan":
            box[:] = encode(np.full(1, np.nan, np.float32), self.element).view(np.uint8)
        if inside.any():
            at = self.address + offset[inside] * size
            held = memory.find(int(at.min()), int(at.max()) + size)
            box[inside] = held.bytes[(at - held.first)[:, None] + np.arange(size)]
        return box.reshape(-1)

    def write(
        self,
        memory: GlobalMemory,
        coordinates: Sequence[int],
        box: Array,
        reduce: str | None = None,
    ) -> None:
        """Write a box's bytes, or combine its elements into memory; drop what is outside."""
        size = byte_size(self.element)
        offset, inside = self._places(coordinates)
        if not inside.any():
            return
        at = self.address + offset[inside] * size
        held = memory.find(int(at.min()), int(at.max()) + size)
        if not held.writable:
            raise OutsideMemory(f"{held.name}, which is read-only")
        where = (at - held.first)[:, None] + np.arange(size)
        memory.changes += 1
        new = box.reshape(-1, size)[inside]
        if reduce is not None:
            new = self._combined(reduce, held.bytes[where], new)
        held.bytes[where] = new

    def _combined(self, kind: str, old: Array, new: Array) -> Array:
        """The bytes of each old element combined with a new one, `[elements, bytes]`."""
        dtype, element = storage_dtype(self.element), self.element
        one, other = (decode(np.ascontiguousarray(x).view(dtype), element) for x in (old, new))
        found = FUNCTIONS[kind].evaluate([element, element], element, one, other)
        return np.ascontiguousarray(encode(found, element)).view(np.uint8).reshape(old.shape)

    def shared_addresses(self, tile: int) -> Array:
        """The shared-memory address of each byte of a box that lands at `tile`."""
        return swizzled(tile + np.arange(self.bytes, dtype=np.int64), self.swizzle)


def swizzled(address: Array, swizzle: int) -> Array:
    """Where the asynchronous engines find the byte of an unswizzled address."""
    if swizzle <= 16:
        return address
    return address ^ (((address >> 7) & (swizzle // 16 - 1)) << 4)


def tensor_map(parameter: Any, base: Array, arguments: tuple[int, Any, Any, int]) -> TensorMap:
    """The map of a `TensorMapParam`; `arguments` are its address, shape, strides, offset."""
    address, shape, strides, offset = arguments
    element = NAMES[parameter.element_type]
    size = byte_size(element)
    if base.itemsize != size:
        raise ValueError(f"an array of {base.dtype} for elements of type {parameter.element_type}")
    return TensorMap(
        address + offset * size,
        element,
        tuple(shape),
        tuple(strides),
        tuple(parameter.box),
        parameter.swizzle,
        parameter.fill,
    )
