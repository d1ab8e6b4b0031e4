"""Matrices of any array library as `matmul` takes them: how they lie, and copies where they must.

The hardware copies blocks of a matrix that is contiguous along one dimension, starts at a multiple
of 16 bytes, and has rows (or columns) of whole 16 bytes. Any other matrix is first copied to one
of that kind, by `pack`.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.gemm_configurations import LINE

PIECE = 16
"""Bytes that the hardware's copies are made of."""

PACKED_ROWS, PACKED_COLUMNS = 16, 128
"""Rows and columns that one program of `pack` copies."""
TURNED_ROWS, TURNED_COLUMNS = 128, 64
"""Rows and columns that one program of `turn` transposes."""


@dataclass(frozen=True)
class Lie:
    """How matrices lie in memory.

    - `turned`: they are contiguous along their columns.
    - `describable`: the hardware can copy their blocks.
    - `storable`: and store them: whole pieces, along their rows.
    - `aligned`: rows, or columns where those are contiguous, start with a line of L2.
    """

    turned: bool
    describable: bool
    storable: bool
    aligned: bool


@tawa.jit
def pack(
    source: Any, packed: Any, rows: Any, columns: Any, batch_stride: Any, row_stride: Any,
    column_stride: Any, pitch: Any, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """`packed` [batch, rows, columns] = `source`, whose elements are counted by strides."""
    steps = batch_stride, row_stride, column_stride
    pack_block(source, packed, tl.program_id(0), rows, columns, steps, pitch, ROWS, COLUMNS)


@tawa.jit
def pack_two(
    source: Any, packed: Any, rows: Any, columns: Any, batch_stride: Any, row_stride: Any,
    column_stride: Any, pitch: Any, other_source: Any, other_packed: Any, other_rows: Any,
    other_columns: Any, other_batch_stride: Any, other_row_stride: Any, other_column_stride: Any,
    other_pitch: Any, programs: Any, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """As `pack`, for two: the first by the first `programs`, the other one by the rest."""
    program = tl.program_id(0)
    if program < programs:
        steps = batch_stride, row_stride, column_stride
        pack_block(source, packed, program, rows, columns, steps, pitch, ROWS, COLUMNS)
    else:
        steps = other_batch_stride, other_row_stride, other_column_stride
        program -= programs
        source, packed, pitch = other_source, other_packed, other_pitch
        pack_block(source, packed, program, other_rows, other_columns, steps, pitch, ROWS, COLUMNS)


@tawa.jit
def pack_block(
    source: Any, packed: Any, program: Any, rows: Any, columns: Any, steps: Any, pitch: Any,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One block of what `pack` copies."""
    across, down = tl.cdiv(columns, COLUMNS), tl.cdiv(rows, ROWS)
    line = program // across
    batch = (line // down).to(tl.int64)
    first, start = line % down * ROWS, program % across * COLUMNS
    row, column = tl.arange(0, ROWS).to(tl.int64), tl.arange(0, COLUMNS).to(tl.int64)
    source += batch * steps[0] + first.to(tl.int64) * steps[1] + start.to(tl.int64) * steps[2]
    packed += (batch * rows + first) * pitch + start
    at = (source + row * steps[1])[:, None] + (column * steps[2])[None, :]
    to = (packed + row * pitch)[:, None] + column[None, :]
    if (first + ROWS <= rows) & (start + COLUMNS <= columns):
        tl.store(to, tl.load(at))  # most blocks: a third of the instructions
    else:
        inside = (row < rows - first)[:, None] & (column < columns - start)[None, :]
        tl.store(to, tl.load(at, mask=inside), mask=inside)


@tawa.jit
def turn(source_desc: Any, turned_desc: Any, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """`turned` [batch, columns, rows] = `source` [batch, rows, columns]."""
    column, row = tl.program_id(0) * COLUMNS, tl.program_id(1) * ROWS
    block = source_desc.load([tl.program_id(2), row, column]).reshape(ROWS, COLUMNS)
    turned_desc.store([tl.program_id(2), column, row], block.T.reshape(1, COLUMNS, ROWS))


def along_rows(array: Any) -> Any:
    """A copy of matrices that the hardware can load, with contiguous rows that start with lines."""
    if not turned(array):
        return _packed(array)
    lying = transposed(array) if len(array.shape) == 3 else transposed(array)[None]
    batch, rows, columns = lying.shape
    made = _whole_lines(array, (batch, columns, rows))
    blocks = tawa.cdiv(columns, TURNED_COLUMNS), tawa.cdiv(rows, TURNED_ROWS), batch
    turn[blocks](
        tawa.TensorDescriptor.from_tensor(lying, [1, TURNED_ROWS, TURNED_COLUMNS]),
        tawa.TensorDescriptor.from_tensor(made, [1, TURNED_COLUMNS, TURNED_ROWS]),
        ROWS=TURNED_ROWS,
        COLUMNS=TURNED_COLUMNS,
    )
    return made if len(array.shape) == 3 else made[0]


def loadable(array: Any) -> Any:
    """The matrices themselves if the hardware can copy their blocks, else a copy of which it can.

    `array` is a matrix or a batch of them, along the first of three dimensions.
    """
    if describable(array):
        return array
    if _by_columns(array):
        return transposed(_packed(transposed(array)))
    return _packed(array)


def both_loadable(a: Any, b: Any) -> tuple[Any, Any]:
    """As `loadable` for each; where both are copied, one kernel does."""
    if describable(a) or describable(b):
        return loadable(a), loadable(b)
    swapped = _by_columns(a), _by_columns(b)
    sources = [transposed(x) if swap else x for x, swap in zip((a, b), swapped, strict=True)]
    copies = [_whole_lines(x, tuple(x.shape)) for x in sources]
    first, other = (_packing(x, copy) for x, copy in zip(sources, copies, strict=True))
    programs = _programs(sources[0])
    pack_two[(programs + _programs(sources[1]),)](
        *(*first, *other, programs), ROWS=PACKED_ROWS, COLUMNS=PACKED_COLUMNS
    )
    made = [transposed(x) if swap else x for x, swap in zip(copies, swapped, strict=True)]
    return made[0], made[1]


def _by_columns(array: Any) -> bool:
    """Whether neighbours along a column are nearer than those along a row."""
    row, column = strides(array)[-2:]
    return turned(array) or abs(row) < abs(column)


def describable(array: Any) -> bool:
    """Whether the hardware can copy the blocks of the matrices."""
    return lie(array).describable


def storable(array: Any) -> bool:
    """Whether the hardware can store the blocks of results: whole pieces, along their rows."""
    return lie(array).storable


def transposed(array: Any) -> Any:
    """The matrices with rows and columns exchanged, where they lie."""
    return array.swapaxes(-1, -2)


def strides(array: Any) -> tuple[int, ...]:
    """Elements from one index to the next, along each dimension."""
    if callable(getattr(array, "stride", None)):
        return tuple(array.stride())
    found = getattr(array, "strides", None)
    if found is not None:
        return tuple(step // array.dtype.itemsize for step in found)
    return tuple(prod(array.shape[axis + 1 :]) for axis in range(len(array.shape)))


def turned(array: Any) -> bool:
    """Whether the matrices are contiguous along their columns."""
    return lie(array).turned


def lie(array: Any) -> Lie:
    """How matrices lie."""
    size, place = array.dtype.itemsize, _address(array) % LINE
    return _lie(tuple(array.shape), strides(array), size, place)


@lru_cache(maxsize=8192)
def _lie(shape: tuple[int, ...], steps: tuple[int, ...], size: int, place: int) -> Lie:
    """How elements of `size` bytes lie; `place` is where in a line the first one is."""
    *batch, row, column = steps
    rows, columns = shape[-2:]
    turned = column != 1 and row == 1
    if turned:
        row, column, columns = column, row, rows
    pieces = all(step >= 0 and step * size % PIECE == 0 for step in (*batch, row))
    describable = column == 1 and row >= columns and pieces and place % PIECE == 0
    whole = shape[-1] * size % PIECE == 0
    return Lie(
        turned=turned,
        describable=describable,
        storable=describable and whole and not turned,
        aligned=row * size % LINE == 0 and place == 0,
    )


def type_name(array: Any) -> str:
    """The element type's name, in any library."""
    return str(array.dtype).rpartition(".")[2]


def empty(like: Any, shape: tuple[int, ...], type_: str | None = None) -> Any:
    """An array of the library of `like`, and of its type or the one named."""
    if hasattr(like, "new_empty"):
        dtype = like.dtype if type_ is None else getattr(sys.modules["torch"], type_)
        return like.new_empty(shape, dtype=dtype)
    return like.__array_namespace__().empty(shape, dtype=type_ or like.dtype)


def _packed(array: Any) -> Any:
    """A copy whose rows start with lines."""
    packed = _whole_lines(array, tuple(array.shape))
    arguments = _packing(array, packed)
    pack[(_programs(array),)](*arguments, ROWS=PACKED_ROWS, COLUMNS=PACKED_COLUMNS)
    return packed


def _packing(array: Any, packed: Any) -> tuple[Any, ...]:
    """The arguments of `pack` that copies an array."""
    *batch, rows, columns = array.shape
    steps = strides(array) if batch else (0, *strides(array))
    return array, packed, rows, columns, *steps, strides(packed)[-2]


def _programs(array: Any) -> int:
    """Programs that pack an array."""
    *batch, rows, columns = array.shape
    return prod(batch) * tawa.cdiv(columns, PACKED_COLUMNS) * tawa.cdiv(rows, PACKED_ROWS)


def _whole_lines(like: Any, shape: tuple[int, ...]) -> Any:
    """An array whose rows start with lines."""
    line = LINE // like.dtype.itemsize
    pitch = tawa.cdiv(shape[-1], line) * line
    return empty(like, (*shape[:-1], pitch))[..., : shape[-1]]


def _address(array: Any) -> int:
    """The address of the first element; 0 in the host's memory, where any will do."""
    if callable(getattr(array, "data_ptr", None)):
        return array.data_ptr()
    interface = getattr(array, "__cuda_array_interface__", None)
    return 0 if interface is None else interface["data"][0]
