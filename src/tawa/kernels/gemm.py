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

import sys
from typing import Any

import tawa
import tawa.language as tl
from tawa.kernels.gemm_configurations import (
    LINE,
    Configuration,
    Product,
    configuration,
    configurations,
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


@tawa.jit(do_not_specialize=("M", "N", "K"))
def gemm(
    a_desc: Any,
    b_desc: Any,
    c_desc: Any,
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
    SPLIT: tl.constexpr = False,
):
    """One program computes one tile of C; programs walk along M in groups of GROUP_M tiles.

    A lies as [M, K], or transposed as [K, M]; B as [K, N], or transposed as [N, K]. With SPLIT a
    second dimension of programs shares K, and C is [parts, M, N]: they are yet to be added.
    """
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    width = GROUP_M * num_n
    first_m = pid // width * GROUP_M
    group_m = min(num_m - first_m, GROUP_M)
    off_m = (first_m + (pid % width) % group_m) * BLOCK_M
    off_n = (pid % width) // group_m * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=ACCUMULATOR)
    first, last = 0, tl.cdiv(K, BLOCK_K)
    if SPLIT:
        part = tl.cdiv(last, tl.num_programs(1))
        first = tl.program_id(1) * part
        last = min(first + part, last)
    for k in range(first, last):
        start = k * BLOCK_K
        a = a_desc.load([start, off_m]).T if TRANSPOSE_A else a_desc.load([off_m, start])
        b = b_desc.load([off_n, start]).T if TRANSPOSE_B else b_desc.load([start, off_n])
        acc = tl.dot(a, b, acc)
    c = acc.to(c_desc.dtype)
    if SPLIT:
        c_desc.store([tl.program_id(1), off_m, off_n], c.reshape(1, BLOCK_M, BLOCK_N))
    else:
        c_desc.store([off_m, off_n], c)


@tawa.jit
def add_parts(
    parts: Any, out: Any, M: Any, N: Any, row_stride: Any, column_stride: Any,
    SPLIT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The sum of `parts` [SPLIT, M, N], in the order of the parts, as the type of `out`."""
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    at = parts + rows.to(tl.int64)[:, None] * N + columns[None, :]
    total = tl.load(at, mask=inside)
    for part in tl.static_range(1, SPLIT):
        total += tl.load(at + part * M.to(tl.int64) * N, mask=inside)
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

    `a` [M, K] and `b` [K, N] are arrays of any library, each contiguous along one dimension, with
    rows of whole 16 bytes; NumPy's run in the simulator. Raises SizesDoNotMatch,
    OutputTypeUnknown, and the errors of `tawa.TensorDescriptor`.
    """
    (m, k), n = _sizes(a, b, out)
    out = _output(a, m, n) if out is None else out
    turned_a, turned_b = _turned(a), _turned(b)
    along_k = a.dtype.itemsize != 2  # all that the matrix instructions take of other types
    chosen = config or configuration(
        *(m, n, k, a.dtype.itemsize, out.dtype.itemsize),
        columns=8 if turned_b else LINE // b.dtype.itemsize,
        aligned=(_aligned(a), _aligned(b)),
        transposed=(along_k and turned_a, along_k and not turned_b),
    )
    block_m, block_n, block_k = chosen.block_m, chosen.block_n, chosen.block_k
    describe = tawa.TensorDescriptor.from_tensor
    integers = _name(a) == "int8"
    if chosen.split > 1:
        parts = _parts(a, (chosen.split, m, n), "int32" if integers else "float32")
        c_desc = describe(parts, [1, block_m, block_n])
    else:
        parts, c_desc = None, describe(out, [block_m, block_n])
    gemm[(chosen.tiles(m, n), chosen.split)](
        describe(a.T, [block_k, block_m]) if turned_a else describe(a, [block_m, block_k]),
        describe(b.T, [block_n, block_k]) if turned_b else describe(b, [block_k, block_n]),
        c_desc,
        *(m, n, k),
        TRANSPOSE_A=turned_a,
        TRANSPOSE_B=turned_b,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP_M=chosen.group_m,
        ACCUMULATOR=tl.int32 if integers else tl.float32,
        SPLIT=chosen.split > 1,
        **chosen.options,
    )
    if parts is not None:
        grid = (tawa.cdiv(n, ADDED_COLUMNS), tawa.cdiv(m, ADDED_ROWS))
        add_parts[grid](
            *(parts, out, m, n, *_strides(out)),
            SPLIT=chosen.split,
            ROWS=ADDED_ROWS,
            COLUMNS=ADDED_COLUMNS,
        )
    return out


def reference(a: Any, b: Any) -> Any:
    """A @ B, by the arrays' own library."""
    return a @ b


def _sizes(a: Any, b: Any, out: Any) -> tuple[tuple[int, int], int]:
    shapes: list[tuple[int, ...]] = [tuple(x.shape) for x in (a, b) if x is not None]
    (*_, k), (*_, n) = shapes
    m = shapes[0][0] if shapes[0] else 0
    expected = [(m, k), (k, n), (m, n)]
    found = [*shapes, *([] if out is None else [tuple(out.shape)])]
    if found != expected[: len(found)]:
        raise SizesDoNotMatch(
            "these matrices do not fit each other",
            expected="M x K, K x N and M x N elements",
            found=", ".join("x".join(map(str, shape)) for shape in found),
        )
    return (m, k), n


def _name(array: Any) -> str:
    """The element type's name, in any library."""
    return str(array.dtype).rpartition(".")[2]


def _strides(array: Any) -> tuple[int, int]:
    """Elements from a row to the next, and from a column to the next."""
    if callable(getattr(array, "stride", None)):
        return tuple(array.stride())
    strides = getattr(array, "strides", None)
    if strides is None:
        return array.shape[1], 1
    rows, columns = (s // array.dtype.itemsize for s in strides)
    return rows, columns


def _turned(array: Any) -> bool:
    """Whether the matrix is contiguous along its columns."""
    rows, columns = _strides(array)
    return columns != 1 and rows == 1


def _aligned(array: Any) -> bool:
    """Whether rows, or columns where those are contiguous, start with a line of L2."""
    return max(_strides(array)) * array.dtype.itemsize % LINE == 0


def _parts(like: Any, shape: tuple[int, int, int], type_: str) -> Any:
    """An array for parts of a result, of the library of `like`."""
    if hasattr(like, "new_empty"):
        return like.new_empty(shape, dtype=getattr(sys.modules["torch"], type_))
    return like.__array_namespace__().empty(shape, dtype=type_)


def _output(a: Any, m: int, n: int) -> Any:
    """An array for the result, of the library and type of `a`."""
    if _name(a) not in ("float16", "bfloat16", "float32"):
        raise OutputTypeUnknown(
            "the result of 8-bit matrices has no type of its own",
            expected="an `out` array",
            found=f"inputs of type {_name(a)}",
            hint="pass out=, of int32 for int8 and of a wider float type for fp8",
        )
    if hasattr(a, "new_empty"):
        return a.new_empty((m, n))
    return a.__array_namespace__().empty((m, n), dtype=a.dtype)
