"""One launch of an example kernel: its arrays, its options, and what it should give.

The same workloads run at every level: the tile simulator, the hopper simulator, machine code
(looked at, not run) and a GPU.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tawa.base.numerics import decode, encode
from tawa.base.types import NAMES

EXAMPLES = Path(__file__).parents[2] / "examples"
if str(EXAMPLES) not in sys.path:
    sys.path.insert(0, str(EXAMPLES))

MATRIX = ("HGMMA", "UTMALDG", "UTMASTG")
"""Opcodes of a kernel that loads, multiplies and stores tiles."""

POISON = {"i": -77, "f": np.nan}


@dataclass(frozen=True)
class Array:
    """Element type and shape of one array; `fill` makes its values (standard normal if unset).

    `every` takes each `every`-th entry of a first dimension that is larger by that factor.
    """

    element: str
    shape: tuple[int, ...]
    fill: Callable[[np.random.Generator, tuple[int, ...]], Any] | None = None
    every: int = 1

    def values(self, rng: np.random.Generator) -> np.ndarray:
        """Values that the element type can hold, as float64."""
        if self.fill is not None:
            made = np.asarray(self.fill(rng, self.shape), np.float64)
        elif self.element.startswith("i"):
            made = rng.integers(-8, 9, self.shape).astype(np.float64)
        else:
            made = rng.standard_normal(self.shape)
        return as_float(encode(made, NAMES[self.element]), self.element)

    @property
    def poison(self) -> np.ndarray:
        """What an output holds before the launch."""
        return np.full(self.shape, POISON["i" if self.element.startswith("i") else "f"], np.float64)


def as_float(storage: np.ndarray, element: str) -> np.ndarray:
    """Stored elements as float64."""
    return np.asarray(decode(storage, NAMES[element])).astype(np.float64)


@dataclass(frozen=True)
class Workload:
    """`launch(*arrays, **arguments, **options)` of a module, checked against its `reference`.

    `example` names a module of `examples/` or of the package; `function` is what launches there.
    `order` names the arrays in the launch's order (default: inputs, then outputs); the reference
    gets the inputs and `reference_arguments`, and gives one array an output.
    """

    name: str
    example: str
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    reference_arguments: Mapping[str, Any] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    opcodes: tuple[str, ...] = ()
    """What the machine code must hold."""
    tolerance: float = 1e-3
    function: str = "launch"

    def __str__(self) -> str:
        return self.name

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays in the order of the launch."""
        return self.order or (*self.inputs, *self.outputs)

    @property
    def module(self) -> ModuleType:
        """The example's module."""
        return importlib.import_module(self.example)

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """The inputs' values, as float64."""
        rng = np.random.default_rng(0)
        return {name: array.values(rng) for name, array in self.inputs.items()}

    @cached_property
    def expected(self) -> dict[str, np.ndarray]:
        """What each output should hold, as float64."""
        found = self.module.reference(*self.values.values(), **self.reference_arguments)
        results = found if isinstance(found, tuple) else (found,)
        return dict(zip(self.outputs, results, strict=True))

    def launch(self, arrays: Mapping[str, Any], **more: Any) -> Any:
        """Launch on arrays of any library."""
        passed = [arrays[name] for name in self.names]
        launch = getattr(self.module, self.function)
        return launch(*passed, **self.arguments, **{**self.options, **more})

    def check(self, results: Mapping[str, np.ndarray]) -> None:
        """Compare outputs (as float64) with what they should be."""
        for name, expected in self.expected.items():
            error = relative_error(results[name], expected)
            assert error < self.tolerance, f"{self.name}: `{name}` is off by {error:.2e}"


def relative_error(result: np.ndarray, expected: np.ndarray) -> float:
    """Frobenius norm of the difference, relative to the expected values' (infinite for NaN)."""
    assert result.shape == expected.shape
    if not result.size:
        return 0.0
    size = np.linalg.norm(expected) or 1.0
    error = float(np.linalg.norm(result - expected) / size)
    return error if error == error else float("inf")
