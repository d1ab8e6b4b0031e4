"""C = A @ B for matrices that lie in memory either way round: kernel, configurations, `matmul`.

    from tawa.kernels.gemm import matmul

    c = matmul(a, b)

The kernel is sequential. A configuration is a tile and launch options;
[gemm_configurations](gemm_configurations.py) chooses one by the sizes. Where few tiles have a long
K, programs share it, and a second kernel adds their parts up, in the same order each time.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.gemm_configurations import (
    LINE,
    Configuration,
    Product,
    configuration,
    configurations,
    fastest,
)
from tawa.kernels.gemm_operands import (
    PIECE,
    Lie,
    along_rows,
    both_loadable,
    empty,
    lie,
    strides,
    transposed,
    type_name,
)

__all__ = [
    "Configuration",
    "OutputTypeUnknown",
    "Product",
    "SizesDoNotMatch",
    "add_parts",
    "configuration",
    "configurations",
    "gemm",
    "matmul",
    "reference",
]

ADDED_ROWS, ADDED_COLUMNS = 8, 128
"""Rows and columns of the result whose parts one program adds up."""
OF_STORED_BLOCKS = ("staging", "stream_stores")
"""Options for results that the hardware stores by blocks."""


@tawa.jit
def load_block(desc: Any, batch: Any, row: Any, column: Any, STREAM: tl.constexpr):
    """A block of one matrix of a batch, or of the only matrix. STREAM: L2 drops it first."""
    policy = "evict_first" if STREAM else ""
    if len(desc.block_shape) == 3:
        block = desc.load([batch, row, column], eviction_policy=policy)
        return block.reshape(desc.block_shape[1], desc.block_shape[2])
    return desc.load([row, column], eviction_policy=policy)


@tawa.jit(do_not_specialize=("M", "N", "K"))
def gemm(
    a_desc: Any,
    b_desc: Any,
    c: Any,
    M: Any,
    N: Any,
    K: Any,
    TRANSPOSE_A: tl.constexpr,
    TRANSPOSE_B: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    ACCUMULATOR: tl.constexpr,
    ALONG_N: tl.constexpr = False,
    SPLIT: tl.constexpr = 1,
    STREAM_A: tl.constexpr = False,
    STREAM_B: tl.constexpr = False,
    batch_stride: Any = None,
    row_stride: Any = None,
    column_stride: Any = None,
):
    """One program computes one tile of C.

    Programs walk along M, or with ALONG_N along N, in groups of GROUP_M tiles; with 0, the first
    two dimensions of programs are those of C's tiles, and no divisions find a tile's place.

    A lies as [M, K], or transposed as [K, M]; B as [K, N], or transposed as [N, K]; each may be a
    batch of such matrices, along the third dimension of programs. With SPLIT > 1 this dimension
    counts parts of products, each of a part of K, that are yet to be added. C is [M, N], or
    [batch * SPLIT, M, N]: a descriptor, or a pointer with strides, in elements, where the hardware
    can't store its blocks. STREAM_A and STREAM_B: L2 need not keep what was loaded.
    """
    along, across = tl.program_id(0), tl.program_id(1)
    if GROUP_M:
        pid, num_m, num_n = tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
        length, depth = (num_n, num_m) if ALONG_N else (num_m, num_n)
        begin = pid // (GROUP_M * depth) * GROUP_M
        group, inside = min(length - begin, GROUP_M), pid % (GROUP_M * depth)
        along, across = begin + inside % group, inside // group
    tile_m, tile_n = (across, along) if ALONG_N else (along, across)
    off_m, off_n = tile_m * BLOCK_M, tile_n * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACCUMULATOR)
    which = tl.program_id(2)
    first, last = 0, tl.cdiv(K, BLOCK_K)
    if SPLIT > 1:
        part = tl.cdiv(last, SPLIT)
        first = which % SPLIT * part
        last = min(first + part, last)
    for k in range(first, last):
        start = k * BLOCK_K
        a_row, a_column = (start, off_m) if TRANSPOSE_A else (off_m, start)
        b_row, b_column = (off_n, start) if TRANSPOSE_B else (start, off_n)
        a = load_block(a_desc, which // SPLIT, a_row, a_column, STREAM_A)
        b = load_block(b_desc, which // SPLIT, b_row, b_column, STREAM_B)
        acc = tl.dot(a.T if TRANSPOSE_A else a, b.T if TRANSPOSE_B else b, acc)
    if row_stride is not None:
        row, column = off_m + tl.arange(0, BLOCK_M), off_n + tl.arange(0, BLOCK_N)
        inside = (row < M)[:, None] & (column < N)[None, :]
        c += which.to(tl.int64) * batch_stride
        to = row.to(tl.int64)[:, None] * row_stride + column.to(tl.int64)[None, :] * column_stride
        tl.store(c + to, acc.to(c.dtype.element_ty), mask=inside)
    elif len(c.block_shape) == 3:
        c.store([which, off_m, off_n], acc.to(c.dtype).reshape(1, BLOCK_M, BLOCK_N))
    else:
        c.store([off_m, off_n], acc.to(c.dtype))


@tawa.jit
def add_parts(
    parts: Any, out: Any, M: Any, N: Any, pitch: Any, batch_stride: Any, row_stride: Any,
    column_stride: Any, SPLIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The sums of `parts` [batch, SPLIT, M, N], in the order of the parts, as the type of `out`.

    Rows of the parts are `pitch` elements apart.
    """
    batch = tl.program_id(2).to(tl.int64)
    parts += batch * SPLIT * M * pitch
    out += batch * batch_stride
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    at = parts + rows.to(tl.int64)[:, None] * pitch + columns[None, :]
    total = tl.load(at, mask=inside)
    for part in tl.static_range(1, SPLIT):
        total += tl.load(at + part * M.to(tl.int64) * pitch, mask=inside)
    to = rows.to(tl.int64)[:, None] * row_stride + columns.to(tl.int64)[None, :] * column_stride
    tl.store(out + to, total.to(out.dtype.element_ty), mask=inside)


