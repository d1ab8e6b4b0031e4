"""Where the meaning of the prelude's operators is found.

An operator's function takes its static arguments as keywords and the arrays in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tawa.base.decorated import Registering

Array = NDArray[Any]
Operator = Callable[..., Any]

DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_, "i8": np.int8,
    "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
"""NumPy's element types by Axon's names; bf16 is that of the package ml_dtypes."""


def is_bf16(value: Any) -> bool:
    """Whether a value is an array of bf16."""
    return getattr(value, "dtype", None) == ml_dtypes.bfloat16


def is_floating(dtype: Any) -> bool:
    """Whether an element type is one of floating-point numbers."""
    return np.issubdtype(dtype, np.floating) or dtype == ml_dtypes.bfloat16


def widened(x: Any) -> Any:
    """Numbers of bf16 as f32; others as they are."""
    return x.astype(np.float32) if is_bf16(x) else x


def narrowed(x: Any) -> Any:
    """Numbers of f32, and those in tuples, rounded to bf16; others as they are."""
    if isinstance(x, tuple):
        return tuple(narrowed(item) for item in x)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return x.astype(ml_dtypes.bfloat16) if x.dtype == np.float32 else x


OPERATORS: dict[str, Operator] = {}
"""The meaning of each operator, by its name in the prelude."""


operator = Registering(OPERATORS)
