"""`tawa doctor`: what this machine has of what Tawa can use."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any, Literal

from tawa.base.errors import TawaError
from tawa.base.knobs import KNOBS

State = Literal["ok", "missing", "optional"]

STYLES: dict[State, str] = {"ok": "green", "missing": "red", "optional": "yellow"}

OPTIONAL_PACKAGES = {
    "torch": "arrays on the GPU, and cuBLAS as a peer in benchmarks: pip install torch",
    "triton": "runs unmodified Triton kernels, and is a peer in benchmarks: pip install triton",
    "lark": "grammars of Axon and CuPPL: pip install 'tawa[all]'",
    "llvmlite": "CuPPL on the CPU: pip install 'tawa[cuppl]'",
    "onnx": "reads and writes ONNX graphs: pip install 'tawa[axon]'",
}


@dataclass(frozen=True)
class Finding:
    """One line of the report: what was looked for, its state, what was found and what to do."""

    name: str
    state: State
    detail: str
    remedy: str = ""


def report() -> int:
    """Print the report. The result is 0 when kernels can be compiled and simulated, else 1."""
    from rich.console import Console
    from rich.table import Table

    findings = [finding for look in LOOKS for finding in look()]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        state = f"[{STYLES[finding.state]}]{finding.state}[/]"
        detail = finding.detail + (f" [dim]({finding.remedy})[/]" if finding.remedy else "")
        table.add_row(state, finding.name, detail)
    for knob in KNOBS:
        table.add_row("[dim]knob[/]", knob.name, f"{knob.get()} [dim]({knob.doc})[/]")
    Console().print(table)
    return int(any(finding.state == "missing" for finding in findings))


def _python() -> Iterator[Finding]:
    state: State = "ok" if sys.version_info >= (3, 11) else "missing"
    yield Finding("Python", state, f"{platform.python_version()} at {sys.executable}")


def _compiler() -> Iterator[Finding]:
    from tawa.runtime.nvrtc import version

    try:
        yield Finding("NVRTC", "ok", f"{version()}: compiles for sm_90a, with or without a GPU")
    except TawaError as error:
        yield Finding("NVRTC", "missing", error.found or error.message, error.hint or "")


def _disassembler() -> Iterator[Finding]:
    from tawa.runtime.sass import nvdisasm

    try:
        yield Finding("nvdisasm", "ok", f"{nvdisasm()}: `--emit sass` works")
    except TawaError as error:
        yield Finding("nvdisasm", "optional", error.message, error.hint or "")


def _device() -> Iterator[Finding]:
    driver = _driver()
    remedy = "kernels can be compiled and simulated, not launched"
    try:
        _value(driver.cuInit(0))
        cuda_version = int(_value(driver.cuDriverGetVersion()))
        count = int(_value(driver.cuDeviceGetCount()))
    except (RuntimeError, ImportError, OSError) as error:
        found = str(error) if "driver answers" in str(error) else "no NVIDIA driver"
        yield Finding("driver", "optional", found, remedy)
        return
    supported = f"{cuda_version // 1000}.{cuda_version % 1000 // 10}"
    if cuda_version >= 13000:
        yield Finding("driver", "ok", f"for CUDA {supported}")
    else:
        yield Finding("driver", "optional", f"for CUDA {supported}", "CUDA 13 needs 580 or later")
    for index in range(count):
        yield _gpu(index)


def _gpu(index: int) -> Finding:
    driver = _driver()
    kind = driver.CUdevice_attribute
    device = _value(driver.cuDeviceGet(index))
    name = bytes(_value(driver.cuDeviceGetName(128, device))).split(b"\0")[0].decode()
    major, minor, processors = (
        int(_value(driver.cuDeviceGetAttribute(attribute, device)))
        for attribute in (
            kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            kind.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        )
    )
    detail = f"{name}, compute capability {major}.{minor}, {processors} multiprocessors"
    if (major, minor) == (9, 0):
        return Finding(f"GPU {index}", "ok", detail)
    return Finding(f"GPU {index}", "optional", detail, "kernels run on compute capability 9.0")


def _driver() -> Any:
    return import_module("cuda.bindings.driver")


def _value(result: tuple[Any, ...]) -> Any:
    """The value of a driver call. Raises RuntimeError with the driver's word for a failure."""
    if int(result[0]) != 0:
        raise RuntimeError(f"the driver answers {result[0].name}")
    return result[1] if len(result) > 1 else None


def _optional_packages() -> Iterator[Finding]:
    for package, use in OPTIONAL_PACKAGES.items():
        try:
            yield Finding(package, "ok", metadata.version(package))
        except metadata.PackageNotFoundError:
            yield Finding(package, "optional", "not installed", use)


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _compiler,
    _disassembler,
    _device,
    _optional_packages,
)
"""What is looked for, in the order of the report."""
