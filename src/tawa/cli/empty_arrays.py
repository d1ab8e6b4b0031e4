"""Which bytes of an example's arrays nobody has written: those that `numpy.empty` made.

`noting` fills what `numpy.empty` and `numpy.empty_like` make with numbers by chance; bytes that are
still these at the launch were not written by the host. Words of eight bytes are compared, so that
the host's own values are taken for the filling once in 2**64.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tawa.base.numerics import Array

WORD = 8


@dataclass
class EmptyArrays:
    """Arrays as `numpy.empty` made them, with what they were filled with."""

    _made: list[tuple[Array, int, Array]] = field(default_factory=list[tuple[Array, int, Array]])
    _chance: random.Random = field(default_factory=lambda: random.Random(77))

    def note(self, array: Array) -> Array:
        """Fill an array and keep what with."""
        low, raw = _bytes(array)
        if raw.size and not array.dtype.hasobject:
            filling = np.frombuffer(self._chance.randbytes(raw.size), np.uint8)
            raw[...] = filling
            self._made.append((array, low, filling))
        return array

    def unwritten(self, arrays: Sequence[Array]) -> list[Array | None]:
        """For each array its bytes that nobody has written; None if `empty` has not made it."""
        return [self._missing(array) for array in arrays]

    def _missing(self, array: Array) -> Array | None:
        low, raw = _bytes(array)
        for made, first, filling in self._made:
            if first <= low and low + raw.size <= first + filling.size:
                same = _words(_bytes(made)[1] == filling)
                return same[low - first : low - first + raw.size]
        return None


@contextmanager
def noting() -> Generator[EmptyArrays]:
    """Note the arrays that `numpy.empty` and `numpy.empty_like` make inside."""
    found = EmptyArrays()
    before = {name: getattr(np, name) for name in ("empty", "empty_like")}

    def noted(make: Callable[..., Array]) -> Callable[..., Array]:
        def made(*args: Any, **kwargs: Any) -> Array:
            return found.note(make(*args, **kwargs))

        return made

    for name, make in before.items():
        setattr(np, name, noted(make))
    try:
        yield found
    finally:
        for name, make in before.items():
            setattr(np, name, make)


def _bytes(array: Array) -> tuple[int, Array]:
    """The address of an array's lowest byte, and all its bytes up to the highest."""
    low, high = np.lib.array_utils.byte_bounds(array)
    raw: Array = np.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(low))
    return low, raw


def _words(same: Array) -> Array:
    """Bytes in words of which all are the same; the last word may overlap the one before."""
    whole = len(same) // WORD * WORD
    result = np.zeros(len(same), bool)
    result[:whole] = np.repeat(same[:whole].reshape(-1, WORD).all(axis=1), WORD)
    result[whole:] = same[-WORD:].all()
    return result
