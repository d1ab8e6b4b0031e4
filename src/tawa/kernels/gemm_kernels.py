"""The kernels of the library's GEMM: tiles of C, and the sums of parts of it."""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import tawa
import tawa.language as tl


@tawa.jit
def load_block(desc: Any, batch: Any, row: Any, column: Any, STREAM: tl.constexpr):
    """A block of one matrix of a batch, or of the only matrix. STREAM: L2 drops it first."""
    policy = "evict_first" if STREAM else ""
    if len(desc.block_shape) == 3:
        block = desc.load([batch, row, column], eviction_policy=policy)
        return block.reshape(desc.block_shape[1], desc.block_shape[2])
    return desc.load([row, column], eviction_policy=policy)


@tawa.jit
def scaled(
    acc: Any, row: Any, column: Any, M: Any, N: Any, alpha: Any, bias: Any, bias_stride: Any,
    BIAS_OF_ROWS: tl.constexpr,
):  # fmt: skip
    """`alpha` times a tile, and `bias` added to each of its rows, or with BIAS_OF_ROWS columns.

    Either is None if it is not wanted. `row` and `column` are where the tile's elements are in C.
    """
    if alpha is not None:
        acc = acc * alpha
    if bias is not None:
        if BIAS_OF_ROWS:
            acc += tl.load(bias + row * bias_stride, mask=row < M, other=0.0)[:, None]
        else:
            acc += tl.load(bias + column * bias_stride, mask=column < N, other=0.0)[None, :]
    return acc


@tawa.jit
def store_elements(
    tile: Any, c: Any, row: Any, column: Any, M: Any, N: Any, row_stride: Any, column_stride: Any,
    beta: Any,
):  # fmt: skip
    """Store what of a tile is in C, whose elements strides count; add `beta` times what C held."""
    inside = (row < M)[:, None] & (column < N)[None, :]
    to = row.to(tl.int64)[:, None] * row_stride + column.to(tl.int64)[None, :] * column_stride
    if beta is not None:
        tile += beta * tl.load(c + to, mask=inside)
    tl.store(c + to, tile.to(c.dtype.element_ty), mask=inside)


@tawa.jit(do_not_specialize=("M", "N", "K"))
def gemm(
    a_desc: Any, b_desc: Any, c: Any, M: Any, N: Any, K: Any,
    TRANSPOSE_A: tl.constexpr, TRANSPOSE_B: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, ACCUMULATOR: tl.constexpr, ALONG_N: tl.constexpr = False,
    SPLIT: tl.constexpr = 1, STREAM_A: tl.constexpr = False, STREAM_B: tl.constexpr = False,
    batch_stride: Any = None, row_stride: Any = None, column_stride: Any = None,
    alpha: Any = None, beta: Any = None, bias: Any = None, bias_stride: Any = None,
    BIAS_OF_ROWS: tl.constexpr = False,
):  # fmt: skip
    """One program computes one tile of C.

    Programs walk along M, or with ALONG_N along N, in groups of GROUP_M tiles; with 0, the first
    two dimensions of programs are those of C's tiles, and no divisions find a tile's place.

    A lies as [M, K], or transposed as [K, M]; B as [K, N], or transposed as [N, K]; each may be a
    batch of such matrices, along the third dimension of programs. With SPLIT > 1 this dimension
    counts parts of products, each of a part of K, that are yet to be added. C is [M, N], or
    [batch * SPLIT, M, N]: a descriptor, or a pointer with strides, in elements, where the hardware
    can't store its blocks. STREAM_A and STREAM_B: L2 need not keep what was loaded. The tile is
    `scaled` first; with `beta`, as often what a C with strides held is added.
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
        tl.extra.cuda.gdc_launch_dependents()
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
    row, column = off_m + tl.arange(0, BLOCK_M), off_n + tl.arange(0, BLOCK_N)
    acc = scaled(acc, row, column, M, N, alpha, bias, bias_stride, BIAS_OF_ROWS)
    if row_stride is not None:
        c += which.to(tl.int64) * batch_stride
        store_elements(acc, c, row, column, M, N, row_stride, column_stride, beta)
    elif len(c.block_shape) == 3:
        c.store([which, off_m, off_n], acc.to(c.dtype).reshape(1, BLOCK_M, BLOCK_N))
    else:
        c.store([off_m, off_n], acc.to(c.dtype))


@tawa.jit
def add_parts(
    parts: Any, out: Any, M: Any, N: Any, pitch: Any, batch_stride: Any, row_stride: Any,
    column_stride: Any, SPLIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    alpha: Any = None, beta: Any = None, bias: Any = None, bias_stride: Any = None,
    BIAS_OF_ROWS: tl.constexpr = False,
):  # fmt: skip
    """The sums of `parts` [batch, SPLIT, M, N], in the order of the parts, as the type of `out`.

    Rows of the parts are `pitch` elements apart. Sums are `scaled`, and so on, as in `gemm`.
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
    total = scaled(total, rows, columns, M, N, alpha, bias, bias_stride, BIAS_OF_ROWS)
    if beta is not None:
        total += beta * tl.load(out + to, mask=inside)
    tl.store(out + to, total.to(out.dtype.element_ty), mask=inside)


@tawa.jit(do_not_specialize=("M", "N", "K"))
def gemm_by_elements(
    a: Any, b: Any, c: Any, M: Any, N: Any, K: Any, a_batch: Any, a_row: Any, a_column: Any,
    b_batch: Any, b_row: Any, b_column: Any, c_batch: Any, c_row: Any, c_column: Any,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ACCUMULATOR: tl.constexpr,
    alpha: Any = None, beta: Any = None, bias: Any = None, bias_stride: Any = None,
    BIAS_OF_ROWS: tl.constexpr = False,
):  # fmt: skip
    """One tile of C, of matrices whose elements are counted by strides and loaded one by one.

    Strides within a tile of A or B reach 2^31 elements at most.
    """
    which = tl.program_id(2).to(tl.int64)
    off_m, off_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    row, column, depth = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    of_m, of_n = row < M - off_m, column < N - off_n
    a += which * a_batch + off_m.to(tl.int64) * a_row
    b += which * b_batch + off_n.to(tl.int64) * b_column
    a_at = row[:, None] * a_row + depth[None, :] * a_column
    b_at = depth[:, None] * b_row + column[None, :] * b_column
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACCUMULATOR)
    for k in range(0, K, BLOCK_K):
        left = depth < K - k
        x = tl.load(a + a_at, mask=of_m[:, None] & left[None, :], other=0)
        y = tl.load(b + b_at, mask=left[:, None] & of_n[None, :], other=0)
        acc = tl.dot(x, y, acc)
        a += BLOCK_K * a_column
        b += BLOCK_K * b_row
    row, column = off_m + row, off_n + column
    acc = scaled(acc, row, column, M, N, alpha, bias, bias_stride, BIAS_OF_ROWS)
    store_elements(acc, c + which * c_batch, row, column, M, N, c_row, c_column, beta)
