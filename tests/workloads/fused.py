"""Workloads of the kernels that fuse products with other work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from workload import MATRIX, Array, Workload


def fused(
    example: str,
    inputs: dict[str, tuple[int, ...]],
    outputs: dict[str, tuple[int, ...]],
    name: str = "",
    arguments: dict[str, Any] | None = None,
    reference: dict[str, Any] | None = None,
    function: str = "launch",
    tolerance: float = 1e-3,
    **options: Any,
) -> Workload:
    """A kernel that fuses products with other work; vectors are of f32, the rest of f16."""

    def array(shape: tuple[int, ...]) -> Array:
        return Array("f32" if len(shape) == 1 else "f16", shape)

    return Workload(
        f"{example}-{name}" if name else example,
        example,
        {key: array(shape) for key, shape in inputs.items()},
        {key: array(shape) for key, shape in outputs.items()},
        arguments or {},
        options,
        reference or {},
        opcodes=MATRIX,
        function=function,
        tolerance=tolerance,
    )


def dual_gemm(name: str, m: int, n: int, k: int, block: Any, **options: Any) -> Workload:
    """`examples/dual_gemm.py`."""
    inputs = {"a": (m, k), "b1": (n, k), "b2": (n, k)}
    return fused("dual_gemm", inputs, {"c": (m, n)}, name, {"block": block}, **options)


def gemm_reduction(name: str, m: int, n: int, k: int, block: Any, **options: Any) -> Workload:
    """`examples/gemm_reduction.py`."""
    outputs = {"c": (m, n), "sums": (m,)}
    inputs = {"a": (m, k), "b": (n, k)}
    return fused("gemm_reduction", inputs, outputs, name, {"block": block}, **options)


def gemm_layernorm(name: str, m: int, n: int, k: int, block: Any, **options: Any) -> Workload:
    """`examples/gemm_layernorm.py`."""
    inputs = {"x": (m, k), "w": (n, k), "bias": (n,), "weight": (n,), "shift": (n,)}
    return fused("gemm_layernorm", inputs, {"y": (m, n)}, name, {"block": block}, **options)


def linear_attention(
    name: str, heads: int, rows: int, d: int, dv: int, arguments: dict[str, Any], **options: Any
) -> Workload:
    """`examples/linear_attention.py`."""
    inputs = {"q": (heads, rows, d), "k": (heads, rows, d), "v": (heads, rows, dv)}
    outputs = {"o": (heads, rows, dv)}
    return fused("linear_attention", inputs, outputs, name, arguments, **options)


def fused_mlp(name: str, m: int, d: int, h: int, out: int, block: Any, **options: Any) -> Workload:
    """`examples/fused_mlp.py`; weights of a size that gives pre-activations of order 1."""
    made = fused(
        *("fused_mlp", {"x": (m, d), "w1": (h, d), "w2": (out, h)}, {"y": (m, out)}, name),
        {"block": block},
        **options,
    )

    def small(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.standard_normal(shape) / 8

    return replace(made, inputs={**made.inputs, "w1": Array("f16", (h, d), small)})


def attention_backward(
    name: str, wanted: str, rows: int, d: int, causal: bool, block: Any, **options: Any
) -> Workload:
    """A kernel of `examples/attention_backward.py`; `wanted` is "dq" or "dk_dv"."""
    shape, outputs = (2, rows, d), wanted.split("_")
    if len(outputs) == 2:
        outputs = ["dk", "dv"]

    def near(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.log(rows) + 0.5 + 0.1 * rng.standard_normal(shape)

    statistics = {"lse": Array("f32", shape[:2], near), "delta": Array("f32", shape[:2])}
    return Workload(
        f"attention_{wanted}-{name}",
        "attention_backward",
        {**{key: Array("f16", shape) for key in ("q", "k", "v", "do")}, **statistics},
        {key: Array("f16", shape) for key in outputs},
        {"causal": causal, "block": block},
        options,
        {"causal": causal, "wanted": tuple(outputs)},
        opcodes=MATRIX,
        function=f"launch_{wanted}",
    )


WORKLOADS = [
    dual_gemm("plain", 136, 200, 136, (128, 128, 64)),
    dual_gemm("ping-pong", 200, 136, 136, (128, 96, 64), persistent=True, ping_pong=True),
    gemm_reduction("plain", 136, 264, 136, (128, 256, 64)),
    gemm_reduction("ping-pong", 200, 136, 136, (128, 128, 64), persistent=True, ping_pong=True),
    gemm_layernorm("whole", 140, 256, 136, (64, 256, 64), persistent=True, ping_pong=True),
    gemm_layernorm("part", 200, 104, 136, (128, 128, 64), persistent=True),
    linear_attention("64", 2, 200, 64, 64, {"chunk": 64}),
    linear_attention("128", 2, 264, 128, 128, {"chunk": 128}),
    linear_attention("columns", 1, 200, 64, 72, {"chunk": 64, "columns": 64}),
    fused_mlp("small", 200, 64, 200, 128, (128, 64)),
    fused_mlp("wide", 140, 256, 264, 256, (128, 64)),
    fused_mlp("alternate", 128, 64, 192, 64, (128, 64), alternate=True),
    fused_mlp("persistent", 200, 256, 136, 256, (128, 64), persistent=True, alternate=True),
    attention_backward("causal", "dk_dv", 136, 64, True, (64, 128)),
    attention_backward("full", "dk_dv", 72, 128, False, (64, 64)),
    attention_backward("causal", "dq", 200, 64, True, (128, 64)),
    attention_backward("full", "dq", 136, 128, False, (128, 64)),
]
LARGE = [
    dual_gemm("large", 4095, 2056, 1000, (128, 128, 64), persistent=True),
    dual_gemm("large-ping-pong", 2047, 2056, 1000, (128, 96, 64), persistent=True, ping_pong=True),
    gemm_reduction("large", 4095, 4104, 1000, (128, 256, 64), persistent=True),
    gemm_reduction("turns", 4095, 4104, 1000, (128, 192, 64), persistent=True, ping_pong=True),
    gemm_layernorm("large", 4095, 128, 1000, (128, 128, 64), persistent=True),
    linear_attention("large", 33, 1000, 128, 128, {"chunk": 128}),
    fused_mlp("large", 4095, 256, 1000, 256, (128, 64)),
    fused_mlp("large-persistent", 24000, 256, 264, 256, (128, 64), persistent=True, alternate=True),
    attention_backward("large", "dk_dv", 1000, 128, True, (64, 128)),
    attention_backward("large", "dq", 1000, 128, True, (128, 64)),
]
"""Too large for a simulator."""
