"""Matrices of any array library as `matmul` takes them: how they lie, and copies where they must.

The hardware copies blocks of a matrix that is contiguous along one dimension, starts at a multiple
of 16 bytes, and has rows (or columns) of whole 16 bytes. Any other matrix is first copied to one
of that kind, by `pack`.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import prod
from typing import Any, NamedTuple

import tawa
import tawa.language as tl
from tawa.kernels.gemm_configurations import LINE
from tawa.machine.chips import SM_90A

PIECE = SM_90A.copy_unit
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


class Matrices(NamedTuple):
    """A matrix, or a batch of them along a first of three dimensions, without its elements.

    Strides count elements of `size` bytes; the first one is `place` bytes from the start of a line.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    size: int
    place: int
    type: str

    @property
    def lie(self) -> Lie:
        """How they lie."""
        return _lie(self)

    @property
    def transposed(self) -> Matrices:
        """Rows and columns exchanged."""
        *batch, rows, columns = self.shape
        *between, row, column = self.strides
        return self._replace(shape=(*batch, columns, rows), strides=(*between, column, row))

    @property
    def steps(self) -> tuple[int, int, int]:
        """Elements between batches, rows and columns."""
        *batch, row, column = self.strides
        return batch[0] if batch else 0, row, column

    @property
    def as_batch(self) -> Matrices:
        """One matrix as a batch of it."""
        if len(self.shape) == 3:
            return self
        rows, _ = self.shape
        strides = rows * self.strides[0], *self.strides
        return self._replace(shape=(1, *self.shape), strides=strides)

    @property
    def stacked(self) -> bool:
        """Whether the matrices of a batch lie below each other, as one."""
        batch, row, _ = self.strides
        return batch == self.shape[1] * row

    @property
    def flat(self) -> Matrices:
        """The rows of all matrices of a batch that are `stacked`."""
        batch, rows, columns = self.shape
        return self._replace(shape=(batch * rows, columns), strides=self.strides[1:])

    @property
    def along_rows(self) -> Matrices:
        """A copy with contiguous rows that start with lines."""
        line = LINE // self.size
        pitch = -(-self.shape[-1] // line) * line
        strides = *packed_strides((*self.shape[:-1], pitch))[:-1], 1
        return self._replace(strides=strides, place=0)

    @property
    def by_columns(self) -> bool:
        """Whether neighbours along a column are nearer than those along a row."""
        row, column = self.strides[-2:]
        return self.lie.turned or abs(row) < abs(column)

    @property
    def packed(self) -> Matrices:
        """A copy along rows or columns, whichever neighbours are nearer along."""
        return self.transposed.along_rows.transposed if self.by_columns else self.along_rows


@lru_cache(maxsize=8192)
def _lie(x: Matrices) -> Lie:
    *batch, row, column = x.strides
    rows, columns = x.shape[-2:]
    turned = column != 1 and row == 1
    if turned:
        row, column, columns = column, row, rows
    pieces = all(step >= 0 and step * x.size % PIECE == 0 for step in (*batch, row))
    describable = column == 1 and row >= columns and pieces and x.place % PIECE == 0
    whole = x.shape[-1] * x.size % PIECE == 0
    return Lie(
        turned=turned,
        describable=describable,
        storable=describable and whole and not turned,
        aligned=row * x.size % LINE == 0 and x.place == 0,
    )


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


def turner(source: Matrices) -> Callable[[Any], Any]:
    """A function that copies arrays which hold such matrices to arrays that hold `along_rows`."""
    if not source.lie.turned:
        return packer(source)
    lying, made = source.transposed.as_batch, source.along_rows.as_batch
    batch, rows, columns = lying.shape
    held = *source.shape[:-1], made.strides[1]
    blocks = tawa.cdiv(columns, TURNED_COLUMNS), tawa.cdiv(rows, TURNED_ROWS), batch
    launch = turn[blocks]

    def run(array: Any) -> Any:
        copy = empty(array, held)
        launch(
            tawa.TensorDescriptor(
                array, lying.shape, lying.strides, [1, TURNED_ROWS, TURNED_COLUMNS]
            ),
            tawa.TensorDescriptor(copy, made.shape, made.strides, [1, TURNED_COLUMNS, TURNED_ROWS]),
            ROWS=TURNED_ROWS,
            COLUMNS=TURNED_COLUMNS,
        )
        return copy

    return run


def packer(source: Matrices) -> Callable[[Any], Any]:
    """A function that copies arrays which hold such matrices to arrays that hold `packed`."""
    launch = pack[(_programs(source),)]
    shape, fixed = _packing(source)

    def run(array: Any) -> Any:
        copy = empty(array, shape)
        launch(array, copy, *fixed, ROWS=PACKED_ROWS, COLUMNS=PACKED_COLUMNS)
        return copy

    return run


def packer_of_two(a: Matrices, b: Matrices) -> Callable[[Any, Any], tuple[Any, Any]]:
    """As `packer`, for two at once, by one kernel."""
    programs = _programs(a)
    launch = pack_two[(programs + _programs(b),)]
    (shape_a, fixed_a), (shape_b, fixed_b) = _packing(a), _packing(b)
    constants: dict[str, Any] = {"ROWS": PACKED_ROWS, "COLUMNS": PACKED_COLUMNS}

    def run(a: Any, b: Any) -> tuple[Any, Any]:
        copies = empty(a, shape_a), empty(b, shape_b)
        launch(a, copies[0], *fixed_a, b, copies[1], *fixed_b, programs, **constants)
        return copies

    return run


def _packing(source: Matrices) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the array that `pack` makes, and the kernel's numbers."""
    lying = source.transposed if source.by_columns else source
    pitch = lying.along_rows.strides[-2]
    return (*lying.shape[:-1], pitch), (*lying.shape[-2:], *lying.steps, pitch)


def _programs(source: Matrices) -> int:
    """Programs that pack a copy."""
    *batch, rows, columns = (source.transposed if source.by_columns else source).shape
    return prod(batch) * tawa.cdiv(columns, PACKED_COLUMNS) * tawa.cdiv(rows, PACKED_ROWS)


def matrices(array: Any) -> Matrices:
    """How the matrices of an array lie."""
    place = address(array) % LINE
    dtype = array.dtype
    return Matrices(tuple(array.shape), strides(array), dtype.itemsize, place, type_name(dtype))


def transposed(array: Any) -> Any:
    """The matrices with rows and columns exchanged, where they lie."""
    return array.swapaxes(-1, -2)


def strides(array: Any) -> tuple[int, ...]:
    """Elements from one index to the next, along each dimension."""
    if callable(getattr(array, "stride", None)):
        return tuple(array.stride())
    found = getattr(array, "strides", None)
    if found is not None:
        size = array.dtype.itemsize
        return tuple(step // size for step in found)
    return packed_strides(tuple(array.shape))


def packed_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array without gaps."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def is_dense(array: Any) -> bool:
    """Whether an array has no gaps; strides of a dimension of one element say nothing."""
    shape = tuple(array.shape)
    steps = zip(shape, strides(array), packed_strides(shape), strict=True)
    return all(found == packed for extent, found, packed in steps if extent != 1)


@cache
def type_name(dtype: Any) -> str:
    """An element type's name, in any library."""
    return str(dtype).rpartition(".")[2]


def empty(like: Any, shape: tuple[int, ...], type_: str | None = None) -> Any:
    """An array of the library of `like`, and of its type or the one named."""
    if hasattr(like, "new_empty"):
        if type_ is None:
            return like.new_empty(shape)
        return like.new_empty(shape, dtype=getattr(sys.modules["torch"], type_))
    return like.__array_namespace__().empty(shape, dtype=type_ or like.dtype)


def address(array: Any, *, host: bool = False) -> int:
    """The address of the first element; in the host's memory 0, where any will do, unless asked."""
    if callable(getattr(array, "data_ptr", None)):
        return array.data_ptr()
    name = "__array_interface__" if host else "__cuda_array_interface__"
    interface = getattr(array, "__cuda_array_interface__", None) or getattr(array, name, None)
    return 0 if interface is None else interface["data"][0]
