"""Host time: a warm launch of a GEMM (Tawa, Triton, torch.matmul), and a cold compilation.

The launches are of a small problem, in bursts that don't fill the driver's queue, so that what is
timed is the Python and driver code of a launch and not the device.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gemm_kernels as kernels
import torch
from contenders import Problem, Tile, Work, cublas, tawa_kernel
from rows import Run

import tawa
from tawa.runtime.timing import Timing, host_microseconds

M, N, K = 256, 256, 128
TILE = Tile(128, 128, options={"num_stages": 3})

CORES = 2
"""Cores that a cold compilation may use."""

COMPILE = """
import os, sys, time
start = time.perf_counter()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[2])])
sys.path.insert(0, sys.argv[1])
import gemm_kernels as kernels, tawa
imported = time.perf_counter()
kernel = tawa.jit(kernels.gemm)
kernel.compile("desc<f16,128x64>", "desc<f16,256x64>", "desc<f16,128x256>", "i32:16", "i32:16",
               "i32:16", BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP_M=8, persistent=True,
               consumers=2)
print(imported - start, time.perf_counter() - imported)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--launches", type=int, default=200, help="launches of one burst")
    parser.add_argument("--repeats", type=int, default=50, help="bursts")
    options = parser.parse_args()
    torch.manual_seed(0)
    run = Run("host", options.rows)
    problem = Problem.random(M, N, K, torch.float16)
    works = dict(contenders(run, problem))
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(options.repeats):
        for name, work in works.items():
            found = host_microseconds(
                work, torch.cuda.synchronize, launches=options.launches, repeats=1
            )
            times[name].extend(found.times)
    for name, found in times.items():
        impl, _, config = name.partition(": ")
        case = {"what": "warm launch", "m": M, "n": N, "k": K, "dtype": "fp16", "how": config}
        timing = Timing(tuple(value / 1e3 for value in found))
        run.add(case, impl, timing)
        print(f"{name:50} {timing.median * 1e3:7.2f} us  (min {min(found):.2f})", flush=True)
    measure_compile(run)


def contenders(run: Run, problem: Problem) -> Iterator[tuple[str, Work]]:
    """Each way to launch, checked once; one that fails gets a row that says why."""
    for name, make in (
        ("torch: matmul, out given", cublas),
        ("triton: host descriptors kept", triton_kept),
        ("triton: host descriptors made each time", triton_made),
        ("tawa: host descriptors kept", tawa_kept),
        ("tawa: host descriptors made each time", tawa_made),
        ("tawa: kept, grid a function", tawa_grid_function),
    ):
        try:
            work = make(problem)
            if not problem.error(work)["relative_frobenius"] < 1e-3:
                raise ArithmeticError("wrong result")
        except Exception as failure:  # a peer may raise anything
            print(f"{name}: {type(failure).__name__}: {failure}"[:1500], flush=True)
            text = f"{type(failure).__name__}: {failure}".splitlines()[0][:300]
            run.add({"what": "warm launch", "how": name}, name.split(":")[0], None, error_text=text)
            continue
        yield name, work


def _triton() -> tuple[Any, Any]:
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    return triton.jit(kernels.gemm), TensorDescriptor


def _launch(kernel: Any, descriptor: Any, problem: Problem, options: dict[str, Any]) -> Work:
    args = _arguments(descriptor, problem)
    grid = (TILE.programs(problem),)
    constants = TILE.constants
    return lambda: kernel[grid](*args, **constants, **options)


def _arguments(descriptor: Any, problem: Problem) -> tuple[Any, ...]:
    return (
        descriptor.from_tensor(problem.a, [TILE.m, TILE.k]),
        descriptor.from_tensor(problem.b, [TILE.n, TILE.k]),
        descriptor.from_tensor(problem.c, [TILE.m, TILE.n]),
        *problem.shape,
    )


def _made_each_time(kernel: Any, descriptor: Any, problem: Problem) -> Work:
    grid, constants = (TILE.programs(problem),), TILE.constants
    return lambda: kernel[grid](*_arguments(descriptor, problem), **constants, **TILE.options)


def triton_kept(problem: Problem) -> Work:
    return _launch(*_triton(), problem, TILE.options)


def triton_made(problem: Problem) -> Work:
    return _made_each_time(*_triton(), problem)


def tawa_kept(problem: Problem) -> Work:
    return _launch(tawa_kernel(), tawa.TensorDescriptor, problem, TILE.options)


def tawa_made(problem: Problem) -> Work:
    return _made_each_time(tawa_kernel(), tawa.TensorDescriptor, problem)


def tawa_grid_function(problem: Problem) -> Work:
    kernel, args = tawa_kernel(), _arguments(tawa.TensorDescriptor, problem)
    m, n, _ = problem.shape

    def grid(meta: dict[str, Any]) -> tuple[int]:
        return (-(-m // meta["BLOCK_M"]) * -(-n // meta["BLOCK_N"]),)

    return lambda: kernel[grid](*args, **TILE.constants, **TILE.options)


def measure_compile(run: Run, repeats: int = 3) -> None:
    """Time a compilation from Python to cubin with an empty cache, each in its own process.

    Importing the kernel (and Triton, whose language it names) is not counted; loading the compiler,
    which the first compilation does, is.
    """
    case = {"what": "cold compile", "kernel": "gemm 128x256x64 persistent, two groups"}
    seconds: list[float] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", COMPILE, str(Path(__file__).parent), str(CORES)],
                env={
                    **os.environ,
                    "TAWA_CACHE_DIR": folder,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                },
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        if done.returncode:
            print(done.stderr[-1500:])
            run.add(case, "tawa", None, error_text=done.stderr.strip().splitlines()[-1][:300])
            return
        imports, compilation = map(float, done.stdout.split()[-2:])
        print(f"  imports {imports:.2f} s, Python to cubin {compilation:.2f} s", flush=True)
        seconds.append(compilation)
    timing = Timing(tuple(value * 1e3 for value in seconds))
    run.add({**case, "cores": CORES}, "tawa", timing)
    print(f"{'tawa: cold compile':50} {timing.median / 1e3:7.2f} s")


if __name__ == "__main__":
    main()
