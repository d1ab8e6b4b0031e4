"""The kernels, sizes and configurations that `fused.py` measures.

A case says what its arrays are and which of Tawa's configurations are tried; the kernels are those
of `examples/`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

# After this folder, which has modules of the same names.
sys.path.append(str(Path(__file__).parents[1] / "examples"))

Work = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One kernel at one size: its arrays, Tawa's configurations, its operations and bytes."""

    name: str
    sizes: dict[str, int]
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int, ...]]
    configurations: tuple[dict[str, Any], ...]
    flops: int
    scale: dict[str, float] = field(default_factory=dict)
    """Standard deviation of inputs where it is not 1; vectors are of f32, the rest of f16."""
    checked: int | None = None
    """Leading entries that are compared with float64 (all if unset)."""
    product: tuple[int, int, int] | None = None
    """M, N and K of the plain product that bounds it; without one, a copy of its bytes does."""

    def launches(self, arrays: dict[str, Any]) -> Iterator[tuple[str, Work]]:
        """Tawa's configurations as functions that enqueue the kernel."""
        launch = importlib.import_module(self.name).launch
        for options in self.configurations:
            words = ",".join(f"{key}={value}" for key, value in options.items())
            yield words.replace(" ", ""), partial(launch, *arrays.values(), **options)

    @property
    def bytes(self) -> int:
        """Bytes of all arrays, each moved once."""
        shapes = (*self.inputs.values(), *self.outputs.values())
        return sum(int(np.prod(s)) * (4 if len(s) == 1 else 2) for s in shapes)


PING_PONG = {"persistent": True, "ping_pong": True}


def cases() -> list[Case]:
    """All cases: large products, a model's feed-forward layer, and small K."""
    return [
        dual_gemm(8192, 8192, 8192),
        dual_gemm(4096, 14336, 4096),
        dual_gemm(4096, 4096, 1024),
        gemm_reduction(8192, 8192, 8192),
        gemm_reduction(8192, 8192, 1024),
        gemm_reduction(8192, 8192, 512),
        gemm_layernorm(65536, 256, 2048),
        gemm_layernorm(65536, 256, 512),
        linear_attention(256, 4096),
        linear_attention(32, 16384),
        linear_attention(16, 32768),
        fused_mlp(65536),
    ]


def dual_gemm(m: int, n: int, k: int) -> Case:
    """SwiGLU's two products."""
    return Case(
        "dual_gemm",
        {"m": m, "n": n, "k": k},
        {"a": (m, k), "b1": (n, k), "b2": (n, k)},
        {"c": (m, n)},
        (
            {"block": (128, 128, 64), "persistent": True},
            {"block": (128, 96, 64), **PING_PONG},
            {"block": (256, 96, 64), "persistent": True},
            {"block": (128, 128, 64)},
        ),
        4 * m * n * k,
        {"b1": k**-0.5, "b2": k**-0.5},
        product=(m, 2 * n, k),
    )


def gemm_reduction(m: int, n: int, k: int) -> Case:
    """A product and the row sums of its first operand."""
    return Case(
        "gemm_reduction",
        {"m": m, "n": n, "k": k},
        {"a": (m, k), "b": (n, k)},
        {"c": (m, n), "sums": (m,)},
        (
            {"block": (128, 256, 64), "persistent": True},
            {"block": (128, 192, 64), **PING_PONG},
            {"block": (128, 192, 64), **PING_PONG, "staging": 1},
            {"block": (128, 256, 64)},
        ),
        2 * m * n * k + m * k,
        product=(m, n, k),
    )


def gemm_layernorm(rows: int, n: int, k: int) -> Case:
    """A product whose rows are normalised."""
    vectors = dict.fromkeys(("bias", "weight", "shift"), (n,))
    return Case(
        "gemm_layernorm",
        {"m": rows, "n": n, "k": k},
        {"x": (rows, k), "w": (n, k), **vectors},
        {"y": (rows, n)},
        (
            {"block": (64, n, 64), **PING_PONG},
            {"block": (128, n, 64), "persistent": True},
            {"block": (128, n, 64)},
            {"block": (64, n, 64), "consumers": 1},
        ),
        2 * rows * n * k,
        {"w": k**-0.5},
        product=(rows, n, k),
    )


def linear_attention(heads: int, rows: int, d: int = 128) -> Case:
    """Causal linear attention; operations are counted for chunks of 128.

    A head is a chain of chunks, so few heads with long rows need short turns.
    """
    return Case(
        "linear_attention",
        {"heads": heads, "rows": rows, "d": d},
        dict.fromkeys("qkv", (heads, rows, d)),
        {"o": (heads, rows, d)},
        (
            {"chunk": 128, "columns": 64},
            {"chunk": 64, "columns": 128, "consumers": 1, "num_stages": 2},
            {"chunk": 64, "columns": 64, "consumers": 1},
            {"chunk": 64, "columns": 128, "consumers": 1},
            {"chunk": 64, "columns": 32, "consumers": 1},
            {"chunk": 128, "columns": 32},
        ),
        heads * rows * (4 * d * d + 4 * 128 * d),
        {"q": d**-0.5},
        checked=2,
    )


def fused_mlp(rows: int, d: int = 256, hidden: int = 1024) -> Case:
    """Two chained products with a gelu between them."""
    return Case(
        "fused_mlp",
        {"m": rows, "d": d, "hidden": hidden, "out": d},
        {"x": (rows, d), "w1": (hidden, d), "w2": (d, hidden)},
        {"y": (rows, d)},
        (
            {"block": (128, 64)},
            {"block": (128, 64), "alternate": True},
            {"block": (128, 64), "persistent": True},
            {"block": (128, 64), "persistent": True, "alternate": True},
            {"block": (128, 64), "cluster": 2, "alternate": True},
        ),
        4 * rows * d * hidden,
        {"w1": d**-0.5, "w2": hidden**-0.5},
        product=(rows // 16, 2 * hidden, 16 * d),
    )
