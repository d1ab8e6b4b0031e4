"""What shows on a terminal that something takes its time, and how far it is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

PROGRESS_SECONDS = 1.0
"""What takes longer shows that it runs, if someone is watching: nothing is written to a pipe."""


@contextmanager
def progress(text: str) -> Generator[Callable[[str], None]]:
    """Show on a terminal that something takes longer than `PROGRESS_SECONDS`, and how far it is.

    Gives a function that takes what to show behind the text.
    """
    if not sys.stderr.isatty() or not _SHOWING.acquire(blocking=False):
        yield lambda step: None  # a terminal has one line for this
        return
    try:
        from rich.console import Console

        status = Console(stderr=True).status(text)
        timer = threading.Timer(PROGRESS_SECONDS, status.start)
        timer.daemon = True
        timer.start()
        try:
            yield lambda step: status.update(f"{text}: {step}")
        finally:
            timer.cancel()
            timer.join()  # it may be about to show what is over
            status.stop()
    finally:
        _SHOWING.release()


_SHOWING = threading.Lock()
