"""What is known of a value in a model: its sizes, and the contents of small integer tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tawa.axon.sizes.dims import Dim

Array = NDArray[Any]
Dims = tuple[Dim, ...]

MAX_CONTENTS = 1024
"""Larger tensors are known by their shape only."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor, sequence or optional.

    `dims` is None when the number of dimensions isn't known. `contents` are numbers, or `Dim`
    objects for integers that depend on sizes. A sequence has `items` if its length is known, and
    else `item`, what is known of each. `element` is ONNX's number of the element type.
    """

    dims: Dims | None
    contents: Array | None = None
    element: int = 0
    items: tuple[Value, ...] | None = None
    item: Value | None = None
    is_sequence: bool = False

    @property
    def rank(self) -> int | None:
        """The number of dimensions, if known."""
        return None if self.dims is None else len(self.dims)

    @property
    def numbers(self) -> Array | None:
        """The contents, if they are numbers."""
        if self.contents is None:
            return None
        if self.contents.dtype != object:
            return self.contents
        found = [d.constant if isinstance(d, Dim) else d for d in self.contents.ravel()]
        if any(number is None for number in found):
            return None
        return np.array(found).reshape(self.contents.shape)

    @property
    def sizes(self) -> list[Dim] | None:
        """The contents as dimensions, in one list."""
        if self.contents is None:
            return None
        if self.contents.dtype == object:
            return [Dim.of(d) for d in self.contents.ravel()]
        if not np.issubdtype(self.contents.dtype, np.integer):
            return None
        return [Dim.of(int(number)) for number in self.contents.ravel()]

    def symbolic(self) -> Array | None:
        """The contents as an array of dimensions."""
        sizes = self.sizes
        if sizes is None or self.contents is None:
            return None
        return object_array(sizes, self.contents.shape)


def object_array(items: list[Dim], shape: tuple[int, ...]) -> Array:
    """An array of dimensions."""
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found.reshape(shape)


UNKNOWN = Value(None)


def known(array: Array, element: int = 0) -> Value:
    """A constant."""
    dims = tuple(Dim.of(size) for size in array.shape)
    return Value(dims, array if array.size <= MAX_CONTENTS else None, element)


def computed(contents: Array) -> Value:
    """An integer tensor with these contents."""
    return Value(tuple(Dim.of(size) for size in contents.shape), contents)


def tensor(dims: Dims | list[Dim] | None) -> Value:
    """A tensor of which only the shape is known."""
    return Value(None if dims is None else tuple(dims))
