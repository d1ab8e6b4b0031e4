"""What is known of a value in a model: its sizes, and the contents of small integer tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import SparseTensorProto, TensorProto, numpy_helper

from tawa.axon.onnx.progressions import Progression
from tawa.axon.onnx.provided import EXACT_UP_TO
from tawa.axon.sizes.dims import Dim

Array = NDArray[Any]
Dims = tuple[Dim, ...]

MAX_SIZE = 2**63 - 1
"""What a size in a model can be."""

ELEMENTS = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
"""The numbers of the element types."""

MAX_CONTENTS = 1024
"""Larger tensors are known by their shape only."""


class Value(NamedTuple):
    """A tensor, sequence or optional.

    `dims` is None when the number of dimensions isn't known. `contents` are numbers, or `Dim`
    objects for integers that depend on sizes. A sequence has `items` if its length is known, and
    else `item`, what is known of each. `element` is ONNX's number of the element type. `fill` is
    the number that all elements are, if that is known of a tensor whose contents are not;
    `progression` says how the numbers grow in a tensor of any length.
    """

    dims: Dims | None
    contents: Array | None = None
    element: int = 0
    items: tuple[Value, ...] | None = None
    item: Value | None = None
    is_sequence: bool = False
    fill: Any = None
    progression: Progression | None = None

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
        numbers = np.array(found).reshape(self.contents.shape)
        return numbers.astype(np.float64) if self.element in EXACT_UP_TO else numbers

    @property
    def sizes(self) -> list[Dim] | None:
        """The contents of a tensor of integers as dimensions, in one list."""
        if self.contents is None or self.element in EXACT_UP_TO:
            return None
        if self.contents.dtype == object:
            return [Dim.of(d) for d in self.contents.ravel()]
        if not np.issubdtype(self.contents.dtype, np.integer):
            return None
        return [Dim.of(int(number)) for number in self.contents.ravel()]

    def consisting_of(self, element: int) -> Value:
        """The value with this element type."""
        if element == self.element:
            return self
        return Value(
            self.dims, self.contents, element, self.items, self.item, self.is_sequence, self.fill,
            self.progression,
        )  # fmt: skip

    def without_contents(self) -> Value:
        """The value without what is known of its elements."""
        return self._replace(contents=None, fill=None, progression=None)

    def mapped(self, change: Callable[[Dim], Dim]) -> Value:
        """The value with all sizes changed, those that it contains too."""
        contents = self.contents
        if contents is not None and contents.dtype == object:
            changed = [change(Dim.of(d)) for d in contents.ravel()]
            contents = object_array(changed, contents.shape)
        return self._replace(
            dims=None if self.dims is None else tuple(change(dim) for dim in self.dims),
            contents=contents,
            items=None if self.items is None else tuple(i.mapped(change) for i in self.items),
            item=None if self.item is None else self.item.mapped(change),
            progression=None if self.progression is None
            else tuple(block.mapped(change) for block in self.progression),
        )  # fmt: skip

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


def stored(tensor: TensorProto) -> Value:
    """A tensor of a file. Its contents are read only if they are few and in the file itself."""
    dims = _stored_sizes(tensor.dims)
    if tensor.data_type not in ELEMENTS:
        raise ValueError(f"there is no element type {tensor.data_type}")
    outside = tensor.data_location == TensorProto.EXTERNAL
    if outside or math.prod(tensor.dims) > MAX_CONTENTS:
        return Value(dims, None, tensor.data_type)
    return Value(dims, numpy_helper.to_array(tensor), tensor.data_type)


def stored_sparse(tensor: SparseTensorProto) -> Value:
    """A tensor of a file of which only some elements are stored; they are not read."""
    return Value(_stored_sizes(tensor.dims), None, tensor.values.data_type)


def _stored_sizes(sizes: Iterable[int]) -> Dims:
    dims = tuple(sizes)
    if any(size < 0 for size in dims):
        raise ValueError("a size is negative")
    return tuple(map(Dim.of, dims))


def computed(contents: Array) -> Value:
    """An integer tensor with these contents."""
    return Value(tuple(Dim.of(size) for size in contents.shape), contents)


def tensor(dims: Dims | list[Dim] | None) -> Value:
    """A tensor of which only the shape is known."""
    return Value(None if dims is None else tuple(dims))
