"""Weights from their logarithms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["relative_weights"]

SMALLEST = -700.0
"""Below this, `exp` comes near denormal numbers, which take processors ten times as long."""


def relative_weights(log_weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """exp(w - max w), with 0 for what would be less than 1e-304; some weight must be finite."""
    distance = log_weights - np.max(log_weights)
    weights = np.exp(np.maximum(distance, SMALLEST))
    weights[~(distance > SMALLEST)] = 0.0
    return weights
