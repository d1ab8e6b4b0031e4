"""Host tensor descriptors: a tensor in memory that a kernel reads and writes block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

from tawa.base.errors import TawaError
from tawa.base.user_frames import entries
from tawa.machine.chips import SM_90A
from tawa.runtime.arrays import ELEMENT_BYTES, HOST, ArrayView, pointer_of, view
from tawa.runtime.kinds import Kind, kind_of

MAX_RANK = SM_90A.tensor_rank
MAX_SIZE = SM_90A.tensor_size
MAX_STRIDE_BYTES = SM_90A.tensor_stride
ALIGNMENT = SM_90A.copy_unit
"""Bytes that the base address and every stride but the last are a multiple of."""

_RULES = (
    "The hardware copies blocks of a tensor by itself (TMA) under three conditions. The tensor has "
    "1 to 5 dimensions. The last of them is contiguous. The base address and the other strides are "
    "multiples of 16 bytes. (CUDA driver API, tensor map object management.) "
)


class DescriptorMismatch(TawaError):
    """Shape, strides and block shape of a tensor descriptor don't fit each other."""

    explanation = (
        "`TensorDescriptor(base, shape, strides, block_shape)` takes three sequences of one "
        "length, 1 to 5 numbers each: a size, a stride in elements and a block size a dimension."
    )
    example = """
import numpy as np

from tawa.runtime.descriptor import TensorDescriptor

TensorDescriptor(np.zeros((8, 8), np.float32), [8, 8], [8, 1], [8])
"""


class InnerStrideNotOne(TawaError):
    """The last dimension of a tensor descriptor is not contiguous."""

    explanation = _RULES + (
        "For a transposed matrix, describe the matrix as it lies in memory and transpose the "
        "loaded block in the kernel, which costs nothing. Otherwise pass a contiguous copy."
    )
    example = """
import numpy as np

from tawa.runtime.descriptor import TensorDescriptor

TensorDescriptor.from_tensor(np.zeros((64, 64), np.float16).T, [16, 16])
"""


class NotBoxes(TawaError, group=True):
    """Rows that the copy engine can not copy: they begin or end inside a piece of 16 bytes.

    `argument` is the launch's argument whose blocks may be addressed by pointers instead.
    """

    argument: str | None = None


class StrideNotAligned(NotBoxes):
    """A stride of a tensor descriptor is not a multiple of 16 bytes."""

    explanation = _RULES + (
        "Allocate the tensor with padded rows (and describe the part that is used), or load it "
        "through pointers instead of a descriptor."
    )
    example = """
import numpy as np

from tawa.runtime.descriptor import TensorDescriptor

TensorDescriptor.from_tensor(np.zeros((64, 63), np.float16), [16, 16])
"""


class BaseNotAligned(NotBoxes):
    """The base address of a tensor descriptor is not a multiple of 16 bytes."""

    explanation = _RULES + (
        "A slice that starts inside a row often isn't aligned: describe the whole tensor and give "
        "the kernel an offset, or pass a copy."
    )
    example = """
from tawa.runtime.arrays import ArrayView
from tawa.runtime.descriptor import check

array = ArrayView(0x7F0000000008, "f16", (64, 64), (64, 1), device=0)
check(array, array.shape, array.strides, (16, 16))
"""


class SizeOutOfRange(TawaError):
    """A size, stride or block size of a tensor descriptor is out of the hardware's range."""

    explanation = _RULES + (
        "Sizes are 0 to 2^32 elements, strides 0 to 2^40 bytes, block sizes at least 1, and the "
        "innermost block is a multiple of 16 bytes. A descriptor may be made with a block of one "
        "element, in the place of a block that is assigned to it before the launch."
    )
    example = """
import numpy as np

from tawa.runtime.descriptor import TensorDescriptor

TensorDescriptor.from_tensor(np.zeros((64, 64), np.float16), [16, 4])
"""


@dataclass(frozen=True, eq=False)
class Geometry:
    """A descriptor without its memory: one object for equal fields, compared by identity."""

    element_type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block_shape: tuple[int, ...]
    padding: str

    @cached_property
    def reach(self) -> int:
        """Bytes from the first to behind the last element."""
        if not all(self.shape):
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ELEMENT_BYTES[self.element_type]


