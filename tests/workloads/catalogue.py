"""The workloads: every example kernel, at sizes that a simulator runs in a second or so."""

from __future__ import annotations

from typing import Any

import fused
import numpy as np
from workload import MATRIX, Array, Workload

MATRIX_OPCODES = {"e4m3": "QGMMA", "i8": "IGMMA"}


def gemm(
    name: str, m: int, n: int, k: int, block: tuple[int, int, int], **options: Any
) -> Workload:
    """`examples/gemm.py` with a tile and launch options."""
    return Workload(
        f"gemm-{name}",
        "gemm",
        {"a": Array("f16", (m, k)), "b": Array("f16", (n, k))},
        {"c": Array("f16", (m, n))},
        {"block": block},
        options,
        opcodes=MATRIX,
    )


def layouts(
    form: str,
    element: str = "f16",
    sizes: tuple[int, int, int] = (136, 200, 136),
    block: tuple[int, int, int] = (128, 128, 64),
    output: str = "",
    accumulator: str = "float32",
    name: str = "",
    **options: Any,
) -> Workload:
    """`examples/gemm_layouts.py`: operands as they lie in memory, any element type."""
    import tawa.language as tl

    m, n, k = sizes
    output = output or element
    a = (k, m) if form[0] == "T" else (m, k)
    b = (n, k) if form[1] == "T" else (k, n)
    return Workload(
        f"layouts-{name or element}-{form}",
        "gemm_layouts",
        {"a": Array(element, a), "b": Array(element, b)},
        {"c": Array(output, (m, n))},
        {"form": form, "block": block, "accumulator": getattr(tl, accumulator)},
        options,
        {"form": form},
        opcodes=(MATRIX_OPCODES.get(element, "HGMMA"), "UTMALDG", "UTMASTG"),
        tolerance=2e-3 if output == "bf16" or element == "f32" else 1e-3,
    )


def attention(
    name: str, causal: bool, d: int, block: tuple[int, int], rows: int, **options: Any
) -> Workload:
    """`examples/attention.py`."""
    shape = (2, rows, d)
    return Workload(
        f"attention-{name}",
        "attention",
        {letter: Array("f16", shape) for letter in "qkv"},
        {"o": Array("f16", shape)},
        {"causal": causal, "block": block},
        options,
        {"causal": causal},
        opcodes=MATRIX,
    )


def pointers(
    name: str, m: int, n: int, k: int, block: tuple[int, int, int], **options: Any
) -> Workload:
    """`examples/matmul_pointers.py`."""
    return Workload(
        f"pointers-{name}",
        "matmul_pointers",
        {"a": Array("f16", (m, k)), "b": Array("f16", (k, n))},
        {"c": Array("f16", (m, n))},
        {"block": block, "activation": "leaky_relu"},
        options,
        {"activation": "leaky_relu"},
        opcodes=("HGMMA",),
    )


F16_MATRICES = {"a": Array("f16", (200, 136)), "b": Array("f16", (264, 136))}

