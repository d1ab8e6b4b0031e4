"""A plan's kernels compiled by several processes at once, into the cache on disk.

Lowering is Python, and NVRTC compiles one program after the other within a process, so threads gain
nothing. A process here is this file, run as a script; it reads what to compile from its input and
leaves the kernels where this process looks for them. What it can't compile is compiled again here,
where its error can be raised.

A call waits for the kernels that it launches. Those for other sizes of tiles are compiled meanwhile
and after, at low priority; a call that comes before one is done compiles it itself.
"""

from __future__ import annotations

import atexit
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from tawa.axon.gpu import library
from tawa.axon.gpu.graph.nodes import Node
from tawa.axon.gpu.kernels import KernelCall
from tawa.base.cores import cores
from tawa.base.errors import TawaError
from tawa.base.knobs import DUMP_DIR
from tawa.base.object_text import Unwritable, object_of, text_of
from tawa.driver.jit import Kernel
from tawa.driver.progress import progress

MOST = 8
"""Processes at a time, at most."""

CORES = 2
"""Cores of the machine for each process: others work too."""

START = 2
"""Kernels that this process compiles while others start: these import the compiler first."""

LATER = 10
"""The priority of what nobody waits for: how nice it is to others."""


class Wanted(NamedTuple):
    """A kernel, and the keywords of `Kernel.compile`."""

    source: str
    """The kernel's text, or the module that has it."""
    name: str
    """The kind of the text's kernel, or the function's name."""
    is_text: bool
    given: dict[str, Any]


_later: list[subprocess.Popen[bytes]] = []
"""Processes that nobody waits for."""


def compile_ahead(
    calls: Iterable[KernelCall], aligned: Mapping[Node, bool], chosen: bool = False
) -> int:
    """Compile all variants of all calls, or those chosen, that are not kept yet.

    Gives how many processes were asked.
    """
    wanted = list(_wanted(calls, aligned, chosen))
    own, left = wanted[:START], wanted[START:]
    workers = max(1, min(1 + MOST, 1 + cores() // CORES, len(left)))
    own += left[::workers]
    shares = _shares([one for n, one in enumerate(left) if n % workers], workers - 1)
    if not shares:
        return 0
    with progress(f"compiling {len(wanted)} kernels"):
        processes = [_started(share) for share in shares]
        try:
            for one in own:
                _compile(one)
            for process in processes:
                process.wait()
        finally:
            _ended(processes)
    return len(shares)


def compile_later(calls: Iterable[KernelCall], aligned: Mapping[Node, bool]) -> int:
    """Begin to compile all variants of all calls that are not kept yet; by how many processes.

    They end with this process.
    """
    _later[:] = [process for process in _later if process.poll() is None]
    wanted = list(_wanted(calls, aligned, False))
    count = min(len(wanted), max(0, cores() // CORES - len(_later)))
    processes = [_started(share, LATER) for share in _shares(wanted, count)]
    _later.extend(processes)
    return len(processes)


def _shares(wanted: list[Wanted], most: int) -> list[bytes]:
    """What each process has to do; none if this one is better alone."""
    count = min(MOST, cores() // CORES, most)
    if cores() // CORES < 2 or not sys.executable or DUMP_DIR.get() is not None:
        return []
    try:
        return [text_of([tuple(w) for w in wanted[n::count]], {}) for n in range(count)]
    except Unwritable:  # a constant that only this process has
        return []


@atexit.register
def _end() -> None:
    _ended(_later)


def _ended(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.kill()
        process.wait()


def _wanted(
    calls: Iterable[KernelCall], aligned: Mapping[Node, bool], chosen: bool
) -> Iterable[Wanted]:
    """What is neither compiled in this process nor kept on disk, each once."""
    seen: set[tuple[Any, ...]] = set()
    for call in calls:
        kernel = library.kernel_of(call)
        for variant in (call.variant,) if chosen else call.variants:
            given = library.given(call, variant, aligned)
            request = kernel.request(**given)
            key = kernel, *request.key
            if key in seen or kernel.is_compiled(request):
                continue
            seen.add(key)
            if isinstance(call.source, Kernel):
                yield Wanted(kernel.fn.__module__, kernel.fn.__name__, False, given)
            else:
                yield Wanted(call.source, call.group.kind, True, given)


def _started(share: bytes, priority: int = 0) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    with tempfile.TemporaryFile() as work:
        work.write(share)
        work.seek(0)
        return subprocess.Popen(
            [sys.executable, "-P", __file__, str(priority)],
            stdin=work,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )


def _compile(wanted: Wanted) -> None:
    """Compile a kernel into the cache, if it can be."""
    with suppress(TawaError):
        if wanted.is_text:
            kernel = library.kernel_from(wanted.source, wanted.name)
        else:
            kernel = getattr(importlib.import_module(wanted.source), wanted.name)
        kernel.compile(**wanted.given)


def main() -> None:
    """Compile what the input holds, at a priority."""
    os.nice(int(sys.argv[1]))
    share = [Wanted(*item) for item in object_of(sys.stdin.buffer.read(), {})]
    for one in share:
        _compile(one)


if __name__ == "__main__":
    main()
