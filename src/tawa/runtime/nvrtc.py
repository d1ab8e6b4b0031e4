"""CUDA C++ to machine code with NVRTC. Needs no device and no CUDA toolkit."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tawa.base.errors import TawaError
from tawa.runtime.compile_log import CompileReport, parse_log

INFO = ".dist-info"
"""Ending of the folder that says which version of a package is installed (PEP 376)."""

OPTIONS = ("-std=c++17", "--ptxas-options=-v", "--no-cache", "--minimal")
"""Options of every compilation; the log is read, so ptxas has to be verbose.

Without declarations of textures, surfaces and the CUDA run time, of which kernels use nothing, the
shortest kernel takes 24 ms of 33.

What NVRTC has in its own cache, where there is a driver, comes without a log: a spill went unseen.
"""


class CudaCompileError(TawaError):
    """NVRTC rejects the CUDA C++ of a kernel."""

    explanation = (
        "The generated (or overridden) CUDA C++ does not compile; the text below the message is "
        "NVRTC's. If the source was generated, this is a bug in the compiler: please report it "
        "with the kernel."
    )
    example = """
from tawa.runtime.nvrtc import compile_cuda

compile_cuda("__global__ void k() { oops }", "sm_90a")
"""


class NvrtcMissing(TawaError):
    """NVRTC, the CUDA run-time compiler, can't be loaded."""

    explanation = (
        "Tawa compiles with NVRTC from the package `nvidia-cuda-nvrtc`, through `cuda-bindings`. "
        "Install both with pip."
    )


@dataclass(frozen=True)
class CompiledCuda:
    """The product of one compilation: machine code, PTX, the log and what it says."""

    cubin: bytes
    ptx: str
    log: str
    report: CompileReport
    seconds: float


def compile_cuda(
    source: str, target: str, *, name: str = "kernel.cu", options: tuple[str, ...] = ()
) -> CompiledCuda:
    """Compile CUDA C++ for `target` (`sm_90a`) with `OPTIONS` and `options`.

    Raises `CudaCompileError` with NVRTC's log when the source is rejected.
    """
    nvrtc = _nvrtc()
    start = time.perf_counter()
    program = _value(nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []))
    try:
        texts = [option.encode() for option in all_options(target, options)]
        status = nvrtc.nvrtcCompileProgram(program, len(texts), texts)[0]
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CudaCompileError(
                f"NVRTC rejects {name} for {target}", found=log.strip() or str(status)
            )
        cubin = _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return CompiledCuda(cubin, ptx, log, parse_log(log), time.perf_counter() - start)


def all_options(target: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The full NVRTC command line for `target`."""
    return (f"--gpu-architecture={target}", *OPTIONS, *options)


@cache
def version() -> str:
    """NVRTC's version, such as `13.0.88`: the wheel's, or else what the library itself reports.

    The library is not loaded where its wheel is installed beside bindings of the same major
    version, which look there first (cuda-pathfinder, search order).
    """
    wheels = _installed_wheels()
    major = wheels.get("cuda_bindings", "").partition(".")[0]
    for name in ("nvidia_cuda_nvrtc", f"nvidia_cuda_nvrtc_cu{major}"):
        if major and wheels.get(name, "").startswith(f"{major}."):
            return wheels[name]
    return ".".join(map(str, _pair(_nvrtc().nvrtcVersion())))


def _installed_wheels() -> dict[str, str]:
    """Versions of installed CUDA packages, of those that Python finds first.

    What `importlib.metadata` would say; loading that takes longer than a cached kernel's launch.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        with suppress(OSError):
            for entry in Path(folder or ".").glob(f"*cuda_*{INFO}"):
                name, _, number = entry.name.removesuffix(INFO).partition("-")
                found.setdefault(name, number)
    return found


@cache
def _nvrtc() -> Any:
    try:
        nvrtc: Any = import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise NvrtcMissing(
            "NVRTC can't be loaded", found=str(error), hint="pip install nvidia-cuda-nvrtc"
        ) from error
    return nvrtc


def _value(result: tuple[Any, ...]) -> Any:
    if int(result[0]) != 0:
        raise CudaCompileError(f"NVRTC failed: {result[0]}")
    return result[1]


def _pair(result: tuple[Any, ...]) -> tuple[int, int]:
    return result[1], result[2]


def _bytes(size: Any, get: Any, program: Any) -> bytes:
    buffer = bytes(int(_value(size(program))))
    status = get(program, buffer)[0]
    if int(status) != 0:
        raise CudaCompileError(f"NVRTC failed: {status}")
    return buffer


def _text(size: Any, get: Any, program: Any) -> str:
    return _bytes(size, get, program).rstrip(b"\0").decode(errors="replace")