ELEMENTWISE = [
    Workload(
        f"vector_add-{element}-{warps}",
        "vector_add",
        {"x": Array(element, (2500,)), "y": Array(element, (2500,))},
        {"z": Array(element, (2500,))},
        {"block": block},
        {"num_warps": warps},
        tolerance=3e-3,
    )
    for element, warps, block in [
        ("f32", 4, 1024),
        ("f16", 1, 256),
        ("bf16", 2, 512),
        ("i32", 8, 1024),
        ("f64", 4, 64),
    ]
]
ROWS = [
    Workload(
        f"softmax-{element}-{columns}-{warps}",
        "softmax",
        {"x": Array(element, (5, columns))},
        {"y": Array(element, (5, columns))},
        {},
        {"num_warps": warps},
    )
    for element, columns, warps in [("f32", 781, 4), ("f16", 1024, 8), ("f32", 20, 1)]
] + [
    Workload(
        "layernorm",
        "layernorm",
        {
            "x": Array("f16", (3, 700)),
            "weight": Array("f32", (700,)),
            "bias": Array("f32", (700,)),
        },
        {"y": Array("f16", (3, 700))},
    ),
    Workload(
        "row_statistics",
        "row_statistics",
        {
            "x": Array("f32", (3, 32, 64)),
            "limit": Array("f32", (1,), lambda rng, shape: np.full(shape, 0.75)),
        },
        {
            "row_sum": Array("f32", (3, 32)),
            "column_max": Array("f32", (3, 64)),
            "total": Array("f32", (3,)),
            "turned": Array("f32", (3, 64, 32)),
            "folded": Array("f32", (3, 16, 128)),
        },
        order=("x", "row_sum", "column_max", "total", "turned", "folded", "limit"),
    ),
    Workload(
        "newton_root",
        "control_flow",
        {"x": Array("f32", (300,), lambda rng, shape: rng.uniform(0.1, 50, shape))},
        {"y": Array("f32", (300,)), "count": Array("i32", (3,))},
    ),
]
FUSED = [
    Workload(
        f"gemm_gelu-{name}",
        "gemm_gelu",
        {**F16_MATRICES, "r": Array("f16", (200, 264))},
        {"c": Array("f16", (200, 264))},
        {},
        options,
        opcodes=MATRIX,
    )
    for name, options in [("plain", {}), ("persistent", {"persistent": True})]
] + [
    Workload(
        "gemm_bias",
        "gemm_bias",
        {**F16_MATRICES, "bias": Array("f32", (264,))},
        {"c": Array("f32", (200, 264))},
        opcodes=MATRIX,
    ),
    Workload(
        "running_max",
        "running_max",
        {"x": Array("f16", (100, 320))},
        {"y": Array("f32", (100, 5))},
        opcodes=("UTMALDG",),
    ),
]
GEMMS = [
    gemm("cooperative", 200, 264, 136, (128, 256, 64)),
    gemm("persistent", 200, 264, 136, (128, 256, 64), persistent=True),
    gemm("one-consumer", 140, 136, 136, (64, 64, 64)),
    gemm("columns-200", 140, 400, 136, (128, 200, 64)),
    gemm("columns-8", 140, 24, 136, (64, 8, 64)),
    gemm("columns-200-rows-256", 200, 216, 136, (256, 200, 64), persistent=True),
    gemm("ping-pong", 300, 200, 136, (128, 192, 64), persistent=True, ping_pong=True),
    gemm("one-role", 200, 136, 200, (128, 128, 64), specialize=False),
    gemm("one-role-8-warps", 200, 264, 136, (128, 256, 64), specialize=False, num_warps=8),
    gemm("block-k-16", 140, 136, 136, (64, 64, 16)),
    gemm("block-k-32", 140, 136, 136, (128, 64, 32)),
    gemm("block-k-128", 140, 136, 264, (128, 64, 128)),
    gemm("tiny", 16, 16, 16, (64, 64, 64)),
    gemm("no-k", 136, 72, 0, (64, 64, 64)),
    gemm("no-k-persistent", 136, 72, 0, (64, 64, 64), persistent=True),
    gemm("three-consumers", 200, 136, 136, (192, 64, 64), consumers=3),
    gemm("four-consumers", 300, 136, 136, (256, 64, 64), consumers=4),
    gemm(
        "four-take-turns", 300, 72, 136, (64, 64, 64), consumers=4, persistent=True, ping_pong=True
    ),
    gemm("nothing-in-flight", 140, 136, 264, (128, 128, 64), mma_depth=0),
    gemm("two-in-flight", 140, 136, 392, (128, 128, 64), mma_depth=2, num_stages=4),
]
LAYOUTS = [
    *(layouts(form) for form in ("NN", "NT", "TN", "TT")),
    layouts("TT", block=(64, 64, 32), name="small-tile"),
    layouts("NT", "bf16"),
    layouts("NT", "f16", output="f32", name="f32-output"),
    layouts("NT", "e4m3", (136, 208, 272), (128, 128, 128), output="f16"),
    layouts("NT", "i8", (136, 208, 272), (128, 128, 128), output="i32", accumulator="int32"),
    layouts("NT", "f32", (136, 200, 136), (128, 128, 32), name="tf32"),
]
BATCHES = [
    Workload(
        "batched_gemm",
        "batched_gemm",
        {"a": Array("f16", (3, 136, 72), every=2), "b": Array("f16", (3, 200, 72))},
        {"c": Array("f16", (3, 136, 200))},
        opcodes=MATRIX,
    ),
    Workload(
        "persistent_gemm",
        "persistent_gemm",
        {"a": Array("f16", (300, 136)), "b": Array("f16", (328, 136))},
        {"c": Array("f16", (300, 328))},
        {"programs": 2},
        opcodes=MATRIX,
    ),
    Workload(
        "persistent_gemm-ping-pong",
        "persistent_gemm",
        {"a": Array("f16", (300, 72)), "b": Array("f16", (200, 72))},
        {"c": Array("f16", (300, 200))},
        {"programs": 1},
        {"ping_pong": True},
        opcodes=MATRIX,
    ),
]
POINTERS = [
    pointers("small", 100, 130, 75, (64, 64, 32)),
    pointers("8-warps", 140, 130, 75, (128, 64, 64), num_warps=8),
    pointers("aligned", 128, 128, 128, (64, 64, 64)),
]
ATTENTION = [
    attention("full-64", False, 64, (64, 64), 200),
    attention("full-128", False, 128, (128, 64), 264),
    attention("causal-64", True, 64, (128, 64), 264),
    attention("one-role", True, 64, (64, 64), 200, specialize=False),
]
WORKLOADS = [
    *ELEMENTWISE,
    *ROWS,
    *FUSED,
    *fused.WORKLOADS,
    *GEMMS,
    *LAYOUTS,
    *BATCHES,
    *POINTERS,
    *ATTENTION,
]
BY_NAME = {workload.name: workload for workload in WORKLOADS}
assert len(BY_NAME) == len(WORKLOADS)

