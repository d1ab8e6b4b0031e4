"""Room for programs with deeply nested expressions, and for many small objects."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager

from tawa.functional.errors import ProgramTooDeep

DEPTH = 20_000
"""How many Python calls may be nested while a program is checked or run."""


@contextmanager
def deep() -> Generator[None]:
    """Allow deep recursion inside. Raises ProgramTooDeep where even that isn't enough."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEPTH))
    try:
        yield
    except RecursionError:
        raise ProgramTooDeep(
            "an expression is nested too deeply, or a recursion doesn't end",
            hint="give parts of it names with `let`",
        ) from None
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def uncollected() -> Generator[None]:
    """Look for no garbage in cycles inside.

    Terms are no cycles, and there are so many that looking through them again and again would take
    more than linear time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def acyclic() -> Generator[None]:
    """Look for no garbage in cycles inside, nor afterwards among what is made inside.

    Else the collector would look through all of it at the end. It counts as old at once.
    """
    with uncollected():
        yield
        if not gc.get_freeze_count():  # else what somebody has set aside would come back
            gc.freeze()
            gc.unfreeze()
