"""The tensor core: matrix descriptors decoded to addresses, and the product itself.

The product is taken in float32 from exactly represented operands; the order of the hardware's
additions is not specified (and its fp8 accumulation keeps fewer bits than float32), so results
agree with hardware to the rounding of the accumulator, not bit by bit. f32 operands are cut to
tf32 (10 bits of mantissa), as the hardware does. i8 products are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from xdsl.ir import Attribute

from tawa.base.numerics import Array, round_to
from tawa.base.types import byte_size, f32, i8
from tawa.simulate.interpret.global_memory import swizzled

_SWIZZLES = {0: 0, 1: 128, 2: 64, 3: 32}


@dataclass(frozen=True)
class MatrixDescriptor:
    """The fields of the 64-bit word (PTX ISA, "matrix descriptor format"), in bytes."""

    start: int
    leading: int
    stride: int
    swizzle: int

    @staticmethod
    def decode(word: int) -> MatrixDescriptor:
        """The fields of a word; the matrix base offset is taken as 0."""
        start, leading, stride = ((word >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
        return MatrixDescriptor(start, leading, stride, _SWIZZLES[word >> 62 & 3])

    def addresses(self, rows: int, k: int, element: Attribute, transposed: bool) -> Array:
        """The address of element (row, k): `[rows, k]`. Rows are those of M or N."""
        size = byte_size(element)
        offset = _offsets((rows, k), size, (self.leading, self.stride), self.swizzle, transposed)
        return swizzled(self.start + offset, self.swizzle)


@lru_cache(maxsize=256)
def _offsets(
    shape: tuple[int, int], size: int, strides: tuple[int, int], swizzle: int, transposed: bool
) -> Array:
    """Byte offsets in the canonical layouts of the PTX ISA ("strides" of wgmma operands)."""
    rows, k = shape
    leading, stride = strides
    row, column = np.arange(rows, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)[None, :]
    if transposed:
        byte = row * size
        if swizzle == 0:
            return byte // 16 * stride + byte % 16 + column // 8 * leading + column % 8 * 16
        inner = byte // swizzle * leading + byte % swizzle
        return inner + column // 8 * stride + column % 8 * swizzle
    byte = column * size
    if swizzle == 0:
        return row // 8 * stride + row % 8 * 16 + byte // 16 * leading + byte % 16
    return row // 8 * stride + row % 8 * swizzle + byte


@lru_cache(maxsize=64)
def accumulator_places(n: int) -> tuple[Array, Array]:
    """Row and column of each register of each thread of an m64nN accumulator: `[128, n / 2]`."""
    thread, j = np.arange(128)[:, None], np.arange(n // 2)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (j >> 1 & 1)
    return row, (j >> 2) * 8 + thread % 4 * 2 + (j & 1)


@lru_cache(maxsize=8)
def operand_places(size: int) -> tuple[Array, Array]:
    """Row and k of each element a thread holds of an m64 A fragment of `size`-byte elements.

    Four words a thread: rows `lane / 4` and 8 below, at k bytes `4 (lane % 4)` and 16 further.
    """
    per = 4 // size
    thread, i = np.arange(128)[:, None], np.arange(4 * per)[None, :]
    word = i // per
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (word & 1)
    return row, thread % 4 * per + i % per + (word >> 1) * 4 * per


def from_fragment(registers: Array, size: int) -> Array:
    """The `[64, k]` operand that a warp group holds in its registers."""
    row, k = operand_places(size)
    operand = np.zeros((64, 32 // size), registers.dtype)
    operand[row, k] = registers
    return operand


def to_tf32(values: Array) -> Array:
    """f32 values without the 13 low bits of the mantissa."""
    word = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return word.view(np.float32)


def multiply(a: Array, b: Array, start: Array | None, types: tuple[Attribute, Attribute]) -> Array:
    """`start + a @ b.T` for `a` of `[64, k]` and `b` of `[n, k]`, as values of the accumulator.

    `types` are those of the operands and of the accumulator; `start` of None is zero.
    """
    operand, accumulator = types
    if operand == i8:
        product = a.astype(np.int32) @ b.astype(np.int32).T
        return product if start is None else product + start
    if operand == f32:
        a, b = to_tf32(a), to_tf32(b)
    product = a.astype(np.float32) @ b.astype(np.float32).T
    if start is not None:
        product = product + start.astype(np.float32)
    return round_to(product, accumulator)
