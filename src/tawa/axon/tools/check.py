"""Checks a document as far as it goes: definitions with mistakes are left out, one by one."""

from __future__ import annotations

import re

from tawa.axon.typing.language import axon
from tawa.base.errors import TawaError
from tawa.functional.errors import UnboundName
from tawa.functional.language import CheckedModule

MOST = 20
"""Mistakes that are looked for in one document."""


def checked_parts(source: str, path: str) -> tuple[CheckedModule | None, list[TawaError]]:
    """The module of the definitions without mistakes, and the first mistake of each other one.

    A definition is not blamed for using one that has a mistake.
    """
    errors: list[TawaError] = []
    left_out: set[str] = set()
    lines = source.splitlines()
    for _ in range(MOST):
        try:
            return axon().check("\n".join(lines), path), errors
        except TawaError as error:
            known = any(error.span == other.span for other in errors)
            if not known and not (isinstance(error, UnboundName) and _named(error) in left_out):
                errors.append(error)
            line = error.span.line if error.span and error.span.file == path else None
            name = None if line is None else _blanked(lines, line - 1)
            if name is None:
                return None, errors
            left_out.add(name)
    return None, errors


def _named(error: TawaError) -> str:
    """The name that an error says nothing is called."""
    found = re.search(r"`([^`]+)`", error.message)
    return "" if found is None else found[1]


def _blanked(lines: list[str], at: int) -> str | None:
    """Blank the definition that a line belongs to, and return its name.

    Of a line that belongs to none, the line itself, with no name. None if that is blank already.
    """
    at = start = min(at, len(lines) - 1)
    while start >= 0 and not re.match(r"def\b", lines[start]):
        start -= 1
    found = re.match(r"def\s+(\S+?)[\s{=]", lines[start] + " ") if start >= 0 else None
    if found is None:
        if at < 0 or not lines[at]:
            return None
        lines[at] = ""
        return ""
    end = start + 1
    while end < len(lines) and not re.match(r"\S", lines[end]):
        end += 1
    lines[start:end] = [""] * (end - start)
    return found[1]