class OutputTypeUnknown(tawa.TawaError):
    """`matmul` was given no output, and the inputs' element type does not name one."""

    explanation = (
        "The result of 16- and 32-bit floating-point inputs has their type. For 8-bit inputs pass "
        "`out`: int32 for int8, a 16- or 32-bit floating-point type for fp8."
    )
    example = """
import numpy as np
from tawa.kernels.gemm import matmul

a = np.ones((64, 64), np.int8)
matmul(a, a)
"""


class SizesDoNotMatch(tawa.TawaError):
    """The matrices given to `matmul` do not fit each other."""

    explanation = "`matmul(a, b, out)` takes matrices of M x K, K x N and M x N elements."
    example = """
import numpy as np
from tawa.kernels.gemm import matmul

matmul(np.ones((64, 32), np.float16), np.ones((64, 32), np.float16))
"""


def matmul(a: Any, b: Any, out: Any = None, config: Configuration | None = None) -> Any:
    """A @ B, written to `out` (made if not given) and returned.

    `a` [M, K] and `b` [K, N] are arrays of any library, or batches of them along a first of three
    dimensions; NumPy's run in the simulator. Those that the hardware can copy blocks of
    (contiguous along one dimension, with rows of whole 16 bytes) are read where they lie, others
    are copied first. Raises SizesDoNotMatch, OutputTypeUnknown, and the errors of
    `tawa.TensorDescriptor`.
    """
    shape, k = _sizes(a, b, out)
    out = _output(a, shape) if out is None else out
    if not prod(shape):
        return out
    lies = lie(a), lie(b), lie(out)
    if lies[2].turned:
        matmul(transposed(b), transposed(a), transposed(out), config)
        return out
    if len(shape) == 3 and len(b.shape) == 2 and _stacked(a) and _stacked(out):
        matmul(_flat(a), b, _flat(out), config)
        return out
    if not (lies[0].describable and lies[1].describable):
        a, b = both_loadable(a, b)
        lies = lie(a), lie(b), lies[2]
    product = _product(a, out, lies, k)
    chosen = config or fastest(product)
    if any(chosen.copied):
        a = along_rows(a) if chosen.copied[0] else a
        b = transposed(along_rows(transposed(b))) if chosen.copied[1] else b
        lies = lie(a), lie(b), lies[2]
    ways = lies[0].turned, lies[1].turned
    if chosen.split == 1:
        _multiply(a, b, out, ways, product, chosen)
        return out
    parts = _parts(out, chosen.split, "int32" if _integers(a) else "float32")
    _multiply(a, b, parts, ways, replace(product, by_elements=False), chosen)
    *batch, m, n = shape
    blocks = tawa.cdiv(n, ADDED_COLUMNS), tawa.cdiv(m, ADDED_ROWS)
    add_parts[(*blocks, *(batch or [1]))](
        *(parts, out, m, n, parts.shape[-1], *_steps(out)),
        SPLIT=chosen.split,
        ROWS=ADDED_ROWS,
        COLUMNS=ADDED_COLUMNS,
    )
    return out


def _product(a: Any, out: Any, lies: tuple[Lie, ...], k: int) -> Product:
    """The product of matrices that lie as these do."""
    size, (a_lies, b_lies, c_lies) = a.dtype.itemsize, lies
    along_k = size != 2  # all that the matrix instructions take of other types
    *batch, m, n = out.shape
    return Product(
        *(m, n, k, size, out.dtype.itemsize),
        batch=prod(batch),
        columns=8 if b_lies.turned else LINE // size,
        aligned=(a_lies.aligned, b_lies.aligned),
        transposed=(along_k and a_lies.turned, along_k and not b_lies.turned),
        by_elements=not c_lies.storable,
    )


