"""Whether the levels of a kernel give the same results for one launch on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from tawa.base.numerics import Array, decode, is_fp8, storage_dtype
from tawa.base.types import DescType, PtrType
from tawa.ir.kernels import argument_names

SUMS = 1e-2
"""Difference that another order of additions may make, relative to the largest element."""


@dataclass
class Agreement:
    """What was compared, and what differs."""

    levels: list[str] = field(default_factory=list[str])
    left_out: list[str] = field(default_factory=list[str])
    """Levels that were not run, each with why."""
    differences: list[str] = field(default_factory=list[str])
    worst: float = 0.0
    varying: tuple[str, ...] = ()
    """Arrays that are left out: what they hold depends on the order of programs."""

    @property
    def same(self) -> bool:
        """Whether no level's results differ from the first one's."""
        return not self.differences

    def render(self) -> str:
        """The comparison as text."""
        lines = [f"LEVELS DIFFER: {text}" for text in self.differences]
        if len(self.levels) > 1 and self.same:
            names = ", ".join(self.levels)
            lines.append(f"levels {names}: the same results (largest difference {self.worst:.0e})")
        lines += [f"not compared: {text}" for text in self.left_out]
        return "\n".join(lines)

    def add(self, level: str, found: Sequence[Array], first: Sequence[Array],
            elements: Sequence[tuple[str, Attribute]]) -> None:  # fmt: skip
        """Compare a level's results with those of the first level, array by array."""
        self.levels.append(level)
        for (name, element), new, old in zip(elements, found, first, strict=True):
            if name in self.varying:
                continue
            apart = _difference(_values(new, element), _values(old, element))
            self.worst = max(self.worst, apart if apart <= _allowed(element) else 0.0)
            if apart > _allowed(element):
                self.differences.append(
                    f"`{name}` at the {level} level is {apart:.1e} from the {self.levels[0]} level"
                )


def differing(
    elements: Sequence[tuple[str, Attribute]], found: Sequence[Array], first: Sequence[Array]
) -> list[str]:
    """Names of the arrays that differ by more than another order of sums makes."""
    return [
        name
        for (name, element), new, old in zip(elements, found, first, strict=True)
        if _difference(_values(new, element), _values(old, element)) > _allowed(element)
    ]


def _values(array: Array, element: Attribute) -> Array:
    """What an array holds, whether its elements are bits or another package's type."""
    kind = storage_dtype(element)
    return decode(array.view(kind) if array.dtype.itemsize == kind.itemsize else array, element)


def tile_arguments(module: ModuleOp) -> tuple[str, ...]:
    """Names of a tile module's arguments."""
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return tuple(argument_names(function))


def array_elements(module: ModuleOp) -> list[tuple[str, Attribute]]:
    """Name and element type of each array argument of a tile module, descriptors' too."""
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    found: list[tuple[str, Attribute]] = []
    for name, argument in zip(argument_names(function), function.body.block.args, strict=True):
        if isinstance(argument.type, PtrType):
            found.append((name, argument.type.pointee))
        elif isinstance(argument.type, DescType):
            found.append((name, argument.type.block.element_type))
    return found


def _allowed(element: Attribute) -> float:
    """What rounding to the element type may add to another order of sums."""
    if is_fp8(element):
        return 0.25
    return SUMS + 2.0**-6 if isinstance(element, BFloat16Type | Float16Type) else SUMS


def _difference(found: Any, expected: Any) -> float:
    """The largest difference relative to the largest element; whole numbers must be equal."""
    if found.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    a, b = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    scale = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / scale
