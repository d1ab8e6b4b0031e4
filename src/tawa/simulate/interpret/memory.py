"""Global memory of a simulated launch: NumPy buffers behind addresses, every access checked.

Buffers lie far apart in a virtual address space, so that an access beyond one is found and named
and never reaches another. Addresses do not depend on where NumPy put the arrays. A view that
PyTorch makes of a tensor is addressable in the tensor's whole memory, as on a GPU.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from xdsl.ir import Attribute

from tawa.base.errors import TawaError
from tawa.base.numerics import Array, decode, encode, storage_dtype
from tawa.base.spans import Span
from tawa.base.types import byte_size
from tawa.base.user_frames import stack_level

SPACING = 1 << 46
"""Bytes between the starts of two buffers."""


class IllegalAccess(TawaError):
    """A load or store touches memory outside of every argument, or at a wrong alignment."""

    explanation = (
        "Every address that is not masked off must lie in the array that its pointer was made "
        "from. On a GPU such an access may go unnoticed or stop the program. Mask the tail: "
        "`tl.load(ptr + offsets, mask=offsets < n, other=0.0)`."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def twice(x, N: tl.constexpr):
    at = x + tl.arange(0, N)
    tl.store(at, tl.load(at) * 2)


twice[(1,)](np.zeros(100, np.float32), 128)
"""


class WindowOutside(TawaError):
    """A window reaches outside of the tile that it is taken from."""

    explanation = (
        "`tl.extract_slice` takes elements that are there: every offset is at least 0, and at most "
        "the tile's extent less the window's. On a GPU such a window has other tiles' elements. "
        "Load a tile that is wide enough for all offsets."
    )
    example = """
import numpy as np
import tawa
import tawa.language as tl


@tawa.jit
def shifted(x, y, by):
    tile = tl.load(x + tl.arange(0, 64))
    tl.store(y + tl.arange(0, 32), tl.extract_slice(tile, [by], [32]))


shifted[(1,)](np.zeros(64, np.float32), np.zeros(32, np.float32), 40)
"""


class WrongArrayType(TawaError):
    """An array's elements are not as wide as those of its pointer parameter."""

    explanation = "Pass an array of the element type that the kernel was compiled for."
    example = """
import numpy as np
import tawa
import tawa.language as tl
from tawa.simulate.interpret.tile import run


@tawa.jit
def twice(x, N: tl.constexpr):
    at = x + tl.arange(0, N)
    tl.store(at, tl.load(at) * 2)


run(twice.compile("*f32", 128).module("tile"), (1,), [np.zeros(128, np.float64)])
"""


class OutsideOfView(UserWarning):
    """A kernel touches memory that its argument, a view, leaves out of the tensor it is made of."""


@dataclass
class Buffer:
    """One argument's memory: `data` are its bytes, the first of them at `start`."""

    name: str
    start: int
    data: Array
    owner: Array
    view: tuple[int, int]
    """Where in `data` the argument's own elements begin and end."""

    def warn_outside(self, offsets: Array, size: int, access: Access) -> None:
        """Say of accesses in the memory whether they leave the view that the argument is."""
        low, high = self.view
        if high - low == len(self.data):
            return
        if int(offsets.min()) < low or int(offsets.max()) + size > high:
            at = f" at {access.span}" if access.span is not None else ""
            text = f"`{self.name}` is a view, and a program {access.verb} memory of its tensor"
            warnings.warn(f"{text} outside of it{at}", OutsideOfView, stacklevel=stack_level())


class Watching(Protocol):
    """Looks at accesses: `size` bytes from each of the `offsets` in a buffer."""

    def read(self, buffer: Buffer, offsets: Array, size: int, access: Access) -> None:
        """A read."""
        ...

    def write(self, buffer: Buffer, offsets: Array, size: int, access: Access) -> None:
        """A write."""
        ...