@lru_cache(maxsize=8192)
def geometry_of(
    element_type: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    block_shape: tuple[int, ...],
    padding: str,
) -> Geometry:
    """The geometry with these fields, once they are checked. Raises as `check` does."""
    if padding not in ("zero", "nan"):
        raise DescriptorMismatch(
            "the padding of a descriptor", expected="'zero' or 'nan'", found=repr(padding)
        )
    check(ArrayView(0, element_type, shape, strides, HOST), shape, strides, block_shape)
    return Geometry(element_type, shape, strides, block_shape, padding)


@lru_cache(maxsize=8192)
def _kind(geometry: Geometry, device: int, module: str) -> Kind:
    block = "x".join(str(size) for size in geometry.block_shape)
    library = module.partition(".")[0]
    return kind_of(f"desc<{geometry.element_type},{block}>", True, False, device, library)


@entries
class TensorDescriptor:
    """A tensor in memory, with the block shape in which a kernel reads and writes it.

    The names are those of Triton's host API, and a kernel takes Triton's own descriptor objects
    as well. `base` is an array (it is kept alive); sizes and strides count elements. Reads outside
    `shape` give zero (`padding="nan"`: NaN), writes there are dropped.

    `shape`, `strides`, `block_shape` and `base` can be assigned; each assignment checks the whole.

    Raises `DescriptorMismatch`, `InnerStrideNotOne`, `StrideNotAligned`, `BaseNotAligned`,
    `SizeOutOfRange`, and for `base` the errors of `tawa.runtime.arrays.view`.
    """

    __slots__ = ("_base", "device", "geometry", "kind", "pointer")

    device: int
    """Number of the CUDA device that holds the tensor, or `HOST`."""
    geometry: Geometry
    """Element type, sizes, strides, block shape and padding."""
    kind: Kind
    """What compiling needs to know of it."""
    pointer: Callable[[], int]
    """Reads the address of the first element now."""

    def __init__(
        self,
        base: Any,
        shape: Sequence[int],
        strides: Sequence[int],
        block_shape: Sequence[int],
        padding: str = "zero",
    ) -> None:
        self._set(base, view(base, _BASE), shape, strides, block_shape, padding)

    @classmethod
    def from_tensor(
        cls, tensor: Any, block_shape: Sequence[int], padding: str = "zero"
    ) -> TensorDescriptor:
        """Describe a whole array, with its own shape and strides."""
        seen = view(tensor, "the tensor")
        made = cls.__new__(cls)
        made._set(tensor, seen, seen.shape, seen.strides, block_shape, padding)
        return made

    def without_base(self) -> TensorDescriptor:
        """The descriptor without its array, which it does not keep alive; `alike` still works."""
        made = TensorDescriptor.__new__(TensorDescriptor)
        made.device, made.geometry, made.kind = self.device, self.geometry, self.kind
        return made

    def alike(self, base: Any) -> TensorDescriptor:
        """The descriptor of another array that lies as this one's does, which is not checked."""
        made = self.without_base()
        made._base = base
        reader = getattr(base, "data_ptr", None)
        made.pointer = reader if reader is not None else partial(pointer_of, base)
        return made

    @property
    def base(self) -> Any:
        """The array that holds the tensor."""
        return self._base

    @base.setter
    def base(self, base: Any) -> None:
        old = self.geometry
        self._set(base, view(base, _BASE), old.shape, old.strides, old.block_shape, old.padding)

    @property
    def element_type(self) -> str:
        """The element type: `f16`, `bf16`, ..."""
        return self.geometry.element_type

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, in elements."""
        return self.geometry.shape

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._change(shape=shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides, in elements."""
        return self.geometry.strides

    @strides.setter
    def strides(self, strides: Sequence[int]) -> None:
        self._change(strides=strides)

    @property
    def block_shape(self) -> tuple[int, ...]:
        """Sizes of the block that one load or store moves, in elements."""
        return self.geometry.block_shape

    @block_shape.setter
    def block_shape(self, block_shape: Sequence[int]) -> None:
        self._change(block_shape=block_shape)

    @property
    def padding(self) -> str:
        """What reads outside the tensor give: `zero` or `nan`."""
        return self.geometry.padding

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        return self._base.dtype

    def __repr__(self) -> str:
        return (
            f"TensorDescriptor({self.element_type}, shape={self.shape}, "
            f"strides={self.strides}, block_shape={self.block_shape})"
        )

    def _change(self, **fields: Sequence[int]) -> None:
        old = self.geometry
        self._set(
            self._base,
            view(self._base, _BASE),
            fields.get("shape", old.shape),
            fields.get("strides", old.strides),
            fields.get("block_shape", old.block_shape),
            old.padding,
        )

    def _set(
        self,
        base: Any,
        seen: ArrayView,
        shape: Sequence[int],
        strides: Sequence[int],
        block_shape: Sequence[int],
        padding: str,
    ) -> None:
        geometry = geometry_of(
            seen.element_type, tuple(shape), tuple(strides), tuple(block_shape), padding
        )
        if seen.pointer % ALIGNMENT and seen.device != HOST:
            check(seen, geometry.shape, geometry.strides, geometry.block_shape)
        self._base = base
        self.device = seen.device
        self.geometry = geometry
        reader = getattr(base, "data_ptr", None)
        module = "torch" if reader is not None else base.__class__.__module__
        self.kind = _kind(geometry, seen.device, module)
        self.pointer = reader if reader is not None else partial(pointer_of, base)


