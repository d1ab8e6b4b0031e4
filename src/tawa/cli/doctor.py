"""`tawa doctor`: what this machine has of what Tawa can use."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from tawa.base.errors import TawaError
from tawa.base.knobs import CACHE_DIR, KNOBS
from tawa.cli.devices import Finding, State, device_findings
from tawa.cli.versions import PACKAGES as REQUIRED_PACKAGES
from tawa.cli.versions import installed

if TYPE_CHECKING:
    from rich.text import Text

PIPE_WIDTH = 200
"""Columns of the report where no terminal says how many it has."""

STYLES: dict[State, str] = {"ok": "green", "missing": "red", "optional": "yellow"}

REINSTALL = "pip install --force-reinstall tawa"

OPTIONAL_PACKAGES = {
    "torch": "arrays on the GPU, and cuBLAS as a peer in benchmarks: pip install torch",
    "triton": "runs unmodified Triton kernels, and is a peer in benchmarks: pip install triton",
    "lark": "grammars of Axon and CuPPL: pip install 'tawa[all]'",
    "llvmlite": "CuPPL on the CPU: pip install 'tawa[cuppl]'",
    "ml_dtypes": "bf16 in Axon: pip install 'tawa[axon]'",
    "safetensors": "weights of Axon's functions from files: pip install 'tawa[weights]'",
    "onnx": "reads and writes ONNX graphs: pip install 'tawa[axon]'",
    "onnxruntime": "folds constants of ONNX models: pip install 'tawa[axon]'",
    "pygls": "`tawa axon lsp`, for editors: pip install 'tawa[axon]'",
    "arviz": "posteriors as InferenceData: pip install 'tawa[arviz]'",
    "ray": "chains and particles on a cluster: pip install 'tawa[ray]'",
    "pillow": "`tawa timeline -o FILE.png`: pip install 'tawa[pictures]'",
}
"""What each optional package is for, and how to get it."""


def report() -> int:
    """Print the report. The result is 0 when kernels can be compiled and simulated, else 1."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    findings = [finding for look in LOOKS for finding in look()]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        rest = f"({finding.remedy})" if finding.remedy else ""
        state = Text(finding.state, STYLES[finding.state])
        table.add_row(state, Text(finding.name), _dimmed(finding.detail, rest))
    for knob in KNOBS:
        value = knob.get()
        said = "not set" if value in (None, "") else str(value)
        table.add_row(Text("knob", "dim"), Text(knob.name), _dimmed(said, f"({knob.doc})"))
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console = Console(width=PIPE_WIDTH if piped else None)
    with console.capture() as shown:
        console.print(table)
    for line in shown.get().splitlines():
        print(line.rstrip())  # tables are filled up with spaces
    return int(any(finding.state == "missing" for finding in findings))


def _dimmed(text: str, rest: str) -> Text:
    """A text as it is, brackets too, and what follows it in a weaker colour."""
    from rich.text import Text

    return Text.assemble(text, *((" ", (rest, "dim")) if rest else ()))


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


def _optional_packages() -> Iterator[Finding]:
    for package, use in OPTIONAL_PACKAGES.items():
        found = installed(package)
        if found is not None:
            yield Finding(package, "ok", found)
        else:
            yield Finding(package, "optional", "not installed", use)


def _required_packages() -> Iterator[Finding]:
    for package in REQUIRED_PACKAGES:
        found = installed(package)
        state: State = "ok" if found else "missing"
        yield Finding(package, state, found or "not installed", "" if found else REINSTALL)


def _cache() -> Iterator[Finding]:
    """Whether compiled kernels can be kept."""
    from tawa.runtime.cache import default_cache

    folder = CACHE_DIR.get()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = "every process compiles anew: set TAWA_CACHE_DIR to a folder that you can write"
        yield Finding("cache", "optional", f"{folder}: {error.strerror}", remedy)
        return
    kept = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield Finding("cache", "ok", f"{default_cache().folder}, {kept / 1e6:.0f} MB")


def _browser() -> Iterator[Finding]:
    """The browser that tests open reports in, without a window."""
    for name in ("chromium", "google-chrome", "chromium-browser"):
        if (path := shutil.which(name)) is not None:
            yield Finding("browser", "ok", f"{path}: tests open reports in it")
            return
    remedy = "reports open in any browser; tests of them need it: apt install chromium"
    yield Finding("browser", "optional", "no chromium", remedy)


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _required_packages,
    _cache,
    _compiler,
    _disassembler,
    device_findings,
    _browser,
    _optional_packages,
)
"""What is looked for, in the order of the report."""
