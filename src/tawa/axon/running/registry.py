"""Where the meaning of the prelude's operators is found.

An operator's function takes its static arguments as keywords and the arrays in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
Operator = Callable[..., Any]

OPERATORS: dict[str, Operator] = {}
"""The meaning of each operator, by its name in the prelude."""


def operator(name: str) -> Callable[[Operator], Operator]:
    """Register the meaning of an operator."""

    def register(function: Operator) -> Operator:
        OPERATORS[name] = function
        return function

    return register
