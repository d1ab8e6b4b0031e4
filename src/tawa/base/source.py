"""Ranges of the user's source. Importing this loads no IR."""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass

__all__ = ["Span", "forget_source", "remember_source", "source_line"]

_REMEMBERED: dict[str, tuple[int, None, list[str], str]] = {}
"""Entries of `linecache` for texts that are no files: others may clear it."""


@dataclass(frozen=True, slots=True)
class Span:
    """A range of characters in a source file.

    Lines count from 1 and columns from 0, as in Python's `ast`; `end_column` is the column after
    the last character. Printed columns count from 1, as editors do.
    """

    file: str
    line: int
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __post_init__(self) -> None:
        """Make a span without an end cover one character."""
        if self.end_line < self.line:
            object.__setattr__(self, "end_line", self.line)
            object.__setattr__(self, "end_column", self.column + 1)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    @staticmethod
    def of_node(
        node: ast.expr | ast.stmt | ast.arg | ast.keyword,
        file: str,
        *,
        first_line: int = 1,
        indent: int = 0,
    ) -> Span:
        """The span of a node of a parsed fragment of `file`.

        `first_line` is the line of the file on which the fragment starts, and `indent` the
        number of columns that were cut from each of its lines (`textwrap.dedent`).
        """
        end_line = node.end_lineno if node.end_lineno is not None else node.lineno
        end_column = node.end_col_offset
        if end_column is None:
            end_column = node.col_offset + 1
        shift = first_line - 1
        return Span(
            file,
            node.lineno + shift,
            _character(file, node.lineno + shift, node.col_offset, indent),
            end_line + shift,
            _character(file, end_line + shift, end_column, indent),
        )

    def source_line(self, line: int | None = None) -> str | None:
        """The text of `line` (by default the span's first), or None when there is no source."""
        return source_line(self.file, self.line if line is None else line)

    def text(self) -> str:
        """The source in the range, as far as it is on the first line; empty without a source."""
        line = self.source_line() or ""
        return line[self.column : self.end_column if self.end_line == self.line else None]

    def to(self, other: Span) -> Span:
        """The span from this one's start to `other`'s end."""
        return Span(self.file, self.line, self.column, other.end_line, other.end_column)


def remember_source(file: str, text: str) -> None:
    """Let errors, and `inspect`, show the lines of a text that is no file."""
    entry = (len(text), None, text.splitlines(keepends=True), file)
    _REMEMBERED[file] = linecache.cache[file] = entry


def forget_source(file: str) -> None:
    """Read the lines of a file from disk again, if a text was remembered in its place."""
    if _REMEMBERED.pop(file, None) is not None:
        linecache.cache.pop(file, None)


def source_line(file: str, line: int) -> str | None:
    """Line number `line` of `file` without its line break, or None when it can't be read.

    Reads through `linecache`, so code typed at a prompt or registered there is found too.
    """
    linecache.checkcache(file)
    if file in _REMEMBERED and file not in linecache.cache:
        linecache.cache[file] = _REMEMBERED[file]
    text = linecache.getline(file, line)
    return text.rstrip("\r\n") if text else None


def _character(file: str, line: int, byte: int, indent: int) -> int:
    """The character column of a column that `ast` counts in UTF-8 bytes."""
    text = source_line(file, line)
    if text is None or text.isascii():
        return byte + indent
    encoded = text[indent:].encode()
    return indent + len(encoded[:byte].decode(errors="ignore"))
