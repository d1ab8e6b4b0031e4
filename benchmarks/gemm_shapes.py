"""The library's GEMM against cuBLAS on shapes that no configuration was tuned for.

    python benchmarks/gemm_shapes.py [--rows FOLDER] [--soak 0.1] [--window 0.1]

Skinny, deep and odd products in all four layouts (NT: A as [M, K], B as [N, K]), as
`tawa.kernels.gemm.matmul` launches them and through `torch.matmul`. Results are compared with fp32
products before they are timed; contenders take turns: soak, measure, forward and backward.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rows import Run

from tawa.kernels.gemm import matmul
from tawa.runtime.timing import interleaved

MAX_ERROR = {"fp16": 1.5e-3, "bf16": 8e-3}
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Case:
    """An M x N x K product, how A and B lie, and their type."""

    m: int
    n: int
    k: int
    layout: str = "NT"
    dtype: str = "fp16"

    @property
    def row(self) -> dict[str, Any]:
        """What the result rows say of it."""
        return {**vars(self), "accumulate": "fp32"}


CASES = (
    *(Case(64, 64, 16384, "NN"), Case(256, 256, 16384), Case(2048, 256, 16384, "NN", "bf16")),
    *(Case(512, 512, 16384, "TN"), Case(128, 1024, 8192, "NT", "bf16"), Case(192, 320, 4096, "TT")),
    *(Case(8192, 256, 4096, "NT", "bf16"), Case(8192, 256, 8192), Case(12288, 256, 1024, "NN")),
    *(Case(256, 16384, 512, "TN", "bf16"), Case(65536, 256, 512), Case(32768, 64, 2048, "NN")),
    *(Case(64, 16384, 1024, "NT", "bf16"), Case(320, 4096, 14336, "NN"), Case(96, 12288, 4096)),
    *(Case(128, 8192, 8192), Case(512, 64, 8192, "NN", "bf16"), Case(400, 400, 400, "NN", "bf16")),
    *(Case(5000, 5000, 5000), Case(6216, 1288, 2056, "NN"), Case(3000, 520, 1000, "NT", "bf16")),
    *(Case(1000, 3000, 2000, "TN"), Case(32776, 264, 776), Case(2056, 2056, 8200, "TT", "bf16")),
    *(Case(2048, 2048, 2048), Case(3072, 3072, 3072, "NN"), Case(1536, 6144, 4096, "TN", "bf16")),
    *(Case(7168, 2048, 7168), Case(16384, 512, 16384, "NT", "bf16"), Case(4096, 384, 16384, "TT")),
)


def matrix(rows: int, columns: int, turned: bool, dtype: torch.dtype) -> torch.Tensor:
    """A random matrix, contiguous along its columns if `turned`."""
    shape = (columns, rows) if turned else (rows, columns)
    made = torch.randn(shape, device="cuda", dtype=dtype)
    return made.T if turned else made


def measure(run: Run, case: Case, options: Any) -> float | None:
    """Time one case; cuBLAS's time over the library's, or None if a result is wrong."""
    dtype = TYPES[case.dtype]
    a = matrix(case.m, case.k, case.layout[0] == "T", dtype)
    b = matrix(case.k, case.n, case.layout[1] == "T", dtype)
    c = torch.empty((case.m, case.n), device="cuda", dtype=dtype)
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
        run.add(case.row, name, timing, flops=2 * case.m * case.n * case.k, error=error)
    ratio = times["cublas"].median / times["tawa"].median
    sizes = f"{case.m}x{case.n}x{case.k}"
    print(f"{case.dtype} {case.layout} {sizes:18} {times['tawa'].median * 1e3:8.1f} us"
          f"  {ratio:.3f}x cublas", flush=True)  # fmt: skip
    return ratio


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--soak", type=float, default=0.1)
    parser.add_argument("--window", type=float, default=0.1)
    options = parser.parse_args()
    torch.manual_seed(0)
    run = Run("gemm-shapes", options.rows)
    found = [measure(run, case, options) for case in CASES]
    ratios = [ratio for ratio in found if ratio is not None]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} of {len(CASES)}: geometric mean {mean:.3f}, least {min(ratios):.3f}")


if __name__ == "__main__":
    main()
