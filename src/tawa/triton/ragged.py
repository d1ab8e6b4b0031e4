"""`triton.tools.ragged_tma`: descriptors of rows that lie behind each other in parts.

A part begins at any row, and what lies behind it is another's: a descriptor of all rows would read
and write that too. Two dimensions more in front shift the whole instead. Counting from row
2^30 - size + i, row `size` of a part lies at 2^30, where the dimension ends, and the dimensions in
front take the address back to where the part begins: addresses have 64 bits, and 2^30 times the
first stride (2^34 elements less a row) is a multiple of 2^64 less 2^30 rows. The method is that of
Triton 3.6, whose kernels pass such descriptors on.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnnecessaryComparison=false
# pyright: reportUnknownMemberType=false, reportArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tawa import language as tl
from tawa.base.errors import TawaError
from tawa.driver.decorator import jit
from tawa.runtime.descriptor import TensorDescriptor

ROWS = 1 << 30
"""Rows that the ragged dimension has as the copy engine sees it."""
ROWS_IN_KERNELS = tl.constexpr(ROWS)
MOST = 0x7FFF0000
"""Size of the dimensions in front, which end nothing."""
AROUND = 1 << 34
"""Elements of which 2^30 go around all addresses, whatever the bytes of one are."""


class NotRagged(TawaError):
    """No ragged descriptor can be made of this tensor."""

    explanation = (
        "A ragged descriptor needs a tensor of 2 or 3 dimensions and of at most 2^30 rows. The "
        "ragged dimension is not the last one, whose elements lie side by side."
    )
    example = """
import numpy as np

from tawa.triton.ragged import create_ragged_descriptor

create_ragged_descriptor(np.zeros((64, 64), np.float16), [16, 16], ragged_dim=1)
"""


def create_ragged_descriptor(
    T: Any, block_shape: Sequence[int], ragged_dim: int = 0
) -> TensorDescriptor:
    """The descriptor of a tensor whose parts along a dimension are read and written by themselves.

    Raises `NotRagged` and the errors of `TensorDescriptor`.
    """
    plain = TensorDescriptor.from_tensor(T, block_shape)
    rank = len(plain.shape)
    axis = ragged_dim + rank if ragged_dim < 0 else ragged_dim
    if not 0 <= axis < rank - 1 or rank > 3 or plain.shape[axis] > ROWS:
        raise NotRagged(
            "no ragged descriptor can be made of this tensor",
            expected="2 or 3 dimensions, of at most 2^30 rows, the last one not ragged",
            found=f"shape {plain.shape}, ragged_dim={ragged_dim}",
        )
    sizes = [ROWS if d == axis else size for d, size in enumerate(plain.shape)]
    row = plain.strides[axis]
    return TensorDescriptor(
        T, [MOST, MOST, *sizes], [AROUND - row, row, *plain.strides], [1, 1, *block_shape]
    )


@jit
def to_ragged_indices(batch_offset: Any, batch_size: Any, row: Any):
    """The two coordinates in front and the ragged one, of a row of a part."""
    return ROWS_IN_KERNELS, batch_offset + batch_size, ROWS_IN_KERNELS - batch_size + row


@jit
def _coordinates(batch_offset: Any, batch_size: Any, coords: Any, ragged_dim: tl.constexpr):
    first, second, row = to_ragged_indices(batch_offset, batch_size, coords[ragged_dim])
    if len(coords) == 2:
        return first, second, row, coords[1]
    if ragged_dim == 0:
        return first, second, row, coords[1], coords[2]
    return first, second, coords[0], row, coords[2]


@jit
def load_ragged(
    TMA: Any, batch_offset: Any, batch_size: Any, coords: Any, ragged_dim: tl.constexpr = 0
):
    """The block at `coords` of the part of `batch_size` rows from `batch_offset` on.

    What lies outside the part is 0.
    """
    data = TMA.load(_coordinates(batch_offset, batch_size, coords, ragged_dim))
    return data.reshape(data.shape[2:])


@jit
def store_ragged(
    TMA: Any, batch_offset: Any, batch_size: Any, coords: Any, data: Any,
    ragged_dim: tl.constexpr = 0,
):  # fmt: skip
    """Write a block of a part; what lies outside the part is left as it is."""
    TMA.store(_coordinates(batch_offset, batch_size, coords, ragged_dim), data[None, None])


@jit
def atomic_add_ragged(
    TMA: Any, batch_offset: Any, batch_size: Any, coords: Any, data: Any,
    ragged_dim: tl.constexpr = 0,
):  # fmt: skip
    """Add a block to a part; what lies outside the part is left as it is."""
    TMA.atomic_add(_coordinates(batch_offset, batch_size, coords, ragged_dim), data[None, None])
