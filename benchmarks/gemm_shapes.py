"""The library's GEMM against cuBLAS on shapes that no configuration was tuned for.

    python benchmarks/gemm_shapes.py [--seed N | --families N] [--rows FOLDER] [--soak S]

Skinny, deep and odd products in all four layouts (NT: A as [M, K], B as [N, K]), or with `--seed`
random ones of layers, or with `--families` random ones of every kind (`gemm_cases.py`), as
`tawa.kernels.gemm.matmul` launches them and through PyTorch. Kernels are compiled first, in
processes. Results are compared with fp32 products (fp64 for fp32 and int8) before they are timed;
contenders take turns: soak, measure, forward and backward.
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
from gemm_cases import CASES, Case, families, random_cases
from rows import Run

from tawa.kernels.gemm import matmul
from tawa.runtime.timing import interleaved

MAX_ERROR = {"fp16": 1.5e-3, "bf16": 8e-3, "fp32": 1.5e-3, "e4m3": 8e-3, "int8": 1e-12}
TORCH_TYPES = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "e4m3": "float8_e4m3fn",
    "int8": "int8",
}
HOST_TYPES = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "int8": np.int8,
}
RESULTS = {"e4m3": "bf16", "int8": "int32"}
"""Types of results that differ from the operands'."""


def compile_case(case: Case) -> None:
    """Compile what `matmul` launches for a case into the cache, touching no device."""
    from tawa.driver.jit import Kernel

    def compiled(self: Kernel, grid: Any, /, *args: Any, **kwargs: Any) -> None:
        self.compile(*args, **kwargs)

    launch, Kernel._launch = Kernel._launch, compiled  # pyright: ignore
    try:
        a = laid_out(case, case.m, case.k, case.layout[0] == "T", host_array)
        b = laid_out(case, case.k, case.n, case.layout[1] == "T", host_array)
        shape = (*([case.batch] * (case.batch > 0)), case.m, case.n)
        type_ = RESULTS.get(case.dtype, case.dtype)
        matmul(a, b, np.empty(shape, np.int32 if type_ == "int32" else HOST_TYPES[type_]))
    finally:
        Kernel._launch = launch  # pyright: ignore


def laid_out(case: Case, rows: int, columns: int, turned: bool, make: Callable[..., Any]) -> Any:
    """What `make` makes of a shape and a type, as a matrix or a batch of them that lie so."""
    shape = (columns, rows) if turned else (rows, columns)
    batch = [case.batch] * (case.batch > 0)
    made = make((*batch, shape[0], shape[1] + case.gap), case.dtype)[..., : shape[1]]
    return made.swapaxes(-1, -2) if turned else made


def host_array(shape: tuple[int, ...], dtype: str) -> Any:
    """An array of the host's."""
    return np.empty(shape, HOST_TYPES[dtype])


def random_tensor(shape: tuple[int, ...], dtype: str) -> Any:
    """A tensor of normal numbers on the device, or of integers."""
    import torch

    if dtype == "int8":
        return torch.randint(-128, 128, shape, device="cuda", dtype=torch.int8)
    if dtype == "e4m3":
        return torch.randn(shape, device="cuda").to(torch.float8_e4m3fn)
    return torch.randn(shape, device="cuda", dtype=getattr(torch, TORCH_TYPES[dtype]))


def problem(case: Case) -> tuple[Any, Any, Any, Any]:
    """A, B, C and the exact product."""
    import torch

    a = laid_out(case, case.m, case.k, case.layout[0] == "T", random_tensor)
    b = laid_out(case, case.k, case.n, case.layout[1] == "T", random_tensor)
    wide = torch.float64 if case.dtype in ("fp32", "int8") else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = False
    exact = a.to(wide) @ b.to(wide)
    torch.backends.cuda.matmul.allow_tf32 = True
    type_ = RESULTS.get(case.dtype, case.dtype)
    c = torch.empty(exact.shape, device="cuda", dtype=getattr(torch, TORCH_TYPES.get(type_, type_)))
    return a, b, c, exact


def cublas(case: Case, a: Any, b: Any, c: Any) -> Callable[[], Any]:
    """The product through PyTorch: fp32 by tf32, e4m3 with its fast accumulation."""
    import torch

    if case.dtype == "int8":
        return lambda: torch._int_mm(a, b, out=c)  # pyright: ignore
    if case.dtype == "e4m3":
        one = torch.ones((), device="cuda")
        more: dict[str, Any] = {"scale_a": one, "scale_b": one, "use_fast_accum": True}
        return lambda: torch._scaled_mm(a, b, out_dtype=c.dtype, out=c, **more)  # pyright: ignore
    return lambda: torch.matmul(a, b, out=c)


def wrong(c: Any, exact: Any, work: Callable[[], Any]) -> float:
    """The relative error of what `work` writes to `c`, which starts as what no product is."""
    c.fill_(math.nan if c.dtype.is_floating_point else -(2**31))
    work()
    return ((c.to(exact.dtype) - exact).norm() / exact.norm()).item()


def measure(run: Run, case: Case, options: Any) -> float | None:
    """Time one case; cuBLAS's time over the library's, or None if a result is wrong."""
    a, b, c, exact = problem(case)
    works: dict[str, Callable[[], Any]] = {
        "cublas": cublas(case, a, b, c),
        "tawa": lambda: matmul(a, b, c),
    }
    errors = {name: wrong(c, exact, work) for name, work in works.items()}
    for name, error in errors.items():
        if not error < MAX_ERROR[case.dtype]:
            run.add(case.row, name, None, error_text=f"wrong result: {error}")
            print(f"{case}: {name} is wrong: {error}", flush=True)
            return None
    times = interleaved(works, rounds=2, soak=options.soak, window=options.window)
    for name, timing in times.items():
        found = {"relative_frobenius": errors[name], "reference": str(exact.dtype)}
        seed = options.seed if options.families is None else options.families
        run.add(case.row, name, timing, flops=case.flops, error=found, seed=seed)
    ratio = times["cublas"].median / times["tawa"].median
    print(f"{case!s:44} {times['tawa'].median * 1e3:8.1f} us  {ratio:.3f}x cublas", flush=True)
    return ratio


def main() -> None:
    """Measure every case and write its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="of random layers; without it, the chosen ones")
    parser.add_argument("--families", type=int, help="seed of random products of every kind")
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--soak", type=float, default=0.1)
    parser.add_argument("--window", type=float, default=0.1)
    options = parser.parse_args()
    if options.families is not None:
        suite, cases = "gemm-families", families(options.families)
    elif options.seed is not None:
        suite, cases = "gemm-random", random_cases(options.seed)
    else:
        suite, cases = "gemm-shapes", CASES
    with ProcessPoolExecutor() as pool:
        list(pool.map(compile_case, cases))
    import torch

    torch.manual_seed(0)
    run = Run(suite, options.rows)
    found = [measure(run, case, options) for case in cases]
    ratios = [ratio for ratio in found if ratio is not None]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} of {len(cases)}: geometric mean {mean:.3f}, least {min(ratios):.3f}")


if __name__ == "__main__":
    main()
