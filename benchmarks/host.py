"""Host time: a warm launch of a GEMM (Tawa, Triton, torch.matmul), and compilations.

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gemm_kernels as kernels
import torch
from compile_cases import CASES
from contenders import Problem, Tile, Work, cublas, tawa_kernel
from rows import Run

import tawa
from tawa.runtime.timing import Timing, host_microseconds

M, N, K = 256, 256, 128
TILE = Tile(128, 128, options={"num_stages": 3})

CORES = 4
"""Cores that each compilation may use."""

SCRIPT = Path(__file__).parent / "compile_cases.py"
LOADED = "import tawa.driver.compiler, tawa.jit"
SECONDS = 100
"""Limit of one process that compiles."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, help="folder of the result rows")
    parser.add_argument("--launches", type=int, default=200, help="launches of one burst")
    parser.add_argument("--repeats", type=int, default=50, help="bursts")
    parser.add_argument("--only", choices=("launches", "compilations"), help="one of the two parts")
    options = parser.parse_args()
    if options.only != "launches":
        measure_compiles(options.rows)
    if options.only == "compilations":
        return
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


def measure_compiles(folder: Path | None) -> None:
    """Time compilations from Python to cubin with an empty cache, then with the one they filled.

    Each is a process of its own on cores of its own, as many at a time as there are cores. Loading
    the compiler counts, importing the kernel (and Triton, whose language it may name) does not.
    """
    run = Run("compile", folder)
    # As after an installation: modules have their byte code.
    subprocess.run([sys.executable, "-c", LOADED], env=environment(), check=True)
    places = sorted(os.sched_getaffinity(0))
    at_a_time = max(1, len(places) // CORES)
    waiting = list(CASES)
    while waiting:
        names, waiting = waiting[:at_a_time], waiting[at_a_time:]
        with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(at_a_time) as pool:
            pinned = [places[CORES * i : CORES * (i + 1)] for i in range(len(names))]
            folders = [Path(cache) / str(i) for i in range(len(names))]
            asked = list(zip(names, pinned, folders, strict=True))
            for what in ("cold", "cached"):
                for name, found in zip(names, pool.map(seconds_of, asked), strict=True):
                    add_compile(run, name, what, found)


def environment(**more: str) -> dict[str, str]:
    """Of a process that finds the modules that this one does."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, **more}


def seconds_of(asked: tuple[str, list[int], Path]) -> list[float] | str:
    """Seconds of a case's imports and of its two compilations; or what went wrong."""
    name, cores, cache = asked
    done = subprocess.run(
        ["taskset", "-c", ",".join(map(str, cores)), sys.executable, str(SCRIPT), name],
        env=environment(TAWA_CACHE_DIR=str(cache), TRITON_CACHE_DIR=str(cache)),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return [float(text) for text in done.stdout.split()] if not done.returncode else done.stderr


def add_compile(run: Run, name: str, what: str, found: list[float] | str) -> None:
    """Add the rows of a case's first compilation and of its other types."""
    impl = name.split(": ")[0] if ": " in name else "tawa"
    case = {"kernel": name.removeprefix(f"{impl}: "), "cores": CORES}
    if isinstance(found, str):
        print(f"{name}: {found[-1500:]}", flush=True)
        text = (found.strip().splitlines() or ["no output"])[-1][:300]
        run.add({**case, "what": what}, impl, None, error_text=text)
        return
    imports, first, other = found
    print(
        f"{name:36} {what:7} {imports:6.2f} s imports, {first:6.2f} s, {other:6.2f} s other types"
    )
    run.add({**case, "what": what}, impl, Timing((first * 1e3,)))
    run.add({**case, "what": f"{what}, other types"}, impl, Timing((other * 1e3,)))


if __name__ == "__main__":
    main()
