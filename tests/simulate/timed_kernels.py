"""Kernels whose predicted times are recorded: their machine level is kept, so only the model counts.

python tests/simulate/timed_kernels.py        compiles them again; then `--update` the goldens
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tawa
import tawa.language as tl
from tawa.kernels.gemm import gemm

FOLDER = Path(__file__).parent / "timed"
HALF, SINGLE, WHOLE = np.float16, np.float32, np.int32


@tawa.jit
def softmax_rows(x, y, columns, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, COLUMNS)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, values / tl.sum(values, axis=0), mask=at < columns)


@tawa.jit
def counted(x, table, counts, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.int32)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        key = tl.load(x + at, mask=at < n, other=0)
        total += tl.load(table + key)
        if start % 3 == 0:
            tl.atomic_add(counts + key, 1, mask=at < n)
    tl.store(counts + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.cumsum(total, 0))


@tawa.jit
def product(a, b, c, k, M: tl.constexpr, N: tl.constexpr):
    rows, columns, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, 64)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, 64):
        x = tl.load(a + rows[:, None] * k + (start + depth)[None, :])
        y = tl.load(b + (start + depth)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


@tawa.jit
def drawn(x, y, next_tile, n, BLOCK: tl.constexpr):
    tile = tl.atomic_add(next_tile, 2)
    while tile * BLOCK < n:
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.exp2(tl.load(x + at, mask=at < n)), mask=at < n)
        tile = tl.atomic_add(next_tile, 2)


@dataclass(frozen=True)
class Timed:
    """A kernel of the machine level, and a launch of it."""

    compile: Callable[[], Any]
    grid: tuple[int, ...]
    arguments: Callable[[], list[Any]]


def _gemm(**options: Any) -> Callable[[], Any]:
    shapes = ["desc<f16,128x64>", "desc<f16,128x64>", "desc<f16,128x128>"]
    return lambda: gemm.compile(
        *shapes, "i32:16", "i32:16", "i32:16",
        TRANSPOSE_A=False, TRANSPOSE_B=True, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64,
        GROUP_M=8, ACCUMULATOR=tl.float32, **options,
    )  # fmt: skip


def _matrices(m: int, n: int, k: int) -> list[Any]:
    describe = tawa.TensorDescriptor.from_tensor
    arrays = [np.empty(shape, HALF) for shape in ((m, k), (n, k), (m, n))]
    boxes = ([128, 64], [128, 64], [128, 128])
    return [*(describe(a, b) for a, b in zip(arrays, boxes, strict=True)), m, n, k]


def _arrays(*given: tuple[Any, tuple[int, ...]] | int) -> Callable[[], list[Any]]:
    return lambda: [g if isinstance(g, int) else np.zeros(g[1], g[0]) for g in given]


TIMED = {
    "softmax": Timed(
        lambda: softmax_rows.compile("*f32", "*f32", "i32", 1024),
        (300,),
        _arrays((SINGLE, (300, 1000)), (SINGLE, (300, 1000)), 1000),
    ),
    "counted": Timed(
        lambda: counted.compile("*i32", "*i32", "*i32", "i32", 256),
        (140,),
        _arrays((WHOLE, (10**5,)), (WHOLE, (1000,)), (WHOLE, (140 * 256,)), 10**5),
    ),
    "copied": Timed(
        lambda: product.compile("*f16:16", "*f16:16", "*f16:16", "i32:16", 64, 64),
        (1,),
        _arrays((HALF, (64, 512)), (HALF, (512, 64)), (HALF, (64, 64)), 512),
    ),
    "drawn": Timed(
        lambda: drawn.compile("*f32", "*f32", "*i32", "i32", 256),
        (132,),
        _arrays((SINGLE, (10**5,)), (SINGLE, (10**5,)), (WHOLE, (1,)), 10**5),
    ),
    "of warps": Timed(
        lambda: product.compile("*f16", "*f16", "*f16", "i32", 16, 16),
        (1,),
        _arrays((HALF, (16, 20480)), (HALF, (20480, 16)), (HALF, (16, 16)), 20480),
    ),
    "persistent": Timed(
        _gemm(persistent=True, consumers=2, num_stages=3),
        (256,),
        lambda: _matrices(2048, 2048, 512),
    ),
    "cluster": Timed(
        _gemm(cluster=2, num_stages=3), (256,), lambda: _matrices(2048, 2048, 512)
    ),
}  # fmt: skip


def text_of(name: str) -> str:
    """The machine level of a kernel, as it was when it was recorded."""
    return (FOLDER / f"{name.replace(' ', '_')}.mlir").read_text()


def main() -> None:
    """Compile all again."""
    FOLDER.mkdir(exist_ok=True)
    for name, timed in TIMED.items():
        text = re.sub(r'"[^"]*/([\w.]+\.py)"', r'"\1"', timed.compile().stages["hopper"])
        (FOLDER / f"{name.replace(' ', '_')}.mlir").write_text(text)


if __name__ == "__main__":
    main()
