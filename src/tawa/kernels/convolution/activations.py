"""Functions that a convolution's results go through before they are stored."""

# pyright: reportOperatorIssue=false, reportArgumentType=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl

__all__ = ["ACTIVATIONS", "gelu", "gelu_tanh", "hardswish", "relu", "relu6", "sigmoid", "silu"]

HALF_ROOT = tl.constexpr(0.7071067811865476)
SLOPE = tl.constexpr(0.7978845608028654)
"""The square root of 2 / pi."""


@tawa.jit
def relu(x: Any) -> Any:
    """x, or 0 where it is negative."""
    return tl.maximum(x, 0.0)


@tawa.jit
def relu6(x: Any) -> Any:
    """x between 0 and 6."""
    return tl.minimum(tl.maximum(x, 0.0), 6.0)


@tawa.jit
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return tl.sigmoid(x)


@tawa.jit
def silu(x: Any) -> Any:
    """x sigmoid(x)."""
    return x * tl.sigmoid(x)


@tawa.jit
def gelu(x: Any) -> Any:
    """x times the normal distribution's probability of less than x."""
    return 0.5 * x * (1.0 + tl.erf(x * HALF_ROOT))


@tawa.jit
def gelu_tanh(x: Any) -> Any:
    """`gelu` by its usual approximation."""
    inner = SLOPE * (x + 0.044715 * x * x * x)
    return x * tl.sigmoid(2.0 * inner)


@tawa.jit
def hardswish(x: Any) -> Any:
    """x relu6(x + 3) / 6."""
    return x * relu6(x + 3.0) * (1.0 / 6.0)


ACTIVATIONS: dict[str, Any] = {
    "relu": relu, "relu6": relu6, "sigmoid": sigmoid, "silu": silu, "gelu": gelu,
    "gelu_tanh": gelu_tanh, "hardswish": hardswish,
}  # fmt: skip
"""By name."""
