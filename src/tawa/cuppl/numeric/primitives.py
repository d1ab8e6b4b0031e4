"""What a native function may call besides other natives, as it runs in plain Python.

The translator knows these names (see `native.py`); here is their reference meaning.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, overload

import numpy as np

__all__ = [
    "Context",
    "apart",
    "atomic_add",
    "FloatVector",
    "Floats",
    "IntVector",
    "Ints",
    "bits_of",
    "float_of_bits",
    "floor",
    "fma",
    "horner",
    "int_in_range",
    "new_floats",
    "new_ints",
    "new_object",
    "shru",
    "sleep_while",
    "sqrt",
    "swap_halves",
    "wake",
]


class Floats(Protocol):
    """An array of floats (in plain Python, NumPy's)."""

    @overload
    def __getitem__(self, index: int, /) -> float: ...

    @overload
    def __getitem__(self, index: slice, /) -> Floats: ...

    def __getitem__(self, index: int | slice, /) -> float | Floats:
        """One element, or the array that begins there."""
        ...

    def __setitem__(self, index: int, value: float, /) -> None:
        """Set an element."""
        ...

    def __len__(self) -> int:
        """Number of elements."""
        ...


class Ints(Protocol):
    """An array of integers (in plain Python, NumPy's)."""

    def __getitem__(self, index: int, /) -> int:
        """One element."""
        ...

    def __setitem__(self, index: int, value: int, /) -> None:
        """Set an element."""
        ...

    def __len__(self) -> int:
        """Number of elements."""
        ...


FloatVector = Floats
IntVector = Ints


@dataclass(slots=True)
class Context:
    """The part of a particle's context that natives use (see `ir.CONTEXT_FIELDS`)."""

    key0: int = 0
    key1: int = 0
    particle: int = 0
    step: int = 0
    stream: int = 0
    draw: int = 0
    spare: int = 0
    ahead: int = 0
    made: int = 0
    room: int = 0
    weight: float = 0.0
    status: int = 0
    site: int = 0
    heap: int = 0
    heap_end: int = 0
    depth: int = 0
    depth_limit: int = 0
    memo: int = 0
    memo_count: int = 0
    trace: int = 0
    address: int = 0
    tape_delta: int = 0
    heap_start: int = 0
    tape_used: int = 0
    tape_size: int = 0
    tape_entries: int = 0
    adjoints: int = 0
    fuel: int = field(default=1 << 62)


def sqrt(x: float) -> float:
    """Correctly rounded square root; NaN below zero."""
    return math.sqrt(x) if x >= 0.0 else math.nan


def apart(*bounds: int) -> range:
    """`range`, for a loop whose turns do not depend on each other: lanes may share them."""
    return range(*bounds)


def floor(x: float) -> float:
    """Largest integer not above x, as a float."""
    return float(np.floor(x))


def fma(a: float, b: float, c: float) -> float:
    """a * b + c with one rounding."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def int_in_range(x: float) -> int:
    """`int(x)` of a number known to be less than 2^63 in size: of others it may be anything."""
    return int(x)


def bits_of(x: float) -> int:
    """The 64 bits of a float as a signed integer."""
    return int(struct.unpack("<q", struct.pack("<d", x))[0])


def float_of_bits(bits: int) -> float:
    """The float with these 64 bits."""
    return float(struct.unpack("<d", struct.pack("<Q", bits & 0xFFFFFFFFFFFFFFFF))[0])


def shru(x: int, count: int) -> int:
    """Logical shift right of 64 bits."""
    return (x & 0xFFFFFFFFFFFFFFFF) >> count


def swap_halves(x: int) -> int:
    """64 bits with the upper and the lower 32 in each other's place."""
    return (x & 0xFFFFFFFF) << 32 | (x >> 32 & 0xFFFFFFFF)


def horner(x: float, coefficients: Sequence[float]) -> float:
    """Polynomial with the highest power first, by Horner's rule."""
    total = coefficients[0]
    for c in coefficients[1:]:
        total = fma(total, x, c)
    return total


def new_floats(ctx: Context, length: int) -> FloatVector:
    """A fresh vector of floats."""
    del ctx
    out: Any = np.zeros(length, dtype=np.float64)
    return out


def new_ints(ctx: Context, length: int) -> IntVector:
    """A fresh vector of integers."""
    del ctx
    out: Any = np.zeros(length, dtype=np.int64)
    return out


def new_object(ctx: Context, header: int, words: int) -> Ints:
    """A fresh heap object of some words, the header first."""
    del ctx
    out: Any = np.zeros(words, dtype=np.int64)
    out[0] = header
    return out


def atomic_add(array: Ints, index: int, value: int) -> int:
    """Add to a word that other threads use too; returns the old value."""
    old = int(array[index])
    array[index] = old + value
    return old


def sleep_while(array: Ints, index: int, value: int) -> None:
    """Wait for another thread's `wake`, if a word is `value`; it may end sooner."""


def wake(array: Ints, index: int) -> None:
    """Let the threads go on that sleep for a word."""