def _multiply(
    a: Any,
    b: Any,
    out: Any,
    ways: tuple[bool, bool],
    product: Product,
    chosen: Configuration,
) -> None:
    """Launch the kernel; `out` is the result, or [batch * parts, M, N] what is yet to be added.

    `ways` says of A and of B whether they are contiguous along their columns.
    """
    block_m, block_n, block_k = chosen.block_m, chosen.block_n, chosen.block_k
    turned_a, turned_b = ways
    m, n, k = product.m, product.n, product.k
    stream_a, stream_b = chosen.streams(product)
    options: dict[str, Any] = dict(chosen.options)
    if product.by_elements:
        batch_stride, row_stride, column_stride = _steps(out)
        steps = {"batch_stride": batch_stride, "row_stride": row_stride}
        options |= {**steps, "column_stride": column_stride}
        options = {name: options[name] for name in options if name not in OF_STORED_BLOCKS}
    batch = max(x.shape[0] if len(x.shape) == 3 else 1 for x in (a, b))
    gemm[(*chosen.programs(m, n), batch * chosen.split)](
        _blocks(transposed(a), block_k, block_m) if turned_a else _blocks(a, block_m, block_k),
        _blocks(transposed(b), block_n, block_k) if turned_b else _blocks(b, block_k, block_n),
        out if product.by_elements else _blocks(out, block_m, block_n),
        *(m, n, k),
        TRANSPOSE_A=turned_a,
        TRANSPOSE_B=turned_b,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP_M=chosen.group_m,
        ACCUMULATOR=tl.int32 if _integers(a) else tl.float32,
        ALONG_N=chosen.along_n,
        SPLIT=chosen.split,
        STREAM_A=stream_a,
        STREAM_B=stream_b,
        **options,
    )


def _blocks(array: Any, rows: int, columns: int) -> tawa.TensorDescriptor:
    block = [1] * (len(array.shape) - 2) + [rows, columns]
    return tawa.TensorDescriptor.from_tensor(array, block)


def reference(a: Any, b: Any) -> Any:
    """A @ B, by the arrays' own library."""
    return a @ b


def _sizes(a: Any, b: Any, out: Any) -> tuple[tuple[int, ...], int]:
    """The shape of the result, and K."""
    found: list[tuple[int, ...]] = [tuple(x.shape) for x in (a, b) if x is not None]
    ranks = [len(shape) for shape in found]
    if set(ranks) <= {2, 3}:
        *batch_a, m, k = found[0]
        *batch_b, depth, n = found[1]
        shape = *(batch_a or batch_b), m, n
        batches = not batch_a or not batch_b or batch_a == batch_b
        if depth == k and batches and (out is None or tuple(out.shape) == shape):
            return shape, k
    raise SizesDoNotMatch(
        "these matrices do not fit each other",
        expected="M x K, K x N and M x N elements, or batches of them",
        found=", ".join("x".join(map(str, shape)) for shape in [*found, *_shapes(out)]),
    )


def _steps(out: Any) -> tuple[int, ...]:
    """Elements between batches, rows and columns."""
    return strides(out) if len(out.shape) == 3 else (0, *strides(out))


def _shapes(out: Any) -> list[tuple[int, ...]]:
    return [] if out is None else [tuple(out.shape)]


def _stacked(array: Any) -> bool:
    """Whether the matrices of a batch lie below each other, as one."""
    batch, row, _ = strides(array)
    return batch == array.shape[1] * row


def _flat(array: Any) -> Any:
    """The rows of all matrices of a batch, where they lie."""
    return array.reshape(-1, array.shape[2])


def _integers(array: Any) -> bool:
    return type_name(array) == "int8"


def _parts(out: Any, split: int, type_: str) -> Any:
    """An array for parts of results, with rows of whole pieces."""
    *batch, m, n = out.shape
    whole = PIECE // 4
    return empty(out, (prod(batch) * split, m, tawa.cdiv(n, whole) * whole), type_)


def _output(a: Any, shape: tuple[int, ...]) -> Any:
    """An array for the result, of the library and type of `a`."""
    if type_name(a) not in ("float16", "bfloat16", "float32"):
        raise OutputTypeUnknown(
            "the result of 8-bit matrices has no type of its own",
            expected="an `out` array",
            found=f"inputs of type {type_name(a)}",
            hint="pass out=, of int32 for int8 and of a wider float type for fp8",
        )
    return empty(a, shape)
