"""Several variants of one kernel compiled by processes, into the cache on disk.

Lowering is Python, and NVRTC compiles one program after the other within a process, so threads gain
nothing. A process here is this file, run as a script; it loads the kernel from its file. What it
cannot compile is compiled again by who asks for it, where its error can be raised.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tawa.base.cores import free_cores
from tawa.base.errors import TawaError
from tawa.base.knobs import DUMP_DIR
from tawa.base.object_text import Unwritable, object_of, text_of
from tawa.driver.progress import progress

if TYPE_CHECKING:
    from tawa.driver.jit import Kernel

MOST = 8
"""Processes at a time, at most."""

SHARE = 2
"""Variants that are worth a process, whose start takes as long as one of them."""


def compile_variants(kernel: Kernel, variants: Sequence[dict[str, Any]]) -> int:
    """Compile variants that are not kept yet; how many processes were asked.

    A variant is the keywords of `Kernel.compile`: texts of types, constants and options. Nothing is
    done where the kernel is not a function of a module's file, or constants cannot be written down.
    """
    wanted = [v for v in variants if not kernel.is_compiled(kernel.request(**v))]
    count = min(MOST, free_cores(), len(wanted) // SHARE)
    place = _place(kernel)
    if count < 2 or place is None or not sys.executable or DUMP_DIR.get() is not None:
        return 0
    try:
        shares = [text_of([*place, wanted[n::count]], {}) for n in range(count)]
    except Unwritable:
        return 0
    with progress(f"compiling {len(wanted)} variants of {kernel.__name__}") as report:
        processes = [_started(share) for share in shares]
        try:
            for number, process in enumerate(processes, 1):
                process.wait()
                report(f"{number} of {count} processes are done")
        finally:
            for process in processes:
                process.kill()
                process.wait()
    return count


def _place(kernel: Kernel) -> tuple[str, str, str] | None:
    """The file, module and name of a kernel that a module's file defines."""
    function = kernel.fn
    file = Path(function.__code__.co_filename)
    if function.__qualname__ != function.__name__ or not file.is_file():
        return None
    return str(file), function.__module__, function.__name__


def _started(share: bytes) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    with tempfile.TemporaryFile() as work:
        work.write(share)
        work.seek(0)
        return subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=work,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )


def _loaded(file: str, module: str, name: str) -> Kernel:
    """A kernel, from the file that defines it."""
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[module] = found
    sys.path.insert(0, str(Path(file).parent))
    spec.loader.exec_module(found)
    kernel = getattr(found, name)
    while not hasattr(kernel, "is_compiled"):  # inside of autotuners and heuristics
        kernel = kernel.fn
    return kernel


def main() -> None:
    """Compile what the input holds."""
    file, module, name, variants = object_of(sys.stdin.buffer.read(), {})
    kernel = _loaded(file, module, name)
    for variant in variants:
        with suppress(TawaError):
            kernel.compile(**variant)


if __name__ == "__main__":
    main()