_BASE = "the descriptor's base"


def descriptor_of(value: Any) -> TensorDescriptor | None:
    """`value` as a descriptor, if it is one of ours or has the fields of Triton's; else None."""
    if isinstance(value, TensorDescriptor):
        return value
    if all(hasattr(value, field) for field in ("base", "shape", "strides", "block_shape")):
        padding = getattr(value, "padding", "zero")
        return TensorDescriptor(
            value.base, value.shape, value.strides, value.block_shape, str(padding)
        )
    return None


def check(
    array: ArrayView,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    block_shape: tuple[int, ...],
    name: str = "the descriptor",
) -> None:
    """Raise the error that says why no tensor map can describe this tensor, if none can.

    The base address of an array in the host's memory is free: nothing copies it by hardware. So
    are the base and strides of a tensor without elements.
    """
    if not len(shape) == len(strides) == len(block_shape) or not 1 <= len(shape) <= MAX_RANK:
        raise DescriptorMismatch(
            f"shape, strides and block shape of {name} don't fit each other",
            expected=f"three sequences of one length, 1 to {MAX_RANK}",
            found=f"shape {shape}, strides {strides}, block shape {block_shape}",
            hint="give the block a size for each dimension of the tensor, 1 where it has no extent",
        )
    size = ELEMENT_BYTES[array.element_type]
    _check_sizes(name, size, shape, block_shape)
    if not all(shape):
        return  # there is nothing to copy: the strides and the base are never used
    _check_strides(name, array.element_type, size, shape, strides)
    if array.device != HOST and array.pointer % ALIGNMENT:
        raise BaseNotAligned(
            f"the base address of {name} is not aligned",
            expected=f"a multiple of {ALIGNMENT} bytes",
            found=f"{array.pointer:#x}",
            hint="describe the whole tensor and pass an offset, or pass a copy",
        )


def _check_strides(
    name: str, element_type: str, size: int, shape: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    if strides[-1] != 1 and shape[-1] > 1:
        raise InnerStrideNotOne(
            f"the last dimension of {name} is not contiguous",
            expected="a stride of 1 in the last dimension",
            found=f"shape {shape}, strides {strides}",
            hint="describe the tensor as it lies in memory and transpose the block in the kernel",
        )
    for axis, stride in enumerate(strides[:-1]):
        if shape[axis] > 1 and (stride * size) % ALIGNMENT:
            raise StrideNotAligned(
                f"stride {axis} of {name} is not aligned",
                expected=f"a multiple of {ALIGNMENT} bytes",
                found=f"{stride} elements of {element_type}, {stride * size} bytes",
                hint="pad the rows, or load through pointers instead of a descriptor",
            )
        if not 0 <= stride * size < MAX_STRIDE_BYTES:
            raise SizeOutOfRange(
                f"stride {axis} of {name} is out of range",
                expected="0 to 2^40 bytes",
                found=f"{stride * size} bytes",
            )


def _check_sizes(
    name: str, size: int, shape: tuple[int, ...], block_shape: tuple[int, ...]
) -> None:
    if any(not 0 <= extent <= MAX_SIZE for extent in shape):
        raise SizeOutOfRange(
            f"a size of {name} is out of range", expected="0 to 2^32", found=f"shape {shape}"
        )
    if all(extent == 1 for extent in block_shape):
        return  # to be replaced before a launch, as a tuned kernel's hooks do
    if any(extent < 1 for extent in block_shape) or block_shape[-1] * size % ALIGNMENT:
        raise SizeOutOfRange(
            f"the block shape of {name} is out of range",
            expected=f"sizes of at least 1, the innermost a multiple of {ALIGNMENT} bytes",
            found=f"block shape {block_shape} of {size}-byte elements",
        )