LIBRARY = [
    Workload(
        f"library-{m}-{n}-{k}",
        "tawa.kernels.gemm",
        {"a": Array("f16", (m, k)), "b": Array("f16", (k, n))},
        {"c": Array("f16", (m, n))},
        function="matmul",
        opcodes=MATRIX,
    )
    for m, n, k in [(4096, 8192, 256), (4096, 4096, 1024), (2048, 2048, 2048), (1000, 1000, 4096)]
]
LARGE = [
    *LIBRARY,
    gemm("large", 4095, 4104, 1000, (128, 256, 64)),
    gemm("large-persistent", 4095, 4104, 1000, (128, 256, 64), persistent=True),
    gemm("large-ping-pong", 4095, 4104, 1000, (128, 192, 64), persistent=True, ping_pong=True),
    gemm("large-columns-200", 4095, 4104, 1000, (256, 200, 64), persistent=True),
    gemm("large-one-role", 4095, 4104, 1000, (128, 128, 64), specialize=False),
    gemm("long-k", 512, 512, 16384, (128, 256, 64), persistent=True),
    gemm("tiny-persistent", 16, 16, 16, (128, 256, 64), persistent=True),
    *(
        layouts(form, sizes=(4095 // 8 * 8, 2056, 1000), block=(128, 256, 64), name="large")
        for form in ("NN", "NT", "TN", "TT")
    ),
    layouts("NT", "e4m3", (2048, 2064, 1040), (128, 256, 128), output="f16", name="large-e4m3"),
    layouts("NT", "bf16", (2047, 2056, 1000), (128, 256, 64), name="large-bf16"),
    attention("large", False, 128, (128, 128), 2000),
    attention("large-causal", True, 64, (128, 128), 2000),
    *fused.LARGE,
    pointers("large", 1000, 1030, 515, (128, 128, 64), num_warps=8),
]
"""Too large for a simulator."""

ON_DEVICE = {workload.name: workload for workload in (*WORKLOADS, *LARGE)}
