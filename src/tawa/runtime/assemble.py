"""Machine code for several candidates at a time, each in a process of its own.

NVRTC compiles one program after the other within a process, whatever the thread. A process here is
this file, run as a script; it reads the CUDA text from its input and writes the product.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import IO, Protocol, TypeVar

from tawa.base.cores import free_cores
from tawa.base.errors import TawaError
from tawa.runtime.compile_log import CompileReport
from tawa.runtime.nvrtc import CompiledCuda, compile_cuda

T = TypeVar("T")

MOST = 4
"""Candidates that are compiled at a time, at most: few kernels need more attempts."""


class Job(Protocol):
    """A compilation under way."""

    def done(self) -> bool:
        """Whether its result can be had without waiting."""
        ...

    def result(self) -> CompiledCuda:
        """Its product. Raises `CudaCompileError`."""
        ...

    def stop(self) -> None:
        """Give it up."""
        ...


class Here:
    """A compilation in this process, when its result is asked for."""

    def __init__(self, source: str, target: str, name: str) -> None:
        self._work = lambda: compile_cuda(source, target, name=name)

    def done(self) -> bool:
        """Waiting for it never pays."""
        return True

    def result(self) -> CompiledCuda:
        """Compile."""
        return self._work()

    def stop(self) -> None:
        """It has not begun."""


class InProcess:
    """A compilation in another process."""

    def __init__(self, source: str, target: str, name: str) -> None:
        self._again = Here(source, target, name)
        self._product: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        paths = os.pathsep.join(path for path in sys.path if path)
        with tempfile.TemporaryFile() as text:
            text.write(source.encode())
            text.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, target, name],
                stdin=text,
                stdout=self._product,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
            )

    def done(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def result(self) -> CompiledCuda:
        """The product; a process that failed does it again here, where its error can be raised."""
        failed = self._process.wait() != 0
        self._product.seek(0)
        with self._product:
            return self._again.result() if failed else _product(self._product)

    def stop(self) -> None:
        """End the process."""
        with suppress(OSError):
            self._process.kill()
        self._process.wait()
        self._product.close()


class Once:
    """A compilation whose product may be asked for again."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._product: CompiledCuda | None = None

    def done(self) -> bool:
        """Whether its result can be had without waiting."""
        return self._product is not None or self._job.done()

    def result(self) -> CompiledCuda:
        """The product, made when it is asked for first."""
        if self._product is None:
            self._product = self._job.result()
        return self._product

    def stop(self) -> None:
        """Give it up, if its result is not known yet."""
        if self._product is None:
            self._job.stop()


def start(source: str, target: str, name: str) -> Job:
    """Begin to compile `source` for `target`, in a process if there are cores for several."""
    apart = at_a_time() > 1 and sys.executable
    return (InProcess if apart else Here)(source, target, name)


_alone: ContextVar[bool] = ContextVar("alone", default=False)


@contextmanager
def alone() -> Generator[None, None, None]:
    """Ask no other process meanwhile: this one is among many that compile."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def at_a_time() -> int:
    """How many compilations may be under way: half the free cores, since not all will be needed."""
    return 1 if _alone.get() else max(1, min(MOST, free_cores() // 2))


def in_turn(
    candidates: Iterator[T], begin: Callable[[T], Job]
) -> Generator[tuple[T, Job], None, None]:
    """The candidates with their jobs, in order; the next ones are begun meanwhile.

    A job that is yielded is done, or as many as may be are under way. Closing the generator stops
    those that were not yielded. What making a candidate raises is raised after those before it.
    """
    most = at_a_time()
    waiting: deque[tuple[T, Job]] = deque()
    failure: TawaError | None = None
    try:
        while True:
            try:
                candidate = next(candidates)
            except StopIteration:
                break
            except TawaError as error:
                failure = error
                break
            waiting.append((candidate, begin(candidate)))
            while waiting and (len(waiting) >= most or waiting[0][1].done()):
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, job in waiting:
            job.stop()
    if failure is not None:
        raise failure


def _product(written: IO[bytes]) -> CompiledCuda:
    """What `main` wrote in another process."""
    head = json.loads(written.readline())
    report = CompileReport.from_json(head["report"])
    return CompiledCuda(written.read(), head["ptx"], head["log"], report, head["seconds"])


def main() -> int:
    """Compile what the input holds for the target and under the name that the arguments say."""
    target, name = sys.argv[1:]
    try:
        product = compile_cuda(sys.stdin.buffer.read().decode(), target, name=name)
    except TawaError:
        return 1
    said = {"log": product.log, "report": product.report.to_json()}
    head = {"ptx": product.ptx, "seconds": product.seconds, **said}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + product.cubin)
    return 0


if __name__ == "__main__":
    sys.exit(main())
