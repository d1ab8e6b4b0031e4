"""`tawa --version`: what a report of a problem needs to say about the machine."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib import metadata

from tawa.base.errors import TawaError

PACKAGES = "numpy", "xdsl", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"
"""What the tile compiler computes with."""

OTHERS = "torch", "triton", "onnx", "llvmlite"
"""What it may meet."""


def version_lines() -> Iterator[str]:
    """Tawa's version on the first line; then Python, the packages, the assembler and the GPUs."""
    from tawa import __file__ as place
    from tawa import __version__

    yield f"tawa {__version__}"
    yield f"  at {place.removesuffix('/__init__.py')}"
    yield f"  Python {platform.python_version()} ({sys.platform}, {platform.machine()})"
    for package in (*PACKAGES, *OTHERS):
        found = installed(package)
        if found is not None or package in PACKAGES:
            yield f"  {package} {found or 'is not installed'}"
    yield f"  assembler: {_assembler()}"
    yield from (f"  {line}" for line in _devices())


def installed(package: str) -> str | None:
    """The version of an installed package; None if there is none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _assembler() -> str:
    from tawa.runtime.nvrtc import version

    try:
        return f"NVRTC {version()}"
    except (TawaError, ImportError, OSError) as error:
        return f"none ({str(error).partition(chr(10))[0]})"


def _devices() -> Iterator[str]:
    from tawa.cli.devices import device_findings

    for finding in device_findings():
        yield f"{finding.name}: {finding.detail}"
