"""Where the meaning of the prelude's operators is found.

An operator's function takes its static arguments as keywords and the arrays in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Operator = Callable[..., Any]

DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bool": np.bool_, "i8": np.int8,
    "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
"""NumPy's element types by Axon's names."""

OPERATORS: dict[str, Operator] = {}
"""The meaning of each operator, by its name in the prelude."""


def operator(name: str) -> Callable[[Operator], Operator]:
    """Register the meaning of an operator."""

    def register(function: Operator) -> Operator:
        OPERATORS[name] = function
        return function

    return register
