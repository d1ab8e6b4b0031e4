"""Locks that hold across `fork`, and one among processes.

A process that is forked has the forking thread alone, with a copy of all memory: a lock that
another thread held stays locked in it for ever, and what that thread was changing stays half done.
"""

from __future__ import annotations

import fcntl
import gc
import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

__all__ = ["COMPILING", "ForkedLock", "locked", "one_at_a_time"]

Function = TypeVar("Function", bound=Callable[..., Any])


class ForkedLock:
    """A lock that one thread may take several times, and that is free in a forked process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def renew(self) -> None:
        """Forget who holds it."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


_LOCKS: weakref.WeakSet[ForkedLock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


COMPILING = threading.RLock()
"""Held while a kernel is compiled or loaded: the compiler is one at a time.

Its searches and tables are shared by all kernels, and NVRTC and the solver have locks of their
own. A fork waits until it is free, so none of these is copied half done.
"""


@contextmanager
def uncollected() -> Generator[None]:
    """Leave cycles of objects where they are until the end: IR is full of them, and all alive."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def one_at_a_time(function: Function) -> Function:
    """Let one thread at a time run a function that compiles."""

    @wraps(function)
    def alone(*args: Any, **kwargs: Any) -> Any:
        with COMPILING, uncollected():
            return function(*args, **kwargs)

    return cast(Function, alone)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=COMPILING.acquire,
        after_in_parent=COMPILING.release,
        after_in_child=COMPILING.release,
    )
    os.register_at_fork(after_in_child=_renew_all)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the file beside `path` whose name ends in `.lock`: of several processes, one at a time.

    The file stays: who removes it while another waits for it lets a third one in.
    """
    with path.with_name(path.name + ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
