"""C = A @ B for matrices that lie in memory either way round: kernel, configurations, `matmul`.

    from tawa.kernels.gemm import matmul

    c = matmul(a, b)

The kernel is sequential. A configuration is a tile and launch options; `configuration` chooses one
by the sizes, after measurements on an H100: little work along K leaves the epilogue exposed, which
consumers that take turns hide; much of it favours large tiles, which move fewer bytes a product.
"""

# Kernel code computes with `constexpr` parameters as with the numbers they hold.
# pyright: reportOperatorIssue=false, reportArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tawa
import tawa.language as tl

MULTIPROCESSORS = 132
"""Of an H100 SXM: persistent kernels run one CTA on each."""

L2_BYTES = 50 * 2**20
SHORT_K_BYTES = 4096
"""Bytes of a row of A up to which consumers take turns on tiles."""

STREAMED_K_BYTES = 1024
"""Bytes of a row of A up to which writing C is what takes the time."""

WAVE_FIT = 0.98
"""Part of the last wave's multiprocessors that a tile must keep busy to count as fitting."""


@tawa.jit
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
):
    """One program computes one tile of C; programs walk along M in groups of GROUP_M tiles.

    A lies as [M, K], or transposed as [K, M]; B as [K, N], or transposed as [N, K].
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
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        start = k * BLOCK_K
        a = a_desc.load([start, off_m]).T if TRANSPOSE_A else a_desc.load([off_m, start])
        b = b_desc.load([off_n, start]).T if TRANSPOSE_B else b_desc.load([start, off_n])
        acc = tl.dot(a, b, acc)
    c_desc.store([off_m, off_n], acc.to(c_desc.dtype))


@dataclass(frozen=True)
class Configuration:
    """A tile (`block_k` counts elements), the width of program groups, and launch options."""

    block_m: int
    block_n: int
    block_k: int
    group_m: int = 8
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def tiles(self, m: int, n: int) -> int:
        """Tiles of an m x n result."""
        return tawa.cdiv(m, self.block_m) * tawa.cdiv(n, self.block_n)

    def waves(self, m: int, n: int) -> float:
        """Tiles a multiprocessor."""
        return self.tiles(m, n) / MULTIPROCESSORS

    def fit(self, m: int, n: int) -> float:
        """Useful part of the work of all waves: edges of tiles and the last wave cost the rest."""
        area = tawa.cdiv(self.tiles(m, n), MULTIPROCESSORS) * MULTIPROCESSORS
        return m * n / (area * self.block_m * self.block_n) if area else 1.0


def _ping_pong(block_k: int, **options: Any) -> Configuration:
    return Configuration(
        *(128, 192, block_k), options={"persistent": True, "ping_pong": True, **options}
    )


def _cooperative(block_m: int, block_n: int, block_k: int, **options: Any) -> Configuration:
    return Configuration(
        block_m, block_n, block_k, options={"persistent": True, "consumers": 2, **options}
    )


def configurations(element_bytes: int = 2) -> list[Configuration]:
    """Those that `configuration` chooses from, and that are worth autotuning over."""
    k = 128 // element_bytes
    return [
        _ping_pong(k, num_stages=4, staging=4),
        _ping_pong(k, num_stages=5, staging=1),
        _cooperative(128, 256, k),
        _cooperative(256, 200, k, num_stages=3),
        *small_configurations(element_bytes),
    ]


def small_configurations(element_bytes: int = 2) -> list[Configuration]:
    """Tiles for results too small to give every multiprocessor a large one, largest first."""
    k = 128 // element_bytes
    plain = [Configuration(*block, k) for block in ((128, 128), (128, 64), (64, 64))]
    return [*plain, Configuration(64, 32, k)]


def configuration(
    m: int, n: int, k: int, element_bytes: int = 2, output_bytes: int = 2, columns: int = 8
) -> Configuration:
    """The configuration for an m x n x k product.

    `columns` is what a tile's columns must be a multiple of (64 bytes if B lies as [K, N]).
    """
    row = k * element_bytes
    large = _cooperative(128, 256, 128 // element_bytes)
    if large.tiles(m, n) < MULTIPROCESSORS:
        return _small(m, n, element_bytes)
    if row > SHORT_K_BYTES:
        odd = configurations(element_bytes)[3]
        fits = odd.block_n % columns == 0 and odd.fit(m, n) > large.fit(m, n)
        return odd if fits and odd.fit(m, n) >= WAVE_FIT else large
    streamed = row <= STREAMED_K_BYTES and m * n * output_bytes > L2_BYTES
    shallow, deep = configurations(element_bytes)[:2]
    found = shallow if row <= STREAMED_K_BYTES // 2 else deep
    return Configuration(
        *(found.block_m, found.block_n, found.block_k),
        options={**found.options, "stream_stores": streamed},
    )


def _small(m: int, n: int, element_bytes: int) -> Configuration:
    """The largest tile that leaves no multiprocessor idle, or the smallest there is."""
    small = small_configurations(element_bytes)
    return next((c for c in small if c.tiles(m, n) >= MULTIPROCESSORS), small[-1])


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
    columns = 8 if turned_b else 64 // b.dtype.itemsize * 2
    chosen = config or configuration(m, n, k, a.dtype.itemsize, out.dtype.itemsize, columns)
    block_m, block_n, block_k = chosen.block_m, chosen.block_n, chosen.block_k
    describe = tawa.TensorDescriptor.from_tensor
    gemm[(chosen.tiles(m, n),)](
        describe(a.T, [block_k, block_m]) if turned_a else describe(a, [block_m, block_k]),
        describe(b.T, [block_n, block_k]) if turned_b else describe(b, [block_k, block_n]),
        describe(out, [block_m, block_n]),
        *(m, n, k),
        TRANSPOSE_A=turned_a,
        TRANSPOSE_B=turned_b,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP_M=chosen.group_m,
        ACCUMULATOR=tl.int32 if _name(a) == "int8" else tl.float32,
        **chosen.options,
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


def _turned(array: Any) -> bool:
    """Whether the matrix is contiguous along its columns."""
    strides: Sequence[int]
    if callable(getattr(array, "stride", None)):
        strides = array.stride()
    else:
        strides = [s // array.dtype.itemsize for s in getattr(array, "strides", None) or (2, 1)]
    return strides[-1] != 1 and strides[-2] == 1


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