class Memory:
    """All buffers of a launch."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.changes = 0
        """How often a store has changed something."""
        self.watch: Watching | None = None
        """Who looks at every access."""

    def add(self, name: str, array: Array, element: Attribute) -> int:
        """Make an array addressable; gives the address of its first element.

        Strided arrays share their memory as it is: the bytes from the lowest to the highest
        element belong to the buffer, of a view of a tensor those of the tensor.
        """
        size = byte_size(element)
        if array.dtype.itemsize != size:
            raise WrongArrayType(
                f"argument `{name}` is an array of {array.dtype}",
                expected=f"elements of {size} bytes ({storage_dtype(element)})",
            )
        first, last = np.lib.array_utils.byte_bounds(array)
        low, high = storage_bounds(array) or (first, last)
        raw = (ctypes.c_uint8 * max(0, high - low)).from_address(low)
        data: Array = np.ctypeslib.as_array(raw)
        data.flags.writeable = bool(array.flags.writeable)
        start = (len(self.buffers) + 1) * SPACING
        self.buffers.append(Buffer(name, start, data, array, (first - low, last - low)))
        return start + int(array.__array_interface__["data"][0]) - low

    def buffer_at(self, address: int) -> Buffer | None:
        """The buffer that an address is nearest to; None if it was made from no argument."""
        index = (address + SPACING // 2) // SPACING - 1
        return self.buffers[index] if 0 <= index < len(self.buffers) else None

    def _locate(self, addresses: Array, element: Attribute, access: Access) -> tuple[Buffer, Array]:
        """The buffer that all addresses lie in, and their element indices in it."""
        size = byte_size(element)
        first = int(addresses.flat[0])
        buffer = self.buffer_at(first)
        if buffer is None:
            raise access.error("an address that was made from no argument", f"address {first:#x}")
        offsets = addresses - buffer.start
        outside = (offsets < 0) | (offsets + size > len(buffer.data)) | (offsets % size != 0)
        if np.any(outside):
            worst = int(offsets[outside].flat[0])
            if worst % size:
                problem = f"an address of `{buffer.name}` that {size} does not divide"
            else:
                problem = f"memory outside of `{buffer.name}`"
            length = len(buffer.data) // size
            raise access.error(
                problem, f"element {worst // size} of `{buffer.name}`, which has {length}"
            )
        buffer.warn_outside(offsets, size, access)
        return buffer, offsets // size

    def _groups(self, addresses: Array) -> list[Array]:
        """Masks that separate addresses of different buffers (nearly always one group)."""
        index = (addresses + SPACING // 2) // SPACING
        first = index.flat[0]
        if np.all(index == first):
            return [np.ones(addresses.shape, dtype=bool)]
        return [index == value for value in np.unique(index)]

    def read(self, addresses: Array, element: Attribute, access: Access) -> Array:
        """The values at an array of addresses."""
        result = np.zeros(addresses.shape, dtype=storage_dtype(element))
        if addresses.size:
            for group in self._groups(addresses):
                buffer, index = self._locate(addresses[group], element, access)
                if self.watch is not None:
                    size = byte_size(element)
                    self.watch.read(buffer, index * size, size, access)
                result[group] = self._typed(buffer, element)[index]
        return decode(result, element)

    def write(self, addresses: Array, values: Array, element: Attribute, access: Access) -> None:
        """Store values; of equal addresses the last one wins."""
        stored = np.broadcast_to(encode(values, element), addresses.shape)
        if addresses.size:
            for group in self._groups(addresses):
                buffer, index = self._locate(addresses[group], element, access)
                if not buffer.data.flags.writeable:
                    raise access.error(f"`{buffer.name}`", *READ_ONLY)
                if self.watch is not None:
                    size = byte_size(element)
                    self.watch.write(buffer, index * size, size, access)
                typed = self._typed(buffer, element)
                self.changes += not np.array_equal(typed[index], stored[group])
                typed[index] = stored[group]

    def window(
        self, address: int, shape: Sequence[int], strides: Sequence[int], element: Attribute,
        access: Access,
    ) -> Array:  # fmt: skip
        """A strided view of storage; `strides` count elements."""
        size = byte_size(element)
        reach = [(n - 1) * s * size for n, s in zip(shape, strides, strict=True)]
        corners = np.array([address + sum(r for r in reach if r < 0),
                            address + sum(r for r in reach if r > 0)])  # fmt: skip
        buffer, index = self._locate(corners, element, access)
        if access.writes and not buffer.data.flags.writeable:
            raise access.error(f"`{buffer.name}`", *READ_ONLY)
        typed = self._typed(buffer, element)
        first = int(index[0]) - sum(r for r in reach if r < 0) // size
        if self.watch is not None:
            steps = (np.arange(n) * s for n, s in zip(shape, strides, strict=True))
            offsets = (first + functools.reduce(np.add.outer, steps, np.zeros((), np.int64))) * size
            look = self.watch.write if access.writes else self.watch.read
            look(buffer, offsets, size, access)
        return np.lib.stride_tricks.as_strided(
            typed[first:], shape=shape, strides=[s * size for s in strides]
        )

    @staticmethod
    def _typed(buffer: Buffer, element: Attribute) -> Array:
        kind = storage_dtype(element)
        whole = len(buffer.data) // kind.itemsize * kind.itemsize
        return buffer.data[:whole].view(kind)


def storage_bounds(array: Array) -> tuple[int, int] | None:
    """The first byte and the end of a tensor's memory, if an array shares a tensor's of PyTorch."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not hasattr(base, "untyped_storage"):
        return None
    storage = base.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


READ_ONLY = "a read-only array", "pass an array that may be written"
"""What is found where such an array is written, and what to do."""


@dataclass(frozen=True)
class Access:
    """Which access is made, for messages: the verb, the program and the source."""

    verb: str
    program: tuple[int, ...]
    span: Span | None
    atomic: bool = False
    """Other programs' atomic operations and volatile loads need no order with it."""
    acquires: bool = False
    releases: bool = False

    @property
    def writes(self) -> bool:
        """Whether memory is changed."""
        return self.verb != "reads"

    def error(self, problem: str, found: str, hint: str = "") -> IllegalAccess:
        """The error of this access."""
        return IllegalAccess(
            f"program {list(self.program)} {self.verb} {problem}",
            span=self.span,
            found=found,
            hint=hint or "mask the access, as in `mask=offsets < n`",
        )
