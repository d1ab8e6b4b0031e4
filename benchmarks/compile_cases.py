"""What `host.py` compiles, a kernel in a process of its own.

    python benchmarks/compile_cases.py "gemm 128x256x64"

Prints the seconds of importing what a launch needs, of the first compilation, and of one for other
types or constants.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "examples"))

Work = Callable[[], Any]
"""Compiles a kernel for some types and constants."""


def vector_add() -> tuple[Work, Work]:
    """A masked sum of two arrays through pointers."""
    from vector_add import vector_add as kernel

    types = "*f32:16", "*f32:16", "*f32:16", "i32"
    return lambda: kernel.compile(*types, BLOCK=1024), lambda: kernel.compile(*types, BLOCK=512)


def gemm() -> tuple[Work, Work]:
    """A persistent product, two consumer warp groups."""
    import gemm_kernels

    import tawa

    kernel = tawa.jit(gemm_kernels.gemm)

    def work(columns: int) -> Any:
        blocks = f"desc<f16,{columns}x64>", f"desc<f16,128x{columns}>"
        constants = {"BLOCK_M": 128, "BLOCK_N": columns, "BLOCK_K": 64, "GROUP_M": 8}
        types = "desc<f16,128x64>", *blocks, "i32:16", "i32:16", "i32:16"
        return kernel.compile(*types, **constants, persistent=True, consumers=2)

    return lambda: work(256), lambda: work(192)


def attention(d: int, modified: bool = False, **options: Any) -> tuple[Work, Work]:
    """The library's kernel for 1024 rows of 16 heads; its other type is fp16 with its LSE."""
    import ml_dtypes

    from tawa.kernels.attention import attention as library
    from tawa.kernels.attention_kernel import alibi, attention_forward

    if modified:
        options |= {"score_mod": alibi, "captured": (np.zeros(16, np.float32), 300)}
    kernel: Any = attention_forward

    def work(type_: Any, lse: bool) -> Any:
        arrays = [np.empty((1, 16, 1024, d), type_) for _ in range(3)]
        asked: list[Work] = []
        kernel._launch = lambda grid, *a, **k: asked.append(lambda: kernel.compile(*a, **k))
        library(*arrays, return_lse=lse, **options)
        del kernel._launch
        return asked[0]()

    return lambda: work(ml_dtypes.bfloat16, False), lambda: work(np.float16, True)


def triton_gemm() -> tuple[Work, Work]:
    """Triton's compilation of the same text, without its warp specialisation."""
    import gemm_kernels
    import torch
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    a, b, c = (torch.empty(512, 512, dtype=torch.float16, device="cuda") for _ in range(3))
    kernel = triton.jit(gemm_kernels.gemm)

    def work(columns: int) -> Any:
        blocks = zip((a, b, c), ([128, 64], [columns, 64], [128, columns]), strict=True)
        described = [TensorDescriptor.from_tensor(x, block) for x, block in blocks]
        constants = {"BLOCK_M": 128, "BLOCK_N": columns, "BLOCK_K": 64, "GROUP_M": 8}
        how = {"num_warps": 8, "num_stages": 3}
        return kernel.warmup(*described, 512, 512, 512, grid=(1,), **constants, **how)

    return lambda: work(256), lambda: work(128)


def triton_attention() -> tuple[Work, Work]:
    """The form of Triton's tutorial, causal, D = 128: two of its configurations."""
    import attention_triton
    import torch

    arrays = [torch.empty(16, 1024, 128, dtype=torch.float16, device="cuda") for _ in range(4)]
    first, second, *_ = attention_triton.contenders(*arrays, causal=True)
    return first[1], second[1]


CASES: dict[str, Callable[[], tuple[Work, Work]]] = {
    "vector add": vector_add,
    "gemm 128x256x64": gemm,
    "attention D = 64": lambda: attention(64),
    "attention D = 128, causal": lambda: attention(128, causal=True),
    "attention D = 128, ALiBi": lambda: attention(128, modified=True, causal=True),
    "triton: gemm 128x256x64": triton_gemm,
    "triton: attention D = 128, causal": triton_attention,
}


def main() -> None:
    """Compile one case twice."""
    began = time.perf_counter()
    first, second = CASES[sys.argv[1]]()
    times = [began, time.perf_counter()]
    for work in (first, second):
        work()
        times.append(time.perf_counter())
    print(*(f"{after - before:.4f}" for before, after in pairwise(times)))


if __name__ == "__main__":
    main()
