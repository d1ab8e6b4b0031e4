"""Markdown as text with code in it: what is prose may be changed, code stays."""

from __future__ import annotations

import re
from collections.abc import Callable

FENCED = re.compile(r"^(`{3,}|~{3,})[^\n]*\n.*?^\1[ \t]*$", re.M | re.S)
INLINE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """The text with `change` applied to what stands outside of fenced blocks.

    Inline code is handed on, since links may contain it; `split_inline` tells it apart.
    """
    parts: list[str] = []
    last = 0
    for match in FENCED.finditer(markdown):
        parts += [change(markdown[last : match.start()]), match[0]]
        last = match.end()
    return "".join([*parts, change(markdown[last:])])


def escaped(text: str) -> str:
    """A docstring as Markdown: what looks like HTML is shown as it stands, outside of code."""

    def prose(part: str) -> str:
        shown: list[str] = []
        last = 0
        for match in INLINE.finditer(part):
            shown += [part[last : match.start()].replace("<", "&lt;"), match[0]]
            last = match.end()
        return "".join([*shown, part[last:].replace("<", "&lt;")])

    lines = outside_code(text, lambda part: part).splitlines()
    return "\n".join(line if line.startswith("    ") else prose(line) for line in lines)


def cell(text: str) -> str:
    """A text as a cell of a table: one line, with its bars escaped."""
    return escaped(" ".join(text.split())).replace("|", "\\|")
