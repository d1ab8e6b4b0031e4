"""Arrays of other libraries, seen as a pointer, an element type, a shape and strides.

PyTorch tensors are recognised by their methods, everything else by `__cuda_array_interface__`,
NumPy's interface or DLPack. No library is imported: none of them is a dependency.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

from tawa.base.errors import TawaError
from tawa.base.indices import contiguous_strides
from tawa.runtime import dlpack, driver

HOST = -1
"""The device number of memory that belongs to the CPU."""

ELEMENT_BYTES: dict[str, int] = {
    "i1": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "u64": 8,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "e4m3": 1,
    "e5m2": 1,
}
"""Element types that kernels can read and write, and their size in bytes. `i1` is a bool."""

DTYPE_NAMES: dict[str, str] = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "e4m3",
    "fp8e4nv": "e4m3",  # as the language prints it: tensors seen with one of its types
    "fp8e5": "e5m2",
    "fp16": "f16",
    "fp32": "f32",
    "fp64": "f64",
    "int1": "i1",
    "float8_e5m2": "e5m2",
}
"""Element type of each dtype name that PyTorch, NumPy, ml_dtypes, CuPy and JAX use."""


class NotAnArray(TawaError):
    """A value was passed where a kernel takes an array, and it isn't one."""

    explanation = (
        "Kernels take PyTorch, CuPy and JAX arrays on the GPU, NumPy arrays and PyTorch's CPU "
        "tensors in the simulator, and "
        "anything else that offers `__cuda_array_interface__` or DLPack."
    )
    example = """
from tawa.runtime.arrays import view

view([1.0, 2.0])
"""


class TensorWithoutMemory(TawaError):
    """A tensor of PyTorch has no elements in memory that a kernel could read."""

    explanation = (
        "Sparse tensors, tensors on the device `meta`, and those that `torch.compile` traces with "
        "have none. Inside a compiled function, a launch belongs in an operator "
        "(`torch.library.custom_op`)."
    )
    example = """
from tawa.runtime.arrays import without_memory

raise without_memory([1.0])
"""


def without_memory(tensor: Any) -> TensorWithoutMemory:
    """The error about a tensor that is nowhere."""
    return TensorWithoutMemory(
        "this tensor has no memory of its own",
        expected="elements that lie in memory, at a distance for each dimension",
        found=f"a {type(tensor).__name__} of layout {getattr(tensor, 'layout', 'unknown')} on "
        f"{getattr(tensor, 'device', 'no device')}",
        hint="pass a dense tensor, such as `tensor.to_dense()`",
    )


class UnsupportedElementType(TawaError):
    """An array's element type is one that kernels can't compute with."""

    explanation = "Convert the array to one of the element types that the message lists."
    example = """
import numpy as np

from tawa.runtime.arrays import view

view(np.zeros(4, np.complex64))
"""


class StrideNotWhole(TawaError):
    """An array's stride is not a whole number of elements."""

    explanation = (
        "Kernels count strides in elements. An array whose stride is no multiple of its element "
        "size (a field of a structured array, say) has to be copied first."
    )
    example = """
import numpy as np

from tawa.runtime.arrays import view

view(np.zeros(4, np.dtype([("x", "f4"), ("y", "u1")]))["x"])
"""


class ArrayView(NamedTuple):
    """What a kernel needs to know of an array.

    `pointer` is the address of its first element, `strides` count elements, `device` is the CUDA
    device's number or `HOST`.
    """

    pointer: int
    element_type: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int


def is_array(value: object) -> bool:
    """Whether `value` can be passed as an array."""
    return any(
        hasattr(value, name)
        for name in ("data_ptr", "__cuda_array_interface__", "__array_interface__", "__dlpack__")
    )


def view(value: Any, name: str = "the argument") -> ArrayView:
    """Look at an array; `name` is used in errors.

    Raises `NotAnArray`, `UnsupportedElementType` or `StrideNotWhole`.
    """
    found = _describe(value, name)
    if found.element_type not in ELEMENT_BYTES:
        raise UnsupportedElementType(
            f"{name} has an element type that kernels can't compute with"
            + (", not supported in this architecture" if "fp8" in found.element_type else ""),
            expected="one of " + ", ".join(ELEMENT_BYTES),
            found=found.element_type,
            hint="convert the array, or pass its parts as arrays of their own",
        )
    return found


def pointer_of(value: Any) -> int:
    """The address of an array's first element, by the fastest way its type offers."""
    kind: type[Any] = value.__class__
    reader = _POINTERS.get(kind)
    if reader is None:
        reader = _POINTERS[kind] = _pointer_reader(value)
    return reader(value)


_POINTERS: dict[type, Callable[[Any], int]] = {}
"""How to read the pointer of each array type seen so far; one entry a type."""


