"""The suite: kernels as public collections have them, each one launch with what it should give.

A case is a function that takes an `Arrays` and returns a `Launch`; `cases()` has all of them by
name. They run at every level: the tile simulator, the hopper simulator and a GPU.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from simulation import Arrays

PARTS = (
    "suite_pointwise", "suite_rows", "suite_products", "suite_quantised", "suite_attention",
    "suite_language", "suite_extras", "suite_training", "suite_updates", "suite_serving",
    "suite_routing", "suite_groups", "suite_epilogues", "suite_weights", "suite_windows",
    "suite_sequences", "suite_recurrences", "suite_norms", "suite_reorderings", "suite_pointers",
    "suite_corners", "suite_ways_out", "suite_descriptors", "suite_transforms",
)  # fmt: skip
"""Modules that have cases."""


@dataclass(frozen=True)
class Launch:
    """One launch; `expected` says what arguments (by position) hold after it."""

    kernel: Any
    grid: tuple[int, ...]
    args: Sequence[Any]
    expected: Mapping[int, np.ndarray]
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values of constexpr parameters, and options."""
    tolerance: float = 1e-3


Case = Callable[[Arrays], Launch]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Add a case under its function's name."""
    CASES[function.__name__] = function
    return function


def cases() -> Mapping[str, Case]:
    """All cases by name."""
    for part in PARTS:
        importlib.import_module(part)
    return CASES
