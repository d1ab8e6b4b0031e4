"""What `make demo` shows: a GEMM from Python to machine code, in the simulator, and on the GPU.

    python examples/demo.py [--dump FOLDER]

Without a GPU it compiles `gemm.py` for an H100 and runs it in the simulator against NumPy; with an
H100 it also runs it there, and next to cuBLAS if PyTorch is installed.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import gemm
import numpy as np
from rich.console import Console

import tawa
from tawa.base.errors import TawaError
from tawa.cli.compile import stage_table
from tawa.cli.run import relative_error
from tawa.driver.compiler import Compiled, compile_kernel
from tawa.runtime import driver
from tawa.runtime.timing import Stopwatch, interleaved
from tawa.simulate.interpret.hopper import run as simulate_hopper

BLOCK = (128, 256, 64)
SHAPE = (300, 520, 200)
"""M, N and K of the simulated product: no multiples of the block's."""

LARGE = (8192, 8192, 8192)
"""M, N and K of the product that is timed on a GPU."""

LIMIT = 1e-3
"""Relative error (Frobenius norm) against float64 that a right result stays under."""

console = Console(highlight=False)


def main() -> int:
    """Run the demonstration; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description="A GEMM from Python to machine code.")
    parser.add_argument("--dump", type=Path, default=Path("dumps"), help="folder for the stages")
    folder = parser.parse_args().dump
    compiled = compile_gemm(folder)
    show_code(compiled, folder)
    right = simulate()
    if driver.device_count() == 0:
        console.print("\nNo GPU here: on an H100 this also runs there, next to cuBLAS.")
        return int(not right)
    return int(not (run_on_gpu() and right))


def heading(text: str) -> None:
    """Print a heading."""
    console.print(f"\n[bold]{text}[/]")


def compile_gemm(folder: Path) -> Compiled:
    """Compile the kernel for an H100, whatever this machine has; one line a stage."""
    heading("examples/gemm.py, compiled to an sm_90a cubin")
    block_m, block_n, block_k = BLOCK
    request = gemm.gemm.request(
        f"desc<f16,{block_m}x{block_k}>",
        f"desc<f16,{block_n}x{block_k}>",
        f"desc<f16,{block_m}x{block_n}>",
        *("i32", "i32", "i32"),
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP_M=8,
        persistent=True,
    )
    start = time.perf_counter()
    compiled = compile_kernel(
        gemm.gemm, request.types, request.constants, request.options, dump_dir=folder
    )
    seconds = time.perf_counter() - start
    print("\n".join(stage_table(compiled.stages, compiled.timings)))
    print(f"  {'in all':<8}{'':>14}{seconds * 1e3:11.1f} ms")
    heading("What the compiler decided")
    for line in compiled.explain.splitlines():
        print(f"  {line}")
    return compiled


def show_code(compiled: Compiled, folder: Path) -> None:
    """Print the loop with the matrix instructions, and where the rest is."""
    heading("The consumers' loop in the generated CUDA C++")
    lines = str(compiled.stages["cu"]).splitlines()
    for line in excerpt(lines, "wgmma"):
        print(f"  {line}")
    files = sorted(folder.glob("*"))
    console.print(f"\nEvery stage in full: {', '.join(str(file) for file in files)}")


def excerpt(lines: list[str], word: str) -> list[str]:
    """The innermost block of the main function that has `word` in it, at most 40 lines."""
    kernel = next(i for i, line in enumerate(lines) if "__global__" in line)
    at = next((i for i in range(kernel, len(lines)) if word in lines[i]), kernel)
    indent = len(lines[at]) - len(lines[at].lstrip())
    first = at
    while first > kernel and not (_is_loop(lines[first]) and _indent(lines[first]) < indent):
        first -= 1
    last = at
    while last + 1 < len(lines) and not _closes(lines[last], _indent(lines[first])):
        last += 1
    return lines[first : min(last + 1, first + 40)]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_loop(line: str) -> bool:
    return line.lstrip().startswith(("for ", "for(", "while ", "while("))


def _closes(line: str, indent: int) -> bool:
    return line.strip() == "}" and _indent(line) == indent


def simulate() -> bool:
    """Run the program on the CPU: what it means, and warp group by warp group."""
    heading(f"The same program in the simulator: M, N, K = {', '.join(map(str, SHAPE))}")
    m, n, k = SHAPE
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, k)).astype(np.float16) for size in (m, n))
    reference = a.astype(np.float64) @ b.astype(np.float64).T
    right = True
    for level in ("tile", "hopper"):
        c = np.full((m, n), np.nan, np.float16)
        start = time.perf_counter()
        if level == "tile":
            gemm.launch(a, b, c, BLOCK, persistent=True)
        else:
            simulate_warp_groups(a, b, c)
        error = relative_error(c, reference)
        right &= error < LIMIT
        seconds = time.perf_counter() - start
        verdict = "" if error < LIMIT else "  WRONG"
        print(f"  {level:<8}relative error {error:.1e}{seconds:11.2f} s{verdict}")
    return right


def simulate_warp_groups(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """Run the hopper level: warp groups, copies and barriers as concurrent actors."""
    (m, k), n = a.shape, b.shape[0]
    block_m, block_n, block_k = BLOCK
    arguments = [
        tawa.TensorDescriptor.from_tensor(a, [block_m, block_k]),
        tawa.TensorDescriptor.from_tensor(b, [block_n, block_k]),
        tawa.TensorDescriptor.from_tensor(c, [block_m, block_n]),
        *(m, n, k),
    ]
    sizes = {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8}
    compiled = gemm.gemm.compile(*arguments, **sizes, persistent=True)
    names = [parameter.name for parameter in gemm.gemm.parameters]
    passed = [arguments[names.index(name)] for name in compiled.spec.arguments]
    grid = (tawa.cdiv(m, block_m) * tawa.cdiv(n, block_n),)
    simulate_hopper(compiled.module("hopper"), grid, passed)


def run_on_gpu() -> bool:
    """Time a large product on the GPU, next to cuBLAS; the result says whether it is right."""
    device = driver.device(0)
    heading(f"On the {device.name}")
    if device.capability != (9, 0):
        print("  kernels run on compute capability 9.0 (H100, H200)")
        return True
    try:
        import torch
    except ImportError:
        print("  PyTorch provides the arrays here: pip install torch")
        return True
    m, n, k = LARGE
    a, b = (torch.randn(size, k, device="cuda", dtype=torch.float16) for size in (m, n))
    c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.float16)
    try:
        gemm.launch(a, b, c, BLOCK, persistent=True)
    except TawaError as error:
        print(error.render())
        return False
    reference = a.double() @ b.double().T
    error = float((c.double() - reference).norm() / reference.norm())
    contenders = {
        "Tawa": lambda: gemm.launch(a, b, c, BLOCK, persistent=True),
        "cuBLAS": lambda: torch.matmul(a, b.T, out=c),
    }
    print(f"  M = N = K = {m}, fp16: relative error {error:.1e}")
    watch = Stopwatch(stream=torch.cuda.current_stream().cuda_stream)
    for name, timing in interleaved(contenders, watch=watch).items():
        print(f"  {name:<8}{2 * m * n * k / timing.median / 1e9:8.1f} TFLOP/s")
    return error < LIMIT


if __name__ == "__main__":
    raise SystemExit(main())
