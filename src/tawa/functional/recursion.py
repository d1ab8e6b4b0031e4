"""Room for programs with deeply nested expressions."""

from __future__ import annotations

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
