"""A launch as the predictor takes it: sizes and strides, with nothing in the arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tawa.runtime.arrays import ELEMENT_BYTES, is_array, view
from tawa.runtime.descriptor import TensorDescriptor

_NAMES = {"i": "int", "u": "uint", "f": "float"}


@dataclass(frozen=True)
class Launch:
    """A launch: the user's grid, and the values of the kernel's run-time arguments.

    Arrays may be of any library and on any device; `arguments` has NumPy arrays in their place.
    """

    grid: tuple[int, ...]
    arguments: Mapping[str, Any]

    @staticmethod
    def of(grid: tuple[int, ...], arguments: Mapping[str, Any]) -> Launch:
        """A launch with the arguments that a program passes."""
        return Launch(grid, {name: on_host(value) for name, value in arguments.items()})


def on_host(value: Any) -> Any:
    """An argument for the predictor: arrays elsewhere become ones of NumPy, without contents.

    Element types that NumPy does not have become unsigned integers of their size.
    """
    base = getattr(value, "base", None)
    if hasattr(value, "block_shape") and base is not None:
        if isinstance(base, np.ndarray):
            return value
        shape, strides = (tuple(int(n) for n in getattr(value, a)) for a in ("shape", "strides"))
        return TensorDescriptor(on_host(base), shape, strides, list(value.block_shape))
    if type(value).__module__ == "numpy" or not is_array(value):
        return value
    seen = view(value)
    size = ELEMENT_BYTES[seen.element_type]
    dtype = np.dtype(_dtype_name(seen.element_type, size))
    last = sum((n - 1) * abs(stride) for n, stride in zip(seen.shape, seen.strides, strict=True))
    # As many elements as the array spans; the pages of memory are never touched.
    whole = np.empty(max(0, last) + 1, dtype)
    strides = tuple(size * abs(stride) for stride in seen.strides)
    return np.lib.stride_tricks.as_strided(whole, seen.shape, strides)


def _dtype_name(element_type: str, size: int) -> str:
    if element_type == "i1":
        return "bool"
    if element_type in ("bf16", "e4m3", "e5m2"):
        return f"uint{8 * size}"
    return f"{_NAMES[element_type[0]]}{8 * size}"