def _pointer_reader(value: Any) -> Callable[[Any], int]:
    if hasattr(value, "data_ptr"):
        return lambda array: array.data_ptr()
    if hasattr(value, "__cuda_array_interface__"):
        return lambda array: array.__cuda_array_interface__["data"][0]
    return lambda array: view(array).pointer


def _describe(value: Any, name: str) -> ArrayView:
    if hasattr(value, "data_ptr"):
        return _torch(value)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _from_interface(value, interface, _cuda_device(value), name)
    interface = getattr(value, "__array_interface__", None)
    if interface is not None:
        return _from_interface(value, interface, HOST, name)
    if hasattr(value, "__dlpack__"):
        return ArrayView(*dlpack.describe(value))
    raise NotAnArray(
        f"{name} is not an array",
        expected="an array of PyTorch, CuPy, JAX or NumPy",
        found=f"a value of type {type(value).__name__}",
    )


def _torch(tensor: Any) -> ArrayView:
    known = has_extent(tensor)
    return ArrayView(
        tensor.data_ptr(),
        _torch_element_type(tensor.dtype),
        tuple(tensor.shape) if known else (),
        tuple(tensor.stride()) if known else (),
        _device_of(tensor),
    )


def has_extent(tensor: Any) -> bool:
    """Whether something with an address says how far its elements reach."""
    return hasattr(tensor, "shape") and hasattr(tensor, "stride")


def is_stand_in(value: Any) -> bool:
    """Whether something has no memory, but the type of elements alone: Triton's `MockTensor`."""
    placed = hasattr(value, "get_device") or hasattr(value, "device")
    return hasattr(value, "data_ptr") and not placed and not value.data_ptr()


def _device_of(tensor: Any) -> int:
    """The device of a tensor, or of what libraries pass for one: an address with a type.

    Such objects have a device as PyTorch names it; without one they lie on the current device.
    """
    if hasattr(tensor, "get_device"):
        return tensor.get_device()
    device = getattr(tensor, "device", None)
    if getattr(device, "type", "cuda") == "cpu":
        return HOST
    index = getattr(device, "index", None)
    return (driver.current_device() or 0) if index is None else index


def _of_memory(seen: ArrayView) -> Any:
    """A NumPy array of memory that something else keeps."""
    import numpy  # the simulator, which has it, is who asks

    size = ELEMENT_BYTES[seen.element_type]
    kind = {"f": "f", "i": "i"}.get(seen.element_type[0], "u")
    code = "|b1" if seen.element_type == "i1" else f"<{kind}{size}"
    interface = {
        "data": (seen.pointer, False), "typestr": code, "shape": seen.shape,
        "strides": tuple(stride * size for stride in seen.strides), "version": 3,
    }  # fmt: skip
    return numpy.asarray(SimpleNamespace(__array_interface__=interface))


def host_array(tensor: Any) -> Any:
    """A tensor of PyTorch in the CPU's memory as a NumPy array of the same memory.

    Elements of types that NumPy lacks are seen as unsigned integers of their size.
    """
    if not hasattr(tensor, "detach") and not hasattr(tensor, "base"):
        return _of_memory(_torch(tensor))
    element = _torch_element_type(tensor.dtype)
    tensor = (tensor if hasattr(tensor, "detach") else tensor.base).detach()
    if element in ("bf16", "e4m3", "e5m2"):
        torch = sys.modules["torch"]
        tensor = tensor.view(getattr(torch, f"uint{8 * ELEMENT_BYTES[element]}"))
    try:
        return tensor.numpy()
    except TypeError:
        raise without_memory(tensor) from None


@cache
def _torch_element_type(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    return DTYPE_NAMES.get(name, name)


def _from_interface(array: Any, interface: dict[str, Any], device: int, name: str) -> ArrayView:
    """Read version 3 of the (CUDA) array interface; its strides count bytes."""
    dtype = str(getattr(getattr(array, "dtype", None), "name", interface["typestr"]))
    swapped = interface["typestr"].startswith(">")
    element_type = f"big-endian {dtype}" if swapped else DTYPE_NAMES.get(dtype, dtype)
    shape: tuple[int, ...] = tuple(interface["shape"])
    size = ELEMENT_BYTES.get(element_type, 1)
    byte_strides: tuple[int, ...] | None = interface.get("strides")
    if byte_strides is None:
        strides = contiguous_strides(shape)
    else:
        if any(stride % size for stride in byte_strides):
            raise StrideNotWhole(
                f"a stride of {name} is not a whole number of elements",
                expected=f"multiples of {size} bytes",
                found=f"{byte_strides} bytes",
                hint="pass a copy",
            )
        strides = tuple(stride // size for stride in byte_strides)
    return ArrayView(interface["data"][0], element_type, shape, strides, device)


def _cuda_device(array: Any) -> int:
    """The device's number; an array that only has the interface is taken to be on device 0."""
    if hasattr(array, "__dlpack_device__"):
        return int(array.__dlpack_device__()[1])
    device = getattr(array, "device", None)
    return int(getattr(device, "id", 0))
