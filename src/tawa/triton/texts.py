"""Kernels whose text was replaced after they were decorated, as Triton lets programs do."""

from __future__ import annotations

import hashlib
import linecache
import re
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def function_of_text(function: Callable[..., Any], text: str) -> Callable[..., Any]:
    """The function of another text in the place of a function: of its module, with its globals."""
    file = f"<text of {function.__qualname__}, {hashlib.sha256(text.encode()).hexdigest()}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    made: dict[str, Any] = {}
    around = _filled_cells(function)
    scope = {**function.__globals__, **around} if around else function.__globals__
    exec(compile(text, file, "exec"), scope, made)
    found = made[function.__name__]
    found.__module__ = function.__module__
    return found


def replaced_text(function: Any) -> str | None:
    """The text of a function of Triton's, if it is not that of its file any more."""
    text, lines = getattr(function, "src", None), getattr(function, "raw_src", None)
    if not text or not lines:
        return None
    written = textwrap.dedent("".join(lines))
    begin = re.search(r"^def\s+\w+\s*\(", written, re.MULTILINE)
    return None if begin and written[begin.start() :] == text else text


def _filled_cells(function: Callable[..., Any]) -> dict[str, Any]:
    """What the names of a function's surrounding functions stand for, of those that have a value.

    One that is assigned after the function was decorated, or calls itself, may have none yet.
    """
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            found[name] = cell.cell_contents
    return found
