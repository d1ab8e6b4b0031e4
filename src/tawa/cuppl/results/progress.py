"""Progress bars."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(
    title: str, shown: bool, total: int | None = None
) -> Generator[Callable[[int], None] | None]:
    """A function that reports how far a run is, or None if nothing is to be shown."""
    if not shown:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
