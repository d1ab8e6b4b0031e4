"""Arrays of the libraries that compiled functions take: how they lie, and how new ones are made."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from tawa.axon.gpu.graph.errors import NotForGpu
from tawa.axon.gpu.graph.nodes import Shape
from tawa.axon.running.call import Function
from tawa.axon.running.evaluate import DTYPES
from tawa.base.indices import contiguous_strides
from tawa.runtime.arrays import HOST

TORCH_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "bool": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip


@dataclass(frozen=True)
class Arrays:
    """Makes and reads arrays of one library on one device."""

    library: str
    device: int

    def layout(self, array: Any) -> tuple[Shape, Shape]:
        """Sizes, and strides in elements."""
        shape = tuple(int(size) for size in array.shape)
        if self.library == "torch":
            return shape, tuple(array.stride())
        return shape, contiguous_strides(shape)

    def aligned(self, array: Any) -> bool:
        """Whether an array starts at whole 16 bytes."""
        return self.device == HOST or array.data_ptr() % 16 == 0

    def array(self, shape: Shape, element: str) -> Any:
        """A new array."""
        if self.library == "torch":
            torch: Any = sys.modules["torch"]
            dtype = getattr(torch, TORCH_NAMES[element])
            return torch.empty(shape, dtype=dtype, device=self.device)
        return np.empty(shape, numpy_type(element))

    def bytes(self, count: int) -> Any:
        """New memory."""
        if self.library == "torch":
            torch: Any = sys.modules["torch"]
            return torch.empty(count, dtype=torch.uint8, device=self.device)
        return np.empty(count, np.uint8)

    def typed(self, memory: Any, element: str) -> Any:
        """NumPy memory as numbers of an element type."""
        return memory.view(numpy_type(element))

    def constant(self, value: Any, element: str) -> Any:
        """An array with the numbers of a NumPy array."""
        if self.library == "torch":
            torch: Any = sys.modules["torch"]
            dtype = getattr(torch, TORCH_NAMES[element])
            return torch.tensor(value, dtype=dtype, device=self.device)
        return np.ascontiguousarray(value).astype(numpy_type(element))


def numpy_type(element: str) -> Any:
    """NumPy's type for an element type."""
    return DTYPES[element]


def arrays_of(leaves: list[Any], function: Function) -> Arrays:
    """The library and device of a call's arrays. Raises NotForGpu if there is none in common."""
    found = {
        ("torch", leaf.get_device()) if hasattr(leaf, "data_ptr") else ("numpy", HOST)
        for leaf in leaves
    }
    if len(found) == 1 and (one := next(iter(found))) != ("torch", HOST):
        return Arrays(*one)
    if not found:
        return Arrays("numpy", HOST)
    names = sorted(f"{name} {'on the CPU' if device == HOST else device}" for name, device in found)
    raise NotForGpu(
        f"the arrays given to `{function.name}` don't lie together",
        expected="PyTorch tensors of one CUDA device, or NumPy arrays for the simulator",
        found=", ".join(names),
    )
