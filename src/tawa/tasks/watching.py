"""Calls of tasks that something else looks at first: a command that runs a file's example."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

from tawa.tasks.language.mapping import Mapping
from tawa.tasks.language.task import Task

Watcher: TypeAlias = "Callable[[Task, tuple[Any, ...], Mapping | None], Mapping | None]"
"""Is given a call, and gives the mapping that it is to run under."""

WATCHER: ContextVar[Watcher | None] = ContextVar("tawa.tasks.watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Generator[None]:
    """Let `watcher` see the calls in this block."""
    token = WATCHER.set(watcher)
    try:
        yield
    finally:
        WATCHER.reset(token)
