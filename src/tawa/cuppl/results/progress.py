"""Progress bars."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(
    title: str, shown: bool, total: int | None = None
) -> Generator[Callable[[int], None] | None]:
    """A function that reports how far a run is, or None if nothing is to be shown.

    The bar is on standard error, and only where a terminal or notebook shows it.
    """
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield None
        return
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
