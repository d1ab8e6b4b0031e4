"""Weights from their logarithms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["relative_weights"]

SMALLEST = -350.0
"""Above this, squares of weights too are far from denormal numbers, on which processors take ten
times as long."""


def relative_weights(log_weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """exp(w - max w), with 0 for what would be less than 1e-152; some weight must be finite."""
    weights = log_weights - np.max(log_weights)
    counts = weights > SMALLEST
    np.maximum(weights, SMALLEST, out=weights)
    np.exp(weights, out=weights)
    weights *= counts
    return weights
