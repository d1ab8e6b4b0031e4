"""NumPy meanings of the tile level's dot products, reductions and scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from tawa.base.numerics import Array, round_to, unsigned_dtype, value_dtype
from tawa.base.types import f32, f64, i32, is_float
from tawa.ir.scalars.table import FUNCTIONS

REDUCTION_KINDS = (
    "addf", "mulf", "maxnumf", "minnumf", "maximumf", "minimumf",
    "addi", "muli", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori",
)  # fmt: skip
"""Scalar functions that `tile.reduce` and `tile.scan` combine with."""

_UFUNCS: dict[str, np.ufunc] = {
    "addf": np.add, "mulf": np.multiply, "maxnumf": np.fmax, "minnumf": np.fmin,
    "maximumf": np.maximum, "minimumf": np.minimum, "addi": np.add, "muli": np.multiply,
    "maxsi": np.maximum, "minsi": np.minimum, "maxui": np.maximum, "minui": np.minimum,
    "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
}  # fmt: skip

_LOW_TF32_BITS = np.uint32(0xFFFFE000)


def _tf32(values: Array) -> Array:
    """f32 values as the tensor core reads them for tf32: the low 13 bits are dropped."""
    words = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & _LOW_TF32_BITS
    return words.view(np.float32)


def dot(a: Array, b: Array, acc: Array, element: Attribute, precision: str) -> Array:
    """`acc + a @ b`; `element` is the accumulator's type.

    Products are added up in f64 and rounded once: libraries add them up in f32 in an order that
    depends on shapes and processors, and a tile would differ from its parts put together.
    """
    if element == i32:
        # 8-bit products are exact in f64 up to depths of 2**37.
        product = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return acc + product.astype(np.int64).astype(np.int32)
    wide = np.float64 if element == f64 else np.float32
    if precision == "tf32" and a.dtype == np.float32:
        a, b = _tf32(a), _tf32(b)
    with np.errstate(all="ignore"):
        product = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(wide)
        return round_to(acc.astype(wide, copy=False) + product, element)


def _rounds_each_step(element: Attribute) -> bool:
    return is_float(element) and element not in (f32, f64)


def reduce(value: Array, axis: int, kind: str, element: Attribute) -> Array:
    """Combine along `axis`; types that NumPy can't accumulate are combined as a binary tree."""
    with np.errstate(all="ignore"):
        if _rounds_each_step(element):
            return _tree(np.moveaxis(value, axis, 0), _combiner(kind, element))
        seen = value.view(unsigned_dtype(element)) if kind.endswith("ui") else value
        result = _UFUNCS[kind].reduce(seen, axis=axis, dtype=seen.dtype)
        return np.asarray(result).view(value_dtype(element))


def scan(value: Array, axis: int, kind: str, element: Attribute) -> Array:
    """Running combination along `axis`."""
    with np.errstate(all="ignore"):
        if _rounds_each_step(element):
            combine = _combiner(kind, element)
            rows = list(np.moveaxis(value, axis, 0))
            for index in range(1, len(rows)):
                rows[index] = combine(rows[index - 1], rows[index])
            return np.stack(rows, axis=axis)
        seen = value.view(unsigned_dtype(element)) if kind.endswith("ui") else value
        result = _UFUNCS[kind].accumulate(seen, axis=axis, dtype=seen.dtype)
        return np.asarray(result).view(value_dtype(element))


def _combiner(kind: str, element: Attribute) -> Callable[[Array, Array], Array]:
    function = FUNCTIONS[kind]
    return lambda x, y: function.evaluate([element, element], element, x, y)


def _tree(rows: Array, combine: Callable[[Array, Array], Array]) -> Array:
    while len(rows) > 1:
        half = len(rows) // 2
        paired = combine(rows[:half], rows[half : 2 * half])
        rows = np.concatenate([paired, rows[2 * half :]]) if len(rows) % 2 else paired
    return np.asarray(rows[0])


def arg_reduce(value: Array, axis: int, *, largest: bool, unsigned: bool) -> tuple[Array, Array]:
    """The extreme along `axis` and its lowest position; NaN loses against numbers.

    Where there is nothing but NaN, the first one is the extreme.
    """
    seen: Any = value
    if unsigned:
        seen = value.view(np.dtype(f"u{value.dtype.itemsize}"))
    if seen.dtype.kind == "f":
        best = (np.fmax if largest else np.fmin).reduce(seen, axis=axis, keepdims=True)
        position = np.argmax(seen == best, axis=axis)
    else:
        position = (np.argmax if largest else np.argmin)(seen, axis=axis)
    index = np.expand_dims(np.asarray(position), axis)
    extreme = np.take_along_axis(value, index, axis=axis).squeeze(axis)
    return np.asarray(extreme), np.asarray(position).astype(np.int32)
