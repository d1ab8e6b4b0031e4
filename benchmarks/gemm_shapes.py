"""The library's GEMM against cuBLAS on shapes that no configuration was tuned for.

    python benchmarks/gemm_shapes.py [--seed N] [--rows FOLDER] [--soak 0.1] [--window 0.1]

Skinny, deep and odd products in all four layouts (NT: A as [M, K], B as [N, K]), or with `--seed`
random ones (`gemm_cases.py`), as `tawa.kernels.gemm.matmul` launches them and through
`torch.matmul`. Kernels are compiled first, in processes. Results are compared with fp32 products
before they are timed; contenders take turns: soak, measure, forward and backward.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gemm_cases import CASES, Case, random_cases
from rows import Run

from tawa.kernels.gemm import matmul
from tawa.runtime.timing import interleaved

MAX_ERROR = {"fp16": 1.5e-3, "bf16": 8e-3}
TORCH_TYPES = {"fp16": "float16", "bf16": "bfloat16"}
HOST_TYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}


def compile_case(case: Case) -> None:
    """Compile what `matmul` launches for a case into the cache, touching no device."""
    from tawa.jit import Kernel

    def compiled(self: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        self.compile(*args, **kwargs)

    sizes = (case.m, case.k), (case.k, case.n)
    a, b = (
        np.empty(size[::-1] if side == "T" else size, HOST_TYPES[case.dtype])
        for size, side in zip(sizes, case.layout, strict=True)
    )
    launch, Kernel._launch = Kernel._launch, compiled  # pyright: ignore
    try:
        matmul(a.T if case.layout[0] == "T" else a, b.T if case.layout[1] == "T" else b)
    finally:
        Kernel._launch = launch  # pyright: ignore


def matrix(rows: int, columns: int, turned: bool, dtype: str) -> Any:
    """A random matrix, contiguous along its columns if `turned`."""
    import torch

    shape = (columns, rows) if turned else (rows, columns)
    made = torch.randn(shape, device="cuda", dtype=getattr(torch, TORCH_TYPES[dtype]))
    return made.T if turned else made


def measure(run: Run, case: Case, options: Any) -> float | None:
    """Time one case; cuBLAS's time over the library's, or None if a result is wrong."""
    import torch

    a = matrix(case.m, case.k, case.layout[0] == "T", case.dtype)
    b = matrix(case.k, case.n, case.layout[1] == "T", case.dtype)
    c = torch.empty((case.m, case.n), device="cuda", dtype=a.dtype)
    exact = a.float() @ b.float()
    works: dict[str, Callable[[], Any]] = {
        "cublas": lambda: torch.matmul(a, b, out=c),
        "tawa": lambda: matmul(a, b, c),
    }
    errors: dict[str, float] = {}
    for name, work in works.items():
        c.fill_(math.nan)
        work()
        errors[name] = ((c.float() - exact).norm() / exact.norm()).item()
        if not errors[name] < MAX_ERROR[case.dtype]:
            run.add(case.row, name, None, error_text=f"wrong result: {errors[name]}")
            print(f"{case}: {name} is wrong: {errors[name]}", flush=True)
            return None
    times = interleaved(works, rounds=2, soak=options.soak, window=options.window)
    for name, timing in times.items():
        error = {"relative_frobenius": errors[name], "reference": "fp32"}
        run.add(case.row, name, timing, flops=case.flops, error=error, seed=options.seed)
    ratio = times["cublas"].median / times["tawa"].median
    print(f"{case!s:30} {times['tawa'].median * 1e3:8.1f} us  {ratio:.3f}x cublas", flush=True)
    return ratio


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="of random cases; without it, the chosen ones")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--soak", type=float, default=0.1)
    parser.add_argument("--window", type=float, default=0.1)
    options = parser.parse_args()
    cases = CASES if options.seed is None else random_cases(options.seed)
    with ProcessPoolExecutor() as pool:
        list(pool.map(compile_case, cases))
    import torch

    torch.manual_seed(0)
    run = Run("gemm-shapes" if options.seed is None else "gemm-random", options.rows)
    found = [measure(run, case, options) for case in cases]
    ratios = [ratio for ratio in found if ratio is not None]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} of {len(cases)}: geometric mean {mean:.3f}, least {min(ratios):.3f}")


if __name__ == "__main__":
    main()
