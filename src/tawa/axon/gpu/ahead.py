"""A plan's kernels compiled by several processes at once, into the cache on disk.

Lowering is Python, and NVRTC compiles one program after the other within a process, so threads gain
nothing. A process here is this file, run as a script; it reads what to compile from its input and
leaves the kernels where this process looks for them. What it can't compile is compiled again here,
where its error can be raised. A kernel is handed out as soon as it is known: others import the
compiler while this process still chooses tiles.

A call waits for the kernels that it launches. Those for other sizes of tiles are compiled meanwhile
and after, at low priority; a call that comes before one is done compiles it itself.
"""

from __future__ import annotations

import atexit
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Container, Hashable, Iterable, Mapping
from contextlib import suppress
from queue import SimpleQueue
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


class Helper:
    """A process that compiles the kernels it is handed, one after the other, at a priority."""

    def __init__(self, priority: int = 0) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(priority)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )
        self._texts: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=self._feed, daemon=True).start()

    def hand(self, text: bytes) -> None:
        """Give it a kernel to compile, as a line."""
        self._texts.put(text)

    def close(self) -> None:
        """Say that no more come: it ends when it is done."""
        self._texts.put(None)

    def _feed(self) -> None:
        """Write what it is handed: a pipe is full until the process reads."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError), self.process.stdin as pipe:  # one that ended reads nothing
            while (text := self._texts.get()) is not None:
                pipe.write(text + b"\n")
                pipe.flush()


_later: list[Helper] = []
"""Processes that nobody waits for."""


class Compilations:
    """Kernels that this process and others compile while calls are still made of a plan's groups.

    A kernel goes to another process as soon as its call is known. This process compiles its own
    share at the end. Of `own_kinds`, calls that it read the compiler for, it keeps the first ones.
    """

    def __init__(
        self, aligned: Mapping[Node, bool], *, chosen: bool, own_kinds: Container[str] = ()
    ) -> None:
        self.aligned, self.chosen, self.own_kinds = aligned, chosen, own_kinds
        self.seen: set[Hashable] = set()
        self.own: list[Wanted] = []
        self.helpers: list[Helper] = []
        self.most = _most()
        self.kept = {True: START, False: 0 if own_kinds else START}
        """How many more kernels, of its own kinds and others, this process keeps undealt."""
        self.dealt = 0

    def begin(self, call: KernelCall) -> None:
        """Hand out what of a call is not compiled yet."""
        own_kind = call.group.kind in self.own_kinds
        for wanted in _wanted([call], self.aligned, self.chosen, self.seen):
            text = _written(wanted) if self.most else None
            if text is None:
                self.own.append(wanted)
            elif self.kept[own_kind]:
                self.kept[own_kind] -= 1
                self.own.append(wanted)
            else:
                self._deal(wanted, text)

    def _deal(self, wanted: Wanted, text: bytes) -> None:
        """Give a kernel to this process or another one, in turn."""
        turn = self.dealt % (1 + self.most)
        self.dealt += 1
        if turn == 0:
            self.own.append(wanted)
            return
        if turn > len(self.helpers):
            self.helpers.append(Helper())
        self.helpers[turn - 1].hand(text)

    def finish(self) -> int:
        """Compile this process's share, and wait for others; how many there were.

        Without others nothing is compiled.
        """
        for helper in self.helpers:
            helper.close()
        if self.helpers:
            with progress(f"compiling {len(self.seen)} kernels"):
                for one in self.own:
                    _compile(one)
                for helper in self.helpers:
                    helper.process.wait()
        return len(self.helpers)

    def __enter__(self) -> Compilations:
        return self

    def __exit__(self, *raised: object) -> None:
        _ended(self.helpers)


def compile_ahead(
    calls: Iterable[KernelCall], aligned: Mapping[Node, bool], chosen: bool = False
) -> int:
    """Compile all variants of all calls, or those chosen, that are not kept yet.

    Gives how many other processes were asked; without them nothing is compiled.
    """
    with Compilations(aligned, chosen=chosen) as compilations:
        for call in calls:
            compilations.begin(call)
        return compilations.finish()


def compile_later(calls: Iterable[KernelCall], aligned: Mapping[Node, bool]) -> int:
    """Begin to compile all variants of all calls that are not kept yet; by how many processes.

    They end with this process.
    """
    _later[:] = [helper for helper in _later if helper.process.poll() is None]
    most = max(0, _most() - len(_later))
    texts = [text for wanted in _wanted(calls, aligned, False, set())
             if (text := _written(wanted)) is not None]  # fmt: skip
    helpers = [Helper(LATER) for _ in range(min(len(texts), most))]
    for number, text in enumerate(texts if helpers else ()):
        helpers[number % len(helpers)].hand(text)
    for helper in helpers:
        helper.close()
    _later.extend(helpers)
    return len(helpers)


def _most() -> int:
    """Other processes at most; none if this one is better alone."""
    count = min(MOST, cores() // CORES)
    return 0 if count < 2 or not sys.executable or DUMP_DIR.get() is not None else count


def _written(wanted: Wanted) -> bytes | None:
    """A kernel as other processes read it; None with a constant that only this one has."""
    with suppress(Unwritable):
        return text_of(tuple(wanted), {})
    return None


@atexit.register
def _end() -> None:
    _ended(_later)


def _ended(helpers: Iterable[Helper]) -> None:
    for helper in helpers:
        helper.close()
        helper.process.kill()
        helper.process.wait()


def _wanted(
    calls: Iterable[KernelCall],
    aligned: Mapping[Node, bool],
    chosen: bool,
    seen: set[Hashable],
) -> Iterable[Wanted]:
    """What is neither compiled in this process nor kept on disk, nor seen before."""
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


def _compile(wanted: Wanted) -> None:
    """Compile a kernel into the cache, if it can be."""
    with suppress(TawaError):
        if wanted.is_text:
            kernel = library.kernel_from(wanted.source, wanted.name)
        else:
            kernel = getattr(importlib.import_module(wanted.source), wanted.name)
        kernel.compile(**wanted.given)


def main() -> None:
    """Compile what comes on the lines of the input, at a priority."""
    os.nice(int(sys.argv[1]))
    for line in sys.stdin.buffer:
        _compile(Wanted(*object_of(line, {})))


if __name__ == "__main__":
    main()
