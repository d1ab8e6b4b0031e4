"""Types of elements, by their names in kernels, in the language and in NumPy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tawa.base.numerics import encode, round_to
from tawa.base.types import NAMES
from tawa.driver.host_launch import STORAGE
from tawa.language import dtypes
from tawa.runtime.arrays import ELEMENT_BYTES, view


def element_type(array: Any) -> Any:
    """The language's type of an array's elements."""
    return dtypes.dtype_named(view(array).element_type)


def type_name(dtype: Any) -> str:
    """A type's name as kernels' signatures have it."""
    for name in ELEMENT_BYTES:
        if dtypes.dtype_named(name) == dtype:
            return name
    raise TypeError(f"tensors have elements of a type of tawa.language, not {dtype!r}")


def numpy_type(dtype: Any) -> Any:
    """NumPy's own type that holds elements of a type of the language."""
    name = type_name(dtype)
    held = {"bf16": "uint16", "e4m3": "uint8", "e5m2": "uint8", "i1": "bool"}
    plain = {"f": "float", "i": "int", "u": "uint"}
    return np.dtype(held.get(name) or plain[name[0]] + name[1:])


def torch_type(dtype: Any) -> Any:
    """PyTorch's type of a type of the language."""
    name = type_name(dtype)
    longer = {"f": "float", "i": "int", "u": "uint", "b": "bfloat"}
    return getattr(sys.modules["torch"], longer[name[0]] + name.lstrip("bfiu"))


def storage_type(array: Any) -> Any:
    """An array in NumPy's own types: the same memory."""
    name = STORAGE.get(array.dtype.name)
    return array if name is None else array.view(name)


def stored_number(number: float, dtype: Any) -> Any:
    """A number as NumPy holds elements of a type of the language."""
    element = NAMES[type_name(dtype)]
    return encode(round_to(np.asarray(number), element), element)


def number_type(value: Any) -> str:
    """The type that a kernel takes a number as."""
    if isinstance(value, float):
        return "f32"
    return "i32" if -(1 << 31) <= value < 1 << 31 else "i64"


def language_name(dtype: Any) -> str:
    """The name that the language has a type under."""
    for name, value in vars(dtypes).items():
        if value is dtype:
            return name
    raise TypeError(f"no type of tawa.language: {dtype!r}")
